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


def _planes_case(n: int, rng: np.random.Generator) -> Case:
    u = rng.integers(-4, 5, (n + 2, n + 2, n + 2)).astype(F)
    c = slice(1, -1)
    near = u[:-2, c, c] + u[2:, c, c] + u[c, :-2, c] + u[c, 2:, c] + u[c, c, :-2] + u[c, c, 2:]
    return {"u": u}, {"v": near - 6 * u[c, c, c]}


@example(_planes_case, sizes=(1, 9, 17))
def stencil_with_sliding_planes() -> pl.LoopKernel:
    """Blocks go down through the planes; three are in shared memory, the next one is read into registers meanwhile."""
    data = [pl.GlobalArg("u", F, shape="n + 2, n + 2, n + 2"), pl.GlobalArg("v", F, shape="n, n, n"), ...]
    text = (
        "v[k, i, j] = u[k, i+1, j+1] + u[k+2, i+1, j+1] + u[k+1, i, j+1] + u[k+1, i+2, j+1]"
        " + u[k+1, i+1, j] + u[k+1, i+1, j+2] - 6*u[k+1, i+1, j+1]"
    )
    domain = "{[k, i, j]: 0 <= i, j, k < n}"
    knl = pl.make_kernel(domain, text, data, name="stencil_with_sliding_planes", assumptions="n >= 1")
    knl = pl.split_iname(knl, "i", 4, outer_tag="g.1", inner_tag="l.1")
    knl = pl.split_iname(knl, "j", 16, outer_tag="g.0", inner_tag="l.0")
    knl = pl.add_prefetch(pl.prioritize_loops(knl, "k"), "u", "i_inner, j_inner")
    return pl.pipeline(knl, "k", via="registers", window=0)


def _columns_case(n: int, rng: np.random.Generator) -> Case:
    x = rng.integers(-4, 5, (n + 2, 40)).astype(F)
    return {"x": x}, {"y": x[:-2] + 2 * x[1:-1] + x[2:]}


@example(_columns_case, sizes=(1, 4, 7, 13))
def columns_in_a_register_queue() -> pl.LoopKernel:
    """Each thread goes down a column with a queue of four values; unrolled, the loop knows their places."""
    data = [pl.GlobalArg("x", F, shape="n + 2, 40"), pl.GlobalArg("y", F, shape="n, 40"), ...]
    text = "y[k, i] = x[k, i] + 2*x[k+1, i] + x[k+2, i]"
    domain = "{[k, i]: 0 <= k < n and 0 <= i < 40}"
    knl = pl.make_kernel(domain, text, data, name="columns_in_a_register_queue", assumptions="n >= 1")
    knl = pl.prioritize_loops(pl.tag_inames(knl, "i:l.0"), "k")
    knl = pl.add_prefetch(knl, "x", [], default_tag=None)
    knl = pl.pipeline(knl, "k", window=0)
    knl = pl.split_iname(knl, "k", 4, inner_tag="unr")
    return pl.peel(knl, "k_outer")
