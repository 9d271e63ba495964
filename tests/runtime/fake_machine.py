"""A machine whose GPU runs functions on fibres."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import polyloop as pl
from polyloop.kernel.kernel import LoopKernel
from polyloop.runtime import gpu
from polyloop.runtime.backends import CudaBackend
from polyloop.runtime.cuda.choice import cuda_library
from polyloop.runtime.cuda.cooperative import CooperativeModule
from polyloop.runtime.gpu import GpuModule, gpu_available
from polyloop.runtime.invoke import CompiledKernel
from tests.runtime.fake_cuda import FakeCuda, fibre_kernels, raw_driver
from tests.runtime.fake_pycuda import FakeDriver, GPUArray

__all__ = ["FakePycuda", "Machine", "got", "machine_of", "module"]


class FakePycuda:
    """PyCUDA is *driver*."""

    def __init__(self, driver: FakeDriver) -> None:
        self._patch, self._driver = pytest.MonkeyPatch(), driver

    def __enter__(self) -> None:
        arrays = ModuleType("pycuda.gpuarray")
        arrays.GPUArray = GPUArray  # type: ignore[attr-defined]  # a module made here
        modules = (("pycuda", ModuleType("pycuda")), ("pycuda.driver", self._driver), ("pycuda.gpuarray", arrays))
        for name, module in modules:
            self._patch.setitem(sys.modules, name, module)
        cuda_library.cache_clear()

    def __exit__(self, *_: object) -> None:
        self._patch.undo()
        cuda_library.cache_clear()


class Machine:
    """A GPU whose functions run on fibres."""

    def __init__(self) -> None:
        self.driver = FakeDriver({})
        self.cuda = FakeCuda(self.driver, self.driver.kernels)
        self.raw = raw_driver(self.cuda)

    def compile(self, kernel: LoopKernel, launches: str | None = None) -> CompiledKernel:
        run = pl.compile(kernel, target=pl.CudaTarget(), launches=launches)
        found, program = module(run), run.program
        if isinstance(found, CooperativeModule):
            program = replace(program, launches=(found.together,))
            self.cuda.layouts = {name: image.parameters for name, image in found.images.items()}
        self.driver.kernels.update(fibre_kernels(program, found.images))
        return run

    def array(self, values: np.ndarray[Any, Any]) -> GPUArray:
        memory = self.driver.mem_alloc(values.nbytes)
        self.driver.memcpy_htod(memory, values)
        return GPUArray(values.shape, values.dtype, memory, values.strides)

    def arrays(self, given: dict[str, Any]) -> dict[str, Any]:
        return {x: self.array(v) if isinstance(v, np.ndarray) else v for x, v in given.items()}

    @property
    def started(self) -> list[str]:
        """How launches were started through ctypes, and which graphs were made, in order."""
        return [entry[0] for entry in self.cuda.log if entry[0] in ("graph", "instantiate", "launch")]


@contextmanager
def machine_of(patch: pytest.MonkeyPatch) -> Iterator[Machine]:
    """Give a machine in the place of this one's."""
    found = Machine()
    patch.setattr(gpu, "_primary", {})
    patch.setattr(gpu, "_raw", lambda: found.raw)
    patch.setattr("atexit.register", lambda _: None)
    with FakePycuda(found.driver):
        gpu_available.cache_clear()
        yield found
    gpu_available.cache_clear()


def got(result: Any) -> dict[str, Any]:
    """Return the outputs of a call as NumPy arrays."""
    return {name: value.get() if isinstance(value, GPUArray) else value for name, value in dict(result).items()}


def module(run: CompiledKernel) -> GpuModule:
    """Return the module of a kernel for CUDA."""
    backend = run._small
    assert isinstance(backend, CudaBackend)
    return backend._module
