"""A matrix product of bfloat16 on tensor cores: warps add up tiles of 16 by 8 by 16 with `mma.sync` (sm_80 and later).

Blocks of 64 by 64 elements, four warps of 32 by 32; the next tiles are on their way by asynchronous copies, and rows
of tiles are padded so that `ldmatrix` finds each of 8 rows in other banks.  Copies store zeros where a tile reaches
beyond its matrix, so that all blocks have one text.  How many elements they move at once follows from what the lengths
of rows are multiples of; `transformed` is for multiples of 8, and `matmul_mma_any_size.py` chooses.
`benchmarks/gpu/precisions.py` has the larger blocks that large matrices ask for.
"""

from typing import Any

import ml_dtypes
import numpy as np

import polyloop as pl

SIZES = [
    {"m": 1, "n": 8, "p": 8},
    {"m": 65, "n": 24, "p": 40},
    {"m": 64, "n": 72, "p": 64},
]
SMALL = [{"m": 5, "n": 8, "p": 16}]


def program(
    dtype: Any = ml_dtypes.bfloat16, result: Any = np.float32, multiple: int = 8, *, name: str = "matmul_mma",
    target: pl.Target | None = None,
) -> pl.LoopKernel:  # fmt: skip
    return pl.make_kernel(
        "{[i, j, k]: 0 <= i < m and 0 <= j < n and 0 <= k < p}",
        "c[i, j] = sum(k, a[i, k]*b[k, j])",
        [
            pl.GlobalArg("a", dtype, shape="m, p"),
            pl.GlobalArg("b", dtype, shape="p, n"),
            pl.GlobalArg("c", result, shape="m, n"),
            ...,
        ],
        name=name,
        target=target,
        assumptions=f"m >= 1 and n >= 1 and p >= 1 and n mod {multiple} = 0 and p mod {multiple} = 0",
    )


def on_tensor_cores(
    knl: pl.LoopKernel,
    intrinsic: str,
    depth: int,
    vec: int,
    block: tuple[int, int, int] = (64, 64, 32),
    warp: tuple[int, int] = (32, 32),
    stages: int = 4,
    group: int = 1,
    *,
    ahead: bool = False,
    spread: bool = False,
    swizzled: bool = False,
    turned: bool = False,
) -> pl.LoopKernel:
    """Return a product in blocks of some rows, columns and terms, by an intrinsic that adds up *depth* terms.

    Tiles are copied *vec* elements at a time: asynchronously, if these are 4 bytes at least.  Blocks run down the rows,
    *group* columns of blocks at a time: what these read stays in the cache.  With *ahead*, operands come into registers
    while the terms before are added up; with *spread*, the copies of the next tiles are started in equal shares at each
    step of *depth* terms.  With *swizzled*, tiles that ldmatrix reads are not padded: rows that begin 16 bytes off cut
    the sectors of 32 bytes that come from memory, and these then come twice.  With *turned*, columns of the product are
    rows of the instruction: for one that takes neighbours of these from one lane.
    """
    (rows, columns, terms), (height, width) = block, warp
    high = rows // height
    tile_rows, tile_columns = (8, 16) if turned else (16, 8)
    # blocks, warps, and the tiles of one instruction
    knl = pl.split_iname(knl, "i", rows, outer_iname="by", inner_iname="i_block", outer_tag="g.1")
    knl = pl.split_iname(knl, "i_block", height, outer_iname="wi", inner_iname="i_warp", outer_tag=f"l/32%{high}")
    knl = pl.split_iname(knl, "i_warp", tile_rows, outer_iname="mi", inner_iname="ii", outer_tag="unr")
    if group == 1:
        knl = pl.split_iname(knl, "j", columns, outer_iname="bx", inner_iname="j_block", outer_tag="g.0")
    else:
        knl = pl.split_iname(knl, "j", columns, outer_iname="bx", inner_iname="j_block")
        knl = pl.split_iname(knl, "bx", group, outer_tag="g.2", inner_tag="g.0")
    knl = pl.split_iname(knl, "j_block", width, outer_iname="wj", inner_iname="j_warp", outer_tag=f"l/{32 * high}")
    knl = pl.split_iname(knl, "j_warp", tile_columns, outer_iname="ni", inner_iname="jj", outer_tag="unr")
    knl = pl.split_iname(knl, "k", terms, outer_iname="ko", inner_iname="k_block")
    knl = pl.split_iname(knl, "k_block", depth, outer_iname="kk", inner_iname="ki", outer_tag="unr")
    knl = pl.prioritize_loops(knl, "ko, kk, ni, mi" if turned else "ko, kk, mi, ni")
    knl = pl.tensorize(knl, "insn", intrinsic, ahead=ahead)
    # tiles in shared memory, copied some elements at a time
    whole = {"a_tile", "b_tile"} if depth == 16 else {"a_tile"}  # tiles that ldmatrix reads
    whole = whole if swizzled else set()
    pads = {"a_tile": depth // 2, "b_tile": 8} | dict.fromkeys(whole, 0)
    swept = {"a_tile": "wi, mi, ii_lane, ii_reg, kk, ki", "b_tile": "wj, ni, jj_lane, jj_reg, kk, ki"}
    for tile, sweep in swept.items():
        lanes = vec if vec > 1 else None
        knl = pl.add_prefetch(knl, tile[0], sweep, temporary_name=tile, pad=pads[tile], vec=lanes)
        knl = pl.swizzle(knl, tile) if tile in whole else knl
    if vec == 1:
        knl = pl.tag_inames(knl, "jj_reg:unr", force=True)  # which are stored one by one, too
    if vec * 32 // depth < 4:
        return pl.pipeline(knl, "ko", stages=2, via="registers")
    knl = pl.pipeline(knl, "ko", stages=stages, via="cp.async")
    if not spread:
        return knl
    threads, steps = 32 * high * (columns // width), terms // depth
    for array, length in (("a", rows), ("b", columns)):
        share = length * terms // (vec * threads * steps)
        knl = pl.split_iname(
            knl, f"{array}_dim_0_outer", share, outer_iname=f"{array}_step", inner_iname=f"{array}_share",
            outer_tag="unr", inner_tag="unr", do_tagged_check=False,
        )  # fmt: skip
    return pl.rename_inames(knl, "a_step, b_step", "kk", existing_ok=True)


def transformed(multiple: int = 8) -> pl.LoopKernel:
    return on_tensor_cores(program(multiple=multiple), "mma_m16n8k16_bf16", depth=16, vec=multiple)


def inputs(rng: np.random.Generator, m: int, n: int, p: int) -> dict[str, Any]:
    shapes = {"a": (m, p), "b": (p, n)}
    return {name: (rng.random(shape) - 0.5).astype(ml_dtypes.bfloat16) for name, shape in shapes.items()}


def expected(a: Any, b: Any) -> dict[str, Any]:
    return {"c": a.astype(np.float32) @ b.astype(np.float32)}


if __name__ == "__main__":
    arrays = inputs(np.random.default_rng(0), m=300, n=400, p=504)
    wanted = expected(**arrays)
    result = pl.compile(transformed())(**arrays)
    np.testing.assert_allclose(result.c, wanted["c"], rtol=1e-4, atol=1e-4)
    print("matmul_mma: 300 x 400 elements, sums of 504, agree with NumPy")
