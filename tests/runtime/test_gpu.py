"""The path of arguments to a launch, with a PyCUDA that works on host memory; and the real one."""

from __future__ import annotations

import importlib
import struct
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from polyloop.errors import ArgumentError
from polyloop.expr.dtypes import BFLOAT16, FLOAT8_E4M3FN
from polyloop.runtime import gpu
from polyloop.runtime.cuda.choice import cuda_library
from polyloop.runtime.cuda.withpycuda import PycudaLibrary
from polyloop.runtime.gpu import active_context, gpu_available, resolve_stream
from polyloop.runtime.gpuarrays import DeviceMemory, HostMirror
from polyloop.runtime.invoke import CompiledKernel, load
from polyloop.runtime.views import ArrayKind, numpy_view
from tests.runtime.fake_cuda import FakeCuda, raw_driver
from tests.runtime.fake_pycuda import FakeDriver, GPUArray, Stream, at
from tests.runtime.programs import F4, axpy, reverse, transpose

X = np.arange(5, dtype=F4)


def run_axpy(grid: tuple[int, int, int], block: tuple[int, int, int], parameters: bytes) -> None:
    alpha, x, y, z, n = struct.unpack("=f4xQQQi", parameters)
    assert grid == (-(-n // 128), 1, 1)
    assert block == (128, 1, 1)
    at(z, n)[:] = np.float32(alpha) * at(x, n) + at(y, n)


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeDriver]:
    fake = FakeDriver({"axpy": run_axpy, "reverse": lambda *_: None})
    package = ModuleType("pycuda")
    arrays = ModuleType("pycuda.gpuarray")
    arrays.GPUArray = GPUArray  # type: ignore[attr-defined]  # a module made here
    for name, module in (("pycuda", package), ("pycuda.driver", fake), ("pycuda.gpuarray", arrays)):
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setattr(gpu, "_primary", {})
    monkeypatch.setattr(gpu, "_raw", lambda: raw_driver(FakeCuda(fake, fake.kernels)))
    monkeypatch.setattr("atexit.register", lambda _: None)
    gpu_available.cache_clear()
    cuda_library.cache_clear()
    yield fake
    gpu_available.cache_clear()
    cuda_library.cache_clear()


@pytest.fixture
def run(driver: FakeDriver) -> CompiledKernel:
    assert gpu_available() == (True, "")
    return load(axpy("cuda"))


def on_device(driver: FakeDriver, values: np.ndarray[Any, Any]) -> GPUArray:
    memory = driver.mem_alloc(values.nbytes)
    driver.memcpy_htod(memory, values)
    return GPUArray(values.shape, values.dtype, memory, values.strides)


@pytest.mark.nvrtc
def test_numpy_arrays_are_copied_there_and_back(run: CompiledKernel, driver: FakeDriver) -> None:
    assert run.architecture == "sm_90"
    driver.log.clear()
    result = run(alpha=2, x=X, y=X)
    np.testing.assert_array_equal(result.z, 3 * X)
    assert driver.log == ["retain 0", "push", "load", "launch axpy (1, 1, 1) (128, 1, 1) 0 default", "pop"]
    driver.log.clear()
    run(alpha=2, x=X, y=X)
    assert driver.log == ["push", "launch axpy (1, 1, 1) (128, 1, 1) 0 default", "pop"]
    assert all(memory.freed for memory in driver.memory)


@pytest.mark.nvrtc
def test_what_the_kernel_leaves_alone_survives_in_a_passed_output(driver: FakeDriver) -> None:
    kernel = load(reverse())
    b = np.full(64, 7, F4)
    kernel(a=np.zeros(64, F4), b=b)
    assert (b == 7).all()


@pytest.mark.nvrtc
def test_what_the_kernel_leaves_alone_stays_poisoned_in_an_allocated_output(driver: FakeDriver) -> None:
    kernel = load(reverse())
    assert np.isnan(kernel(a=np.zeros(64, F4), poison=True).b).all()


@pytest.mark.nvrtc
def test_copies_of_numpy_arrays_keep_their_layout(run: CompiledKernel, driver: FakeDriver) -> None:
    x = np.arange(300, dtype=np.float32)
    turned = np.asfortranarray(np.arange(6, dtype=np.int16).reshape(2, 3))
    driver.Context.synchronize = lambda: driver.log.append("synchronize")
    with gpu.on_device("axpy", {"x": x, "turned": turned, "nothing": x[:0]}) as (copies, wait):
        assert (run(x=copies["x"], y=copies["x"], alpha=2.0).z.get() == 3 * x).all()
        wait()
        assert copies["turned"].strides == turned.strides
        assert (at(int(copies["turned"].gpudata), 6, np.int16) == turned.ravel("F")).all()
    assert [entry.partition(" ")[0] for entry in driver.log[-3:]] == ["launch", "synchronize", "pop"]


def test_pycuda_arrays_use_the_current_context(run: CompiledKernel, driver: FakeDriver) -> None:
    context = object()
    driver.stack.append(context)
    x = on_device(driver, X)
    driver.log.clear()
    result = run(alpha=2, x=x, y=x, poison=True)
    assert isinstance(result.z, GPUArray)
    np.testing.assert_array_equal(result.z.get(), 3 * X)
    assert driver.log == ["load", "launch axpy (1, 1, 1) (128, 1, 1) 0 default"]
    assert driver.stack == [context]


@pytest.mark.nvrtc
def test_the_context_is_restored_after_a_failure(run: CompiledKernel, driver: FakeDriver) -> None:
    def fail(*_: object) -> None:
        raise driver.LogicError("launch failed")

    driver.kernels["axpy"] = fail
    with pytest.raises(driver.LogicError):
        run(alpha=2, x=X, y=X)
    assert driver.stack == []
    assert all(memory.freed for memory in driver.memory)


@pytest.mark.nvrtc
def test_a_pycuda_stream_is_passed_on_and_waited_for_where_numpy_arrays_are(
    run: CompiledKernel, driver: FakeDriver
) -> None:
    stream = Stream()
    run(alpha=2, x=X, y=X, stream=stream)
    assert driver.log[-2:] == ["launch axpy (1, 1, 1) (128, 1, 1) 0 stream", "pop"]
    assert stream.synchronized == 1


class FakeRaw:
    """Stands for the driver functions called directly."""

    def __init__(self) -> None:
        self.calls: list[tuple[object, ...]] = []

    def load(self, cubin: bytes, names: list[str]) -> tuple[int, dict[str, str]]:
        self.calls.append(("load", *names))
        return 1, {name: name for name in names}

    def prepared(self, function: str, grid: tuple[int, int, int], block: tuple[int, int, int], *, shared: int,
                 parameters: bytes, cells: object = ()) -> Callable[[int], Callable[[], int]]:
        def launch(stream: int) -> int:
            self.calls.append(("launch", function, grid, shared, stream))
            run_axpy(grid, block, parameters)
            return 0

        return lambda stream: lambda: launch(stream)

    def done(self, status: int) -> bool:
        return status == 0

    def synchronize(self, stream: int) -> None:
        self.calls.append(("synchronize", stream))

    def order(self, before: int, after: int) -> None:
        self.calls.append(("order", before, after))


@pytest.mark.nvrtc
def test_a_stream_of_another_library_goes_to_the_driver_directly(
    run: CompiledKernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    raw = FakeRaw()
    monkeypatch.setattr(gpu, "_raw", lambda: raw)
    for _ in range(2):
        np.testing.assert_array_equal(run(alpha=2, x=X, y=X, stream=4711).z, 3 * X)
    launch = ("launch", "axpy", (1, 1, 1), 0, 4711)
    assert raw.calls == [("load", "axpy"), launch, ("synchronize", 4711), launch, ("synchronize", 4711)]


@pytest.mark.nvrtc
def test_work_waits_for_the_stream_that_an_array_becomes_ready_on(
    run: CompiledKernel, driver: FakeDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    raw = FakeRaw()
    monkeypatch.setattr(gpu, "_raw", lambda: raw)

    class Foreign:
        def __init__(self, values: np.ndarray[Any, Any], stream: int | None) -> None:
            self._values, self._stream = values, stream

        @property
        def __cuda_array_interface__(self) -> dict[str, object]:
            return {"shape": self._values.shape, "typestr": self._values.dtype.str, "strides": None, "version": 3,
                    "stream": self._stream, "data": (self._values.__array_interface__["data"][0], False)}

    z = np.zeros(5, F4)
    run(alpha=2, x=Foreign(X, 9), y=Foreign(X, 1), z=Foreign(z, None))
    assert raw.calls == [("order", 9, 0)]
    np.testing.assert_array_equal(z, 3 * X)
    made = run(alpha=2, x=Foreign(X, 9), y=Foreign(X, 9)).z  # PyCUDA, which launches, allocates
    assert isinstance(made, GPUArray)
    np.testing.assert_array_equal(made.get(), 3 * X)


@pytest.mark.nvrtc
def test_dynamic_shared_memory_beyond_48_kib_is_asked_for(driver: FakeDriver) -> None:
    program = reverse()
    source = program.device_code.replace("__shared__ float s[64];", "extern __shared__ float s[];")
    large = replace(program, device_code=source, launches=(replace(program.launches[0], dynamic_shared_bytes=100_000),))
    load(large)(a=np.zeros(64, F4))
    assert "set 8 100000" in driver.log
    assert "launch reverse (1, 1, 1) (64, 1, 1) 100000 default" in driver.log


@pytest.mark.parametrize(("stream", "handle"), [
    (None, 0), (0, 0), (5, 5), (np.int64(5), 5), (SimpleNamespace(cuda_stream=6), 6), (SimpleNamespace(ptr=7), 7),
    (SimpleNamespace(__cuda_stream__=lambda: (0, 8)), 8), (Stream(), 77),
])
def test_streams_of_all_libraries(stream: object, handle: int) -> None:
    assert resolve_stream("k", stream).handle == handle


def test_what_is_no_stream_is_refused() -> None:
    with pytest.raises(ArgumentError) as err:
        resolve_stream("k", "fast")
    assert str(err.value) == """\
call on kernel 'k': 'stream' is not a CUDA stream but str 'fast' [wrong-type]
  Hint: pass a PyCUDA, Torch or CuPy stream, or its handle as an integer"""


def test_a_torch_tensor_is_read_without_its_interfaces() -> None:
    class Tensor:
        __module__ = "torch"
        is_cuda, dtype, shape, device = True, "torch.float32", (2, 3), SimpleNamespace(index=1)

        def stride(self) -> tuple[int, int]:
            return (3, 1)

        def data_ptr(self) -> int:
            return 4096

    view = DeviceMemory().view("k", "t", Tensor())
    assert (view.kind, view.pointer, view.dtype, view.shape, view.strides, view.device) == (
        ArrayKind.TORCH, 4096, F4, (2, 3), (3, 1), 1)
    cpu = Tensor()
    cpu.is_cuda = False
    with pytest.raises(ArgumentError) as err:
        DeviceMemory().view("k", "t", cpu)
    assert str(err.value) == """\
call on kernel 'k': 't' is in host memory, and this kernel runs on the GPU [wrong-device]
  Hint: pass t.cuda(), or t.numpy() to have it copied"""
    odd = Tensor()
    odd.dtype = "torch.bfloat16"
    assert DeviceMemory().view("k", "t", odd).dtype == BFLOAT16
    odd.dtype = "torch.float8_e4m3fn"
    assert DeviceMemory().view("k", "t", odd).dtype == FLOAT8_E4M3FN
    odd.dtype = "torch.qint8"
    with pytest.raises(ArgumentError) as err:
        DeviceMemory().view("k", "t", odd)
    assert err.value.codes == ("wrong-dtype",)


def test_a_cupy_array_is_read() -> None:
    class Ndarray:
        __module__ = "cupy"
        data, dtype, shape, strides = SimpleNamespace(ptr=4096), F4, (2, 3), (4, 8)
        device = SimpleNamespace(id=0)

    view = DeviceMemory().view("k", "a", Ndarray())
    assert (view.kind, view.pointer, view.strides, view.device) == (ArrayKind.CUPY, 4096, (1, 2), 0)


@pytest.mark.nvrtc
def test_arrays_on_two_devices_are_refused(run: CompiledKernel) -> None:
    def tensor(device: int) -> object:
        class Tensor:
            __module__ = "torch"
            is_cuda, dtype, shape, device = True, "torch.float32", (5,), SimpleNamespace(index=0)

            def stride(self) -> tuple[int, ...]:
                return (1,)

            def data_ptr(self) -> int:
                return 4096

        found = Tensor()
        found.device = SimpleNamespace(index=device)
        return found

    with pytest.raises(ArgumentError) as err:
        run(alpha=1, x=tensor(0), y=tensor(1))
    assert str(err.value) == """\
call on kernel 'axpy': 'y' is on GPU 1, and 'x' on GPU 0 [wrong-device]
  Hint: copy all arrays to one device"""


def test_a_dlpack_capsule_is_read() -> None:
    values = np.arange(12, dtype=np.int16).reshape(3, 4)[:, 1:3]

    class OnGpu:
        """A NumPy array that says it is on GPU 3."""

        def __dlpack_device__(self) -> tuple[int, int]:
            return (2, 3)

        def __dlpack__(self, stream: int | None = None) -> object:
            assert stream == 1
            return values.__dlpack__()

    view = DeviceMemory().view("k", "a", OnGpu())
    assert (view.shape, view.strides, view.dtype, view.device) == ((3, 2), (4, 1), np.dtype(np.int16), 3)
    assert view.pointer == values.__array_interface__["data"][0]
    with pytest.raises(ArgumentError) as err:
        DeviceMemory().view("k", "a", SimpleNamespace())
    assert err.value.codes == ("wrong-type",)


def test_without_pycuda_the_reason_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str) -> ModuleType:
        raise ModuleNotFoundError(f"No module named '{name}'", name=name)

    cuda_library.cache_clear()
    gpu_available.cache_clear()
    monkeypatch.setattr(importlib, "import_module", absent)
    try:
        assert gpu_available() == (False, "neither PyCUDA nor cuda.core is installed: pip install \"polyloop[cuda]\" "
                                          "(No module named 'pycuda.driver')")
    finally:
        gpu_available.cache_clear()


def test_a_machine_without_devices_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pycuda", ModuleType("pycuda"))
    monkeypatch.setitem(sys.modules, "pycuda.driver", FakeDriver({}, devices=0))
    cuda_library.cache_clear()
    gpu_available.cache_clear()
    try:
        assert gpu_available() == (False, "the NVIDIA driver sees no GPU")
    finally:
        cuda_library.cache_clear()
        gpu_available.cache_clear()


# {{{ on a GPU


@pytest.mark.gpu
@pytest.mark.parametrize("shape", [(1, 1), (16, 16), (100, 37)])
def test_gpu_transposes_numpy_arrays(shape: tuple[int, int]) -> None:
    a = np.arange(shape[0] * shape[1], dtype=F4).reshape(shape)
    kernel = load(transpose())
    for _ in range(2):
        np.testing.assert_array_equal(kernel(a=a).b, a.T)


@pytest.mark.gpu
def test_gpu_reads_the_registers_that_the_driver_reports() -> None:
    kernel = load(transpose())
    kernel(a=np.zeros((2, 2), F4))
    backend: Any = kernel._small
    (loaded,), raw = backend._module._loaded, backend._module.driver
    with active_context("transpose", []):
        function = backend._module._raw_functions(loaded)["transpose"]
        registers, shared, local = (raw.attribute(function, number) for number in (4, 1, 3))
    found = kernel.resources["transpose"]
    assert (registers, shared, local) == (found.registers, found.shared_bytes, found.local_bytes)


@pytest.mark.gpu
def test_gpu_takes_torch_tensors_on_their_stream() -> None:
    torch = pytest.importorskip("torch")
    kernel = load(transpose())
    a = torch.arange(15, dtype=torch.float32, device="cuda").reshape(3, 5)
    assert torch.equal(kernel(a=a).b, a.T)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        b = kernel(a=a).b
    side.synchronize()
    assert torch.equal(b, a.T)
    b = kernel(a=a, stream=side, poison=True).b
    torch.cuda.synchronize()
    assert torch.equal(b, a.T)


@pytest.mark.gpu
def test_gpu_takes_cupy_arrays() -> None:
    cupy = pytest.importorskip("cupy")
    kernel = load(transpose())
    a = cupy.arange(15, dtype=cupy.float32).reshape(3, 5)
    assert bool((kernel(a=a, poison=True).b == a.T).all())
    with cupy.cuda.Stream(non_blocking=True) as stream:
        a = cupy.arange(35, dtype=cupy.float32).reshape(7, 5)
        b = kernel(a=a).b
        stream.synchronize()
        assert bool((b == a.T).all())


@pytest.mark.gpu
def test_gpu_takes_pycuda_arrays() -> None:
    driver = pytest.importorskip("pycuda.driver")
    gpuarray = pytest.importorskip("pycuda.gpuarray")
    driver.init()
    context = driver.Device(0).retain_primary_context()
    context.push()
    try:
        host = np.arange(15, dtype=F4).reshape(3, 5)
        a = gpuarray.to_gpu(host)
        stream = driver.Stream()
        kernel = load(transpose())
        b = kernel(a=a, stream=stream, poison=True).b
        stream.synchronize()
        np.testing.assert_array_equal(b.get(), host.T)
        np.testing.assert_array_equal(kernel(a=a).b.get(), host.T)
        del a, b
    finally:
        driver.Context.pop()


@pytest.mark.gpu
def test_gpu_leaves_no_context_behind() -> None:
    was = cuda_library().current()  # another test's, in the same process
    load(axpy("cuda"))(alpha=2, x=X, y=X)
    assert cuda_library().current() == was

# }}}


def test_only_elements_are_copied_back(driver: FakeDriver) -> None:
    """Two columns of one array, both written: neither may bring back the other's old values."""
    driver.stack.append(object())
    base = np.arange(12, dtype=np.float32).reshape(4, 3)
    mirrors = [HostMirror(PycudaLibrary(), numpy_view("k", "a", base[:, column]), fill=True) for column in (0, 1)]
    for column, mirror in enumerate(mirrors):
        at(mirror.pointer, 10)[::3] = 100 + column
    for mirror in mirrors:
        mirror.copy_back()
        mirror.free()
    np.testing.assert_array_equal(base, [[100, 101, 3 * row + 2] for row in range(4)])
