"""Functions of the CUDA driver, called directly; the first call of a bundle waits for what this module imports."""

from __future__ import annotations

import ctypes
import functools
import threading
from collections.abc import Callable, Sequence
from typing import Any, Final

from polyloop.errors import CompilerError, Diagnostic
from polyloop.runtime.packed import Launch, storing

__all__ = ["DriverFunctions"]


_NOT_CURRENT: Final = frozenset({201, 400})  # CUDA_ERROR_INVALID_CONTEXT, CUDA_ERROR_INVALID_HANDLE


class _LaunchConfig(ctypes.Structure):
    """``CUlaunchConfig``: grid, block, dynamic shared memory [bytes], stream, attributes and their number."""

    _fields_ = (
        *((f"{what}_{axis}", ctypes.c_uint) for what in ("grid", "block") for axis in "xyz"),
        ("shared", ctypes.c_uint), ("stream", ctypes.c_void_p), ("attributes", ctypes.c_void_p),
        ("attribute_count", ctypes.c_uint),
    )


class DriverFunctions:
    """Functions of the driver, called through ctypes; its errors are the package's."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL("nvcuda.dll" if hasattr(ctypes, "WinDLL") else "libcuda.so.1")

    def call(self, name: str, *arguments: object) -> None:
        """Call a driver function and raise the library's error if it fails."""
        self.check(name, int(getattr(self._library, name)(*arguments)))

    def check(self, name: str, status: int) -> None:
        """Raise the library's error if a driver function failed with *status*."""
        if status != 0:
            raise self._error(name, status)

    def has(self, name: str) -> bool:
        """Return whether the driver has a function."""
        return hasattr(self._library, name)

    def function(self, name: str) -> Callable[..., int]:
        """Return a driver function, which returns its status."""
        found: Callable[..., int] = getattr(self._library, name)
        return found

    def current_context(self) -> int:
        """Return the handle of the current context, 0 if there is none."""
        found = ctypes.c_void_p()
        self.call("cuCtxGetCurrent", ctypes.byref(found))
        return found.value or 0

    def is_here(self, stream: int) -> bool:
        """Return whether *stream* is of the current context."""
        found = ctypes.c_void_p()
        failed = int(self._library.cuStreamGetCtx(ctypes.c_void_p(stream), ctypes.byref(found)))
        return not failed and (found.value or 0) == self.current_context()

    def is_captured(self, stream: int) -> bool:
        """Return whether work on *stream* is recorded and not run; or neither, as on the default stream meanwhile."""
        status = ctypes.c_int()
        failed = int(self._library.cuStreamIsCapturing(ctypes.c_void_p(stream or None), ctypes.byref(status)))
        return bool(failed or status.value)

    def _error(self, name: str, status: int) -> Exception:
        return CompilerError("call", None, [Diagnostic("driver-failed", f"{name} failed: {self.text_of(status)}")])

    def text_of(self, status: int) -> str:
        """Return the driver's description of an error."""
        text = ctypes.c_char_p()
        self._library.cuGetErrorString(status, ctypes.byref(text))
        return (text.value or b"unknown error").decode()

    def event(self) -> ctypes.c_void_p:
        """Return a new event, which takes times."""
        event = ctypes.c_void_p()
        self.call("cuEventCreate", ctypes.byref(event), ctypes.c_uint(0))
        return event

    def elapsed(self, begin: ctypes.c_void_p, end: ctypes.c_void_p) -> float:
        """Wait for *end*, and return the time between two events [s]."""
        found = ctypes.c_float()
        self.call("cuEventSynchronize", end)
        self.call("cuEventElapsedTime", ctypes.byref(found), begin, end)
        return found.value / 1e3

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

    def prepared(
        self, function: ctypes.c_void_p, grid: tuple[int, int, int], block: tuple[int, int, int],
        *, shared: int, parameters: bytes, cells: Sequence[tuple[int, type[Any]] | None] = (),
    ) -> Callable[[int], Launch]:  # fmt: skip
        """Return a function from a stream to a launch with packed *parameters*, which is a function without arguments.

        It returns the driver's status, which :meth:`done` reads.  With *cells* it takes values, each of which is stored
        in *parameters* first: at an offset [bytes], as a type of ctypes; None for a value that is not used.

        Everything that the driver is passed is made once for each stream; ``cuLaunchKernelEx`` takes few arguments, of
        which each one costs (measured: 3.5 us a launch, and 4.2 us by ``cuLaunchKernel``).
        """
        buffer = ctypes.create_string_buffer(parameters, max(1, len(parameters)))
        size = ctypes.c_size_t(len(parameters))
        extra = (ctypes.c_void_p * 5)(1, ctypes.addressof(buffer), 2, ctypes.addressof(size), None)
        driver, kept = self._library.cuLaunchKernelEx, (buffer, size)
        handle = ctypes.c_void_p.from_param(function.value or 0)

        lock = threading.Lock()
        stored = [() if cell is None else (cell[1].from_buffer(buffer, cell[0]),) for cell in cells]

        def on(stream: int) -> Launch:
            config = _LaunchConfig(*grid, *block, shared, stream or None, None, 0)
            found = functools.partial(driver, ctypes.byref(config), handle, None, ctypes.byref(extra))
            found.__dict__["kept"] = kept  # the driver reads what extra points at
            return storing(found, stored, lock) if cells else found

        return on

    def done(self, status: int, name: str = "cuLaunchKernelEx") -> bool:
        """Return whether something was launched by *name*; it was not where another context is current.

        The library's error is raised for any other *status* of failure.
        """
        if not status:
            return True
        if status in _NOT_CURRENT:
            return False
        raise self._error(name, status)

    def attribute(self, function: ctypes.c_void_p, number: int) -> int:
        """Return an attribute of a function: CUDA Driver API, ``CUfunction_attribute``."""
        found = ctypes.c_int()
        self.call("cuFuncGetAttribute", ctypes.byref(found), ctypes.c_int(number), function)
        return found.value

    def allow_shared(self, function: ctypes.c_void_p, size: int) -> None:
        """Allow *size* bytes of dynamic shared memory."""
        max_dynamic_shared_size_bytes = 8
        self.call("cuFuncSetAttribute", function, ctypes.c_int(max_dynamic_shared_size_bytes), ctypes.c_int(size))
