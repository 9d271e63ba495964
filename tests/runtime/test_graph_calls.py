"""Calls that are CUDA graphs, with a driver whose graphs run on fibres: results, what is made, refusals."""

from __future__ import annotations

import gc
import pickle
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import polyloop as pl
from polyloop.kernel.kernel import LoopKernel
from polyloop.runtime import gpu
from polyloop.runtime.cuda import graphs
from polyloop.runtime.cuda.graphs import MOST_GRAPHS
from tests.runtime.fake_cuda import FakeCuda
from tests.runtime.fake_machine import Machine, got, machine_of, module
from tests.runtime.hosts import PROGRAMS
from tests.runtime.test_host_loops import agree, copied

F = np.float64


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    with machine_of(monkeypatch) as found:
        yield found


SIZES = {"jacobi": 37, "floyd": 13, "lu": 21, "relaxed": 37, "wavefront": 11, "stages": 16, "colours": 26}


@pytest.mark.nvrtc
@pytest.mark.parametrize("name", SIZES)
def test_graphs_compute_what_numpy_says(name: str, machine: Machine) -> None:
    program, run = PROGRAMS[name], machine.compile(PROGRAMS[name].kernel(), "graph")
    for size in (SIZES[name], *program.sizes[-2:], SIZES[name]):
        given = program.inputs(size)
        agree(got(run(**copied(given))), program.expected(**copied(given)))
    launched = machine.cuda.names("graph")
    assert launched == [(0,)] * 4
    assert 1 < len(machine.cuda.names("instantiate")) < 4
    assert not machine.driver.stack
    assert all(memory.freed for memory in machine.driver.memory) or run.program.workspace


@pytest.mark.nvrtc
def test_arrays_of_the_gpu_are_repeated_as_a_graph(machine: Machine) -> None:
    machine.driver.stack.append(context := object())
    program, run = PROGRAMS["lu"], machine.compile(PROGRAMS["lu"].kernel(), "graph")
    given = program.inputs(21)
    expected = program.expected(**copied(given))
    first, second = machine.arrays(given), machine.arrays(given)
    for arrays in (first, first, second, second, first):
        machine.driver.memcpy_htod(arrays["a"].gpudata, given["a"])
        agree(got(run(**arrays)), expected)
    assert machine.started == ["instantiate", *["graph"] * 5]
    assert len(machine.cuda.names("update")) == 2 * 40  # when the array changed, and changed back
    assert machine.driver.stack == [context]
    checked = module(run).launch
    module(run).launch = None  # type: ignore[assignment,method-assign]  # repeated calls do without
    run(**second)
    module(run).launch = checked  # type: ignore[method-assign]


def damped(block: int = 8) -> LoopKernel:
    knl = pl.make_kernel(
        "{[t, i, j]: 0 <= t < steps and 1 <= i, j < n - 1}",
        """
        for t
            for i
                v[i] = w*(u[i - 1] + u[i + 1]) + t  {id=step}
            end
            for j
                u[j] = v[j]  {id=back}
            end
        end
        """,
        [pl.GlobalArg("u", F, shape="n"), pl.TemporaryVariable("v", F, shape="n", address_space="global"),
         pl.ValueArg("w", F), ...],
        name="damped", assumptions="n >= 0 and steps >= 0",
    )  # fmt: skip
    for iname in ("i", "j"):
        knl = knl.split_iname(iname, block, outer_tag="g.0", inner_tag="l.0")
    return knl


def damped_expected(u: np.ndarray[Any, Any], w: float, steps: int) -> np.ndarray[Any, Any]:
    u = u.copy()
    for t in range(steps):
        u[1:-1] = w * (u[:-2] + u[2:]) + t
    return u


@pytest.mark.nvrtc
def test_a_new_number_changes_the_nodes_that_take_it(machine: Machine) -> None:
    machine.driver.stack.append(object())
    run, values = machine.compile(damped(), "graph"), np.arange(20.0)
    u = machine.array(values)
    for number, w in enumerate((0.5, 0.5, 0.25, 0.125, 0.125)):
        machine.driver.memcpy_htod(u.gpudata, values)
        np.testing.assert_allclose(run(u=u, w=w, steps=5).u.get(), damped_expected(values, w, 5))
        assert len(machine.cuda.names("update")) == (0, 0, 5, 10, 10)[number]
    assert machine.started == ["instantiate", *["graph"] * 5]
    machine.driver.memcpy_htod(u.gpudata, values)
    np.testing.assert_allclose(run(u=u, w=0.5, steps=7).u.get(), damped_expected(values, 0.5, 7))
    assert machine.cuda.names("instantiate") == [(10,), (14,)]


@pytest.mark.nvrtc
def test_by_default_the_second_call_makes_a_graph(machine: Machine) -> None:
    machine.driver.stack.append(object())
    run, values = machine.compile(damped()), np.arange(20.0)
    u = machine.array(values)
    for number in range(4):
        machine.driver.memcpy_htod(u.gpudata, values)
        np.testing.assert_allclose(run(u=u, w=0.5, steps=5).u.get(), damped_expected(values, 0.5, 5))
        assert len(machine.cuda.names("graph")) == max(0, number)
    assert sum(entry.startswith("launch") for entry in machine.driver.log) == 10
    for _ in range(3):
        machine.driver.memcpy_htod(u.gpudata, values)
        np.testing.assert_allclose(run(u=u, w=0.5, steps=3).u.get(), damped_expected(values, 0.5, 3))
    assert machine.cuda.names("instantiate") == [(10,)]  # six launches are few
    run, arrays = machine.compile(PROGRAMS["lu"].kernel(), "host"), machine.arrays(PROGRAMS["lu"].inputs(21))
    for _ in range(3):
        run(**arrays)
    assert machine.cuda.names("instantiate") == [(10,)]


@pytest.mark.nvrtc
def test_graphs_run_on_the_stream_of_the_caller(machine: Machine) -> None:
    machine.driver.stack.append(object())
    run, values = machine.compile(damped(), "graph"), np.arange(20.0)
    u = machine.array(values)
    for stream in (None, 7, 8, 7, None):
        machine.driver.memcpy_htod(u.gpudata, values)
        np.testing.assert_allclose(run(u=u, w=0.5, steps=5, stream=stream).u.get(), damped_expected(values, 0.5, 5))
    assert machine.cuda.names("graph") == [(0,), (7,), (8,), (7,), (0,)]


@pytest.mark.nvrtc
def test_what_is_captured_gets_the_launches_themselves(machine: Machine) -> None:
    machine.driver.stack.append(object())
    run, u = machine.compile(damped(), "graph"), machine.array(np.arange(20.0))
    given: dict[str, Any] = {"u": u, "w": 0.5, "steps": 5}
    run(**given)
    run(**given)
    machine.cuda.captured.add(9)
    run(**given, stream=9)
    assert [entry[-1] for entry in machine.cuda.names("launch")] == [9] * 10  # with a workspace of its own
    bound = run.bind(**given)
    assert (bound.launches, repr(bound)) == ("graph", "<call of 'damped' for cuda, with its arguments, as a graph>")
    bound(stream=9)
    assert len(machine.cuda.names("captured")) == 10
    bound()
    bound(stream=8)
    assert machine.cuda.names("graph") == [(0,), (0,), (0,), (8,)]
    assert machine.cuda.names("instantiate") == [(10,), (10,)]


@pytest.mark.nvrtc
def test_a_poisoned_workspace_is_one_of_the_call(machine: Machine) -> None:
    machine.driver.stack.append(object())
    run, values = machine.compile(damped(), "graph"), np.arange(20.0)
    for poison in (False, True, False):
        u = machine.array(values)
        found = run(u=u, w=0.5, steps=5, poison=poison).u.get()
        np.testing.assert_allclose(found, damped_expected(values, 0.5, 5))
    assert len(machine.cuda.names("graph")) == 3
    assert not machine.cuda.memory


@pytest.mark.nvrtc
@pytest.mark.usefixtures("young_heap")
def test_everything_is_destroyed_when_the_module_is_unloaded(machine: Machine) -> None:
    run, u = machine.compile(damped(), "graph"), np.arange(20.0)
    given: dict[str, Any] = {"u": u, "w": 0.5}
    for steps in range(1, MOST_GRAPHS + 3):
        run(**copied(given), steps=steps)
    assert len(machine.cuda.executables) == len(machine.cuda.graphs) == MOST_GRAPHS
    module(run).unload()
    assert not machine.cuda.executables
    assert not machine.cuda.graphs
    assert machine.cuda.names("unload") == [()]
    gc.collect()
    assert len(machine.cuda.names("destroy")) == MOST_GRAPHS + 2
    assert not machine.driver.stack
    np.testing.assert_allclose(run(**copied(given), steps=4).u, damped_expected(u, 0.5, 4))


@pytest.mark.nvrtc
@pytest.mark.usefixtures("young_heap")
def test_a_kernel_that_is_gone_leaves_no_graph(machine: Machine) -> None:
    run = machine.compile(damped(), "graph")
    run(u=np.arange(20.0), w=0.5, steps=5)
    assert len(machine.cuda.executables) == 1
    del run
    gc.collect()
    assert not machine.cuda.executables
    assert not machine.driver.stack


@pytest.mark.nvrtc
def test_a_repeated_call_outlives_its_graph(machine: Machine) -> None:
    """The graph of another size takes its place, and is made again; another context has graphs of its own."""
    machine.driver.stack.append(object())
    run, values = machine.compile(damped(), "graph"), np.arange(20.0)
    u = machine.array(values)
    for steps in (5, 5, *range(6, 6 + MOST_GRAPHS), 5, 5):
        machine.driver.memcpy_htod(u.gpudata, values)
        np.testing.assert_allclose(run(u=u, w=0.5, steps=steps).u.get(), damped_expected(values, 0.5, steps))
    assert len(machine.cuda.names("instantiate")) == MOST_GRAPHS + 2
    machine.driver.stack.append(object())
    run(u=u, w=0.5, steps=5)
    assert len(machine.cuda.names("instantiate")) == MOST_GRAPHS + 3


@pytest.mark.nvrtc
def test_empty_calls_make_no_graph(machine: Machine) -> None:
    run = machine.compile(damped(), "graph")
    for n, steps in ((0, 5), (1, 5), (20, 0)):
        run(u=np.arange(float(n)), w=0.5, steps=steps)
    machine.driver.stack.append(object())
    bound = run.bind(u=machine.array(np.arange(20.0)), w=0.5, steps=0)
    assert bound.launches == "host"
    bound()
    assert machine.started == []


@pytest.mark.nvrtc
def test_a_pickled_kernel_starts_its_launches_as_before() -> None:
    for launches in (None, "graph", "host"):
        run = pl.compile(damped(), target=pl.CudaTarget(), launches=launches)
        assert pickle.loads(pickle.dumps(run)).launches == launches
    knl = pl.make_kernel("{[i]: 0 <= i < n}", "y[i] = 2*x[i]", [pl.GlobalArg("x, y", shape="n"), ...])
    assert pickle.loads(pickle.dumps(pl.compile(knl, launches="graph"))).launches == "graph"

# }}}


# {{{ refusals


@pytest.mark.nvrtc
def test_too_many_launches_for_a_graph_are_refused(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    u = np.arange(20.0)
    monkeypatch.setattr(gpu, "MOST_NODES", 8)
    monkeypatch.setattr(graphs, "MOST_NODES", 8)
    with pytest.raises(pl.ArgumentError) as error:
        machine.compile(damped(), "graph")(u=u, w=0.5, steps=5)
    assert str(error.value).splitlines() == [
        "call on kernel 'damped': the call has 10 launches, and a graph at most 8 [graph-too-large]",
        '  Hint: pass launches="host"',
        "  Hint: let a call compute fewer iterations of the loops around the launches",
    ]
    run = machine.compile(damped())
    for _ in range(3):
        np.testing.assert_allclose(run(u=u.copy(), w=0.5, steps=5).u, damped_expected(u, 0.5, 5))
    assert machine.started == []


@pytest.mark.nvrtc
def test_a_driver_without_graphs_is_named(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(FakeCuda, "_cuGraphAddKernelNode_v2")
    u = np.arange(20.0)
    with pytest.raises(pl.CompilerError) as error:
        machine.compile(damped(), "graph")(u=u, w=0.5, steps=5)
    assert error.value.codes == ("unsupported-launches",)
    run = machine.compile(damped())
    for _ in range(3):
        np.testing.assert_allclose(run(u=u.copy(), w=0.5, steps=5).u, damped_expected(u, 0.5, 5))
    assert machine.started == []


def refusal(kernel: LoopKernel, target: Any, launches: str) -> list[str]:
    with pytest.raises(pl.CompilerError) as error:
        pl.compile(kernel, target=target, launches=launches)
    return str(error.value).splitlines()


@pytest.mark.parametrize("launches", ["graph", "cooperative"])
def test_ways_of_cuda_are_refused_on_the_cpu(launches: str) -> None:
    lines = [
        f"compile on kernel 'jacobi': launches={launches!r} is not supported [unsupported-launches]",
        "  Note: it is for CUDA, and the kernel is compiled for 'c'",
        "  Hint: leave it out, or pass target=pl.CudaTarget()",
    ]
    assert refusal(PROGRAMS["jacobi"].kernel(), pl.CTarget(), launches) == lines


def test_a_graph_of_one_launch_is_refused() -> None:
    knl = pl.make_kernel("{[i]: 0 <= i < n}", "y[i] = 2*x[i]", [pl.GlobalArg("x, y", F, shape="n"), ...], name="twice")
    assert refusal(knl, pl.CudaTarget(), "graph") == [
        "compile on kernel 'twice': launches='graph' is not supported [unsupported-launches]",
        "  Note: a call is one launch, which it would only make slower",
        "  Hint: leave it out",
    ]


def test_a_kernel_without_types_is_refused_at_its_call_where_its_target_follows_from_it() -> None:
    knl = pl.make_kernel("{[i]: 0 <= i < n}", "y[i] = 2*x[i]", [pl.GlobalArg("x, y", shape="n"), ...], name="twice")
    run = pl.compile(knl, launches="graph")
    with pytest.raises(pl.CompilerError, match="unsupported-launches"):
        run(x=np.ones(3))

# }}}
