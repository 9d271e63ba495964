"""The CUDA driver through PyCUDA."""
# ruff: noqa: ANN401  # PyCUDA has no types

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from polyloop.runtime.cuda.library import CudaLibrary, NoDriverError
from polyloop.runtime.foreign.view import ArrayKind

__all__ = ["PycudaLibrary"]


class PycudaLibrary(CudaLibrary):
    """PyCUDA, initialised.

    Raises
    ------
    ModuleNotFoundError
        It is not installed.
    NoDriverError
        The driver is not installed, or does not start.
    """

    name = "pycuda"
    arrays = ArrayKind.PYCUDA

    def __init__(self) -> None:
        self.process = os.getpid()
        try:
            self._driver = importlib.import_module("pycuda.driver")
        except ModuleNotFoundError:
            raise
        except ImportError as error:
            raise NoDriverError(f"the NVIDIA driver is not installed ({error})") from None
        self.errors = (self._driver.Error,)
        try:
            self._driver.init()
        except self.errors as error:
            raise NoDriverError(f"the NVIDIA driver does not start ({error})") from None

    def device_count(self) -> int:
        return int(self._driver.Device.count())

    def capability(self, ordinal: int) -> tuple[int, int]:
        major, minor = self._driver.Device(ordinal).compute_capability()
        return int(major), int(minor)

    def device_name(self, ordinal: int) -> str:
        return str(self._driver.Device(ordinal).name())

    def driver_version(self) -> int:
        return int(self._driver.get_driver_version())

    def current(self) -> Any | None:
        return self._driver.Context.get_current()

    def primary(self, ordinal: int) -> Any:
        return self._driver.Device(ordinal).retain_primary_context()

    def push(self, context: Any) -> None:
        context.push()

    def pop(self) -> None:
        self._driver.Context.pop()

    def release(self, context: Any) -> None:
        context.detach()

    def ordinal(self, context: Any) -> int:
        device = context.get_device()
        return next(k for k in range(self.device_count()) if self._driver.Device(k) == device)

    def wait(self) -> None:
        self._driver.Context.synchronize()

    def allocate(self, nbytes: int) -> Any:
        return self._driver.mem_alloc(nbytes)

    def copy_in(self, memory: Any, host: np.ndarray[Any, Any]) -> None:
        self._driver.memcpy_htod(memory, host)

    def copy_out(self, host: np.ndarray[Any, Any], memory: Any) -> None:
        self._driver.memcpy_dtoh(host, memory)

    def fill(self, memory: Any, byte: int, nbytes: int) -> None:
        self._driver.memset_d8(memory, byte, nbytes)

    def array(self, memory: Any, dtype: np.dtype[Any], shape: tuple[int, ...], strides: tuple[int, ...]) -> Any:
        return importlib.import_module("pycuda.gpuarray").GPUArray(shape, dtype, gpudata=memory, strides=strides)

    def load(self, cubin: bytes, shared: Mapping[str, int]) -> tuple[Any, Mapping[str, Any]] | None:
        module = self._driver.module_from_buffer(cubin)
        functions = {name: module.get_function(name) for name in shared}
        for name, function in functions.items():
            if shared[name]:
                function.set_attribute(self._driver.function_attribute.MAX_DYNAMIC_SHARED_SIZE_BYTES, shared[name])
        return module, functions

    def start(self, function: Any, grid: tuple[int, int, int], block: tuple[int, int, int], parameters: bytes, *,
              shared: int, stream: Any) -> None:
        # what Function.prepared_async_call does once it has packed its arguments
        function._launch_kernel(grid, block, parameters, shared, stream)  # noqa: SLF001

    def failure(self, message: str) -> Exception:
        found: Exception = self._driver.LogicError(message)
        return found
