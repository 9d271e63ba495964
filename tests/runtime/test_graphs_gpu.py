"""Graphs and cooperative launches of calls on a GPU: the same as launches from the host, and as NumPy."""

from __future__ import annotations

import gc
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import polyloop as pl
from polyloop.runtime.backends import CudaBackend
from polyloop.runtime.cuda.graphs import MOST_GRAPHS, MOST_NODES
from polyloop.runtime.cuda.rawdriver import raw_driver
from polyloop.runtime.gpu import GpuModule, gpu_available
from polyloop.runtime.invoke import CompiledKernel
from tests.runtime.hosts import PROGRAMS
from tests.runtime.test_graph_calls import damped, damped_expected
from tests.runtime.test_host_loops import agree, copied

pytestmark = pytest.mark.gpu
CASES = [(name, size) for name, program in PROGRAMS.items() for size in program.sizes]


@pytest.fixture(autouse=True)
def _on_a_gpu() -> None:
    if not gpu_available()[0]:
        pytest.skip("no GPU")


def module(run: CompiledKernel) -> GpuModule:
    backend = run._small
    assert isinstance(backend, CudaBackend)
    return backend._module


def torch_arrays(torch: Any, given: dict[str, Any]) -> dict[str, Any]:
    return {x: torch.tensor(v, device="cuda") if isinstance(v, np.ndarray) else v for x, v in given.items()}


def on_host(result: Any) -> dict[str, Any]:
    return {name: value.cpu().numpy() if hasattr(value, "cpu") else value.get() for name, value in dict(result).items()}


@pytest.mark.parametrize("launches", ["graph", "cooperative", None])
@pytest.mark.parametrize(("name", "size"), CASES)
def test_gpu_calls_with_numpy_arrays(name: str, size: int, launches: str | None) -> None:
    program = PROGRAMS[name]
    given = program.inputs(size)
    run = pl.compile(program.kernel(), target=pl.CudaTarget(), launches=launches)
    for _ in range(3):
        agree(run(**copied(given)), program.expected(**copied(given)))


@pytest.mark.parametrize("launches", ["graph", "cooperative"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_gpu_tensors_agree_with_the_host(name: str, launches: str) -> None:
    """A graph runs the same machine code, in every bit."""
    torch: Any = pytest.importorskip("torch")
    program = PROGRAMS[name]
    asked = pl.compile(program.kernel(), target=pl.CudaTarget(), launches=launches)
    plain = pl.compile(program.kernel(), target=pl.CudaTarget(), launches="host")
    kept = []
    for size in (*program.sizes[-2:], program.sizes[-1], program.sizes[-2]):  # new pointers and new sizes in turn
        given = program.inputs(size)
        for _ in range(2):
            arrays, others = torch_arrays(torch, given), torch_arrays(torch, given)
            kept.append(arrays)
            found, expected = on_host(asked(**arrays)), on_host(plain(**others))
            for output, values in expected.items():
                np.testing.assert_allclose(found[output], values, rtol=0 if launches == "graph" else 1e-12)
            agree(found, program.expected(**copied(given)))


@pytest.mark.parametrize("launches", ["graph", "cooperative"])
def test_gpu_new_numbers_and_pointers(launches: str) -> None:
    torch: Any = pytest.importorskip("torch")
    run = pl.compile(damped(), target=pl.CudaTarget(), launches=launches)
    arrays = [torch.arange(100.0 + number, dtype=torch.float64, device="cuda") for number in (0, 0, 7)]
    for number in range(60):
        u, w, steps = arrays[number * 7 % 3], 0.5 / (1 + number % 4), (5, 5, 8)[number % 3]
        before = u.cpu().numpy()
        found = run(u=u, w=w, steps=steps).u
        np.testing.assert_allclose(found.cpu().numpy(), damped_expected(before, w, steps), rtol=1e-12, atol=1e-12)
    assert {graph.count for graph in module(run)._graphs} == ({10, 16} if launches == "graph" else set())


@pytest.mark.parametrize("steps", [4, 500, MOST_NODES // 2])
def test_gpu_long_chains(steps: int) -> None:
    run = pl.compile(damped(), target=pl.CudaTarget(), launches="graph")
    values = np.random.default_rng(steps).random(300)
    for w in (0.5, 0.25):
        found = run(u=values.copy(), w=w, steps=steps).u
        np.testing.assert_allclose(found, damped_expected(values, w, steps), rtol=1e-9, atol=1e-9)
    if steps > 500:
        with pytest.raises(pl.ArgumentError, match="graph-too-large"):
            run(u=values, w=0.5, steps=steps + 1)
        by_default = pl.compile(damped(), target=pl.CudaTarget())
        for _ in range(2):
            found = by_default(u=values.copy(), w=0.5, steps=steps + 1).u
            np.testing.assert_allclose(found, damped_expected(values, 0.5, steps + 1), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("launches", ["graph", "cooperative"])
def test_gpu_two_streams(launches: str) -> None:
    """One workspace serves both where the calls are a graph."""
    torch: Any = pytest.importorskip("torch")
    run = pl.compile(damped(), target=pl.CudaTarget(), launches=launches)
    streams = [torch.cuda.Stream(), torch.cuda.Stream()]
    values = np.random.default_rng(1).random(100_000)
    for _ in range(5):
        arrays = [torch.tensor(values * number, device="cuda") for number in (1, 2, 3, 4)]
        torch.cuda.synchronize()
        for number, u in enumerate(arrays):
            if number % 2:
                run(u=u, w=0.5, steps=50, stream=streams[number // 2])
            else:
                with torch.cuda.stream(streams[number // 2]):
                    run(u=u, w=0.5, steps=50)
        torch.cuda.synchronize()
        for number, u in enumerate(arrays):
            expected = damped_expected(values * (number + 1), 0.5, 50)
            np.testing.assert_allclose(u.cpu().numpy(), expected, rtol=1e-12)


@pytest.mark.parametrize("launches", ["graph", "cooperative"])
def test_gpu_threads(launches: str) -> None:
    torch: Any = pytest.importorskip("torch")
    run = pl.compile(damped(), target=pl.CudaTarget(), launches=launches)
    values = np.random.default_rng(2).random(1000)

    def work(number: int) -> bool:
        w, good = 0.5 / (1 + number), True
        with torch.cuda.stream(torch.cuda.Stream()):
            for _ in range(30):
                u = torch.tensor(values, device="cuda")
                run(u=u, w=w, steps=20)
                good = good and np.allclose(u.cpu().numpy(), damped_expected(values, w, 20), rtol=1e-12)
        return good

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(work, range(4)))


@pytest.mark.parametrize("launches", ["graph", "cooperative"])
def test_gpu_pycuda_arrays_and_streams(launches: str) -> None:
    driver: Any = pytest.importorskip("pycuda.driver")
    pytest.importorskip("pycuda.autoprimaryctx")
    arrays: Any = pytest.importorskip("pycuda.gpuarray")
    run = pl.compile(damped(), target=pl.CudaTarget(), launches=launches)
    values, stream = np.random.default_rng(3).random(1000), driver.Stream()
    for chosen in (None, stream, None, stream):
        u = arrays.to_gpu(values)
        driver.Context.synchronize()
        run(u=u, w=0.5, steps=20, stream=chosen)
        driver.Context.synchronize()
        np.testing.assert_allclose(u.get(), damped_expected(values, 0.5, 20), rtol=1e-12)
    found = run(u=values.copy(), w=0.5, steps=20, stream=stream).u
    np.testing.assert_allclose(found, damped_expected(values, 0.5, 20), rtol=1e-12)


@pytest.mark.parametrize("launches", ["graph", "cooperative"])
def test_gpu_cupy_arrays_and_streams(launches: str) -> None:
    cupy: Any = pytest.importorskip("cupy")
    run = pl.compile(damped(), target=pl.CudaTarget(), launches=launches)
    values, side = np.random.default_rng(9).random(1000), cupy.cuda.Stream(non_blocking=True)
    for stream in (cupy.cuda.Stream.null, side, side, cupy.cuda.Stream.null):
        with stream:
            u = cupy.asarray(values)
            run(u=u, w=0.5, steps=20)
            run(u=u, w=0.25, steps=20)
        cupy.cuda.Device().synchronize()
        expected = damped_expected(damped_expected(values, 0.5, 20), 0.25, 20)
        np.testing.assert_allclose(u.get(), expected, rtol=1e-12)


@pytest.mark.parametrize("launches", ["graph", "cooperative"])
def test_gpu_poisoned_calls(launches: str) -> None:
    run = pl.compile(PROGRAMS["relaxed"].kernel(), target=pl.CudaTarget(), launches=launches)
    given = PROGRAMS["relaxed"].inputs(37)
    for poison in (True, False, True):
        agree(run(**copied(given), poison=poison), PROGRAMS["relaxed"].expected(**copied(given)))


@pytest.mark.parametrize("bound", [False, True])
@pytest.mark.parametrize("launches", ["graph", "cooperative", None])
def test_gpu_a_call_that_is_a_graph_is_captured(bound: bool, launches: str | None) -> None:
    torch: Any = pytest.importorskip("torch")
    run = pl.compile(damped(), target=pl.CudaTarget(), launches=launches)
    values = np.random.default_rng(4).random(1000)
    u = torch.tensor(values, device="cuda")
    given: dict[str, Any] = {"u": u, "w": 0.5, "steps": 20}
    for _ in range(3):
        run(**given)
    call = run.bind(**given) if bound else None
    assert call is None or call.launches == (launches or "graph")
    graph: Any = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        (call or run)(**({} if bound else given))
    for _ in range(2):
        u.copy_(torch.tensor(values))
        graph.replay()
        torch.cuda.synchronize()
        np.testing.assert_allclose(u.cpu().numpy(), damped_expected(values, 0.5, 20), rtol=1e-12)
    u.copy_(torch.tensor(values))
    (call or run)(**({} if bound else given))
    np.testing.assert_allclose(u.cpu().numpy(), damped_expected(values, 0.5, 20), rtol=1e-12)


def test_gpu_a_cooperative_launch_of_more_blocks_than_run_at_one_time() -> None:
    run = pl.compile(damped(), target=pl.CudaTarget(), launches="cooperative")
    values = np.random.default_rng(8).random(1_000_000)  # 125,000 blocks of 8 threads
    found = run(u=values.copy(), w=0.5, steps=40).u
    np.testing.assert_allclose(found, damped_expected(values, 0.5, 40), rtol=1e-12)


def test_gpu_a_cooperative_launch_of_many_steps() -> None:
    run = pl.compile(damped(), target=pl.CudaTarget(), launches="cooperative")
    for n in (30, 3000):
        values = np.random.default_rng(n).random(n)
        for _ in range(3):
            found = run(u=values.copy(), w=0.5, steps=20_000).u
            np.testing.assert_allclose(found, damped_expected(values, 0.5, 20_000), rtol=1e-9)


def test_gpu_a_bound_call_is_a_graph_of_its_own() -> None:
    torch: Any = pytest.importorskip("torch")
    run = pl.compile(damped(), target=pl.CudaTarget())
    values = np.random.default_rng(5).random(1000)
    u, other = (torch.tensor(values, device="cuda") for _ in range(2))
    first, second = run.bind(u=u, w=0.5, steps=20), run.bind(u=other, w=0.25, steps=20)
    stream = torch.cuda.Stream()
    for _ in range(3):
        u.copy_(torch.tensor(values))
        other.copy_(torch.tensor(values))
        torch.cuda.synchronize()
        first()
        second(stream=stream)
        torch.cuda.synchronize()
        np.testing.assert_allclose(u.cpu().numpy(), damped_expected(values, 0.5, 20), rtol=1e-12)
        np.testing.assert_allclose(other.cpu().numpy(), damped_expected(values, 0.25, 20), rtol=1e-12)
    assert (first.launches, second.launches) == ("graph", "graph")


def free_bytes() -> int:
    """Return the memory that is free, where a context is current."""
    driver: Any = pytest.importorskip("pycuda.driver")
    driver.Context.synchronize()
    return int(driver.mem_get_info()[0])


def test_gpu_graphs_and_workspaces_do_not_leak() -> None:
    """Graphs of more sizes than are kept, unloaded modules, and kernels that are dropped give everything back."""
    pytest.importorskip("pycuda.autoprimaryctx")
    driver = raw_driver()
    gc.collect()  # what the tests before have left is destroyed now, and not counted
    n, created = 1_000_000, {"cuGraphCreate": 0, "cuGraphDestroy": 0, "cuGraphExecDestroy": 0}
    check = driver.check

    def counting(name: str, status: int) -> None:
        if name in created:
            created[name] += 1
        check(name, status)

    driver.check = counting  # type: ignore[method-assign]  # for the length of the test
    try:
        values, free = np.random.default_rng(6).random(n), []
        for number in range(6):
            run = pl.compile(damped(), target=pl.CudaTarget(), launches="graph")
            for extra in range(MOST_GRAPHS + 4):
                cut = values[: n - extra].copy()
                np.testing.assert_allclose(run(u=cut, w=0.5, steps=4).u, damped_expected(values[: n - extra], 0.5, 4))
            if number % 2:
                module(run).unload()
                assert not any(graph._destroy.alive for graph in module(run)._graphs)
            del run
            gc.collect()
            free.append(free_bytes())
        assert created["cuGraphCreate"] == 6 * (MOST_GRAPHS + 4)
        assert created["cuGraphCreate"] == created["cuGraphDestroy"] == created["cuGraphExecDestroy"]
        assert free[1] - free[-1] < 8 * n, f"free after each round: {free}"  # not as much as one workspace
    finally:
        del driver.check


def test_gpu_a_call_after_unloading_makes_everything_anew() -> None:
    torch: Any = pytest.importorskip("torch")
    run = pl.compile(damped(), target=pl.CudaTarget(), launches="graph")
    values = np.random.default_rng(7).random(100)
    for number in range(6):
        u = torch.tensor(values, device="cuda")
        found = run(u=u, w=0.5, steps=6).u.cpu().numpy()
        np.testing.assert_allclose(found, damped_expected(values, 0.5, 6), rtol=1e-12)
        if number % 2:
            torch.cuda.synchronize()
            module(run).unload()
