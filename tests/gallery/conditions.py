"""Accesses under conditions: boundaries handled where they are read."""

from __future__ import annotations

import numpy as np

import polyloop as pl
from tests.gallery.base import Case, example

F = np.float32
SIZES = (1, 2, 15, 16, 17, 33)


def _padded(a: np.ndarray, w: np.ndarray) -> np.ndarray:
    return np.convolve(np.pad(a, 1), w[::-1], "valid").astype(F)


def _convolution_case(n: int, rng: np.random.Generator) -> Case:
    a, w = rng.random(n, dtype=F), rng.random(3, dtype=F)
    return {"a": a, "w": w}, {"b": _padded(a, w)}


def _convolution(name: str) -> pl.LoopKernel:
    knl = pl.make_kernel(
        "{[i, k]: 0 <= i < n and 0 <= k < 3}",
        "b[i] = sum(k, if(i + k >= 1 and i + k <= n, w[k]*a[i + k - 1], 0))",
        [pl.GlobalArg("a, b", F, shape="n"), pl.GlobalArg("w", F, shape="3"), ...],
        name=name,
    )
    return pl.split_iname(knl, "i", 16, outer_tag="g.0", inner_tag="l.0")


@example(_convolution_case, sizes=SIZES)
def zero_padded_convolution() -> pl.LoopKernel:
    return _convolution("zero_padded_convolution")


@example(_convolution_case, sizes=SIZES)
def zero_padded_convolution_in_tiles() -> pl.LoopKernel:
    """The halo is fetched as far as it exists."""
    return pl.add_prefetch(_convolution("zero_padded_convolution_in_tiles"), "a", "i_inner, k")


def _clamped_case(n: int, rng: np.random.Generator) -> Case:
    a = rng.random((n, n + 3), dtype=F)
    wide = np.pad(a, ((0, 0), (1, 1)), mode="edge")
    return {"a": a}, {"b": wide[:, :-2] - 2 * a + wide[:, 2:]}


@example(_clamped_case, sizes=(1, 13, 16), rtol=1e-4)
def clamped_stencil() -> pl.LoopKernel:
    """The value at the edge stands for those outside."""
    knl = pl.make_kernel(
        "{[i, j]: 0 <= i < n and 0 <= j < m}",
        "b[i, j] = (a[i, j-1] if j > 0 else a[i, j]) - 2*a[i, j] + (a[i, j] if j == m - 1 else a[i, j+1])",
        [pl.GlobalArg("a, b", F, shape="n, m"), ...],
        name="clamped_stencil",
    )
    knl = pl.split_iname(knl, "i", 4, outer_tag="g.1", inner_tag="l.1")
    knl = pl.split_iname(knl, "j", 8, outer_tag="g.0", inner_tag="l.0")
    return pl.add_prefetch(knl, "a", "i_inner, j_inner")


def _triangle_case(n: int, rng: np.random.Generator) -> Case:
    packed = rng.integers(-9, 9, n * n, dtype=np.int32).reshape(n, n)
    x = rng.integers(-9, 9, n, dtype=np.int32)
    lower = np.tril(packed, -1)
    return {"a": packed, "x": x}, {"y": lower @ x + x}


@example(_triangle_case)
def unit_triangle_by_conditions() -> pl.LoopKernel:
    """``L @ x``, of which only what lies below the diagonal is stored."""
    knl = pl.make_kernel(
        "{[i, j]: 0 <= i, j < n}",
        "y[i] = sum(j, if(j < i, a[i, j]*x[j], if(j == i, x[i], 0)))",
        [pl.GlobalArg("a", np.int32, shape="n, n"), pl.GlobalArg("x, y", np.int32, shape="n"), ...],
        name="unit_triangle_by_conditions",
    )
    return pl.split_iname(knl, "i", 32, outer_tag="g.0", inner_tag="l.0")


def _periodic_case(n: int, rng: np.random.Generator) -> Case:
    a = rng.random(n, dtype=F)
    return {"a": a}, {"d": np.roll(a, -1) - np.roll(a, 1)}


@example(_periodic_case, sizes=SIZES, rtol=1e-4)
def periodic_difference_by_if() -> pl.LoopKernel:
    knl = pl.make_kernel(
        "{[i]: 0 <= i < n}",
        "d[i] = if(i + 1 < n, a[i+1], a[0]) - if(not i < 1, a[i-1], a[n-1])",
        [pl.GlobalArg("a, d", F, shape="n"), ...],
        name="periodic_difference_by_if",
    )
    return pl.split_iname(knl, "i", 16, outer_tag="g.0", inner_tag="l.0")


def _steps_case(n: int, rng: np.random.Generator) -> Case:
    a = rng.integers(0, 3, n, dtype=np.int32)
    starts = np.concatenate([[True], a[1:] != a[:-1]])
    return {"a": a}, {"s": starts.astype(np.int32), "c": np.cumsum(starts, dtype=np.int32)}


@example(_steps_case)
def runs_of_equal_values() -> pl.LoopKernel:
    """``or`` stops at the first operand that is true, ``and`` at the first that is false."""
    return pl.make_kernel(
        "{[i]: 0 <= i < n}",
        """
        for i
            s[i] = 1 if i == 0 or a[i] != a[i-1] else 0
            c[i] = s[i] + (c[i-1] if i >= 1 else 0)
        end
        """,
        [pl.GlobalArg("a, s, c", np.int32, shape="n"), ...],
        name="runs_of_equal_values",
    )
