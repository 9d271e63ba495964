"""Inputs of the demo kernels, their results by NumPy, and bounds of the rounding error."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from polyloop.cli.pictures import Picture

__all__ = ["Problem", "axpy_problem", "matmul_problem", "stencil_problem"]

Float64Array: TypeAlias = NDArray[np.float64]

_EPS: Final = float(np.finfo(np.float32).eps)


@dataclass(frozen=True, slots=True)
class Problem:
    """One call of a kernel, with the answer.

    Attributes
    ----------
    size
        For people: ``"n = 1000"``.
    inputs
        Arguments of the call; integer sizes are solved from the shapes.
    output
        Name of the one array that the kernel writes.
    want
        NumPy's result in double precision.
    bound
        For each element, the largest error that rounding in single precision can explain, whatever
        the order of the additions: (number of operations) * eps * (sum of the terms' magnitudes).
    """

    size: str
    inputs: dict[str, object]
    output: str
    want: Float64Array
    bound: Float64Array

    def poisoned_output(self) -> NDArray[np.float32]:
        """Return an output array filled with NaN, so that unwritten elements show."""
        return np.full(self.want.shape, np.nan, dtype=np.float32)

    def error(self, got: NDArray[np.floating]) -> float:
        """Return the largest error; NaN where an element was not written."""
        return float(np.abs(got - self.want).max())

    def accepts(self, got: NDArray[np.floating]) -> bool:
        """Tell whether every element is within its bound."""
        return got.shape == self.want.shape and bool((np.abs(got - self.want) <= self.bound).all())


def _vector(rng: np.random.Generator, *shape: int) -> NDArray[np.float32]:
    return rng.standard_normal(shape, dtype=np.float32)


def axpy_problem(n: int) -> Problem:
    """Return ``z = alpha x + y`` on random vectors of *n* elements."""
    rng = np.random.default_rng(n)
    x, y = _vector(rng, n), _vector(rng, n)
    alpha = np.float32(2.5)
    terms = float(alpha) * x.astype(np.float64), y.astype(np.float64)
    bound = 2 * _EPS * (np.abs(terms[0]) + np.abs(terms[1]))
    return Problem(f"n = {n}", {"x": x, "y": y, "alpha": alpha}, "z", terms[0] + terms[1], bound)


def matmul_problem(n: int) -> Problem:
    """Return ``c = a b`` on random *n* x *n* matrices."""
    rng = np.random.default_rng(n)
    a, b = _vector(rng, n, n), _vector(rng, n, n)
    wide_a, wide_b = a.astype(np.float64), b.astype(np.float64)
    bound = n * _EPS * (np.abs(wide_a) @ np.abs(wide_b))
    return Problem(f"n = {n}", {"a": a, "b": b}, "c", wide_a @ wide_b, bound)


def stencil_problem(picture: Picture) -> Problem:
    """Return the 5-point Laplacian of a picture."""
    height, width = picture.shape
    u = np.ascontiguousarray(picture)
    wide = u.astype(np.float64)
    neighbours = wide[:-2, 1:-1], wide[2:, 1:-1], wide[1:-1, :-2], wide[1:-1, 2:]
    centre = 4 * wide[1:-1, 1:-1]
    bound = 6 * _EPS * (sum((np.abs(term) for term in neighbours), np.abs(centre)))
    want = sum(neighbours, -centre)
    return Problem(f"{height} x {width} pixels", {"u": u}, "lap", want, bound)
