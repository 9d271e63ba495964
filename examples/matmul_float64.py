"""A matrix product in double precision, without tensor cores: each thread has 8 by 8 elements in registers.

As `matmul_vectors.py`, with pieces of 2 by 2 elements, since 16 bytes are two numbers; the next tiles are on their way
in registers while the present ones are used.  Rows have an even number of elements.
"""

from typing import Any

import numpy as np

import polyloop as pl

SIZES = [
    {"m": 1, "n": 2, "p": 2},
    {"m": 129, "n": 34, "p": 10},
    {"m": 128, "n": 128, "p": 16},
]
SMALL = [{"m": 5, "n": 6, "p": 10}]
RTOL = 1e-13


def program() -> pl.LoopKernel:
    return pl.make_kernel(
        "{[i, j, k]: 0 <= i < m and 0 <= j < n and 0 <= k < p}",
        "c[i, j] = sum(k, a[i, k]*b[k, j])",
        [
            pl.GlobalArg("a", np.float64, shape="m, p"),
            pl.GlobalArg("b", np.float64, shape="p, n"),
            pl.GlobalArg("c", np.float64, shape="m, n"),
            ...,
        ],
        name="matmul_float64",
        assumptions="m >= 1 and n >= 1 and p >= 1 and n mod 2 = 0 and p mod 2 = 0",
    )


def transformed(k_tile: int = 8) -> pl.LoopKernel:
    knl = program()
    # rows: blocks of 128, 4 warps of 32, each 4 pieces of 4 threads with 2 rows
    knl = pl.split_iname(knl, "i", 128, outer_iname="by", inner_iname="i_block", outer_tag="g.1")
    knl = pl.split_iname(knl, "i_block", 32, outer_iname="wi", inner_iname="i_warp", outer_tag="l/32%4")
    knl = pl.split_iname(knl, "i_warp", 8, outer_iname="i_hi", inner_iname="i_piece", outer_tag="unr")
    knl = pl.split_iname(knl, "i_piece", 2, outer_iname="ti", inner_iname="i_lo", outer_tag="l/8%4", inner_tag="unr")
    # columns: blocks of 128, 2 warps of 64, each 4 pieces of 8 threads with 2 columns
    knl = pl.split_iname(knl, "j", 128, outer_iname="bx", inner_iname="j_block", outer_tag="g.0")
    knl = pl.split_iname(knl, "j_block", 64, outer_iname="wj", inner_iname="j_warp", outer_tag="l/128")
    knl = pl.split_iname(knl, "j_warp", 16, outer_iname="j_hi", inner_iname="j_piece", outer_tag="unr")
    knl = pl.split_iname(knl, "j_piece", 2, outer_iname="tj", inner_iname="j_lo", outer_tag="l%8", inner_tag="vec")
    knl = pl.split_iname(knl, "k", k_tile, outer_iname="ko", inner_iname="ki", inner_tag="unr")
    knl = pl.prioritize_loops(knl, "ko, ki, i_hi, i_lo, j_hi, j_lo")
    # tiles in shared memory, copied by all 256 threads; that of a is stored transposed
    knl = pl.add_prefetch(
        knl, "a", "wi, i_hi, ti, i_lo, ki", temporary_name="a_tile", dim_tags="N0,N1", pad=2, vec=2
    )
    knl = pl.add_prefetch(knl, "b", "wj, j_hi, tj, j_lo, ki", temporary_name="b_tile", vec=2)
    # what a thread needs of them for one k, in registers
    for tile, part, axes in (("a_tile", "a_part", "i_hi, i_lo"), ("b_tile", "b_part", "j_hi, j_lo")):
        knl = pl.add_prefetch(
            knl, tile, compute_at="ki", storage_axes=axes, temporary_name=part, temporary_address_space="private", vec=2
        )
    return pl.pipeline(knl, "ko", stages=2, via="registers")


def inputs(rng: np.random.Generator, m: int, n: int, p: int) -> dict[str, Any]:
    return {"a": rng.random((m, p)), "b": rng.random((p, n))}


def expected(a: Any, b: Any) -> dict[str, Any]:
    return {"c": a @ b}


if __name__ == "__main__":
    arrays = inputs(np.random.default_rng(0), m=300, n=400, p=500)
    wanted = expected(**arrays)
    result = pl.compile(transformed())(**arrays)
    np.testing.assert_allclose(result.c, wanted["c"], rtol=1e-12)
    print("matmul_float64: 300 x 400 elements, sums of 500, agree with NumPy")
