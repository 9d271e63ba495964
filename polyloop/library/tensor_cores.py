"""Matrix products on tensor cores: by warps (``mma.sync``), and by groups of four warps (``wgmma``)."""

from __future__ import annotations

import polyloop as pl
from polyloop.kernel.intrinsic import INTRINSICS
from polyloop.transform.together import as_one

__all__ = [
    "in_double_precision", "in_panels", "in_turns_with_roles", "in_warps", "on_groups_of_warps", "on_tensor_cores",
    "stored_by_boxes", "stored_by_rows", "with_padded_copies", "with_roles",
]  # fmt: skip


def in_warps(
    knl: pl.LoopKernel, block: tuple[int, int, int], warp: tuple[int, int], tile: tuple[int, int, int],
    group: int = 1, *, lanes: int = 32, term: str = "k",
) -> pl.LoopKernel:  # fmt: skip
    """Return a product whose loops are those of blocks, of warps, and of the tiles of one instruction.

    ::

        # before
        for i, j:  c[i, j] = sum(k, a[i, k]*b[k, j])
        # after
        each block (by, bx), each warp (wi, wj):  for mi, ni, ii, jj:  c[..] = sum((ko, kk, ki), ..)

    *block* and *tile* are rows, columns and terms, *warp* rows and columns.  Blocks run down the rows, *group* columns
    of blocks at a time.
    """
    (rows, columns, terms), (height, width), (m, n, depth) = block, warp, tile
    high = rows // height
    knl = pl.split_iname(knl, "i", rows, outer_iname="by", inner_iname="i_block", outer_tag="g.1")
    knl = pl.split_iname(knl, "i_block", height, outer_iname="wi", inner_iname="i_warp", outer_tag=f"l/{lanes}%{high}")
    knl = pl.split_iname(knl, "i_warp", m, outer_iname="mi", inner_iname="ii", outer_tag="unr")
    knl = pl.split_iname(knl, "j", columns, outer_iname="bx", inner_iname="j_block")
    if group == 1:
        knl = pl.tag_inames(knl, "bx:g.0")
    else:
        knl = pl.split_iname(knl, "bx", group, outer_tag="g.2", inner_tag="g.0")
    knl = pl.split_iname(knl, "j_block", width, outer_iname="wj", inner_iname="j_warp", outer_tag=f"l/{lanes * high}")
    knl = pl.split_iname(knl, "j_warp", n, outer_iname="ni", inner_iname="jj", outer_tag="unr")
    knl = pl.split_iname(knl, term, terms, outer_iname="ko", inner_iname="k_block")
    return pl.split_iname(knl, "k_block", depth, outer_iname="kk", inner_iname="ki", outer_tag="unr")


@as_one
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
    term: str = "k",
    within: str = "insn",
) -> pl.LoopKernel:
    """Return a product in blocks of some rows, columns and terms, by an intrinsic that adds up *depth* terms.

    Tiles are copied *vec* elements at a time: asynchronously, if these are 4 bytes at least.  Blocks run down the rows,
    *group* columns of blocks at a time: what these read stays in the cache.  With *ahead*, operands come into registers
    while the terms before are added up; with *spread*, the copies of the next tiles are started in equal shares at each
    step of *depth* terms.  With *swizzled*, tiles that ldmatrix reads are not padded: rows that begin 16 bytes off cut
    the sectors of 32 bytes that come from memory, and these then come twice.  With *turned*, columns of the product are
    rows of the instruction: for one that takes neighbours of these from one lane.  *term* and *within* are the loop
    over terms and the instruction of a product in parts.
    """
    knl = in_warps(knl, block, warp, (*((8, 16) if turned else (16, 8)), depth), group, term=term)
    knl = pl.tensorize(pl.prioritize_loops(knl, "ko, kk"), within, intrinsic, ahead=ahead)
    knl = pl.prioritize_loops(knl, "ko, kk, ni, mi" if turned else "ko, kk, mi, ni")
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
    (rows, columns, terms), (height, width) = block, warp
    threads, steps = 32 * (rows // height) * (columns // width), terms // depth
    axis = len(knl.arrays()["a"].shape or ()) - 2
    for array, length in (("a", rows), ("b", columns)):
        share = length * terms // (vec * threads * steps)
        knl = pl.split_iname(
            knl, f"{array}_dim_{axis}_outer", share, outer_iname=f"{array}_step", inner_iname=f"{array}_share",
            outer_tag="unr", inner_tag="unr", do_tagged_check=False,
        )  # fmt: skip
    return pl.rename_inames(knl, "a_step, b_step", "kk", existing_ok=True)


def in_double_precision(
    knl: pl.LoopKernel, vec: int = 2, block: tuple[int, int] = (128, 128), warp: tuple[int, int] = (64, 32), *,
    grouped: bool = True, term: str = "k", within: str = "insn",
) -> pl.LoopKernel:  # fmt: skip
    """Return a product of float64 by ``mma.sync``, in blocks and warps of some rows and columns.

    Copies take *vec* elements.  Blocks run down the rows, 4 columns of blocks at a time, if they are *grouped*.  *term*
    and *within* are the loop over terms and the instruction of a product in parts.
    """
    knl = in_warps(knl, (*block, 16), warp, (16, 8, 8), 4 if grouped else 1, term=term)
    knl = pl.tensorize(pl.prioritize_loops(knl, "ko, kk"), within, "mma_m16n8k8_f64", ahead=True)
    knl = pl.prioritize_loops(knl, "ko, kk, mi, ni")
    # tiles in shared memory, copied 16 bytes at a time
    wide = vec if vec > 1 else None
    knl = pl.add_prefetch(knl, "a", "wi, mi, ii_lane, ii_reg, kk, ki", temporary_name="a_tile", pad=4, vec=wide)
    knl = pl.add_prefetch(knl, "b", "wj, ni, jj_lane, jj_reg, kk, ki", temporary_name="b_tile", pad=4, vec=wide)
    return pl.pipeline(knl, "ko", stages=3, via="cp.async")


@as_one
def on_groups_of_warps(
    knl: pl.LoopKernel, intrinsic: str, rows: int = 128, columns: int = 128, stages: int = 4, group: int = 1,
    lag: int = 0, via: str = "cp.async", panels: bool = True, term: str = "k", within: str = "insn",
    operands: tuple[str, ...] = ("a", "b"), divided: bool = True,
) -> pl.LoopKernel:  # fmt: skip
    """Return a product in blocks of some rows and columns, by an intrinsic for 64 rows and these columns.

    With *panels*, the second operand is stored by rows of n, otherwise by rows of k.  *term* and *within* are the loop
    over terms and the instruction of a product in parts, *operands* the arrays whose tiles are fetched: that of rows,
    and that of columns, or several for as many products *within* a block.  What is not *divided* among blocks here
    already is, and has the loops ``i_block`` and ``jj`` of a block; without a *term*, ``ko`` and ``k_block`` are there.

    Blocks run down the rows, *group* columns of blocks at a time: what these read stays in the cache.  Products are
    waited for *lag* iterations later, and tiles are held as long: of four stages, two are filled ahead if it is 1.
    """
    size = INTRINSICS[intrinsic].operands.itemsize
    # blocks, groups of four warps, and the tiles of one instruction
    if divided:
        knl = pl.split_iname(knl, "i", rows, outer_iname="by", inner_iname="i_block", outer_tag="g.1")
    knl = pl.split_iname(knl, "i_block", 64, outer_iname="wg", inner_iname="ii", outer_tag="l/128")
    if not divided:
        pass
    elif group == 1:
        knl = pl.split_iname(knl, "j", columns, outer_iname="bx", inner_iname="jj", outer_tag="g.0")
    else:
        knl = pl.split_iname(knl, "j", columns, outer_iname="bx", inner_iname="jj")
        knl = pl.split_iname(knl, "bx", group, outer_tag="g.2", inner_tag="g.0")
    if term:
        knl = pl.split_iname(knl, term, 128 // size, outer_iname="ko", inner_iname="k_block")
    knl = pl.split_iname(knl, "k_block", 32 // size, outer_iname="kk", inner_iname="ki", outer_tag="unr")
    knl = pl.prioritize_loops(knl, "ko, kk")
    knl = pl.tensorize(knl, within, intrinsic, lag=lag)
    # tiles in shared memory: rows of 128 bytes, swizzled
    rows_swept, columns_swept = "wg, ii_lane_0, ii_reg, ii_lane_2, kk, ki", "jj_reg_0, jj_lane, jj_reg_2, kk, ki"
    for number, array in enumerate(operands):
        tile = ("a_tile", "b_tile")[number] if number < 2 else f"{array}_tile"
        swept = columns_swept if number else rows_swept
        knl = pl.add_prefetch(knl, array, swept, temporary_name=tile, vec=16 // size)
        if number and panels and columns > 64:
            knl = in_panels(knl, tile, 64)
        knl = pl.swizzle(knl, tile, bits=3, base=(16 // size).bit_length() - 1, shift=3)
    return pl.pipeline(knl, "ko", stages=stages, via=via)


def in_panels(knl: pl.LoopKernel, tile: str, columns: int) -> pl.LoopKernel:
    """Return a product with a tile as panels of some columns, one behind the other."""
    axis = len(knl.temporaries[tile].shape or ()) - 1
    knl = pl.split_array_axis(knl, tile, axis, columns)
    return pl.tag_array_axes(knl, tile, ",".join([*(f"N{n}" for n in range(axis + 1, 2, -1)), "N1", "N2", "N0"]))


def with_padded_copies(
    knl: pl.LoopKernel, align_bytes: int = 128, names: str = "ab", vec: int = 1
) -> pl.LoopKernel:  # fmt: skip
    """Return a product of copies of a and b, made by a launch of its own, whose rows begin at multiples of some bytes.

    ::

        # before
        for i, j:  c[i, j] = sum(k, a[i, k]*b[k, j])
        # after
        for row, column:  a_rows[row, column] = a[row, column]     # and b_rows likewise
        for i, j:  c[i, j] = sum(k, a_rows[i, k]*b_rows[k, j])

    Copies of boxes ask for rows of whole 16 bytes, and are fast where rows begin with a line of the cache.  *names* are
    the operands that are copied, *vec* elements at a time.
    """
    for name, inames in (("a", "i, k"), ("b", "k, j")):
        if name not in names:
            continue
        row, column = f"{name}_row", f"{name}_column"
        knl = pl.add_prefetch(
            knl, name, inames, fetch_outer_inames=[], dim_arg_names=[row, column], default_tag=None,
            temporary_name=f"{name}_rows", temporary_address_space="global",
        )  # fmt: skip
        knl = pl.add_padding(knl, f"{name}_rows", 0, align_bytes)
        if vec > 1:
            knl = pl.split_iname(
                knl, column, vec, outer_iname=f"{column}_part", inner_iname=f"{column}_lane", inner_tag="vec"
            )
            column = f"{column}_part"
        knl = pl.split_iname(knl, column, 256, outer_tag="g.0", inner_tag="l.0")
        knl = pl.split_iname(knl, row, 16 if vec == 1 else 8, outer_tag="g.1", inner_tag="unr")
    return knl


def _buffered(
    knl: pl.LoopKernel, tag: str, array: str = "c", within: str | None = None
) -> tuple[pl.LoopKernel, int, int]:  # fmt: skip
    """Return a product whose results are in ``c_tile`` first, the bytes of one, and the swizzle's base for 16 bytes.

    *array* is where results are stored, *within* the instructions that do where others use it too.
    """
    names = [x for x in knl.inames if x.partition("_")[0] in ("wg", "ii", "jj")]
    dtype = knl.arrays()[array].dtype
    assert dtype is not None, "results have a type"
    knl = pl.buffer_array(
        knl, array, names, temporary_name="c_tile", temporary_address_space="local", default_tag=tag,
        within=within,
    )  # fmt: skip
    return knl, dtype.itemsize, (16 // dtype.itemsize).bit_length() - 1


def stored_by_rows(knl: pl.LoopKernel, columns: int, shares: str = "b_tile") -> pl.LoopKernel:
    """Return a product in blocks of some *columns* whose results go through shared memory, by threads, row by row.

    Rows may have any length.  Results lie where *shares* was, which is not read any more.
    """
    knl, _, base = _buffered(knl, "l.auto")
    knl = pl.swizzle(knl, "c_tile", bits=3, base=base, shift=columns.bit_length() - 1 - base)
    return pl.alias_temporaries(knl, [shares, "c_tile"])


def stored_by_boxes(
    knl: pl.LoopKernel, shares: str = "b_tile", array: str = "c", within: str | None = None
) -> pl.LoopKernel:  # fmt: skip
    """Return a product whose results go through shared memory, from where the copy engine stores them.

    They lie where *shares* was, which is not read any more, or in a place of their own if that is ``""``: then the next
    tiles come while they are stored.  Panels have rows of 128 bytes, swizzled.  *array* is where they are stored, by
    the instructions *within*.
    """
    knl, size, base = _buffered(knl, "box", array, within)
    knl = in_panels(knl, "c_tile", 128 // size)
    knl = pl.swizzle(knl, "c_tile", bits=3, base=base, shift=3)
    return pl.alias_temporaries(knl, [shares, "c_tile"]) if shares else knl


def with_roles(knl: pl.LoopKernel, copying: int = 40, computing: int = 232) -> pl.LoopKernel:
    """Return a product in which a thread of its own fetches tiles, as soon as their places are free.

    *copying* and *computing* are registers of the threads of both kinds, of blocks with two groups of four warps.
    """
    tiles = ", ".join(name for name in knl.temporaries if name.endswith("_tile") and name != "c_tile")
    registers = {"load": copying, "compute": computing}
    return pl.assign_roles(knl, {"load": tiles, "compute": "*"}, registers=registers)


def in_turns_with_roles(knl: pl.LoopKernel, blocks: int, copying: int = 40, computing: int = 232) -> pl.LoopKernel:
    """Return a product of *blocks* blocks that stay, in which a thread of its own fetches tiles, those of the next too.

    ::

        # before
        each block: for ko: wait for copies ko; ..; one thread starts copies ko + 2;  store results
        # after
        the thread: for each tile, ko: wait until the places are free; start copies ko
        the others: for each tile: for ko: wait for copies ko; ..; places of ko - 1 are free;  store results

    Results have a place of their own (``stored_by_boxes(knl, "")``).  *copying* and *computing* are registers of the
    threads of both kinds, of blocks with two groups of four warps.
    """
    return with_roles(pl.persist_blocks(knl, blocks, ahead=True), copying, computing)
