"""What one measurement needs: a kernel, its arguments, and what it must give."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np

import polyloop as pl
from polyloop.target.base import Target

__all__ = ["GIB", "Arrays", "Case", "F", "Random", "sampled", "wide"]

Arrays: TypeAlias = Mapping[str, Any]
F: Final = np.float32
GIB: Final = 2**30


@dataclass(frozen=True)
class Case:
    """One kernel at some sizes.

    Attributes
    ----------
    build
        Returns the transformed kernel.
    sizes
        The parameters of each run.
    small
        Parameters for a run on any machine, which is not timed.
    inputs
        ``inputs(sizes, rng)`` returns arrays and numbers.
    expected
        ``expected(inputs)`` returns output name -> (index, values): what the outputs have there, in float64.
    moved
        Least traffic with device memory [bytes].
    operations
        Floating-point operations; 0 where memory is the limit.
    unit
        What does the operations, as :meth:`polyloop.kernel.devices.Device.rate` calls it.
    rtol
        Largest error relative to the largest value.
    min_blocks, full_blocks
        Blocks that a multiprocessor is to have room for, 0 leaves it to the compiler; whether full blocks have a text
        of their own.
    arch
        Architecture whose instructions the kernel has.
    """

    name: str
    build: Callable[[], pl.LoopKernel]
    sizes: tuple[Mapping[str, int], ...]
    small: Mapping[str, int]
    inputs: Callable[[Mapping[str, int], np.random.Generator], dict[str, Any]]
    expected: Callable[[Arrays], dict[str, tuple[Any, np.ndarray[Any, Any]]]]
    moved: Callable[[Mapping[str, int]], int]
    operations: Callable[[Mapping[str, int]], int] = lambda _: 0
    unit: str = "float32"
    rtol: float = 1e-5
    min_blocks: int = 0
    full_blocks: bool = True
    arch: str = "sm_90"

    @property
    def target(self) -> Target:
        """What it is compiled for."""
        return pl.CudaTarget(self.arch, min_blocks=self.min_blocks, full_blocks=self.full_blocks)


def wide(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return *values* in float64."""
    return values.astype(np.float64)


def sampled(length: int, count: int = 4096) -> np.ndarray[Any, Any]:
    """Return indices of both ends and of some places between."""
    if length <= 2 * count:
        return np.arange(length)
    middle = np.random.default_rng(1).integers(count, length - count, count)
    return np.concatenate([np.arange(count), middle, np.arange(length - count, length)])


_SERIAL: Final = 2**20  # elements that one thread draws about as fast


class Random(np.random.Generator):
    """A generator that draws large arrays with all processors."""

    def random(self, size: Any = None, dtype: Any = np.float64, out: Any = None) -> Any:  # noqa: ANN401
        """Draw from [0, 1)."""
        if out is not None or size is None or np.prod(size) < _SERIAL:
            return super().random(size, dtype, out)
        return self._drawn(size, dtype, lambda child, part: child.random(dtype=dtype, out=part))

    def standard_normal(self, size: Any = None, dtype: Any = np.float64, out: Any = None) -> Any:  # noqa: ANN401
        """Draw from the normal distribution."""
        if out is not None or size is None or np.prod(size) < _SERIAL:
            return super().standard_normal(size, dtype, out)
        return self._drawn(size, dtype, lambda child, part: child.standard_normal(dtype=dtype, out=part))

    def _drawn(self, size: Any, dtype: Any, fill: Callable[[np.random.Generator, Any], object]) -> Any:  # noqa: ANN401
        found = np.empty(size, dtype)
        count = os.cpu_count() or 1
        parts = np.array_split(found.reshape(-1), count)
        children = [np.random.Generator(bits) for bits in self.bit_generator.spawn(count)]
        with ThreadPoolExecutor(count) as pool:
            list(pool.map(fill, children, parts))
        return found
