"""The driver's functions that PyCUDA has no way to, called directly."""

from __future__ import annotations

import ctypes
import functools
import importlib
from collections.abc import Callable

__all__ = ["RawDriver", "raw_driver"]


class RawDriver:
    """The few driver functions that take streams of other libraries, or that must cost little."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL("nvcuda.dll" if hasattr(ctypes, "WinDLL") else "libcuda.so.1")

    def call(self, name: str, *arguments: object) -> None:
        """Call a driver function and raise PyCUDA's error if it fails."""
        status = int(getattr(self._library, name)(*arguments))
        if status != 0:
            raise self._error(name, status)

    def _error(self, name: str, status: int) -> Exception:
        text = ctypes.c_char_p()
        self._library.cuGetErrorString(status, ctypes.byref(text))
        found: Exception = importlib.import_module("pycuda.driver").LogicError(
            f"{name} failed: {(text.value or b'unknown error').decode()}")
        return found

    def current_context(self) -> int:
        """Return the handle of the context that is current in this thread, 0 if none is."""
        context = ctypes.c_void_p()
        self.call("cuCtxGetCurrent", ctypes.byref(context))
        return context.value or 0

    def synchronize(self, stream: int) -> None:
        """Wait until all work on *stream* is done."""
        self.call("cuStreamSynchronize", ctypes.c_void_p(stream))

    def order(self, before: int, after: int) -> None:
        """Make later work on stream *after* wait for the present work on stream *before*."""
        event, no_timing = ctypes.c_void_p(), 2
        self.call("cuEventCreate", ctypes.byref(event), ctypes.c_uint(no_timing))
        try:
            self.call("cuEventRecord", event, ctypes.c_void_p(before))
            self.call("cuStreamWaitEvent", ctypes.c_void_p(after), event, ctypes.c_uint(0))
        finally:
            self.call("cuEventDestroy_v2", event)

    def load(self, cubin: bytes, names: list[str]) -> tuple[ctypes.c_void_p, dict[str, ctypes.c_void_p]]:
        """Load *cubin* into the current context; return the module and its functions."""
        module = ctypes.c_void_p()
        self.call("cuModuleLoadData", ctypes.byref(module), cubin)
        functions = {}
        for name in names:
            function = ctypes.c_void_p()
            self.call("cuModuleGetFunction", ctypes.byref(function), module, name.encode())
            functions[name] = function
        return module, functions

    def prepared(self, function: ctypes.c_void_p, grid: tuple[int, int, int], block: tuple[int, int, int],
                 *, shared: int, parameters: bytes) -> Callable[[int], None]:
        """Return what launches on a stream, with packed *parameters* (CU_LAUNCH_PARAM_BUFFER_POINTER and _SIZE)."""
        buffer = ctypes.create_string_buffer(parameters, max(1, len(parameters)))
        size = ctypes.c_size_t(len(parameters))
        extra = (ctypes.c_void_p * 5)(1, ctypes.addressof(buffer), 2, ctypes.addressof(size), None)
        before = (function, *map(ctypes.c_uint, (*grid, *block)), ctypes.c_uint(shared))
        driver = self._library.cuLaunchKernel
        pointer = ctypes.c_void_p

        def launch(stream: int, _kept: object = (buffer, size)) -> None:
            status = driver(*before, pointer(stream), None, extra)
            if status:
                raise self._error("cuLaunchKernel", status)

        return launch

    def allow_shared(self, function: ctypes.c_void_p, size: int) -> None:
        """Allow *size* bytes of dynamic shared memory."""
        max_dynamic_shared_size_bytes = 8
        self.call("cuFuncSetAttribute", function, ctypes.c_int(max_dynamic_shared_size_bytes), ctypes.c_int(size))


@functools.lru_cache(maxsize=1)
def raw_driver() -> RawDriver:
    """Return the functions of the driver library of this process."""
    return RawDriver()
