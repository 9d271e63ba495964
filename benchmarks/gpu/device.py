"""A GPU to measure on: arrays, and the time that work takes there.

Everything is launched on the default stream of the primary context, which PyCUDA, PyTorch and CuPy share.  A launch
takes the host longer than some kernels take the GPU, so each measurement begins with a kernel that keeps the GPU busy
until the work is queued; what the events around the work measure is the GPU's time alone.
"""
# ruff: noqa: ANN401  # PyCUDA has no types

from __future__ import annotations

import importlib
import re
import statistics
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from polyloop.runtime.nvrtc import compile_cuda

__all__ = ["Device"]

_SPIN: Final = """
extern "C" __global__ void spin(long long cycles)
{
    const long long begin = clock64();
    while (clock64() - begin < cycles) {}
}
"""
_SPIN_CYCLES: Final = 1_000_000
_OF_OTHERS: Final = 2
"""``np.dtype.isbuiltin`` of the types that a package has registered."""
_WARM_UP: Final = 3
_REPEAT: Final = 20


def _driver_version(path: Path) -> str:
    """Return the version of the kernel module, which Linux tells."""
    found = re.search(r"\b\d{3}(\.\d+)+\b", path.read_text()) if path.exists() else None
    return found[0] if found else "unknown"


class Device:
    """The first GPU, its primary context current."""

    def __init__(self) -> None:
        self._driver: Any = importlib.import_module("pycuda.driver")
        importlib.import_module("pycuda.autoprimaryctx")
        self._arrays: Any = importlib.import_module("pycuda.gpuarray")
        device = self._driver.Context.get_device()
        major, minor = device.compute_capability()
        image = compile_cuda(_SPIN, f"sm_{major}{minor}").cubin
        self._spin = self._driver.module_from_buffer(image).get_function("spin")
        self.name = str(device.name())
        self.l2_bytes = int(device.get_attribute(self._driver.device_attribute.L2_CACHE_SIZE))
        thousands, rest = divmod(int(self._driver.get_driver_version()), 1000)
        self.cuda_version = f"{thousands}.{rest // 10}"
        self.driver_version = _driver_version(Path("/proc/driver/nvidia/version"))

    def array(self, values: np.ndarray[Any, Any]) -> Any:
        """Return a copy of *values* in the GPU's memory."""
        if values.dtype.isbuiltin == _OF_OTHERS:  # a type that NumPy's buffers do not have
            return self._arrays.to_gpu(values.view(f"u{values.itemsize}")).view(values.dtype)
        return self._arrays.to_gpu(values)

    def poisoned(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
        """Return an array of NaN, or of -1."""
        array = self._arrays.empty(shape, dtype)
        self.poison(array)
        return array

    def poison(self, array: Any) -> None:
        """Fill an array with set bits: NaN in every floating-point type."""
        self._driver.memset_d8(array.gpudata, 0xFF, array.nbytes)

    def copy(self, array: Any) -> Any:
        """Return a copy of an array in the GPU's memory."""
        found = self._arrays.empty(array.shape, array.dtype)
        self._driver.memcpy_dtod(found.gpudata, array.gpudata, array.nbytes)
        return found

    def synchronize(self) -> None:
        """Wait for all work."""
        self._driver.Context.synchronize()

    def milliseconds(self, calls: Sequence[Callable[[], object]]) -> float:
        """Return the median time of one call; they are taken in turn, so that their data is not in the cache."""
        return self.in_turn([calls])[0]

    def in_turn(
        self, rivals: Sequence[Sequence[Callable[[], object]]], warm_up: int = _WARM_UP, repeat: int = _REPEAT
    ) -> list[float]:
        """Return the median time of one call of each of *rivals*.

        They run in turn, so that what changes with time changes for all of them; so do the calls of each, as many for
        all, each with data of its own, which is not in the cache when its turn comes again.
        """
        for calls in rivals:
            for number in range(warm_up * len(calls)):
                calls[number % len(calls)]()
        self.synchronize()
        times: list[list[float]] = [[] for _ in rivals]
        for number in range(repeat * len(rivals)):
            calls = rivals[number % len(rivals)]
            times[number % len(rivals)].append(self._timed(calls[number % len(calls)]))
        return [statistics.median(found) for found in times]

    def _timed(self, call: Callable[[], object]) -> float:
        begin, end = self._driver.Event(), self._driver.Event()
        self._spin(np.int64(_SPIN_CYCLES), block=(1, 1, 1), grid=(1, 1))
        begin.record()
        call()
        end.record()
        end.synchronize()
        return float(end.time_since(begin))
