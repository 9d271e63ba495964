"""Launching on an NVIDIA GPU through PyCUDA, on the context that Torch and CuPy use too.

The context: where PyCUDA has a current context and only PyCUDA or NumPy arrays are passed, that
one.  Otherwise the primary context of the arrays' device, pushed for the length of a call only.

PyCUDA launches on its own streams and on the default stream; it has no way to take a stream that
another library made.  For those the driver's ``cuLaunchKernel`` is called directly.
"""
# ruff: noqa: ANN401  # PyCUDA has no types

from __future__ import annotations

import atexit
import contextlib
import ctypes
import functools
import importlib
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from polyloop.codegen.program import DeviceLaunch, GeneratedProgram
from polyloop.errors import ArgumentError, CompilerError, Diagnostic
from polyloop.runtime.arguments import Binding
from polyloop.runtime.gpuarrays import DeviceMemory, HostMirror, current_handle, current_stream
from polyloop.runtime.packed import Free, PackedCall
from polyloop.runtime.rawdriver import raw_driver as _raw
from polyloop.runtime.resources import KernelImage, read_cubin
from polyloop.runtime.steps import Step
from polyloop.runtime.tensormaps import driver_map
from polyloop.runtime.views import ArrayKind, ArrayView, call_error

__all__ = ["GpuModule", "StreamHandle", "device_architecture", "gpu_available", "on_device", "resolve_stream"]

_DEFAULT_SHARED_LIMIT: Final = 48 * 1024


@functools.lru_cache(maxsize=1)
def _driver() -> Any:
    """Return ``pycuda.driver``, initialised, or raise ImportError or its error."""
    driver = importlib.import_module("pycuda.driver")
    driver.init()
    return driver


@functools.lru_cache(maxsize=1)
def gpu_available() -> tuple[bool, str]:
    """Return whether CUDA kernels can run here, and if not, why."""
    try:
        driver = importlib.import_module("pycuda.driver")
    except ImportError as err:
        if "libcuda" in str(err):
            return False, f"the NVIDIA driver is not installed ({err})"
        return False, f'PyCUDA is not installed: pip install "polyloop[cuda]" ({err})'
    try:
        driver.init()
        count = int(driver.Device.count())
    except driver.Error as err:
        return False, f"the NVIDIA driver does not start ({err})"
    return (True, "") if count else (False, "the NVIDIA driver sees no GPU")


def _require_gpu(kernel: str) -> Any:
    available, reason = gpu_available()
    if not available:
        raise CompilerError("call", kernel, [Diagnostic(
            "no-gpu", "a CUDA kernel was called, and there is no usable GPU", (reason,),
            ("compile for the C target to run on the CPU; .source, .ptx, .cubin and .resources work without a GPU",))])
    return _driver()


def device_architecture(ordinal: int = 0) -> str | None:
    """Return ``sm_90`` or the like for a GPU of this machine; None where there is none."""
    if not gpu_available()[0]:
        return None
    major, minor = _driver().Device(ordinal).compute_capability()
    return f"sm_{major}{minor}"


# {{{ contexts

_primary: Final[dict[int, Any]] = {}


def _primary_context(driver: Any, ordinal: int) -> Any:
    context = _primary.get(ordinal)
    if context is None:
        if not _primary:
            atexit.register(_release)
        context = _primary[ordinal] = driver.Device(ordinal).retain_primary_context()
    return context


@contextlib.contextmanager
def _active_context(kernel: str, views: list[ArrayView]) -> Iterator[Any]:
    """Make the CUDA context of the arrays current, and restore the previous one at exit."""
    driver = _require_gpu(kernel)
    current = driver.Context.get_current()
    kinds = {view.kind for view in views}
    shared = kinds & {ArrayKind.TORCH, ArrayKind.CUPY, ArrayKind.CUDA, ArrayKind.JAX_CUDA}
    if current is not None and not shared:
        yield current
        return
    ordinal = max((view.device for view in views), default=-1)
    if ordinal < 0:
        ordinal = 0 if current is None else _ordinal(driver, current)
    primary = _primary_context(driver, ordinal)
    if current is not None and current == primary:
        yield current
        return
    if current is not None and ArrayKind.PYCUDA in kinds:
        raise call_error(kernel, Diagnostic(
            "wrong-device", "PyCUDA arrays of a context of their own are mixed with arrays of other libraries",
            ("Torch and CuPy use the primary context of the device",),
            ("import pycuda.autoprimaryctx instead of pycuda.autoinit",)))
    primary.push()
    try:
        yield primary
    finally:
        driver.Context.pop()


def _ordinal(driver: Any, context: Any) -> int:
    """Return the number of the current context's device."""
    device = context.get_device()
    return next(k for k in range(driver.Device.count()) if driver.Device(k) == device)


def _release() -> None:
    """Unload modules and give back the primary contexts while the driver still lives."""
    for module in tuple(_modules):
        module.unload()
    while _primary:
        _, context = _primary.popitem()
        context.detach()

# }}}


# {{{ streams


@dataclass(frozen=True, slots=True)
class StreamHandle:
    """A stream: the driver's handle (0: default), and PyCUDA's object if there is one."""

    handle: int
    pycuda: Any = None


def resolve_stream(kernel: str, stream: object) -> StreamHandle:
    """Return the stream that *stream* means.

    Parameters
    ----------
    stream
        None, a handle, a PyCUDA, Torch or CuPy stream, or an object with ``__cuda_stream__``.

    Raises
    ------
    ArgumentError
        ``wrong-type``.
    """
    match stream:
        case None:
            return StreamHandle(0)
        case bool():
            pass
        case int() | np.integer():
            return StreamHandle(int(stream))
        case _:
            if type(stream).__module__.startswith("pycuda"):
                return StreamHandle(int(getattr(stream, "handle", 0)), stream)
            if callable(protocol := getattr(stream, "__cuda_stream__", None)):
                return StreamHandle(int(protocol()[1]))
            for attribute in ("cuda_stream", "ptr"):
                if isinstance(handle := getattr(stream, attribute, None), int):
                    return StreamHandle(handle)
    raise call_error(kernel, Diagnostic(
        "wrong-type", f"'stream' is not a CUDA stream but {type(stream).__name__} {stream!r}"[:120], (),
        ("pass a PyCUDA, Torch or CuPy stream, or its handle as an integer",)))

# }}}


# {{{ modules and launches


@contextlib.contextmanager
def _workspace(binding: Binding, stream: StreamHandle) -> Iterator[dict[str, int]]:
    """Allocate the workspace of a call by name, in the order of *stream*.

    Allocation and release take their turn on the stream (CUDA Driver API, "Stream Ordered Memory Allocator"), so that
    nothing waits and calls on other streams have memory of their own.
    """
    pointers: dict[str, int] = {}
    handle = ctypes.c_void_p(stream.handle)
    try:
        for array in binding.workspace:
            pointer, size = ctypes.c_uint64(), ctypes.c_size_t(max(1, array.nbytes))
            _raw().call("cuMemAllocAsync", ctypes.byref(pointer), size, handle)
            pointers[array.name] = pointer.value
            if binding.poisoned:
                _raw().call("cuMemsetD8Async", pointer, ctypes.c_ubyte(0xFF), size, handle)
        yield pointers
    finally:
        for address in pointers.values():
            _raw().call("cuMemFreeAsync", ctypes.c_uint64(address), handle)


@dataclass
class _Loaded:
    """The cubin in one context; the second copy serves streams of other libraries."""

    context: Any
    module: Any
    functions: dict[str, Any]
    raw_module: ctypes.c_void_p | None = None
    raw_functions: dict[str, ctypes.c_void_p] | None = None


@contextlib.contextmanager
def on_device(
    kernel: str, arrays: Mapping[str, np.ndarray[Any, Any]]
) -> Iterator[tuple[dict[str, Any], Callable[[], None]]]:
    """Give copies of NumPy arrays in the memory of the GPU, of the same layout, and a function that waits for the GPU.

    They are PyCUDA's, on the primary context or the one that is current, which stays so inside the ``with`` block.
    """
    with _active_context(kernel, []):
        driver, memory, copies = _driver(), DeviceMemory(), dict[str, Any]()
        for name, array in arrays.items():
            view = memory.view(kernel, name, array)
            begin, end = view.byte_range()
            copy = memory.allocate(kernel, ArrayKind.PYCUDA, -1, dtype=view.dtype, shape=view.shape,
                                   strides=view.strides, poison=False)
            if end > begin:
                raw = memoryview((ctypes.c_char * (end - begin)).from_address(begin))
                driver.memcpy_htod(copy.owner.gpudata, np.frombuffer(raw, np.uint8))
            copies[name] = copy.owner
        yield copies, driver.Context.synchronize


def _other_context(kernel: str, message: str) -> ArgumentError:
    hint = "use a stream of the context that the arrays belong to, and bind the arguments again in another one"
    return call_error(kernel, Diagnostic("wrong-device", message, (), (hint,)))


class GpuModule:
    """A cubin and the launches of its program, loaded once into each context that calls it."""

    def __init__(self, program: GeneratedProgram, cubin: bytes) -> None:
        self.program = program
        self.cubin = cubin
        self.images: dict[str, KernelImage] = read_cubin(cubin)
        self._dynamic = {k.name: k.dynamic_shared_bytes for k in program.launches}
        self._loaded: list[_Loaded] = []
        _modules.add(self)

    def launch(self, binding: Binding, stream: object) -> None:
        """Run all launches of *binding* in order, on one stream."""
        kernel = self.program.kernel
        views = list(binding.views.values())
        with _active_context(kernel, views) as context:
            chosen = resolve_stream(kernel, current_stream(views) if stream is None else stream)
            mirrors = {name: HostMirror(_driver(), view, fill=binding.poisoned or name not in binding.fresh)
                       for name, view in binding.views.items() if view.kind is ArrayKind.NUMPY}
            try:
                self._await_producers(views, chosen)
                pointers = {name: binding.address(name, mirrors[name].pointer if name in mirrors else view.pointer)
                            for name, view in binding.views.items()}
                loaded = self._load(context)
                with _workspace(binding, chosen) as own:
                    everything, known = {**pointers, **own}, dict[str, bytes]()
                    for step in binding.launches:
                        parameters = self.parameters(step, everything, binding, known)
                        self._launch_one(loaded, step.launch, step.grid, parameters, chosen)
                if mirrors or any(view.kind.is_jax for view in views):  # JAX has streams of its own
                    self._copy_back(mirrors, binding, chosen)
            finally:
                for mirror in mirrors.values():
                    mirror.free()

    def parameters(
        self, step: Step, pointers: dict[str, int], binding: Binding, known: dict[str, bytes]
    ) -> bytes:
        """Return the parameter buffer of one launch; *known* keeps those of functions for the next iterations."""
        launch, layout = step.launch, self.images[step.launch.name].parameters
        if launch.name not in known:
            known[launch.name] = self.pack(step, pointers, binding)
        found = known[launch.name]
        inames = [name for name in launch.arguments if name in step.inames]
        if not inames:
            return found
        buffer = bytearray(found)
        for name in inames:
            offset, size = layout[launch.arguments.index(name)]
            buffer[offset : offset + size] = binding.scalar(name, step).tobytes()
        return bytes(buffer)

    def pack(self, step: Step, pointers: dict[str, int], binding: Binding) -> bytes:
        """Return the parameter buffer of one launch, laid out as the cubin says."""
        launch = step.launch
        layout = self.images[launch.name].parameters
        assert len(layout) == len(launch.arguments), f"'{launch.name}' has {len(layout)} parameters in its cubin"
        buffer = bytearray(max((offset + size for offset, size in layout), default=0))
        maps = {described.name: described for described in launch.maps}
        for name, (offset, size) in zip(launch.arguments, layout, strict=True):
            if name in maps:
                data = driver_map(maps[name], binding, pointers[maps[name].array])
            else:
                data = np.uint64(pointers[name]).tobytes() if name in pointers else binding.scalar(name, step).tobytes()
            assert len(data) == size, f"'{name}' has {len(data)} bytes, and its parameter {size}"
            buffer[offset:offset + size] = data
        return bytes(buffer)

    def _load(self, context: Any) -> _Loaded:
        for loaded in self._loaded:
            if loaded.context == context:
                return loaded
        driver = _driver()
        module = driver.module_from_buffer(self.cubin)
        functions = {launch.name: module.get_function(launch.name) for launch in self.program.launches}
        for name, function in functions.items():
            if self._dynamic[name] + self.images[name].shared_bytes > _DEFAULT_SHARED_LIMIT:
                function.set_attribute(driver.function_attribute.MAX_DYNAMIC_SHARED_SIZE_BYTES, self._dynamic[name])
        self._loaded.append(_Loaded(context, module, functions))
        return self._loaded[-1]

    def _launch_one(self, loaded: _Loaded, launch: DeviceLaunch, grid: tuple[int, int, int], parameters: bytes,
                    stream: StreamHandle) -> None:
        shared = self._dynamic[launch.name]
        if stream.handle == 0 or stream.pycuda is not None:
            # what Function.prepared_async_call does once it has packed its arguments
            launch_kernel = loaded.functions[launch.name]._launch_kernel  # noqa: SLF001
            launch_kernel(grid, launch.block, parameters, shared, stream.pycuda)
            return
        function = self._raw_functions(loaded)[launch.name]
        launch_it = _raw().prepared(function, grid, launch.block, shared=shared, parameters=parameters)(stream.handle)
        if not _raw().done(launch_it() or 0):
            raise _other_context(self.program.kernel, "the stream is of another CUDA context than the arrays")

    def _raw_functions(self, loaded: _Loaded) -> dict[str, ctypes.c_void_p]:
        """Return the driver's own handles, which PyCUDA does not give, of a copy loaded for them."""
        if loaded.raw_functions is None:
            loaded.raw_module, loaded.raw_functions = _raw().load(self.cubin, list(loaded.functions))
            for name, function in loaded.raw_functions.items():
                if self._dynamic[name] + self.images[name].shared_bytes > _DEFAULT_SHARED_LIMIT:
                    _raw().allow_shared(function, self._dynamic[name])
        return loaded.raw_functions

    def packed(
        self, binding: Binding, workspace: Mapping[str, int] | None = None, *, free: Sequence[Free] = (),
        kinds: Mapping[str, type[Any]] | None = None,
    ) -> PackedCall:  # fmt: skip
        """Return the launches of *binding*, for repeated use; all of its arrays are in the GPU's memory.

        Each launch takes the values of the *free* numbers, which are of the *kinds* of ctypes.
        """
        views = list(binding.views.values())
        with _active_context(self.program.kernel, views) as context:
            functions = self._raw_functions(self._load(context))
            pointers = {name: binding.address(name, view.pointer) for name, view in binding.views.items()}
            pointers |= workspace or {}
            known = dict[str, bytes]()
            launches = [
                _raw().prepared(functions[step.launch.name], step.grid, step.launch.block,
                                shared=self._dynamic[step.launch.name],
                                parameters=self.parameters(step, pointers, binding, known),
                                cells=self._cells(step.launch, free, kinds or {}))
                for step in binding.launches]
            return PackedCall(launches, current_handle(views), _raw().done, free)

    def _cells(
        self, launch: DeviceLaunch, free: Sequence[Free], kinds: Mapping[str, type[Any]]
    ) -> list[tuple[int, type[Any]] | None]:
        """Return, for each free number, its offset in the parameter buffer and its type; None if it is not passed."""
        places = dict(zip(launch.arguments, self.images[launch.name].parameters, strict=True))
        found: list[tuple[int, type[Any]] | None] = []
        for number in free:
            place = places.get(number.name)
            if place is not None:
                assert ctypes.sizeof(kinds[number.name]) == place[1], f"'{number.name}' has a parameter of another size"
            found.append(None if place is None else (place[0], kinds[number.name]))
        return found

    def run_elsewhere(self, packed: PackedCall, binding: Binding, stream: int | None) -> None:
        """Run *packed* in a thread where the context of its arrays is not current."""
        kernel = self.program.kernel
        with _active_context(kernel, list(binding.views.values())):
            if not packed.run(stream):
                raise _other_context(kernel, "a bound call is repeated in another CUDA context than it was made in")

    def kept_workspace(self, binding: Binding) -> dict[str, Any]:
        """Allocate the workspace of *binding*; it is freed with the object returned."""
        with _active_context(self.program.kernel, list(binding.views.values())):
            return {array.name: _driver().mem_alloc(max(1, array.nbytes)) for array in binding.workspace}

    def _await_producers(self, views: list[ArrayView], stream: StreamHandle) -> None:
        for handle in sorted({view.stream for view in views if view.stream is not None}):
            if handle != stream.handle and {handle, stream.handle} != {0, 1}:  # 0 and 1: the default stream
                _raw().order(handle, stream.handle)

    def _copy_back(self, mirrors: dict[str, HostMirror], binding: Binding, stream: StreamHandle) -> None:
        if stream.pycuda is not None:
            stream.pycuda.synchronize()
        elif stream.handle or not mirrors:
            _raw().synchronize(stream.handle)
        written = {a.name for a in self.program.arguments if getattr(a, "is_output", False)}
        for name in written & mirrors.keys():
            mirrors[name].copy_back()

    def unload(self) -> None:
        """Forget the loaded copies; the context they are in must still exist."""
        for loaded in self._loaded:
            loaded.functions.clear()
            loaded.module = None
            if loaded.raw_module is not None and loaded.context in _primary.values():
                loaded.context.push()
                try:
                    _raw().call("cuModuleUnload", loaded.raw_module)
                finally:
                    _driver().Context.pop()
        self._loaded.clear()


_modules: weakref.WeakSet[GpuModule] = weakref.WeakSet()

# }}}
