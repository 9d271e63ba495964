"""Repeated calls, bound calls and captured ones on a GPU, for each library's arrays."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import polyloop as pl
from polyloop.errors import ArgumentError
from polyloop.runtime.invoke import CompiledKernel, load
from tests.runtime.programs import F4, axpy, steps

X = np.arange(1, 6, dtype=F4)
pytestmark = pytest.mark.gpu


def test_gpu_repeated_calls_of_each_library() -> None:
    kernel = pl.compile(steps(), pl.CudaTarget())
    torch: Any = importlib.import_module("torch")
    cupy: Any = importlib.import_module("cupy")
    for make in (lambda values: torch.as_tensor(values, device="cuda"), cupy.asarray):
        u, v = make(np.arange(70, dtype=F4)), make(np.zeros(70, F4))
        plain = load_axpy()
        for number in range(4):
            u += number
            kernel(u=u, v=v)
            assert bool((v == 2 * u[list(range(69, -1, -1))] + 1).all())
            z = plain(alpha=2.0, x=u, y=v).z
            plain(alpha=3.0, x=u, y=v, z=z)
            assert bool((z == 3 * u + v).all())


def test_gpu_new_numbers_are_passed_at_each_call() -> None:
    torch: Any = importlib.import_module("torch")
    text = """
        <> u[i] = s*x[i] + c          {id=first}
        y[j] = u[n - 1 - j] + k + h   {dep=first}
        """
    data = [pl.GlobalArg("x, y", np.complex64, shape="n"), pl.ValueArg("s", np.float32), pl.ValueArg("c", np.complex64),
            pl.ValueArg("k", np.int64), pl.ValueArg("h", np.float16), ...]
    knl = pl.make_kernel("{[i, j]: 0 <= i, j < n}", text, data).tag_inames("i:g.0, j:g.0")
    run = pl.compile(knl, pl.CudaTarget())
    first, second = (torch.arange(6, device="cuda").to(torch.complex64) for _ in range(2))
    y = torch.zeros_like(first)
    for number in range(40):
        x = (first, second)[number % 3 == 2]
        s, c, k, h = number / 4, complex(number, -number), 3 * number, 0.5 * number
        run(x=x, y=y, s=s, c=c, k=k, h=h)
        expected = (s * x + c).flip(0) + (k + h)
        assert bool((y == expected).all())


def load_axpy() -> CompiledKernel:
    return load(axpy("cuda"))


def test_gpu_repeated_calls_follow_the_stream_of_torch() -> None:
    torch = pytest.importorskip("torch")
    plain = load_axpy()
    n = 1 << 22
    x = torch.ones(n, device="cuda")
    y, z = torch.zeros_like(x), torch.zeros_like(x)
    plain(alpha=2.0, x=x, y=y, z=z)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(20):
            x.add_(1)
            plain(alpha=2.0, x=x, y=y, z=z)
    side.synchronize()
    assert bool((z == 42).all())
    x.fill_(3)
    torch.cuda.synchronize()
    plain(alpha=2.0, x=x, y=y, z=z, stream=side)
    side.synchronize()
    assert bool((z == 6).all())


@pytest.mark.parametrize("bound", [False, True])
def test_gpu_calls_are_captured_in_a_graph(bound: bool) -> None:
    torch: Any = pytest.importorskip("torch")
    plain = load_axpy()
    x = torch.ones(1000, device="cuda")
    y, z = torch.zeros_like(x), torch.zeros_like(x)
    plain(alpha=2.0, x=x, y=y, z=z)
    arguments: dict[str, Any] = {"alpha": 2.0, "x": x, "y": y, "z": z}
    step: Callable[[], object] = plain.bind(**arguments) if bound else functools.partial(plain, **arguments)
    graph: Any = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
        y.copy_(z)
        step()
    for value in (1, 5):
        x.fill_(value)
        y.fill_(0)
        graph.replay()
        torch.cuda.synchronize()
        assert bool((z == 4 * value).all())


def test_gpu_a_bound_call_with_a_workspace_is_captured() -> None:
    torch: Any = pytest.importorskip("torch")
    u = torch.arange(70, dtype=torch.float32, device="cuda")
    step = pl.compile(steps(), pl.CudaTarget()).bind(u=u)
    step()
    graph: Any = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    u += 5
    graph.replay()
    torch.cuda.synchronize()
    assert bool((step.result.v == 2 * u.flip(0) + 1).all())
    with pytest.raises(ArgumentError) as error:
        load_axpy().bind(alpha=2.0, x=X, y=X)
    assert error.value.codes == ("wrong-device",)


@pytest.mark.parametrize("bound", [False, True])
def test_gpu_calls_are_captured_by_cupy(bound: bool) -> None:
    cupy: Any = pytest.importorskip("cupy")
    x, y, z = (cupy.full(1000, value, cupy.float32) for value in (1, 0, 0))
    plain, given = load_axpy(), {"alpha": 2.0, "x": x, "y": y, "z": z}
    plain(**given)
    step: Callable[[], object] = plain.bind(**given) if bound else functools.partial(plain, **given)
    with cupy.cuda.Stream(non_blocking=True) as stream:
        stream.begin_capture()
        step()
        y[...] = z
        step()
        graph = stream.end_capture()
    for value in (1, 5):
        x.fill(value)
        y.fill(0)
        cupy.cuda.Device().synchronize()
        graph.launch(stream)
        stream.synchronize()
        assert bool((z == 4 * value).all())


@pytest.mark.parametrize("bound", [False, True])
def test_gpu_calls_on_pycuda_arrays_are_captured_by_cuda_core(bound: bool) -> None:
    core: Any = pytest.importorskip("cuda.core")
    device = core.Device()
    device.set_current()  # the primary context, which PyCUDA is given by this name
    pytest.importorskip("pycuda.autoprimaryctx")
    arrays: Any = pytest.importorskip("pycuda.gpuarray")
    x, y, z = (arrays.to_gpu(np.full(1000, value, F4)) for value in (1, 3, 0))
    plain, given = load_axpy(), {"alpha": 2.0, "x": x, "y": y, "z": z}
    plain(**given)
    call: Callable[..., object] = plain.bind(**given) if bound else functools.partial(plain, **given)
    stream = device.create_stream()
    builder = stream.create_graph_builder().begin_building()
    call(stream=builder)
    graph = builder.end_building().complete()
    for value in (1, 5):
        x.set(np.full(1000, value, F4))
        z.set(np.zeros(1000, F4))
        device.sync()
        graph.launch(stream)
        stream.sync()
        assert (z.get() == 2 * value + 3).all()


def _values(array: Any) -> Any:
    return array.get() if hasattr(array, "get") else array.cpu().numpy()


def test_gpu_arrays_that_change_in_place_are_looked_at_again() -> None:
    torch: Any = pytest.importorskip("torch")
    cupy: Any = pytest.importorskip("cupy")
    pytest.importorskip("pycuda.autoprimaryctx")
    arrays: Any = pytest.importorskip("pycuda.gpuarray")
    plain = load_axpy()
    makers: dict[str, Callable[[Any], Any]] = {
        "torch": lambda values: torch.as_tensor(values, device="cuda"), "cupy": cupy.asarray, "pycuda": arrays.to_gpu}
    for name, make in makers.items():
        x, y, z = (make(np.full(64, value, F4)) for value in (1, 2, 0))
        other = make(np.full(64, 7, F4))
        for _ in range(3):
            plain(alpha=2.0, x=x, y=y, z=z)
        assert (_values(z) == 4).all()
        if name == "torch":
            x.set_(other)
        elif name == "pycuda":
            x.gpudata = other.gpudata
        else:
            x = other
        plain(alpha=2.0, x=x, y=y, z=z)
        assert (_values(z) == 16).all(), name
        if name == "torch":
            z.resize_(32)
        else:
            z.shape = (8, 8)
        with pytest.raises(ArgumentError):
            plain(alpha=2.0, x=x, y=y, z=z)


def test_gpu_calls_are_repeated_where_another_context_is_current() -> None:
    torch: Any = pytest.importorskip("torch")
    driver: Any = pytest.importorskip("pycuda.driver")
    x = torch.arange(100, dtype=torch.float32, device="cuda")
    z = torch.zeros_like(x)
    plain = load_axpy()
    arguments: dict[str, Any] = {"alpha": 2.0, "x": x, "y": x, "z": z}
    step = plain.bind(**arguments)
    plain(**arguments)

    calls: tuple[Callable[[], object], ...] = (step, functools.partial(plain, **arguments))

    def both() -> None:
        for call in calls:
            z.zero_()
            torch.cuda.synchronize()
            call()
            torch.cuda.synchronize()
            assert bool((z == 3 * x).all())

    with ThreadPoolExecutor(1) as other:
        other.submit(both).result()
    context = driver.Device(0).make_context()
    try:
        step()
        plain(**arguments)
    finally:
        context.pop()
        context.detach()
    both()


def test_gpu_lazy_views_of_torch_are_refused() -> None:
    torch = pytest.importorskip("torch")
    plain = load_axpy()
    x = torch.ones(10, dtype=torch.complex64, device="cuda").conj().imag[::1]
    values = torch.view_as_real(torch.ones(10, dtype=torch.complex64, device="cuda"))[:, 1].contiguous()
    z = torch.zeros_like(values)
    plain(alpha=2.0, x=values, y=values, z=z)
    assert x.is_neg()
    with pytest.raises(ArgumentError) as error:
        plain(alpha=2.0, x=x, y=values, z=z)
    assert "wrong-type" in error.value.codes
