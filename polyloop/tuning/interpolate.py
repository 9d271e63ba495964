"""Times of schedules between the sizes at which they were measured, by Gaussian processes (kriging).

What is interpolated is how much slower than the fastest one of its call a schedule is, as a logarithm, over the
logarithms of the sizes: that varies little where times vary by powers of ten.  A size counts as farther away the less
its alignment is like, since schedules differ by that: the powers of two that divide it.  Without a measurement nearby a
schedule counts as slow.

A record has the fastest schedules of a call only.  One that is missing there is slower than all of these if it is valid
at those sizes; it is, if it was measured at sizes that no greater powers of two divide.

Source: Rasmussen and Williams, Gaussian Processes for Machine Learning, MIT Press 2006, equations 2.23 and 2.25.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

import numpy as np

__all__ = ["Interpolation"]

_Array: TypeAlias = "np.ndarray[Any, np.dtype[np.float64]]"
_LENGTH: Final = 4.0
"""Distance at which the correlation is exp(-1/2), as a power of two of a size."""
_ALIGNMENT: Final = 0.3
"""Distance of two sizes of which one is divided by one more power of two than the other."""
_MOST_ALIGNED: Final = 4
"""Powers of two beyond this one tell nothing."""
_NOISE: Final = 0.1
"""Part of the variance that neighbours do not explain."""
_UNKNOWN: Final = 0.5
"""Slowdown of a schedule that was not measured nearby, as a power of two."""
_BEHIND: Final = 0.15
"""Slowdown of a schedule that a record leaves out, relative to the slowest one in it, as a power of two."""


class Interpolation:
    """Times of schedules as a function of the sizes.

    Parameters
    ----------
    measured
        Sizes of calls, in one order of their names, each with the times of its fastest schedules [s].
    """

    def __init__(self, measured: Sequence[tuple[Sequence[int], Mapping[str, float]]]) -> None:
        self._places = np.array([_place(sizes) for sizes, _ in measured])
        aligned = np.array([_alignment(sizes) for sizes, _ in measured])
        covariance = _covariance(self._places, self._places)
        self._weights: dict[str, tuple[list[int], _Array]] = {}
        for name in dict.fromkeys(name for _, seconds in measured for name in seconds):
            is_there = np.array([name in seconds for _, seconds in measured])
            rows = [row for row, own in enumerate(aligned) if (aligned[is_there] <= own).all(axis=1).any()]
            slowdown = np.array([_slowdown(name, measured[row][1]) for row in rows])
            own = covariance[np.ix_(rows, rows)] + _NOISE * np.eye(len(rows))
            self._weights[name] = rows, np.linalg.solve(own, slowdown - _UNKNOWN).astype(np.float64)

    def slowdowns(self, sizes: Sequence[int]) -> dict[str, float]:
        """Return for each schedule its time relative to the fastest one of a call with these sizes, the least first."""
        near = _covariance(np.array([_place(sizes)]), self._places)[0]
        found = {name: float(_UNKNOWN + near[rows] @ weights) for name, (rows, weights) in self._weights.items()}
        return {name: 2.0**found[name] for name in sorted(found, key=lambda name: found[name])}


def _place(sizes: Sequence[int]) -> list[float]:
    return [*(float(np.log2(max(1, size))) for size in sizes), *(_ALIGNMENT * power for power in _alignment(sizes))]


def _alignment(sizes: Sequence[int]) -> list[int]:
    """Return the powers of two that divide each size."""
    return [min(_MOST_ALIGNED, (size & -size).bit_length() - 1) if size else _MOST_ALIGNED for size in sizes]


def _covariance(some: _Array, others: _Array) -> _Array:
    squares = ((some[:, None] - others[None]) ** 2).sum(axis=2)
    found: _Array = np.exp(-0.5 * squares / _LENGTH**2)
    return found


def _slowdown(name: str, seconds: Mapping[str, float]) -> float:
    """Return the time of a schedule relative to the fastest one of a call, as a power of two."""
    fastest = min(seconds.values())
    if name in seconds:
        return float(np.log2(seconds[name] / fastest))
    return float(np.log2(max(seconds.values()) / fastest)) + _BEHIND
