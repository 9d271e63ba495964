"""A matrix product in double precision on tensor cores: warps add up tiles of 16 by 8 by 8 with `mma.sync` (sm_90).

Blocks of 128 by 128 elements, eight warps of 64 by 32; the next tiles are on their way by asynchronous copies, and
each step loads its operands while the products of the one before are added up.  Rows of both tiles are padded by 4
elements, so that 4 by 4 lanes, which load 8 bytes each, find all banks.  Blocks run down the rows, 4 columns of blocks
at a time, and find most of what they read in the cache.  Rows have an even number of elements.
"""

from typing import Any

import numpy as np

import polyloop as pl

SIZES = [
    {"m": 1, "n": 2, "p": 2},
    {"m": 129, "n": 130, "p": 50},
    {"m": 128, "n": 128, "p": 32},
]
SMALL = [{"m": 5, "n": 6, "p": 10}]
RTOL = 1e-13
ARCH = "sm_90"


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
        name="matmul_float64_mma",
        assumptions="m >= 1 and n >= 1 and p >= 1 and n mod 2 = 0 and p mod 2 = 0",
    )


def on_tensor_cores(knl: pl.LoopKernel) -> pl.LoopKernel:
    # rows: blocks of 128, 2 warps of 64, each 4 tiles of 16
    knl = pl.split_iname(knl, "i", 128, outer_iname="by", inner_iname="i_block", outer_tag="g.1")
    knl = pl.split_iname(knl, "i_block", 64, outer_iname="wi", inner_iname="i_warp", outer_tag="l/32%2")
    knl = pl.split_iname(knl, "i_warp", 16, outer_iname="mi", inner_iname="ii", outer_tag="unr")
    # columns: blocks of 128, 4 warps of 32, each 4 tiles of 8
    knl = pl.split_iname(knl, "j", 128, outer_iname="bx", inner_iname="j_block")
    knl = pl.split_iname(knl, "j_block", 32, outer_iname="wj", inner_iname="j_warp", outer_tag="l/64")
    knl = pl.split_iname(knl, "j_warp", 8, outer_iname="ni", inner_iname="jj", outer_tag="unr")
    # the order of the blocks: 4 columns of blocks, down the rows
    knl = pl.split_iname(knl, "bx", 4, outer_iname="bg", inner_iname="bc", outer_tag="g.2", inner_tag="g.0")
    # terms: tiles of 16, 2 instructions each
    knl = pl.split_iname(knl, "k", 16, outer_iname="ko", inner_iname="k_block")
    knl = pl.split_iname(knl, "k_block", 8, outer_iname="kk", inner_iname="ki", outer_tag="unr")
    knl = pl.prioritize_loops(knl, "ko, kk, mi, ni")
    knl = pl.tensorize(knl, "insn", "mma_m16n8k8_f64", ahead=True)
    # tiles in shared memory, copied 16 bytes at a time
    knl = pl.add_prefetch(knl, "a", "wi, mi, ii_lane, ii_reg, kk, ki", temporary_name="a_tile", pad=4, vec=2)
    knl = pl.add_prefetch(knl, "b", "wj, ni, jj_lane, jj_reg, kk, ki", temporary_name="b_tile", pad=4, vec=2)
    return pl.pipeline(knl, "ko", stages=3, via="cp.async")


def transformed() -> pl.LoopKernel:
    return on_tensor_cores(program())


def inputs(rng: np.random.Generator, m: int, n: int, p: int) -> dict[str, Any]:
    return {"a": rng.random((m, p)), "b": rng.random((p, n))}


def expected(a: Any, b: Any) -> dict[str, Any]:
    return {"c": a @ b}


if __name__ == "__main__":
    arrays = inputs(np.random.default_rng(0), m=300, n=400, p=500)
    wanted = expected(**arrays)
    result = pl.compile(transformed())(**arrays)
    np.testing.assert_allclose(result.c, wanted["c"], rtol=1e-12)
    print("matmul_float64_mma: 300 x 400 elements, sums of 500, agree with NumPy")
