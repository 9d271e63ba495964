"""Matrix products whose threads keep pieces of the result in registers, by fused multiplications and additions."""

from __future__ import annotations

from dataclasses import dataclass

import polyloop as pl
from polyloop.transform.together import as_one

__all__ = ["Tiles", "in_cluster", "in_one_launch", "in_parts", "in_registers", "in_two_launches"]


@dataclass(frozen=True)
class Tiles:
    """Sizes of a schedule by :func:`in_registers`.

    Attributes
    ----------
    block, warp
        Rows and columns of the product that a block and a warp compute.
    terms
        Terms of a tile in shared memory.
    piece
        Neighbouring rows and columns of a thread: what it reads from shared memory, or stores, at once.
    lanes
        Threads of a warp along rows; the others lie along columns.
    vec
        Elements that a copy moves at once; rows of both operands are multiples of it.
    rows
        Rows of blocks that run down together before the next column, so that caches have what they read.
    unroll
        Steps of the loop over tiles that the compiler is asked to unroll.
    pad
        Elements between rows of a tile, which bring them into other banks.
    stages
        Buffers of tiles.  With two, the next tiles come through registers; more are filled by asynchronous copies.
    """

    block: tuple[int, int] = (128, 128)
    warp: tuple[int, int] = (64, 64)
    terms: int = 8
    piece: int = 4
    lanes: int = 8
    vec: int = 4
    rows: int = 8
    unroll: int = 2
    pad: int = 4
    stages: int = 2


@as_one
def in_registers(
    knl: pl.LoopKernel, tiles: Tiles, *, term: str = "k", grouped: bool = True, transposed: bool = False
) -> pl.LoopKernel:
    """Return the product ``c[i, j] = sum(k, a[i, k]*b[k, j])`` with pieces of it in registers of threads.

    ::

        # before
        for i, j:  c[i, j] = sum(k, a[i, k]*b[k, j])
        # after
        each block (by, bx), each tile of terms ko:
            a_tile, b_tile = parts of a and b          # the next ones are on their way in registers
            for ki:  c_part[i_hi, i_lo, j_hi, j_lo] += a_part*b_part

    Parameters
    ----------
    term
        The loop over terms.
    grouped
        Whether blocks run down *rows* rows of blocks at a time; they then take all three axes of the grid.
    transposed
        Whether the product is of ``b[j, k]``.
    """
    (rows, columns), (height, width), piece, vec = tiles.block, tiles.warp, tiles.piece, tiles.vec
    lanes, high = tiles.lanes, rows // height
    across = 32 // lanes
    # rows: blocks, warps, pieces of neighbouring rows, of which each thread has one of each
    knl = pl.split_iname(knl, "i", rows, outer_iname="by", inner_iname="i_block", outer_tag=None if grouped else "g.0")
    knl = pl.split_iname(knl, "i_block", height, outer_iname="wi", inner_iname="i_warp", outer_tag=f"l/32%{high}")
    knl = pl.split_iname(knl, "i_warp", lanes*piece, outer_iname="i_hi", inner_iname="i_piece", outer_tag="unr")
    knl = pl.split_iname(
        knl, "i_piece", piece, outer_iname="ti", inner_iname="i_lo", outer_tag=f"l/{across}%{lanes}", inner_tag="unr"
    )
    # columns: the same, with neighbours stored at once where rows of the result are aligned
    knl = pl.split_iname(knl, "j", columns, outer_iname="bx", inner_iname="j_block", outer_tag="g.1")
    knl = pl.split_iname(knl, "j_block", width, outer_iname="wj", inner_iname="j_warp", outer_tag=f"l/{32*high}")
    knl = pl.split_iname(knl, "j_warp", across*piece, outer_iname="j_hi", inner_iname="j_piece", outer_tag="unr")
    knl = pl.split_iname(
        knl, "j_piece", piece, outer_iname="tj", inner_iname="j_lo", outer_tag=f"l%{across}",
        inner_tag="vec" if vec == piece else "unr",
    )  # fmt: skip
    if grouped:
        knl = pl.split_iname(
            knl, "by", tiles.rows, outer_iname="bg", inner_iname="br", outer_tag="g.2", inner_tag="g.0"
        )
    knl = pl.split_iname(knl, term, tiles.terms, outer_iname="ko", inner_iname="ki", inner_tag="unr")
    knl = pl.prioritize_loops(knl, "ko, ki, j_hi, i_hi, i_lo, j_lo")
    # tiles in shared memory, copied by all threads; that of a is stored transposed
    is_async, wide = tiles.stages > 2, vec if vec > 1 else None
    rank = len(knl.arrays()["a"].shape or ())
    knl = pl.add_prefetch(
        knl, "a", "wi, i_hi, ti, i_lo, ki", temporary_name="a_tile", pad=tiles.pad,
        dim_tags=",".join([*(f"N{rank - 1 - n}" for n in range(rank - 2)), "N0", "N1"]),
        vec=None if is_async else wide,  # asynchronous copies do not turn a vector
    )  # fmt: skip
    knl = pl.add_prefetch(
        knl, "b", "wj, j_hi, tj, j_lo, ki", temporary_name="b_tile", vec=wide,
        dim_tags="N0,N1" if transposed else None, pad=tiles.pad if transposed else 0,
    )  # fmt: skip
    # what a thread needs of them for one term, in registers
    for tile, part, axes in (("b_tile", "b_part", "j_hi, j_lo"), ("a_tile", "a_part", "i_hi, i_lo")):
        knl = pl.add_prefetch(
            knl, tile, compute_at="ki", storage_axes=axes, temporary_name=part, temporary_address_space="private",
            vec=piece,
        )  # fmt: skip
    knl = pl.pipeline(knl, "ko", stages=tiles.stages, via="cp.async" if is_async else "registers")
    return pl.tag_inames(knl, f"ko:unr_hint.{tiles.unroll}") if tiles.unroll > 1 else knl


def in_parts(knl: pl.LoopKernel, terms: int) -> pl.LoopKernel:
    """Return the product with blocks that sum up *terms* terms each, for few rows and columns and many terms.

    ::

        # before
        for i, j:  c[i, j] = sum(k, a[i, k]*b[k, j])
        # after
        for i, j:  c[i, j] = 0
        for part, i, j:  atomic c[i, j] += sum(k_part, a[i, k]*b[k, j])      # k = terms*part + k_part

    Blocks take the third axis of the grid for parts; what remains of the sum is over ``k_part``.
    """
    knl = pl.split_iname(knl, "k", terms, outer_iname="part", inner_iname="k_part")
    return pl.tag_inames(pl.reduce_atomically(knl, "part"), "part:g.2")


def in_two_launches(knl: pl.LoopKernel, terms: int, *, divided: bool = True) -> pl.LoopKernel:
    """Return the product with blocks that store sums of *terms* terms each, and a second launch that adds these up.

    ::

        # before
        for i, j:  c[i, j] = sum(k, a[i, k]*b[k, j])
        # after
        for parts, i, j:  sums[i, j, parts] = sum(k_part, a[i, k]*b[k, j])   # id: compute_sums
        for row, column:  c[row, column] = sum(part, sums[row, column, part])

    As :func:`in_parts` otherwise.  The sums of a part lie together.  Rows and columns of the second launch are
    *divided* among blocks here, or left to the caller.
    """
    knl = pl.split_iname(knl, "k", terms, outer_iname="part", inner_iname="k_part")
    knl = pl.stage_reduction(
        knl, "part", sweep_inames="i, j", new_inames="i_sum, j_sum, parts", temporary_name="sums",
        temporary_address_space="global",
    )  # fmt: skip
    knl = pl.tag_array_axes(knl, "sums", "N1,N0,N2")
    for old, new in (("i", "row"), ("j", "column"), ("i_sum", "i"), ("j_sum", "j")):
        knl = pl.rename_iname(knl, old, new)
    knl = pl.tag_inames(knl, "parts:g.2")
    if not divided:
        return knl
    knl = pl.split_iname(knl, "column", 256, outer_tag="g.0", inner_tag="l.0")
    return pl.tag_inames(knl, "row:g.1")


def in_one_launch(
    knl: pl.LoopKernel, terms: int, block: tuple[int, int], threads: int, axes: tuple[str, str] = ("g.1", "g.0"),
    together: int = 4,
) -> pl.LoopKernel:  # fmt: skip
    """Return the product of :func:`in_two_launches` with the second launch in tiles, for ``pl.join_launches``.

    ::

        # before
        for i, j:  c[i, j] = sum(k, a[i, k]*b[k, j])
        # after
        for parts, i, j:  sums[i, j, parts] = sum(k_part, a[i, k]*b[k, j])   # id: compute_sums
        each tile (row_tile, column_tile):
            for row_steps, column_in:  c[row, column] = sum(part, sums[row, column, part])

    Parameters
    ----------
    block, axes
        Rows and columns of a tile, which blocks of both launches have, and the block axes of rows and of columns.
    threads
        Threads of a block, each of which adds up 4 neighbours of *together* rows at one time.
    """
    (rows, columns), lanes = block, block[1] // 4
    knl = in_two_launches(knl, terms, divided=False)
    knl = pl.split_iname(knl, "row", rows, outer_iname="row_tile", inner_iname="row_block", outer_tag=axes[0])
    knl = pl.split_iname(
        knl, "column", columns, outer_iname="column_tile", inner_iname="column_block", outer_tag=axes[1]
    )
    knl = pl.split_iname(
        knl, "row_block", threads // lanes, outer_iname="row_step", inner_iname="row_in", inner_tag=f"l/{lanes}"
    )
    knl = pl.split_iname(knl, "row_step", together, outer_iname="row_steps", inner_iname="row_ilp", inner_tag="ilp")
    return pl.split_iname(
        knl, "column_block", 4, outer_iname="column_in", inner_iname="lane", outer_tag=f"l%{lanes}", inner_tag="vec"
    )


def in_cluster(knl: pl.LoopKernel, parts: int, terms: int, block: tuple[int, int], threads: int) -> pl.LoopKernel:
    """Return the product with tiles of which the blocks of a cluster sum up some terms each, and add up a share each.

    ::

        # before
        for i, j:  c[i, j] = sum(k, a[i, k]*b[k, j])
        # after
        each cluster (by, bx), each `block` of it:
            for i_block, jj:  sums[block, i_block, jj] = sum(k_part, a[i, k]*b[k, j])      # id: compute_sums
        each block `share` of it:
            for row, column:  c[i, j] = sum(part, sums[part, share*.. + row, column])  # those of other blocks

    There are *parts* blocks with *terms* terms each, and no more terms than that.

    Parameters
    ----------
    block
        Rows and columns of a tile: 64 or 128 columns, and so many rows that a block's share of them is a multiple of
        those that it adds up at once.
    threads
        Of a block, each of which adds up 4 neighbours at once.
    """
    rows, columns = block
    lanes = columns // 4
    knl = pl.assume(knl, f"p <= {parts * terms}")
    knl = pl.split_iname(knl, "i", rows, outer_iname="by", inner_iname="i_tile", outer_tag="g.1")
    knl = pl.split_iname(knl, "j", columns, outer_iname="bx", inner_iname="j_tile", outer_tag="g.0")
    knl = pl.split_iname(knl, "k", terms, outer_iname="part", inner_iname="k_part")
    knl = pl.stage_reduction(
        knl, "part", sweep_inames="i_tile, j_tile", new_inames="i_block, jj, block", temporary_name="sums",
        temporary_address_space="cluster",
    )  # fmt: skip
    step = columns + 8  # lanes that have neighbouring rows store to other banks
    knl = pl.tag_array_axes(knl, "sums", f"stride:{rows * step}, stride:{step}, stride:1")
    knl = pl.split_iname(knl, "i_tile", rows // parts, outer_iname="share", inner_iname="row", outer_tag="c.0")
    knl = pl.split_iname(
        knl, "row", threads // lanes, outer_iname="row_step", inner_iname="row_in", outer_tag="unr",
        inner_tag=f"l/{lanes}",
    )  # fmt: skip
    knl = pl.split_iname(
        knl, "j_tile", 4, outer_iname="column", inner_iname="lane", outer_tag=f"l%{lanes}", inner_tag="vec"
    )
    return pl.tag_inames(knl, "block:c.0, part:unr")
