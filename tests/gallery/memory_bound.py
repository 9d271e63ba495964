"""Kernels that wait for memory alone: what they read once, and rows of which the ends stay."""

from __future__ import annotations

import numpy as np

import polyloop as pl
from tests.gallery.base import Case, example

F = np.float32


def _smoothed_case(n: int, rng: np.random.Generator) -> Case:
    x, y = rng.random((2, 3, n), dtype=F)
    smooth = y.copy()
    smooth[:, 1:-1] = (x[:, :-2] + x[:, 1:-1] + x[:, 2:]) / 3
    return {"x": x, "y": y}, {"y": smooth}


@example(_smoothed_case, sizes=(4, 8, 36))
def whole_rows_of_which_the_ends_stay() -> pl.LoopKernel:
    """Vectors are stored whole: in the first and the last one, what the element at the end of the row was is kept."""
    text = """
        left := x[i, j - 1] if j > 0 else 0
        right := x[i, j + 1] if j < n - 1 else 0
        for i, j
            <> mean = (left + x[i, j] + right)/3
            y[i, j] = mean if j > 0 and j < n - 1 else y[i, j]
        end
        """
    data = [pl.GlobalArg("x, y", F, shape="3, n"), ...]
    knl = pl.make_kernel(
        "{[i, j]: 0 <= i < 3 and 0 <= j < n}", text, data, name="smoothed", assumptions="n >= 4 and n mod 4 = 0",
        silenced_warnings="not-vectorized",
    )  # fmt: skip
    knl = pl.split_iname(knl, "j", 32, outer_tag="g.0")
    return pl.tag_inames(pl.vectorize(knl, "j_inner", 4, outer_tag="l.0"), "i:l.1")


def _weighted_case(n: int, rng: np.random.Generator) -> Case:
    a, w = rng.random((n, 128), dtype=F), rng.random(128, dtype=F)
    return {"a": a, "w": w}, {"y": a @ w}


@example(_weighted_case, sizes=(1, 7, 8, 17))
def weighted_sums_of_rows_that_are_read_once() -> pl.LoopKernel:
    """Of the matrix caches need not keep anything, of the weights all: every row is multiplied by them."""
    data = [pl.GlobalArg("a", F, shape="n, 128"), pl.GlobalArg("w", F, shape="128"), ...]
    knl = pl.make_kernel("{[i, j]: 0 <= i < n and 0 <= j < 128}", "y[i] = sum(j, a[i, j]*w[j])", data, name="weighted")
    knl = pl.split_iname(knl, "j", 4, outer_tag="l.0", inner_tag="vec")
    return pl.read_once(pl.split_iname(knl, "i", 8, outer_tag="g.0", inner_tag="l.1"), "a")
