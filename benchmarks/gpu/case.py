"""What one measurement needs: a kernel, its arguments, and what it must give."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np

import polyloop as pl

__all__ = ["GIB", "Arrays", "Case", "F", "sampled", "wide"]

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
    rtol
        Largest error relative to the largest value.
    min_blocks
        Blocks that a multiprocessor is to have room for; 0 leaves it to the compiler.
    """

    name: str
    build: Callable[[], pl.LoopKernel]
    sizes: tuple[Mapping[str, int], ...]
    small: Mapping[str, int]
    inputs: Callable[[Mapping[str, int], np.random.Generator], dict[str, Any]]
    expected: Callable[[Arrays], dict[str, tuple[Any, np.ndarray[Any, Any]]]]
    moved: Callable[[Mapping[str, int]], int]
    operations: Callable[[Mapping[str, int]], int] = lambda _: 0
    rtol: float = 1e-5
    min_blocks: int = 0


def wide(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return *values* in float64."""
    return values.astype(np.float64)


def sampled(length: int, count: int = 4096) -> np.ndarray[Any, Any]:
    """Return indices of both ends and of some places between."""
    if length <= 2 * count:
        return np.arange(length)
    middle = np.random.default_rng(1).integers(count, length - count, count)
    return np.concatenate([np.arange(count), middle, np.arange(length - count, length)])
