"""Tiles with layouts of their own: swizzled, transposed and padded, moved as vectors, kept in registers."""

from __future__ import annotations

import numpy as np

import polyloop as pl
from tests.gallery.base import Case, example

F = np.float32


def _transpose_case(n: int, rng: np.random.Generator) -> Case:
    a = rng.random((n, n), dtype=F)
    return {"a": a}, {"b": np.ascontiguousarray(a.T)}


@example(_transpose_case, sizes=(1, 17, 32, 33))
def transpose_through_a_swizzled_tile() -> pl.LoopKernel:
    """Rows are copied by 8 threads, written by 32; the columns of the tile lie in different banks without padding."""
    text = "b[i, j] = a[j, i]"
    data = [pl.GlobalArg("a, b", F, shape="n, n"), ...]
    knl = pl.make_kernel("{[i, j]: 0 <= i, j < n}", text, data, name="transpose_through_a_swizzled_tile")
    knl = pl.split_iname(knl, "i", 32, outer_tag="g.1")
    knl = pl.split_iname(knl, "i_inner", 2, outer_tag="unr", inner_tag="l/32")
    knl = pl.split_iname(knl, "j", 32, outer_tag="g.0", inner_tag="l%32")
    knl = pl.add_prefetch(knl, "a", "i_inner_outer, i_inner_inner, j_inner", temporary_name="tile")
    return pl.swizzle(knl, "tile")


def _star_case(n: int, rng: np.random.Generator) -> Case:
    u = rng.random((n + 2, n + 2, n + 2), dtype=F)
    middle = u[1:-1, 1:-1, 1:-1]
    around = u[:-2, 1:-1, 1:-1] + u[2:, 1:-1, 1:-1] + u[1:-1, :-2, 1:-1] + u[1:-1, 2:, 1:-1]
    return {"u": u}, {"v": around + u[1:-1, 1:-1, :-2] + u[1:-1, 1:-1, 2:] - 6 * middle}


@example(_star_case, sizes=(1, 4, 9))
def star_in_a_tile_of_three_axes() -> pl.LoopKernel:
    """Seven reads share one tile: the box around them, of which the corners that exist are fetched, too."""
    text = """
        v[i, j, k] = u[i, j+1, k+1] + u[i+2, j+1, k+1] + u[i+1, j, k+1] + u[i+1, j+2, k+1] \\
            + u[i+1, j+1, k] + u[i+1, j+1, k+2] - 6*u[i+1, j+1, k+1]
        """
    data = [pl.GlobalArg("u", F, shape="n + 2, n + 2, n + 2"), pl.GlobalArg("v", F, shape="n, n, n"), ...]
    knl = pl.make_kernel("{[i, j, k]: 0 <= i, j, k < n}", text, data, name="star_in_a_tile_of_three_axes")
    for iname, length, axis in (("i", 2, 2), ("j", 4, 1), ("k", 8, 0)):
        knl = pl.split_iname(knl, iname, length, outer_tag=f"g.{axis}", inner_tag=f"l.{axis}")
    return pl.add_prefetch(knl, "u", "i_inner, j_inner, k_inner")


def _blur_case(n: int, rng: np.random.Generator) -> Case:
    x = rng.random((n + 2, n + 2), dtype=F)
    rows = x[:, :-2] + 2 * x[:, 1:-1] + x[:, 2:]
    return {"x": x}, {"y": rows[:-2] + 2 * rows[1:-1] + rows[2:]}


@example(_blur_case, sizes=(1, 8, 19))
def blur_of_rows_before_columns() -> pl.LoopKernel:
    """A separable convolution: what the columns need of the rows is computed once for each block."""
    text = "row(p, q) := x[p, q] + 2*x[p, q+1] + x[p, q+2]\ny[i, j] = row(i, j) + 2*row(i+1, j) + row(i+2, j)"
    data = [pl.GlobalArg("x", F, shape="n + 2, n + 2"), pl.GlobalArg("y", F, shape="n, n"), ...]
    knl = pl.make_kernel("{[i, j]: 0 <= i, j < n}", text, data, name="blur_of_rows_before_columns")
    knl = pl.split_iname(knl, "i", 8, outer_tag="g.1", inner_tag="l.1")
    knl = pl.split_iname(knl, "j", 8, outer_tag="g.0", inner_tag="l.0")
    return pl.precompute(knl, "row", compute_at="j_outer")


def _product_case(n: int, rng: np.random.Generator) -> Case:
    a, b = rng.random((n, 4 * n), dtype=F), rng.random((4 * n, 4 * n), dtype=F)
    return {"a": a, "b": b}, {"c": a @ b}


@example(_product_case, sizes=(1, 8, 17))
def product_of_transposed_and_wide_tiles() -> pl.LoopKernel:
    """Tiles come in by vectors, `a` transposed and padded; each thread has 2 x 4 elements, its part in registers."""
    shapes = {"a": "n, 4*n", "b": "4*n, 4*n", "c": "n, 4*n"}
    data = [*(pl.GlobalArg(name, F, shape=shape) for name, shape in shapes.items()), ...]
    domain = "{[i, j, k]: 0 <= i < n and 0 <= j, k < 4*n}"
    name = "product_of_transposed_and_wide_tiles"
    knl = pl.make_kernel(domain, "c[i, j] = sum(k, a[i, k]*b[k, j])", data, name=name)
    knl = pl.split_iname(knl, "i", 8, outer_iname="by", inner_iname="i_in", outer_tag="g.1")
    knl = pl.split_iname(knl, "i_in", 2, outer_iname="ty", inner_iname="ii", outer_tag="l/4", inner_tag="unr")
    knl = pl.split_iname(knl, "j", 16, outer_iname="bx", inner_iname="j_in", outer_tag="g.0")
    knl = pl.split_iname(knl, "j_in", 4, outer_iname="tx", inner_iname="jj", outer_tag="l%4", inner_tag="vec")
    knl = pl.split_iname(knl, "k", 8, outer_iname="ko", inner_iname="ki", inner_tag="unr")
    knl = pl.prioritize_loops(knl, "ko, ki, ii, jj")
    knl = pl.add_prefetch(knl, "a", "ty, ii, ki", temporary_name="a_tile", dim_tags="N0,N1", pad=4, vec=4)
    knl = pl.add_prefetch(knl, "b", "tx, jj, ki", temporary_name="b_tile", vec=4)
    for tile, axis in (("a_tile", "ii"), ("b_tile", "jj")):
        knl = pl.add_prefetch(knl, tile, compute_at="ki", storage_axes=axis, temporary_address_space="private",
                              vec=2 if axis == "ii" else 4)  # fmt: skip
    return knl
