"""Loops that fetch iterations ahead (``pipeline``): through registers, by asynchronous copies, as early copies."""

from __future__ import annotations

import numpy as np

import polyloop as pl
from tests.gallery.base import Case, example

F = np.float32


def _product_case(n: int, rng: np.random.Generator) -> Case:
    a, b = (rng.integers(-3, 4, (n, n)).astype(F) for _ in range(2))
    return {"a": a, "b": b}, {"c": a @ b}


def _tiled(name: str, assumptions: str = "n >= 1") -> pl.LoopKernel:
    """Tiles of 32 x 32 elements of c and 8 steps; each thread has 4 x 4 neighbouring elements of c."""
    data = [pl.GlobalArg("a, b, c", F, shape="n, n"), ...]
    text = "c[i, j] = sum(k, a[i, k]*b[k, j])"
    knl = pl.make_kernel("{[i, j, k]: 0 <= i, j, k < n}", text, data, name=name, assumptions=assumptions)
    for x, axis in (("i", 1), ("j", 0)):
        knl = pl.split_iname(knl, x, 32, outer_iname=f"{x}o", outer_tag=f"g.{axis}")
        knl = pl.split_iname(knl, f"{x}_inner", 4, outer_iname=f"{x}t", inner_iname=f"{x}r")
        knl = pl.tag_inames(knl, {f"{x}t": f"l.{axis}", f"{x}r": "ilp"})
    return pl.split_iname(knl, "k", 8, outer_iname="ko", inner_iname="ki")


@example(_product_case, sizes=(32, 64))
def product_through_registers() -> pl.LoopKernel:
    """All of memory is accessed as float4; a's tile is transposed on its way, and read as vectors as b's is."""
    knl = _tiled("product_through_registers", "n >= 1 and n mod 32 = 0")
    knl = pl.add_prefetch(knl, "a", "ir, it, ki", ["ai", "ak"], default_tag=None, temporary_name="a_tile")
    knl = pl.add_prefetch(knl, "b", "jr, jt, ki", ["bk", "bj"], default_tag=None, temporary_name="b_tile")
    knl = pl.tag_array_axes(knl, "a_tile", "N0, N1")
    for iname, quads in (("ak", 2), ("bj", 8)):
        knl = pl.split_iname(knl, iname, 4, outer_iname=f"{iname}_quad", outer_tag=f"l%{quads}", inner_tag="vec")
    knl = pl.tag_inames(knl, {"ai": "l/2", "bk": "l/8"})
    for tile, sweep in (("a_tile", "ir"), ("b_tile", "jr")):
        knl = pl.add_prefetch(knl, tile, sweep, default_tag=None, temporary_name=f"{tile[0]}_part",
                              temporary_address_space="private")  # fmt: skip
    knl = pl.tag_inames(knl, "a_tile_dim_0:vec, b_tile_dim_1:vec")
    knl = pl.pipeline(knl, "ko", via="registers")
    return pl.tag_inames(pl.untag_inames(knl, "ak_inner_s"), "ak_inner_s:unr")  # a column is stored


@example(_product_case, sizes=(1, 33, 40, 71))
def product_by_asynchronous_copies() -> pl.LoopKernel:
    """Three stages, of which two are on their way; sizes are arbitrary, so the last tiles are partial ones."""
    knl = _tiled("product_by_asynchronous_copies")
    knl = pl.add_prefetch(knl, "a", "ir, it, ki")
    knl = pl.add_prefetch(knl, "b", "jr, jt, ki")
    return pl.pipeline(knl, "ko", 3, via="cp.async")


def _rows_case(n: int, rng: np.random.Generator) -> Case:
    x = rng.integers(-4, 5, (n, 64)).astype(F)
    return {"x": x}, {"y": np.cumsum(x[:, ::-1], 0).astype(F)}


@example(_rows_case, sizes=(1, 2, 3, 9))
def running_sums_of_reversed_rows() -> pl.LoopKernel:
    """One block goes down all rows; the next one is on its way while this one is added up."""
    text = """
        s[i] = 0
        for r
            s[i] = s[i] + x[r, 63 - i]   {id=add}
            y[r, i] = s[i]
        end
        """
    data = [pl.GlobalArg("x, y", F, shape="n, 64"), pl.TemporaryVariable("s", F, shape=64), ...]
    domain = "{[r, i]: 0 <= r < n and 0 <= i < 64}"
    knl = pl.make_kernel(domain, text, data, name="running_sums_of_reversed_rows")
    knl = pl.prioritize_loops(pl.tag_inames(knl, "i:l.0"), "r")
    knl = pl.add_prefetch(knl, "x", "i")
    return pl.pipeline(knl, "r", 4, via="cp.async")
