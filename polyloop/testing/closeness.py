"""Comparison of two outputs within a tolerance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from polyloop.expr.dtypes import DType, as_real, dtype_name, is_complex, is_inexact
from polyloop.expr.records import field_dtype, leaf_fields
from polyloop.kernel.kernel import LoopKernel

__all__ = ["Difference", "Measured", "Tolerance", "default_tolerance", "measure"]


@dataclass(frozen=True)
class Tolerance:
    """Tolerance of floating-point numbers: ``relative`` to the number, or to the median of the array."""

    relative: float
    absolute: float


def default_tolerance(kernels: Sequence[LoopKernel]) -> float:
    """Return a relative tolerance for the least exact floating-point type that the kernels compute with."""
    worst = 0.0
    for kernel in kernels:
        for value in (*kernel.arguments, *kernel.temporaries.values()):
            if value.dtype is not None:
                worst = max(worst, *(_precision(_leaf(value.dtype, path)) for path in leaf_fields(value.dtype)))
    return worst


_PRECISION: Final[Mapping[str, float]] = {
    "float16": 8 * 2.0**-10,
    "bfloat16": 8 * 2.0**-7,
    "float8_e4m3fn": 8 * 2.0**-3,
    "float8_e5m2": 8 * 2.0**-2,
    "float32": 1000 * 2.0**-23,
    "float64": 1000 * 2.0**-52,
}


def _precision(dtype: DType) -> float:
    return _PRECISION[dtype_name(as_real(dtype))] if is_inexact(dtype) else 0.0


def _leaf(dtype: DType, path: tuple[str, ...]) -> DType:
    for name in path:
        dtype = field_dtype(dtype, name)
    return dtype


def _wide(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return values.astype(np.complex128 if is_complex(values.dtype) else np.float64)


@dataclass(frozen=True)
class Difference:
    """Difference of two arrays: the first differing element, their number, and whether values are rounded numbers."""

    element: str
    expected: str
    got: str
    count: int
    size: int
    is_rounded: bool


@dataclass(frozen=True)
class Measured:
    """The largest error in units of the largest number, how many are NaN in both, and the first that is too far off."""

    error: float
    not_numbers: int
    difference: Difference | None


def measure(name: str, expected: Any, got: Any, tolerance: Tolerance) -> Measured:  # noqa: ANN401
    """Compare two arrays of one type; each field of records by itself."""
    expected, got = np.asarray(expected), np.asarray(got)
    error, nans = 0.0, 0
    for path in leaf_fields(expected.dtype):
        left, right = expected, got
        for part in path:
            left, right = left[part], right[part]
        if is_inexact(left.dtype):
            same, largest, both = _close(_wide(left), _wide(right), tolerance)
            error, nans = max(error, largest), nans + both
        else:
            same = left == right
        if not same.all():
            at = tuple(int(k) for k in np.argwhere(~same)[0])
            element = ".".join((f"{name}[{', '.join(map(str, at))}]" if at else name, *path))
            count, rounded = int((~same).sum()), is_inexact(left.dtype)
            found = Difference(element, str(left[at]), str(right[at]), count, int(same.size), rounded)
            return Measured(error, nans, found)
    return Measured(error, nans, None)


def _close(
    left: np.ndarray[Any, Any], right: np.ndarray[Any, Any], tolerance: Tolerance
) -> tuple[np.ndarray[Any, Any], float, int]:
    """Return the agreeing elements of two arrays, the largest error in units of the largest number, and common NaNs.

    A difference is judged by the larger of the element and the median of the array, so that what cancels to almost
    nothing is not asked to be exact, and a few large numbers excuse nothing.
    """
    both = np.isnan(left) & np.isnan(right)
    finite = np.isfinite(left) & np.isfinite(right)
    with np.errstate(all="ignore"):
        distance = np.where(finite, np.abs(left - right), 0.0)
        size = np.where(finite, np.maximum(np.abs(left), np.abs(right)), 0.0)
    typical = float(np.median(size[finite])) if finite.any() else 0.0
    near = finite & (distance <= tolerance.absolute + tolerance.relative * np.maximum(size, typical))
    largest = float(size.max(initial=0.0))
    error = float(distance.max(initial=0.0)) / largest if largest else 0.0
    return both | near | (left == right), error, int(both.sum())
