"""Enough of PyCUDA, on host memory, to follow the arguments of a launch without a GPU."""
# stands for a library without types

from __future__ import annotations

import ctypes
from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np

Kernel = Callable[[tuple[int, int, int], tuple[int, int, int], bytes], None]


class Memory:
    """A device allocation; the address is that of a host buffer."""

    def __init__(self, size: int) -> None:
        self._buffer = ctypes.create_string_buffer(max(1, size))
        self.freed = False

    def __int__(self) -> int:
        return ctypes.addressof(self._buffer)

    def free(self) -> None:
        self.freed = True


class Stream:
    """A stream of PyCUDA."""

    __module__ = "pycuda._driver"
    handle = 77

    def __init__(self) -> None:
        self.synchronized = 0

    def synchronize(self) -> None:
        self.synchronized += 1


class FakeDriver(ModuleType):
    """The module ``pycuda.driver``; ``kernels`` stand for the device code, ``log`` records calls."""

    def __init__(self, kernels: dict[str, Kernel], devices: int = 1) -> None:
        super().__init__("pycuda.driver")
        self.log: list[str] = []
        self.memory: list[Memory] = []
        self.stack: list[object] = []
        self.Error = type("Error", (Exception,), {})
        self.LogicError = type("LogicError", (self.Error,), {})
        self.function_attribute = SimpleNamespace(MAX_DYNAMIC_SHARED_SIZE_BYTES=8)
        self.Device = self._device_class(devices)
        self.Context = SimpleNamespace(get_current=lambda: self.stack[-1] if self.stack else None, pop=self._pop)
        self.kernels = kernels
        self.Stream = Stream

    def _device_class(self, devices: int) -> Any:
        driver = self

        class Context:
            def push(self) -> None:
                driver.stack.append(self)
                driver.log.append("push")

            def detach(self) -> None:
                driver.log.append("detach")

        class Device:
            def __init__(self, ordinal: int) -> None:
                self.ordinal = ordinal

            @staticmethod
            def count() -> int:
                return devices

            def compute_capability(self) -> tuple[int, int]:
                return (9, 0)

            def retain_primary_context(self) -> Context:
                driver.log.append(f"retain {self.ordinal}")
                return Context()

        return Device

    def _pop(self) -> None:
        self.stack.pop()
        self.log.append("pop")

    def init(self) -> None:
        self.log.append("init")

    def mem_alloc(self, size: int) -> Memory:
        assert self.stack, "no context is current"
        self.memory.append(Memory(size))
        return self.memory[-1]

    def memcpy_htod(self, memory: Memory, host: np.ndarray[Any, Any]) -> None:
        ctypes.memmove(int(memory), host.tobytes(), host.nbytes)

    def memcpy_dtoh(self, host: np.ndarray[Any, Any], memory: Memory) -> None:
        ctypes.memmove(host.__array_interface__["data"][0], int(memory), host.nbytes)

    def memset_d8(self, memory: Memory, value: int, size: int) -> None:
        ctypes.memset(int(memory), value, size)

    def module_from_buffer(self, cubin: bytes) -> Any:
        assert cubin.startswith(b"\x7fELF")
        self.log.append("load")
        return SimpleNamespace(get_function=self._function)

    def _function(self, name: str) -> Any:
        def launch(grid: tuple[int, int, int], block: tuple[int, int, int], parameters: bytes, shared: int,
                   stream: object) -> None:
            assert self.stack, "no context is current"
            self.log.append(f"launch {name} {grid} {block} {shared} {'default' if stream is None else 'stream'}")
            self.kernels[name](grid, block, parameters)

        def set_attribute(attribute: int, value: int) -> None:
            self.log.append(f"set {attribute} {value}")

        return SimpleNamespace(_launch_kernel=launch, set_attribute=set_attribute)


class GPUArray:
    """The class ``pycuda.gpuarray.GPUArray``."""

    __module__ = "pycuda.gpuarray"

    def __init__(self, shape: tuple[int, ...], dtype: Any, gpudata: Memory, strides: tuple[int, ...]) -> None:
        self.shape, self.dtype, self.gpudata, self.strides = shape, np.dtype(dtype), gpudata, strides

    def get(self) -> np.ndarray[Any, Any]:
        count = int(np.prod(self.shape))
        raw = (ctypes.c_char * (count * self.dtype.itemsize)).from_address(int(self.gpudata))
        return np.frombuffer(bytearray(raw), self.dtype).reshape(self.shape)


def at(address: int, count: int, dtype: Any = np.float32) -> np.ndarray[Any, Any]:
    """Return the memory at *address* as an array."""
    raw = (ctypes.c_char * (count * np.dtype(dtype).itemsize)).from_address(address)
    return np.frombuffer(memoryview(raw), dtype)
