"""A matrix product about as fast as a vendor's library: each thread has 8 by 16 elements in registers.

Blocks of 128 by 128 elements have 4 warps of 64 by 64, so that a thread reads 24 numbers of the tiles for 128 products.
The next tiles are on their way in registers while the present ones are used.  Blocks that run at the same time lie
close together, 8 rows of blocks at a time, and find most of what they read in the cache.
"""

from typing import Any

import numpy as np

import polyloop as pl

SIZES = [
    {"m": 1, "n": 4, "p": 4},
    {"m": 130, "n": 132, "p": 28},
    {"m": 257, "n": 128, "p": 8},
]


def program() -> pl.LoopKernel:
    return pl.make_kernel(
        "{[i, j, k]: 0 <= i < m and 0 <= j < n and 0 <= k < p}",
        "c[i, j] = sum(k, a[i, k]*b[k, j])",
        [
            pl.GlobalArg("a", np.float32, shape="m, p"),
            pl.GlobalArg("b", np.float32, shape="p, n"),
            pl.GlobalArg("c", np.float32, shape="m, n"),
            ...,
        ],
        name="matmul_large_tiles",
        assumptions="m >= 1 and n >= 1 and p >= 1 and n mod 4 = 0 and p mod 4 = 0",
    )


def transformed(k_tile: int = 8, rows: int = 8) -> pl.LoopKernel:
    knl = program()
    # rows: blocks of 128, 2 warps of 64, each 2 pieces of 8 threads with 4 rows
    knl = pl.split_iname(knl, "i", 128, outer_iname="by", inner_iname="i_block")
    knl = pl.split_iname(knl, "i_block", 64, outer_iname="wi", inner_iname="i_warp", outer_tag="l/32%2")
    knl = pl.split_iname(knl, "i_warp", 32, outer_iname="i_hi", inner_iname="i_piece", outer_tag="unr")
    knl = pl.split_iname(knl, "i_piece", 4, outer_iname="ti", inner_iname="i_lo", outer_tag="l/4%8", inner_tag="unr")
    # columns: blocks of 128, 2 warps of 64, each 4 pieces of 4 threads with 4 columns
    knl = pl.split_iname(knl, "j", 128, outer_iname="bx", inner_iname="j_block", outer_tag="g.1")
    knl = pl.split_iname(knl, "j_block", 64, outer_iname="wj", inner_iname="j_warp", outer_tag="l/64")
    knl = pl.split_iname(knl, "j_warp", 16, outer_iname="j_hi", inner_iname="j_piece", outer_tag="unr")
    knl = pl.split_iname(knl, "j_piece", 4, outer_iname="tj", inner_iname="j_lo", outer_tag="l%4", inner_tag="vec")
    # the order of the blocks: down some rows of blocks, then on to the next column
    knl = pl.split_iname(knl, "by", rows, outer_iname="bg", inner_iname="br", outer_tag="g.2", inner_tag="g.0")
    knl = pl.split_iname(knl, "k", k_tile, outer_iname="ko", inner_iname="ki", inner_tag="unr")
    knl = pl.prioritize_loops(knl, "ko, ki, j_hi, i_hi, i_lo, j_lo")
    # tiles in shared memory, copied by all 128 threads; that of a is stored transposed
    knl = pl.add_prefetch(
        knl, "a", "wi, i_hi, ti, i_lo, ki", temporary_name="a_tile", dim_tags="N0,N1", pad=4, vec=4
    )
    knl = pl.add_prefetch(knl, "b", "wj, j_hi, tj, j_lo, ki", temporary_name="b_tile", vec=4)
    # what a thread needs of them for one k, in registers
    for tile, part, axes in (("b_tile", "b_part", "j_hi, j_lo"), ("a_tile", "a_part", "i_hi, i_lo")):
        knl = pl.add_prefetch(
            knl, tile, compute_at="ki", storage_axes=axes, temporary_name=part, temporary_address_space="private", vec=4
        )
    knl = pl.pipeline(knl, "ko", stages=2, via="registers")
    return pl.tag_inames(knl, "ko:unr_hint.2")


def inputs(rng: np.random.Generator, m: int, n: int, p: int) -> dict[str, Any]:
    return {"a": rng.random((m, p), np.float32), "b": rng.random((p, n), np.float32)}


def expected(a: Any, b: Any) -> dict[str, Any]:
    return {"c": a @ b}


if __name__ == "__main__":
    arrays = inputs(np.random.default_rng(0), m=300, n=400, p=500)
    wanted = expected(**arrays)
    result = pl.compile(transformed())(**arrays)
    np.testing.assert_allclose(result.c, wanted["c"], rtol=1e-5)
    print("matmul_large_tiles: 300 x 400 elements, sums of 500, agree with NumPy")
