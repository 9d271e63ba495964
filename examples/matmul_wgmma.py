"""A matrix product of bfloat16 on Hopper: groups of four warps multiply tiles in shared memory with `wgmma` (sm_90a).

Blocks of 128 by 128 elements, two groups of warps of 64 rows each; the next tiles are on their way by asynchronous
copies, and the products of an iteration run while the next one begins (`lag=1`).  Tiles have rows of 128 bytes,
swizzled, as the instruction reads them; that of the second operand consists of panels of 64 columns.  Copies store
zeros where a tile reaches beyond its matrix.  `benchmarks/gpu/precisions.py` has the larger blocks that large matrices
ask for.
"""

from typing import Any

import ml_dtypes
import numpy as np

import polyloop as pl
from examples import matmul_mma
from polyloop.runtime.gpu import gpu_available

SIZES = [
    {"m": 1, "n": 8, "p": 8},
    {"m": 65, "n": 24, "p": 72},
    {"m": 130, "n": 136, "p": 200},
]
SMALL = [{"m": 5, "n": 8, "p": 16}]
ARCH = "sm_90a"

inputs = matmul_mma.inputs
expected = matmul_mma.expected


def program(dtype: Any = ml_dtypes.bfloat16) -> pl.LoopKernel:
    return matmul_mma.program(dtype, name="matmul_wgmma", target=pl.CudaTarget(ARCH))


def by_rows_of_k(dtype: Any = np.float32) -> pl.LoopKernel:
    """Return the product of a with b transposed, as operands of 32 bits have to be stored."""
    return pl.make_kernel(
        "{[i, j, k]: 0 <= i < m and 0 <= j < n and 0 <= k < p}",
        "c[i, j] = sum(k, a[i, k]*b[j, k])",
        [pl.GlobalArg("a", dtype, shape="m, p"), pl.GlobalArg("b", dtype, shape="n, p"),
         pl.GlobalArg("c", np.float32, shape="m, n"), ...],
        name="matmul_wgmma",
        target=pl.CudaTarget(ARCH),
        assumptions="m >= 1 and n >= 1 and p >= 1 and n mod 4 = 0 and p mod 4 = 0",
    )  # fmt: skip


def on_groups_of_warps(
    knl: pl.LoopKernel, intrinsic: str, rows: int = 128, columns: int = 128, stages: int = 4, group: int = 1,
    lag: int = 0, via: str = "cp.async", panels: bool = True,
) -> pl.LoopKernel:  # fmt: skip
    """Return a product in blocks of some rows and columns, by an intrinsic for 64 rows and these columns.

    With *panels*, the second operand is stored by rows of n, otherwise by rows of k.

    Blocks run down the rows, *group* columns of blocks at a time: what these read stays in the cache.  Products are
    waited for *lag* iterations later, and tiles are held as long: of four stages, two are filled ahead if it is 1.
    """
    size = 4 if intrinsic.endswith("tf32") else 2
    # blocks, groups of four warps, and the tiles of one instruction
    knl = pl.split_iname(knl, "i", rows, outer_iname="by", inner_iname="i_block", outer_tag="g.1")
    knl = pl.split_iname(knl, "i_block", 64, outer_iname="wg", inner_iname="ii", outer_tag="l/128")
    if group == 1:
        knl = pl.split_iname(knl, "j", columns, outer_iname="bx", inner_iname="jj", outer_tag="g.0")
    else:
        knl = pl.split_iname(knl, "j", columns, outer_iname="bx", inner_iname="jj")
        knl = pl.split_iname(knl, "bx", group, outer_tag="g.2", inner_tag="g.0")
    knl = pl.split_iname(knl, "k", 128 // size, outer_iname="ko", inner_iname="k_block")
    knl = pl.split_iname(knl, "k_block", 32 // size, outer_iname="kk", inner_iname="ki", outer_tag="unr")
    knl = pl.prioritize_loops(knl, "ko, kk")
    knl = pl.tensorize(knl, "insn", intrinsic, lag=lag)
    # tiles in shared memory: rows of 128 bytes, swizzled
    knl = pl.add_prefetch(knl, "a", "wg, ii_lane_0, ii_reg, ii_lane_2, kk, ki", temporary_name="a_tile", vec=16 // size)
    knl = pl.add_prefetch(knl, "b", "jj_reg_0, jj_lane, jj_reg_2, kk, ki", temporary_name="b_tile", vec=16 // size)
    if panels and columns > 64:
        knl = pl.split_array_axis(knl, "b_tile", 1, 64)
        knl = pl.tag_array_axes(knl, "b_tile", "N1,N2,N0")
    for tile in ("a_tile", "b_tile"):
        knl = pl.swizzle(knl, tile, bits=3, base=3 if size == 2 else 2, shift=3)
    return pl.pipeline(knl, "ko", stages=stages, via=via)


def stored_by_boxes(knl: pl.LoopKernel, shares: str = "b_tile") -> pl.LoopKernel:
    """Return a product whose sums go through shared memory, from where the copy engine stores them.

    They lie where *shares* was, which nobody reads any more.  Panels have 32 columns: rows of 128 bytes, swizzled.
    """
    names = [x for x in knl.inames if x.partition("_")[0] in ("wg", "ii", "jj")]
    knl = pl.buffer_array(
        knl, "c", names, temporary_name="c_tile", temporary_address_space="local", default_tag="box"
    )
    knl = pl.split_array_axis(knl, "c_tile", 1, 32)
    knl = pl.tag_array_axes(knl, "c_tile", "N1,N2,N0")
    knl = pl.swizzle(knl, "c_tile", bits=3, base=2, shift=3)
    return pl.alias_temporaries(knl, [shares, "c_tile"]) if shares else knl


def transformed() -> pl.LoopKernel:
    return on_groups_of_warps(program(), "wgmma_m64n128k16_bf16", lag=1)


if __name__ == "__main__":
    arrays = inputs(np.random.default_rng(0), m=300, n=400, p=504)
    wanted = expected(**arrays)
    result = pl.compile(transformed(), target=None if gpu_available()[0] else pl.CTarget())(**arrays)
    np.testing.assert_allclose(result.c, wanted["c"], rtol=1e-4, atol=1e-4)
    print("matmul_wgmma: 300 x 400 elements, sums of 504, agree with NumPy")
