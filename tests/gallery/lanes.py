"""Loops whose iterations run side by side: ``ilp`` and ``vec``."""

from __future__ import annotations

import numpy as np

import polyloop as pl
from tests.gallery.base import Case, example

F = np.float32


def _product_case(n: int, rng: np.random.Generator) -> Case:
    a, b = rng.random((2, n, n), dtype=F)
    return {"a": a, "b": b}, {"c": a @ b}


@example(_product_case, sizes=(5, 32, 70))
def interleaved_product() -> pl.LoopKernel:
    """A matrix product with 4 x 2 results for each thread; the lanes need no loop priority."""
    data = [pl.GlobalArg("a, b, c", F, shape="n, n"), ...]
    knl = pl.make_kernel("{[i, j, k]: 0 <= i, j, k < n}", "c[i, j] = sum(k, a[i, k]*b[k, j])", data, name="product")
    knl = pl.split_iname(knl, "i", 32, outer_tag="g.1")
    knl = pl.split_iname(knl, "i_inner", 8, outer_tag="ilp", inner_tag="l.1")
    knl = pl.split_iname(knl, "j", 16, outer_tag="g.0")
    knl = pl.split_iname(knl, "j_inner", 8, outer_tag="ilp", inner_tag="l.0")
    knl = pl.split_iname(knl, "k", 8)
    knl = pl.add_prefetch(knl, "a", ["i_inner_outer", "i_inner_inner", "k_inner"])
    return pl.add_prefetch(knl, "b", ["k_inner", "j_inner_outer", "j_inner_inner"])


def _series_case(n: int, rng: np.random.Generator) -> Case:
    x = rng.random(n) * 2 - 1
    y = np.zeros(n)
    for k in range(12, -1, -1):
        y = y * x + 1 / (k + 1)
    return {"x": x, "c": 1 / np.arange(1.0, 14)}, {"y": y}


@example(_series_case, rtol=1e-12)
def interleaved_horner() -> pl.LoopKernel:
    """A chain of dependent steps, for four elements at a time so that their latencies overlap."""
    text = """
        for i
            <> s = 0*x[i]
            for k
                s = s*x[i] + c[12 - k]   {id=step}
            end
            y[i] = s
        end
        """
    data = [pl.GlobalArg("x, y", np.float64, shape="n"), pl.GlobalArg("c", np.float64, shape="13"), ...]
    knl = pl.make_kernel("{[i, k]: 0 <= i < n and 0 <= k < 13}", text, data, name="horner")
    knl = pl.split_iname(knl, "i", 128, outer_tag="g.0")
    return pl.split_iname(knl, "i_inner", 32, outer_tag="ilp", inner_tag="l.0")


def _rows_case(n: int, rng: np.random.Generator) -> Case:
    a = rng.random((n, 2 * n + 1), dtype=F)
    top = a.max(1, keepdims=True)
    return {"a": a}, {"b": a / top}


@example(_rows_case)
def rows_side_by_side() -> pl.LoopKernel:
    """Each thread takes two rows at a time; the greatest element of each is kept in a register of its own."""
    knl = pl.make_kernel(
        "{[i, j, k]: 0 <= i < n and 0 <= j, k < m}",
        "<> top = max(k, a[i, k])\nb[i, j] = a[i, j]/top",
        [pl.GlobalArg("a, b", F, shape="n, m"), ...],
        name="rows",
        assumptions="m >= 1",
    )
    knl = pl.split_iname(knl, "i", 2, inner_tag="ilp")
    return pl.split_iname(knl, "i_outer", 16, outer_tag="g.0", inner_tag="l.0")
