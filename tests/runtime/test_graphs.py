"""CUDA graphs of calls: nodes, updates, lifetime; with a driver whose graphs run on fibres."""

from __future__ import annotations

import ctypes
import gc
import pickle
import struct
import sys
import weakref
from collections.abc import Callable, Iterator
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

import polyloop as pl
from polyloop.kernel.kernel import LoopKernel
from polyloop.runtime import gpu, graphs
from polyloop.runtime.arguments import Binder
from polyloop.runtime.backends import CudaBackend
from polyloop.runtime.gpu import gpu_available
from polyloop.runtime.graphs import (
    LEAST_NODES,
    MOST_GRAPHS,
    MOST_NODES,
    GraphCall,
    Graphs,
    KernelGraph,
    KernelNodeParams,
    Node,
    chosen,
)
from polyloop.runtime.invoke import CompiledKernel
from polyloop.runtime.views import HostMemory
from tests.runtime.fake_cuda import FakeCuda, FakeNode, fibre_kernels, raw_driver
from tests.runtime.fake_pycuda import FakeDriver, GPUArray
from tests.runtime.hosts import PROGRAMS
from tests.runtime.programs import axpy
from tests.runtime.test_host_loops import agree, copied

F = np.float64


# {{{ structures and the rule


def test_the_structure_of_a_node_is_the_drivers() -> None:
    driver: Any = pytest.importorskip("cuda.bindings.driver")
    theirs = driver.CUDA_KERNEL_NODE_PARAMS_v2()
    theirs.func = driver.CUfunction(0x7000_0000_0010)
    numbers = {f"{what}Dim{axis}": 1 + number for number, (what, axis) in
               enumerate((what, axis) for what in ("grid", "block") for axis in "XYZ")}  # fmt: skip
    for name, value in numbers.items():
        setattr(theirs, name, value)
    theirs.sharedMemBytes, theirs.extra = 7, 0x7000_0000_0020
    theirs.kern, theirs.ctx = driver.CUkernel(0x7000_0000_0030), driver.CUcontext(0x7000_0000_0040)
    ours = KernelNodeParams.from_address(int(theirs.getPtr()))
    assert ours.function == 0x7000_0000_0010
    found = [getattr(ours, f"{what}_{axis}") for what in ("grid", "block") for axis in "xyz"]
    assert found == [1, 2, 3, 4, 5, 6]
    assert (ours.shared, ours.parameters, ours.extra) == (7, None, 0x7000_0000_0020)
    assert (ours.kernel, ours.context) == (0x7000_0000_0030, 0x7000_0000_0040)
    assert ctypes.sizeof(KernelNodeParams) == 72


def test_the_rule() -> None:
    assert chosen("host", 1000)[0] == "host"
    assert chosen("graph", 1)[0] == "graph"
    assert chosen(None, LEAST_NODES - 1) == ("host", "a graph saves little for fewer than 8")
    assert chosen(None, MOST_NODES + 1) == ("host", "a graph has at most 16384")
    assert {chosen(None, count)[0] for count in (LEAST_NODES, MOST_NODES)} == {"graph"}


def test_explain_says_which_it_is_and_why() -> None:
    kernel = PROGRAMS["lu"].kernel()
    for n, said in (
        (64, "a call has 126 launches; unless pl.compile is told otherwise, a CUDA graph starts them: from the second "
             "call of the same sizes on, at about a third of the time of a launch from Python"),
        (4, "a call has 6 launches; unless pl.compile is told otherwise, the host starts them one after the other: a "
            "graph saves little for fewer than 8"),
    ):  # fmt: skip
        assert said in pl.explain(kernel, {"n": n}, "H100").notes

# }}}


# {{{ one graph


class Two:
    """A graph of functions 'a' and 'b' in turn, each with a pointer and the number of its iteration."""

    def __init__(self, steps: int = 3) -> None:
        self.driver = FakeDriver({})
        self.context = object()
        self.driver.stack.append(self.context)
        self.seen: list[FakeNode] = []
        self.cuda = FakeCuda(self.driver, {name: self._noting(name) for name in "ab"})
        self.raw = raw_driver(self.cuda)
        _, self.functions = self.raw.load(b"\x7fELF", ["a", "b"])
        self.inside = 0
        nodes = (Node(name, self.functions[name], (step + 1, 2, 3), (32, 1, 1), 5, ((8, struct.pack("<i", step)),))
                 for step in range(steps) for name in "ab")  # fmt: skip
        self.graph = KernelGraph(self.raw, nodes, {name: self.data(1) for name in "ab"}, workspace={},
                                 inside=self._inside)

    def _noting(self, name: str) -> Callable[..., None]:
        return lambda grid, block, data: self.seen.append(FakeNode(name, grid, block, 5, data))

    def _inside(self, action: Callable[[], None]) -> None:
        self.inside += 1
        action()

    @staticmethod
    def data(pointer: int, number: int = 0) -> bytes:
        return struct.pack("<Qif", pointer, number, 0.5)

    def launch(self, a: int, b: int, stream: int = 0, *, each: bool = False) -> int:
        self.seen.clear()
        return self.graph.launch({"a": self.data(a), "b": self.data(b)}, stream, each=each)

    def expected(self, a: int, b: int) -> list[FakeNode]:
        return [FakeNode(name, (step + 1, 2, 3), (32, 1, 1), 5, self.data(pointer, step))
                for step in range(3) for name, pointer in (("a", a), ("b", b))]


def test_nodes_form_a_chain_with_what_each_launch_is_passed() -> None:
    two = Two()
    assert two.cuda.log == [("create", *two.cuda.graphs), ("instantiate", 6)]
    assert two.launch(1, 1, stream=0x7000_0000_4711) == 0
    assert two.seen == two.expected(1, 1)
    assert two.cuda.log[2:] == [("graph", 0x7000_0000_4711)]  # nothing was updated
    (made,) = two.cuda.executables.values()
    assert [len(node.after) for node in made.nodes.values()] == [0, 1, 1, 1, 1, 1]


def test_new_parameters_go_to_the_nodes_of_the_functions_that_have_them() -> None:
    two = Two()
    two.launch(1, 2)
    assert two.seen == two.expected(1, 2)
    assert two.cuda.names("update") == [("b",)] * 3
    two.launch(1, 2)
    assert len(two.cuda.names("update")) == 3
    two.launch(9, 2)
    assert two.seen == two.expected(9, 2)
    assert two.cuda.names("update")[3:] == [("a",)] * 3
    assert two.cuda.names("instantiate") == [(6,)]


def test_a_failed_update_is_made_again() -> None:
    two = Two()
    two.cuda.fails["cuGraphExecKernelNodeSetParams_v2"] = 2
    with _pycuda(two.driver), pytest.raises(two.driver.LogicError, match="SetParams_v2 failed: status 700"):
        two.launch(7, 1)
    assert not two.cuda.names("graph")
    two.launch(1, 1)
    assert two.seen == two.expected(1, 1)
    assert len(two.cuda.names("update")) == 1 + 3


@pytest.mark.parametrize(("function", "number"), [("cuGraphAddKernelNode_v2", 4), ("cuGraphInstantiateWithFlags", 1)])
def test_a_graph_that_cannot_be_made_leaves_nothing(
    function: str, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    driver, create = FakeDriver({}), FakeCuda.__init__
    cudas = list[FakeCuda]()

    def failing(self: FakeCuda, *arguments: Any) -> None:
        create(self, *arguments)
        self.fails[function] = number
        cudas.append(self)

    monkeypatch.setattr(FakeCuda, "__init__", failing)
    with _pycuda(driver), pytest.raises(driver.LogicError, match=f"{function} failed"):
        Two()
    assert not cudas[0].graphs
    assert not cudas[0].executables


def test_a_status_of_the_launch_is_handed_on() -> None:
    two = Two()
    two.cuda.fails["cuGraphLaunch"] = 1
    assert two.launch(1, 1) == 700
    assert two.launch(1, 1) == 0


def test_a_graph_is_launched_in_its_context_only() -> None:
    two = Two()
    two.driver.stack.append(object())
    assert two.launch(5, 5) == 201
    two.driver.stack.clear()
    assert two.launch(5, 5) == 201
    assert two.cuda.log[2:] == []


def test_a_stream_that_is_captured_gets_the_launches_or_nothing() -> None:
    two = Two()
    two.cuda.captured.add(9)
    assert two.launch(5, 6, 9) == 201
    assert two.launch(5, 6, 9, each=True) == 0
    assert two.cuda.names("captured") == [(node, 9) for node in two.expected(5, 6)]
    two.launch(1, 1)  # nodes have what they had
    assert two.seen == two.expected(1, 1)
    assert not two.cuda.names("update")


def test_a_graph_is_destroyed_once() -> None:
    two = Two()
    two.graph.close()
    two.graph.close()
    assert two.launch(1, 1) == 201
    assert two.cuda.log[2:] == [("destroy executable",), ("destroy",)]
    assert two.inside == 1
    two = Two()
    memory = FakeDriver({})
    two.graph._workspace = {"x": memory}
    gone = weakref.ref(memory)
    del memory, two.graph
    gc.collect()
    assert two.cuda.log[2:] == [("destroy executable",), ("destroy",)]
    assert gone() is None


def test_numbers_of_a_call_are_stored_where_functions_take_them() -> None:
    two = Two()
    base = {"a": two.data(1), "b": two.data(2)}
    cells: Any = [[("a", 12, ctypes.c_float), ("b", 12, ctypes.c_float)], [], [("b", 0, ctypes.c_uint64)]]
    one, other = GraphCall(two.graph, base, cells), GraphCall(two.graph, base, cells)
    for call, number, pointer in ((one, 1.5, 7), (other, 2.5, 8), (one, 1.5, 7)):
        two.seen.clear()
        assert call.on(3)(number, "not passed", pointer) == 0
        found = [struct.unpack("<Qif", node.data) for node in two.seen]
        assert found == [(at, step, number) for step in range(3) for at in (1, pointer)]
    assert base["a"] == two.data(1)
    assert GraphCall(two.graph, base).on(3)() == 0

# }}}


# {{{ which graphs are kept


def test_a_graph_is_made_at_the_second_call_unless_it_is_asked_for() -> None:
    made = list[str]()

    def make() -> Any:
        made.append("made")
        return SimpleNamespace(close=lambda: made.append("closed"))

    store = Graphs(are_asked=False)
    assert store.get((1,), make) is None
    assert store.may_come((1,))
    found = store.get((1,), make)
    assert found is not None
    assert store.get((1,), make) is found is store.find((1,))
    for number in range(2, MOST_GRAPHS + 1):
        store.get((number,), make)
        store.get((number,), make)
    assert not store.may_come((0,))
    assert store.get((0,), make) is store.get((0,), make) is store.get((0,), make) is None
    assert made == ["made"] * MOST_GRAPHS
    made.clear()
    store = Graphs(are_asked=True)
    for number in range(MOST_GRAPHS):
        store.get((number,), make)
    store.get((0,), make)
    store.get((MOST_GRAPHS,), make)
    assert made == ["made"] * MOST_GRAPHS + ["closed", "made"]
    assert store.find((1,)) is None  # it was used longest ago
    assert store.find((0,)) is not None

# }}}


# {{{ calls


class _pycuda:  # noqa: N801  # a context manager
    """PyCUDA is *driver*."""

    def __init__(self, driver: FakeDriver) -> None:
        self._patch, self._driver = pytest.MonkeyPatch(), driver

    def __enter__(self) -> None:
        arrays = ModuleType("pycuda.gpuarray")
        arrays.GPUArray = GPUArray  # type: ignore[attr-defined]  # a module made here
        modules = (("pycuda", ModuleType("pycuda")), ("pycuda.driver", self._driver), ("pycuda.gpuarray", arrays))
        for name, module in modules:
            self._patch.setitem(sys.modules, name, module)

    def __exit__(self, *_: object) -> None:
        self._patch.undo()


class Machine:
    """A GPU whose functions run on fibres."""

    def __init__(self) -> None:
        self.driver = FakeDriver({})
        self.cuda = FakeCuda(self.driver, self.driver.kernels)
        self.raw = raw_driver(self.cuda)

    def compile(self, kernel: LoopKernel, launches: str | None = None) -> CompiledKernel:
        run = pl.compile(kernel, target=pl.CudaTarget(), launches=launches)
        backend = run._small
        assert isinstance(backend, CudaBackend)
        self.driver.kernels.update(fibre_kernels(run.program, backend._module.images))
        return run

    def module(self, run: CompiledKernel) -> gpu.GpuModule:
        backend = run._small
        assert isinstance(backend, CudaBackend)
        return backend._module

    def array(self, values: np.ndarray[Any, Any]) -> GPUArray:
        memory = self.driver.mem_alloc(values.nbytes)
        self.driver.memcpy_htod(memory, values)
        return GPUArray(values.shape, values.dtype, memory, values.strides)

    def arrays(self, given: dict[str, Any]) -> dict[str, Any]:
        return {x: self.array(v) if isinstance(v, np.ndarray) else v for x, v in given.items()}

    @property
    def started(self) -> list[str]:
        """How launches were started through ctypes, and which graphs were made, in order."""
        return [entry[0] for entry in self.cuda.log if entry[0] in ("graph", "instantiate", "launch")]


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    pytest.importorskip("cuda.bindings.nvrtc")
    found = Machine()
    monkeypatch.setattr(gpu, "_primary", {})
    monkeypatch.setattr(gpu, "_raw", lambda: found.raw)
    monkeypatch.setattr("atexit.register", lambda _: None)
    with _pycuda(found.driver):
        gpu_available.cache_clear()
        gpu._driver.cache_clear()
        yield found
    gpu_available.cache_clear()
    gpu._driver.cache_clear()


def got(result: Any) -> dict[str, Any]:
    return {name: value.get() if isinstance(value, GPUArray) else value for name, value in dict(result).items()}


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
    checked = machine.module(run).launch
    machine.module(run).launch = None  # type: ignore[assignment,method-assign]  # repeated calls do without
    run(**second)
    machine.module(run).launch = checked  # type: ignore[method-assign]


def damped() -> LoopKernel:
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
        knl = knl.split_iname(iname, 8, outer_tag="g.0", inner_tag="l.0")
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
def test_everything_is_destroyed_when_the_module_is_unloaded(machine: Machine) -> None:
    run, u = machine.compile(damped(), "graph"), np.arange(20.0)
    given: dict[str, Any] = {"u": u, "w": 0.5}
    for steps in range(1, MOST_GRAPHS + 3):
        run(**copied(given), steps=steps)
    assert len(machine.cuda.executables) == len(machine.cuda.graphs) == MOST_GRAPHS
    machine.module(run).unload()
    assert not machine.cuda.executables
    assert not machine.cuda.graphs
    assert machine.cuda.names("unload") == [()]
    gc.collect()
    assert len(machine.cuda.names("destroy")) == MOST_GRAPHS + 2
    assert not machine.driver.stack
    np.testing.assert_allclose(run(**copied(given), steps=4).u, damped_expected(u, 0.5, 4))


@pytest.mark.nvrtc
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


def test_a_graph_is_refused_on_the_cpu() -> None:
    lines = [
        "compile on kernel 'jacobi': launches='graph' is not supported [unsupported-launches]",
        "  Note: CUDA graphs are for CUDA, and the kernel is compiled for 'c'",
        "  Hint: leave it out, or pass target=pl.CudaTarget()",
    ]
    assert refusal(PROGRAMS["jacobi"].kernel(), pl.CTarget(), "graph") == lines


def test_a_graph_of_one_launch_is_refused() -> None:
    knl = pl.make_kernel("{[i]: 0 <= i < n}", "y[i] = 2*x[i]", [pl.GlobalArg("x, y", F, shape="n"), ...], name="twice")
    assert refusal(knl, pl.CudaTarget(), "graph") == [
        "compile on kernel 'twice': launches='graph' is not supported [unsupported-launches]",
        "  Note: a call is one launch, which a graph would only make slower",
        "  Hint: leave it out",
    ]


def test_a_kernel_without_types_is_refused_at_its_call_where_its_target_follows_from_it() -> None:
    knl = pl.make_kernel("{[i]: 0 <= i < n}", "y[i] = 2*x[i]", [pl.GlobalArg("x, y", shape="n"), ...], name="twice")
    run = pl.compile(knl, launches="graph")
    with pytest.raises(pl.CompilerError, match="unsupported-launches"):
        run(x=np.ones(3))

# }}}


def test_what_decides_the_launches_is_the_key_of_a_graph() -> None:
    binder = Binder(pl.generate_code(PROGRAMS["jacobi_plane"].kernel(), target=pl.CudaTarget()), HostMemory())
    keys = [binder.bind({"u": np.zeros((steps + 1, n, n)), "steps": steps}).launches.key
            for steps, n in ((3, 9), (3, 9), (4, 9), (3, 10))]
    assert keys[0] == keys[1]
    assert len({*keys}) == 3
    x = np.ones(5, np.float32)
    assert Binder(axpy("cuda"), HostMemory()).bind({"alpha": 1.0, "x": x, "y": x}).launches.key == (5,)


