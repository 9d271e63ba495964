"""Blocks at the edge of an array that compute as full ones do, for elements that nobody uses."""

from __future__ import annotations

import numpy as np

import polyloop as pl
from tests.gallery.base import Case, example

F = np.float32


def _bilinear_case(n: int, rng: np.random.Generator) -> Case:
    a, b, s = (rng.integers(-3, 4, shape).astype(F) for shape in ((n, n + 2), (n + 2, n), (n + 2,)))
    return {"a": a, "b": b, "s": s}, {"c": (a * s) @ b}


@example(_bilinear_case, sizes=(1, 7, 8, 13, 17))
def scaled_product_at_edges() -> pl.LoopKernel:
    """Three arrays come through registers, one of them a vector along the sum; sizes are arbitrary."""
    knl = pl.make_kernel(
        "{[i, j, k]: 0 <= i, j < n and 0 <= k < n + 2}",
        "c[i, j] = sum(k, a[i, k]*s[k]*b[k, j])",
        [
            pl.GlobalArg("a", F, shape="n, n + 2"),
            pl.GlobalArg("b", F, shape="n + 2, n"),
            pl.GlobalArg("s", F, shape="n + 2"),
            pl.GlobalArg("c", F, shape="n, n"),
            ...,
        ],
        name="scaled_product_at_edges",
        assumptions="n >= 1",
    )
    for x, axis in (("i", 1), ("j", 0)):
        knl = pl.split_iname(knl, x, 8, outer_iname=f"{x}o", outer_tag=f"g.{axis}")
        knl = pl.split_iname(knl, f"{x}_inner", 4, outer_iname=f"{x}r", inner_iname=f"{x}t", inner_tag=f"l.{axis}")
        knl = pl.tag_inames(knl, {f"{x}r": "unr"})
    knl = pl.split_iname(knl, "k", 4, outer_iname="ko", inner_iname="ki", inner_tag="unr")
    knl = pl.prioritize_loops(knl, "ko, ki, ir, jr")
    for array, sweep in (("a", "ir, it, ki"), ("b", "jr, jt, ki"), ("s", "ki")):
        knl = pl.add_prefetch(knl, array, sweep)
    return pl.tag_inames(pl.pipeline(knl, "ko", via="registers"), "ko:unr_hint.2")


def _rows_case(n: int, rng: np.random.Generator) -> Case:
    a, x = rng.integers(-3, 4, (n, 3 * n)).astype(F), rng.integers(-3, 4, 3 * n).astype(F)
    return {"a": a, "x": x}, {"y": a @ x}


@example(_rows_case, sizes=(1, 5, 31, 32, 33))
def rows_times_vector_ahead() -> pl.LoopKernel:
    """A row a thread; a tile of 32 rows is on its way in registers, transposed in shared memory."""
    knl = pl.make_kernel(
        "{[i, k]: 0 <= i < n and 0 <= k < 3*n}",
        "y[i] = sum(k, a[i, k]*x[k])",
        [pl.GlobalArg("a", F, shape="n, 3*n"), pl.GlobalArg("x", F, shape="3*n"), pl.GlobalArg("y", F, shape="n"), ...],
        name="rows_times_vector_ahead",
        assumptions="n >= 1",
    )
    knl = pl.split_iname(knl, "i", 32, outer_tag="g.0", inner_tag="l.0")
    knl = pl.split_iname(knl, "k", 8, outer_iname="ko", inner_iname="ki")
    knl = pl.add_prefetch(knl, "a", "i_inner, ki", ["ai", "ak"], default_tag=None, temporary_name="a_tile", pad=1)
    knl = pl.split_iname(knl, "ai", 4, outer_iname="aq", inner_iname="ar", outer_tag="unr", inner_tag="l/8")
    knl = pl.tag_inames(knl, {"ak": "l%8"})
    knl = pl.add_prefetch(knl, "x", "ki", default_tag="l%8", temporary_name="x_tile")
    return pl.pipeline(knl, "ko", via="registers")
