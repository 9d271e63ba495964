"""What holds of each library that the CUDA driver is reached through; ``test_libraries.py`` runs these cases with each.

They run on a GPU, or on the driver of ``fake_driver``, whose kernels run on fibres: then ``POLYLOOP_FAKE_DRIVER`` is
the path of its library.
"""

from __future__ import annotations

import ctypes
import importlib
import os
import re
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import polyloop as pl
from polyloop.errors import ArgumentError, CompilerError
from polyloop.kernel.kernel import LoopKernel
from polyloop.runtime.backends import CudaBackend
from polyloop.runtime.cuda.choice import VARIABLE, cuda_library
from polyloop.runtime.cuda.cooperative import CooperativeModule
from polyloop.runtime.cuda.rawdriver import raw_driver
from polyloop.runtime.foreign.capsule import dlpack_view
from polyloop.runtime.foreign.view import ArrayKind
from polyloop.runtime.gpu import GpuModule, active_context, gpu_available, on_device
from polyloop.runtime.invoke import CompiledKernel
from polyloop.tuning.measure import DeviceClock
from tests.runtime.fake_cuda import fibre_kernels
from tests.runtime.hosts import PROGRAMS
from tests.runtime.test_graph_calls import damped, damped_expected
from tests.runtime.test_host_loops import agree, copied
from tests.runtime.test_workspace import twice_transposed

FAKE = os.environ.get("POLYLOOP_FAKE_DRIVER")
F4 = np.float32
SIZES = {"jacobi": 37, "lu": 21, "stages": 16}
on_gpu = pytest.mark.skipif(FAKE is not None, reason="needs a GPU")
_TOLD = ctypes.CFUNCTYPE(
    None, ctypes.c_char_p, ctypes.POINTER(ctypes.c_uint), ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p)


class Fibres:
    """The device of the driver that is not there: launches run on fibres."""

    def __init__(self) -> None:
        self.kernels: dict[str, Any] = {}
        self.layouts: dict[str, Any] = {}
        self._told, self._lock = _TOLD(self._run), threading.Lock()
        self.library = ctypes.CDLL(FAKE)
        ctypes.c_void_p.in_dll(self.library, "fake_told").value = ctypes.cast(self._told, ctypes.c_void_p).value

    def count(self, name: str) -> int:
        return ctypes.c_long.in_dll(self.library, f"fake_{name}").value

    def _run(self, name: bytes, sizes: Any, parameters: int, size: int, stream: int | None) -> None:
        del stream
        known = name.decode()
        grid, block = tuple(sizes[:3]), tuple(sizes[3:6])
        if known == "spin":
            return
        if 0 < size < 1 << 20:
            data = ctypes.string_at(parameters, size)
        else:  # pointers to the arguments; in a cooperative launch one block executes those of all
            layout, grid = self.layouts[known], grid if size else (1, 1, 1)
            pointers = (ctypes.c_void_p * len(layout)).from_address(parameters)
            buffer = bytearray(max(offset + length for offset, length in layout))
            for pointer, (offset, length) in zip(pointers, layout, strict=True):
                buffer[offset : offset + length] = ctypes.string_at(pointer, length)
            data = bytes(buffer)
        with self._lock:  # fibres are of one thread at a time
            self.kernels[known](grid, block, data)


@pytest.fixture(scope="session")
def fibres() -> Fibres | None:
    return Fibres() if FAKE else None


def module(run: CompiledKernel) -> GpuModule:
    backend = run._small
    assert isinstance(backend, CudaBackend)
    return backend._module


Compile = Callable[..., CompiledKernel]


@pytest.fixture
def compiled(fibres: Fibres | None) -> Compile:
    def found(kernel: LoopKernel, launches: str | None = None) -> CompiledKernel:
        run = pl.compile(kernel, target=pl.CudaTarget(), launches=launches)
        if fibres is not None:
            one, program = module(run), run.program
            if isinstance(one, CooperativeModule):
                program = replace(program, launches=(one.together,))
            fibres.layouts |= {name: image.parameters for name, image in one.images.items()}
            fibres.kernels |= fibre_kernels(program, one.images)
        return run

    return found


@pytest.fixture(autouse=True)
def _nothing_is_left(fibres: Fibres | None) -> Iterator[None]:
    was = cuda_library().current()
    yield
    torch: Any = sys.modules.get("torch")
    is_torchs = was is None and torch is not None and torch.cuda.is_initialized()  # it makes its context current
    assert is_torchs or cuda_library().current() == was
    if fibres is not None:
        assert fibres.count("events") == 0


def scaled(count: int = 100) -> LoopKernel:
    knl = pl.make_kernel("{[i]: 0 <= i < n}", "z[i] = s*x[i] + y[i]",
                         [pl.GlobalArg("x, y, z", F4, shape="n"), pl.ValueArg("s", F4), ...], name="scaled")
    return pl.split_iname(knl, "i", count, outer_tag="g.0", inner_tag="l.0")


def bundle_of(kernel: LoopKernel, fibres: Fibres | None, folder: Path) -> Any:
    """Return the loaded bundle of a kernel that was compiled."""
    if fibres is not None:  # functions have names of their own there
        for known in (fibres.kernels, fibres.layouts):
            known[f"{kernel.name}_kernel"] = known[kernel.name]
    return pl.load(pl.export(kernel, folder, target=pl.CudaTarget(), bundle=True))


X, Y = np.arange(250, dtype=F4), np.ones(250, F4)


def test_the_library_is_the_one_asked_for() -> None:
    assert gpu_available() == (True, "")
    assert cuda_library().name == os.environ[VARIABLE]
    assert cuda_library().driver_version() >= 12000
    assert pl.compile(scaled()).target == "cuda"


def test_devices_are_those_of_the_driver() -> None:
    library, raw, found = cuda_library(), raw_driver(), ctypes.c_int()
    for number, expected in zip((75, 76), library.capability(0), strict=True):
        raw.call("cuDeviceGetAttribute", ctypes.byref(found), ctypes.c_int(number), ctypes.c_int(0))
        assert found.value == expected
    assert library.device_count() >= 1
    assert library.device_name(0)


def test_numpy_arrays(compiled: Compile) -> None:
    run = compiled(scaled())
    for s in (2.0, 3.0):
        np.testing.assert_array_equal(run(x=X, y=Y, s=s).z, F4(s) * X + Y)
    with pytest.raises(ArgumentError, match="wrong-device"):
        run.bind(x=X, y=Y, s=1.0)


def test_arrays_in_memory_of_the_gpu_are_repeated(compiled: Compile) -> None:
    run = compiled(scaled())
    with on_device("scaled", {"x": X, "y": Y, "z": np.zeros_like(X)}) as (arrays, wait):
        made = run(x=arrays["x"], y=arrays["y"], s=2.0, poison=True).z
        assert type(made) is type(arrays["x"])
        np.testing.assert_array_equal(made.get(), 2 * X + Y)
        for s in (4.0, 5.0, 6.0):
            run(**arrays, s=s)
            np.testing.assert_array_equal(arrays["z"].get(), F4(s) * X + Y)
        entered = run.func  # calls like these are recognized, and go to their launch
        run(**arrays, s=7.0)
        assert run.func is entered is not run._plain
        step = run.bind(**arrays, s=8.0)
        for _ in range(3):
            assert step().z is arrays["z"]
        wait()
        np.testing.assert_array_equal(arrays["z"].get(), 8 * X + Y)
        del made, step


def got(array: Any) -> Any:
    """Return a copy of an array in host memory; PyCUDA copies in the context that is current."""
    with active_context("scaled", []):
        return array.get()


class Described:
    """An array of a library that says where its memory is, and makes none."""

    def __init__(self, array: Any) -> None:
        self.array = array

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {**self.array.__cuda_array_interface__, "version": 3}


@pytest.mark.parametrize("of_bundle", [False, True])
def test_outputs_beside_arrays_of_other_libraries(
    of_bundle: bool, compiled: Compile, fibres: Fibres | None, tmp_path: Path
) -> None:
    run: Any = compiled(scaled())
    if of_bundle:
        run = bundle_of(scaled(), fibres, tmp_path)
    with on_device("scaled", {"x": X, "y": Y}) as (arrays, _):
        given = {name: Described(array) for name, array in arrays.items()}
        inside = run(**given, s=F4(2)).z
    before = 0 if fibres is None else fibres.count("memory")
    outside = run(**given, s=F4(3), **({} if of_bundle else {"poison": True})).z  # no context is current here
    for made, s in ((inside, 2), (outside, 3)):
        assert type(made) is type(arrays["x"])
        np.testing.assert_array_equal(got(made), F4(s) * X + Y)
    again = run(x=Described(outside), y=outside, s=F4(1)).z  # its own outputs are inputs
    np.testing.assert_array_equal(got(again), 2 * (3 * X + Y))
    if fibres is not None:
        del made, outside, again
        assert fibres.count("memory") == before  # all of it is freed


def test_what_cannot_be_lent_is_refused() -> None:
    with on_device("scaled", {"x": X}) as (arrays, _):
        lent = pl.as_dlpack(arrays["x"])
        for how, why in (({"stream": 0}, "names no stream"), ({"stream": True}, "names no stream"),
                         ({"dl_device": (2, 7)}, "it is on the device (2, 0), not (2, 7)"),
                         ({"dl_device": (1, 0), "copy": False}, "a copy is not wanted")):  # fmt: skip
            with pytest.raises(ArgumentError, match=re.escape(why)):
                lent.__dlpack__(**how)


class OnlyDlpack:
    """An array that lends its memory by DLPack, in the form that is asked, and says nothing else."""

    def __init__(self, lent: Any, **how: Any) -> None:
        self.lent, self.how = lent, how

    def __dlpack_device__(self) -> Any:
        return self.lent.__dlpack_device__()

    def __dlpack__(self, **how: Any) -> Any:
        return self.lent.__dlpack__(**{**how, **self.how})


def test_memory_of_the_gpu_is_lent_by_dlpack(compiled: Compile, fibres: Fibres | None) -> None:
    run = compiled(scaled())
    before = 0 if fibres is None else fibres.count("memory")
    lend(run)
    run._enter(run._plain)
    del run
    assert fibres is None or fibres.count("memory") == before


def lend(run: CompiledKernel) -> None:
    with on_device("scaled", {"x": X, "y": Y}) as (arrays, _):
        made = run(**arrays, s=2.0).z
    lent, address = pl.as_dlpack(made), int(made.gpudata)
    if cuda_library().name == "cuda.core":  # PyCUDA's have no DLPack
        lent = made
    assert lent.__dlpack_device__() == pl.as_dlpack(lent).__dlpack_device__() == (2, 0)
    ways: list[dict[str, Any]]
    ways = [{}, {"max_version": None}, {"stream": None}, {"stream": 2}, {"stream": -1}, {"copy": True}]
    for how in ways:
        view = dlpack_view("k", "z", OnlyDlpack(lent, **how), (ArrayKind.HOST, ArrayKind.CUDA))
        assert (view.kind, view.shape, view.strides) == (ArrayKind.CUDA, (250,), (1,))
        assert view.dtype == F4
        assert (view.pointer == address) is ("copy" not in how)
        again = run(x=OnlyDlpack(lent, **how), y=made, s=1.0).z
        np.testing.assert_array_equal(got(again), 2 * (2 * X + Y))
    host = np.from_dlpack(lent, device="cpu", copy=True)
    np.testing.assert_array_equal(host, 2 * X + Y)


def test_memory_is_freed_with_its_array(compiled: Compile, fibres: Fibres | None) -> None:
    if fibres is None:
        pytest.skip("counted by the driver that is not there")
    run, before = compiled(scaled()), fibres.count("memory")
    run(x=X, y=Y, s=1.0)
    with on_device("scaled", {"x": X, "y": Y}) as (arrays, _):
        made = run(**arrays, s=1.0).z
        assert fibres.count("memory") == before + 3
    arrays.clear()
    del made
    run._enter(run._plain)
    del run
    assert fibres.count("memory") == before


@pytest.mark.parametrize("launches", ["host", "graph", "cooperative"])
@pytest.mark.parametrize("name", SIZES)
def test_programs_of_several_launches(name: str, launches: str, compiled: Compile, fibres: Fibres | None) -> None:
    program = PROGRAMS[name]
    given, run = program.inputs(SIZES[name]), compiled(program.kernel(), launches)
    graphs = 0 if fibres is None else fibres.count("graphs")
    for _ in range(2):
        agree(run(**copied(given)), program.expected(**copied(given)))
    if fibres is not None:
        assert (fibres.count("graphs") > graphs) == (launches == "graph")


@pytest.mark.parametrize("launches", ["host", "graph", "cooperative", None])
def test_bound_programs_of_several_launches(launches: str | None, compiled: Compile) -> None:
    run, values = compiled(damped(), launches), np.arange(20.0)
    with on_device("damped", {"u": values}) as (arrays, _):
        step = run.bind(**arrays, w=0.5, steps=5)
        expected = values
        for _ in range(3):
            step()
            expected = damped_expected(expected, 0.5, 5)
        np.testing.assert_allclose(arrays["u"].get(), expected)
        del step


def test_a_workspace_is_of_the_stream(compiled: Compile) -> None:
    run, a = compiled(twice_transposed()), np.random.default_rng(0).random((40, 40), dtype=F4)
    with on_device("k", {"a": a}) as (arrays, _):
        for _ in range(2):
            np.testing.assert_array_equal(run(**arrays, poison=True).b.get(), 2 * a.T + 1)


def test_more_shared_memory_than_a_block_has_without_asking(compiled: Compile) -> None:
    knl = pl.make_kernel("{[i]: 0 <= i < 16384}", "<> t[i] = 2*x[i] {id=t}\nz[i] = t[16383 - i] {dep=t}",
                         [pl.GlobalArg("x, z", F4, shape="16384"), ...], name="reversed")
    knl = pl.set_temporary_address_space(knl, "t", "local")
    knl = pl.split_iname(knl, "i", 128, inner_tag="l.0")
    run, x = compiled(knl), np.arange(16384, dtype=F4)
    assert max(launch.dynamic_shared_bytes for launch in run.program.launches) > 48 * 1024
    np.testing.assert_array_equal(run(x=x).z, 2 * x[::-1])
    with on_device("k", {"x": x, "z": x}) as (arrays, _):
        run.bind(**arrays)()
        np.testing.assert_array_equal(arrays["z"].get(), 2 * x[::-1])


def test_times_between_events(compiled: Compile) -> None:
    run = compiled(scaled())
    with on_device("scaled", {"x": X, "y": Y, "z": Y}) as (arrays, _):
        step = run.bind(**arrays, s=1.0)
        assert 0 < DeviceClock().seconds(step, 10) < 1e-2
        del step


def test_calls_of_many_threads(compiled: Compile) -> None:
    """Each thread finds the context of its arrays by itself."""
    run, wrong = compiled(scaled()), list[BaseException]()

    def calls(s: float) -> None:
        try:
            for _ in range(10):
                np.testing.assert_array_equal(run(x=X, y=Y, s=s).z, F4(s) * X + Y)
        except BaseException as error:  # told to the test
            wrong.append(error)

    threads = [threading.Thread(target=calls, args=(float(k),)) for k in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_failure_is_an_error_of_the_library() -> None:
    library = cuda_library()
    with active_context("k", []), pytest.raises(Exception, match="cuModuleLoadData failed") as error:
        raw_driver().load(b"no machine code", [])
    assert isinstance(error.value, CompilerError) == (library.name == "cuda.core")


def test_a_bundle_and_streams(compiled: Compile, fibres: Fibres | None, tmp_path: Path) -> None:
    compiled(scaled())
    run = bundle_of(scaled(), fibres, tmp_path)
    with on_device("scaled", {"x": X, "y": Y, "z": Y}) as (arrays, wait), foreign_stream() as stream:
        run(**arrays, s=F4(2))
        wait()
        np.testing.assert_array_equal(arrays["z"].get(), 2 * X + Y)
        with pytest.raises(ArgumentError, match="wrong-device"):
            run(**arrays, s=F4(3), stream=stream)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_forked_process_is_told(compiled: Compile) -> None:
    run = compiled(scaled())
    with on_device("scaled", {"x": X, "y": Y, "z": Y}) as (arrays, _):
        step = run.bind(**arrays, s=1.0)
        step()
        child = os.fork()
        if not child:
            wrong = 0
            calls: tuple[Callable[[], object], ...] = (lambda: run(x=X, y=Y, s=1.0), step)
            for call in calls:
                try:
                    call()
                except CompilerError as error:
                    wrong += error.codes != ("cuda-after-fork",)
                else:
                    wrong += 1
            os._exit(wrong)
        assert os.waitpid(child, 0)[1] == 0
        del step


# {{{ of a GPU alone


@on_gpu
def test_function_attributes_and_occupancy_are_those_of_the_cubin(compiled: Compile) -> None:
    run = compiled(scaled(128))
    run(x=X, y=Y, s=1.0)
    (loaded,), raw, blocks = module(run)._loaded, raw_driver(), ctypes.c_int()
    found = run.resources["scaled"]
    with active_context("scaled", []):
        function = module(run)._raw_functions(loaded)["scaled"]
        assert tuple(raw.attribute(function, number) for number in (4, 1, 3)) == (
            found.registers, found.shared_bytes, found.local_bytes)
        raw.call("cuOccupancyMaxActiveBlocksPerMultiprocessor", ctypes.byref(blocks), function, ctypes.c_int(128),
                 ctypes.c_size_t(0))
    assert found.occupancy is not None
    assert blocks.value == found.occupancy.blocks


@on_gpu
def test_streams_of_cuda_core(compiled: Compile) -> None:
    core: Any = pytest.importorskip("cuda.core")
    run = compiled(scaled())
    with on_device("scaled", {"x": X, "y": Y, "z": Y}) as (arrays, _):
        device = core.Device()
        device.set_current()  # the primary context, which is current already
        stream = device.create_stream()
        for s in (2.0, 3.0, 4.0):
            run(**arrays, s=s, stream=stream)
            stream.sync()
            np.testing.assert_array_equal(arrays["z"].get(), F4(s) * X + Y)
        stream.close()


@contextmanager
def foreign_stream() -> Iterator[int]:
    """Give a stream of another context."""
    if FAKE:  # its streams are named as their contexts
        yield 0x7777
        return
    bindings: Any = pytest.importorskip("cuda.bindings.driver")
    _, context = bindings.cuCtxCreate(None, 0, bindings.CUdevice(0))
    try:
        _, stream = bindings.cuStreamCreate(0)
    finally:
        bindings.cuCtxPopCurrent()
    yield int(stream)
    bindings.cuCtxDestroy(context)


def test_a_stream_of_another_context_is_refused(compiled: Compile) -> None:
    run, with_workspace = compiled(scaled()), compiled(twice_transposed())
    a = np.ones((16, 16), F4)
    with on_device("scaled", {"x": X, "y": Y, "z": Y, "a": a}) as (arrays, _), foreign_stream() as stream:
        a = arrays.pop("a")
        for _ in range(2):
            with pytest.raises(ArgumentError, match="wrong-device"):
                run(**arrays, s=2.0, stream=stream)
            run(**arrays, s=1.0)
        with pytest.raises(ArgumentError, match="wrong-device"):
            run.bind(**arrays, s=2.0)(stream=stream)
        with pytest.raises(ArgumentError, match="wrong-device"):
            with_workspace(a=a, stream=stream)
        run(**arrays, s=3.0)
        np.testing.assert_array_equal(arrays["z"].get(), 3 * X + Y)


@on_gpu
def test_boxes_by_the_copy_engine() -> None:
    tma = importlib.import_module("tests.transform.test_tma")
    if cuda_library().capability(0) < (9, 0):
        pytest.skip("no copy engine")
    u = tma.values(np.float64, 4, 10, 48)
    knl = tma.moved(np.float64, unit=2)
    np.testing.assert_array_equal(np.asarray(pl.compile(knl, target=tma.PLAIN)(u=u)["o"]), pl.interpret(knl, u=u)["o"])


@on_gpu
def test_torch_tensors_and_their_streams(compiled: Compile) -> None:
    torch: Any = pytest.importorskip("torch")
    run, x = compiled(scaled()), torch.arange(250, dtype=torch.float32, device="cuda")
    y = torch.ones_like(x)
    side = torch.cuda.Stream()
    for stream in (None, side):
        result = run(x=x, y=y, s=3.0, stream=stream).z
        torch.cuda.synchronize()
        assert torch.equal(result, 3 * x + y)


@on_gpu
def test_a_bound_call_takes_the_host_less_than_a_launch_of_cuda_core(compiled: Compile) -> None:
    core: Any = pytest.importorskip("cuda.core")
    run = compiled(scaled(128))
    source = 'extern "C" __global__ void scaled(const float *x, const float *y, float *z, float s, int n) {}'

    def least(call: Callable[[], object], wait: Callable[[], object]) -> float:
        best = 1.0
        for _ in range(15):
            wait()
            begin = time.perf_counter()
            for _ in range(1000):
                call()
            best = min(best, time.perf_counter() - begin)
        wait()
        return best * 1e3

    with on_device("scaled", {"x": X, "y": Y, "z": Y}) as (arrays, wait):
        device = core.Device(0)
        device.set_current()
        kernel = core.Program(source, code_type="c++", options=core.ProgramOptions(arch=f"sm_{device.arch}")).compile(
            "cubin").get_kernel("scaled")
        config, stream = core.LaunchConfig(grid=2, block=128), device.default_stream
        pointers = [int(arrays[name].gpudata) for name in "xyz"]
        s, n = np.float32(1), np.int32(250)
        theirs = least(lambda: core.launch(stream, config, kernel, *pointers, s, n), wait)
        ours = least(run.bind(**arrays, s=1.0), wait)
        print(f"\nbound call with {cuda_library().name}: {ours:.2f} us; cuda.core launch: {theirs:.2f} us")
        assert ours < theirs


@on_gpu
def test_tuning(compiled: Compile) -> None:
    del compiled
    x = np.arange(1 << 16, dtype=F4)

    def threads(count: int) -> LoopKernel:
        knl = pl.make_kernel("{[i]: 0 <= i < n}", "z[i] = 2*x[i]", [pl.GlobalArg("x, z", F4, shape="n"), ...])
        return pl.split_iname(knl, "i", count, outer_tag="g.0", inner_tag="l.0")

    found = pl.tune(threads, {"count": [32, 128]}, {"x": x}, target=pl.CudaTarget(), seconds=2)
    np.testing.assert_array_equal(found.compiled(x=x).z, 2 * x)

# }}}
