"""Numbers that the arrays and scalars of random kernels hold: small, wrapping, infinite, or of mixed types."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from enum import Enum
from typing import Any, Final

import numpy as np

from polyloop.expr.dtypes import DType, integer_limits

__all__ = ["INFINITE", "MIXED", "Numbers", "numbers_of", "random_numbers"]

INFINITE: Final = "infinite data"
"""Feature of sources whose arrays hold infinities, NaN and zeros of both signs."""
MIXED: Final = "mixed types"
"""Feature of sources whose arrays and scalars have several types."""
_FINITE: Final = frozenset({"collect_common_factors_on_increment", "hoist_reduction_factors"})
"""Steps that use the distributive law, which holds for finite numbers (docs/adr/0004-types.md)."""
_ROOM: Final = 16
"""Bits that sums and products of a kernel add to those of its inputs."""
_BITS: Final = {"float16": 11, "float32": 24, "float64": 53, "complex64": 24, "complex128": 53}
"""Bits of integers that a type has exactly."""
_SPECIAL: Final = (np.inf, -np.inf, np.nan, -0.0, -0.0)


class Numbers(Enum):
    """Numbers that arrays and scalars hold."""

    SMALL = "small integers"
    WRAPPING = "any that an integer type holds"
    INFINITE = "small integers, infinities, NaN and zeros of both signs"
    MIXED = "any that all types of the kernel compute with exactly"


def numbers_of(features: Collection[str], steps: Iterable[str] = ()) -> Numbers:
    """Return the numbers that suit a source with these features, transformed by these steps."""
    if INFINITE in features:
        return Numbers.INFINITE if _FINITE.isdisjoint(steps) else Numbers.SMALL
    if MIXED in features:
        return Numbers.MIXED
    wraps = any(feature.startswith("type ") for feature in features)
    return Numbers.WRAPPING if wraps else Numbers.SMALL


def random_numbers(
    dtype: DType, shape: tuple[int, ...], rng: np.random.Generator, numbers: Numbers, types: Iterable[DType]
) -> np.ndarray[Any, Any]:
    """Return numbers of *dtype* for a kernel that computes with *types*."""
    if dtype.kind == "b":
        return rng.integers(0, 2, shape).astype(dtype)
    bits = min((_BITS[kind.name] for kind in types if kind.name in _BITS), default=None)
    most = 1 if numbers is Numbers.MIXED and bits == 11 else 3
    small: np.ndarray[Any, Any] = rng.integers(0 if dtype.kind == "u" else -most, most + 1, shape)
    if dtype.kind == "c":
        return np.asarray(small + 1j * rng.integers(-most, most + 1, shape)).astype(dtype)
    if numbers is Numbers.INFINITE and dtype.kind == "f":
        return _with_special(small.astype(dtype), rng)
    if dtype.kind not in "iu" or numbers in (Numbers.SMALL, Numbers.INFINITE) or rng.random() < 0.3:
        return small
    if numbers is Numbers.MIXED and bits is not None and 8 * dtype.itemsize + _ROOM > bits:
        return small
    low, high = integer_limits(dtype)
    whole = rng.integers(low, high, shape, dtype, endpoint=True)
    if numbers is Numbers.MIXED:
        edges = np.array([low, low + 1, high, high - 1, high // 2 + 1], dtype)
        whole = np.where(rng.random(shape) < 0.5, edges[rng.integers(0, len(edges), shape)], whole)
    return np.where(rng.random(shape) < 0.5, whole, small.astype(dtype))


def _with_special(values: np.ndarray[Any, Any], rng: np.random.Generator) -> np.ndarray[Any, Any]:
    """Return *values*, some of them special: few of a few kinds, as sums of both infinities are all NaN."""
    kinds = np.array(_SPECIAL, values.dtype)[rng.permutation(len(_SPECIAL))[: rng.integers(1, 4)]]
    chance = rng.choice([0.03, 0.1, 0.3])
    return np.where(rng.random(values.shape) < chance, kinds[rng.integers(0, len(kinds), values.shape)], values)
