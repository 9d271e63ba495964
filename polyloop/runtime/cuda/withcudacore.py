"""The CUDA driver through NVIDIA's ``cuda.core``, and ``cuda.bindings`` where that has nothing for it.

``cuda.core`` knows devices.  Contexts that are made current for a call only, and memory that is not of a pool, it does
not: for these the functions of ``cuda.bindings.driver`` are called (CUDA Driver API, "Context Management", "Primary
Context Management", "Memory Management").  Both are wheels that need a driver and no toolkit.
"""
# ruff: noqa: ANN401  # the libraries have no types

from __future__ import annotations

import importlib
import os
import weakref
from typing import Any

import numpy as np

from polyloop.errors import CompilerError, Diagnostic
from polyloop.runtime.cuda.library import CudaLibrary, NoDriverError
from polyloop.runtime.foreign.lending import Lent
from polyloop.runtime.foreign.view import ArrayKind

__all__ = ["CudaCoreLibrary", "DeviceAllocation", "DeviceArray"]


class CudaCoreLibrary(CudaLibrary):
    """``cuda.core``, initialised.

    Raises
    ------
    ModuleNotFoundError
        It is not installed.
    NoDriverError
        The driver is not installed, or does not start.
    """

    name = "cuda.core"
    arrays = ArrayKind.OWN

    def __init__(self) -> None:
        self._core = importlib.import_module("cuda.core")
        self._driver = importlib.import_module("cuda.bindings.driver")
        self.process, self.errors = os.getpid(), (CompilerError,)
        self.released = set[int]()
        try:
            self.call("cuInit", 0)
        except RuntimeError as error:  # of cuda.pathfinder
            raise NoDriverError(f"the NVIDIA driver is not installed ({error})") from None
        except CompilerError as error:
            raise NoDriverError(f"the NVIDIA driver does not start ({error.found[0].message})") from None

    def call(self, name: str, *arguments: Any) -> Any:
        """Call a function of the driver; return what it gives, a tuple where that is not one value.

        Raises
        ------
        CompilerError
            ``driver-failed``.
        """
        status, *found = getattr(self._driver, name)(*arguments)
        if int(status):
            _, text = self._driver.cuGetErrorString(status)
            raise self.failure(f"{name} failed: {(text or b'unknown error').decode()}")
        return found[0] if len(found) == 1 else tuple(found)

    def device_count(self) -> int:
        return int(self.call("cuDeviceGetCount"))  # Device.get_all_devices needs NVML for it

    def capability(self, ordinal: int) -> tuple[int, int]:
        major, minor = self._core.Device(ordinal).compute_capability
        return int(major), int(minor)

    def device_name(self, ordinal: int) -> str:
        return str(self._core.Device(ordinal).name)

    def driver_version(self) -> int:
        return int(self.call("cuDriverGetVersion"))

    def current(self) -> Any | None:
        context = self.call("cuCtxGetCurrent")
        return context if int(context) else None

    def primary(self, ordinal: int) -> Any:
        return self.call("cuDevicePrimaryCtxRetain", self.call("cuDeviceGet", ordinal))

    def push(self, context: Any) -> None:
        self.call("cuCtxPushCurrent", context)

    def pop(self) -> None:
        self.call("cuCtxPopCurrent")

    def release(self, context: Any) -> None:
        self.push(context)
        device = self.call("cuCtxGetDevice")
        self.pop()
        self.call("cuDevicePrimaryCtxRelease", device)
        self.released.add(int(context))

    def ordinal(self, context: Any) -> int:
        del context
        return int(self.call("cuCtxGetDevice"))

    def wait(self) -> None:
        self.call("cuCtxSynchronize")

    def allocate(self, nbytes: int) -> DeviceAllocation:
        return DeviceAllocation(self, nbytes)

    def copy_in(self, memory: Any, host: np.ndarray[Any, Any]) -> None:
        self.call("cuMemcpyHtoD", int(memory), host.__array_interface__["data"][0], host.nbytes)

    def copy_out(self, host: np.ndarray[Any, Any], memory: Any) -> None:
        self.call("cuMemcpyDtoH", host.__array_interface__["data"][0], int(memory), host.nbytes)

    def fill(self, memory: Any, byte: int, nbytes: int) -> None:
        self.call("cuMemsetD8", int(memory), byte, nbytes)

    def array(self, memory: Any, dtype: np.dtype[Any], shape: tuple[int, ...], strides: tuple[int, ...]) -> DeviceArray:
        return DeviceArray(self, memory, dtype, shape, strides)

    def failure(self, message: str) -> Exception:
        return CompilerError("call", None, [Diagnostic("driver-failed", message)])


class DeviceAllocation:
    """Memory of a GPU, freed with this object, or by :meth:`free`; ``context`` is the one that it belongs to."""

    def __init__(self, library: CudaCoreLibrary, nbytes: int) -> None:
        self._address = int(library.call("cuMemAlloc", nbytes))
        self.context = library.current()
        self._free = weakref.finalize(self, _freed, library, self.context, self._address)
        self._free.atexit = False  # contexts are gone by then, and memory with them

    def __int__(self) -> int:
        return self._address

    def free(self) -> None:
        """Give the memory back, once."""
        self._free()


def _freed(library: CudaCoreLibrary, context: Any, address: int) -> None:
    """Free memory in the context that it belongs to; where that is gone, or another process's, the memory is."""
    if context is None or int(context) in library.released or library.process != os.getpid():
        return
    try:
        library.push(context)
    except CompilerError:
        return
    try:
        library.call("cuMemFree", address)
    finally:
        library.pop()


class DeviceArray:
    """An array in the memory of a GPU, for calls that get no arrays of another library.

    Attributes
    ----------
    gpudata
        Its memory.
    strides
        Distance between neighbours along each axis [bytes].
    """

    def __init__(self, library: CudaCoreLibrary, memory: DeviceAllocation, dtype: np.dtype[Any],
                 shape: tuple[int, ...], strides: tuple[int, ...]) -> None:
        self._library = library
        self.gpudata, self.dtype, self.shape, self.strides = memory, dtype, shape, strides

    def __repr__(self) -> str:
        return f"<DeviceArray of {self.dtype}, shape {self.shape}>"

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        # version 2: a kernel of another library that reads it waits for nothing, as for arrays of PyCUDA
        return {"shape": self.shape, "strides": self.strides, "typestr": self.dtype.str,
                "data": (int(self.gpudata), False), "version": 2}

    def __dlpack_device__(self) -> tuple[int, int]:
        return Lent(self).__dlpack_device__()

    def __dlpack__(self, **how: Any) -> Any:
        return Lent(self).__dlpack__(**how)

    def get(self) -> np.ndarray[Any, Any]:
        """Return a copy in the memory of the host, once the work on the default stream is done."""
        last = sum((extent - 1) * step for extent, step in zip(self.shape, self.strides, strict=True))
        raw = np.empty(0 if 0 in self.shape else last + self.dtype.itemsize, np.uint8)
        if raw.nbytes:
            self._library.push(self.gpudata.context)
            try:
                self._library.copy_out(raw, self.gpudata)
            finally:
                self._library.pop()
        return np.ndarray(self.shape, self.dtype, raw, 0, self.strides).copy()
