"""Products with weights of few bits, which threads convert in registers: the first operand of ``wgmma``.

The product is turned: columns of the weights are rows of a tile, and rows of ``a`` are its columns, 8 to 256 of them.
So few rows fill an instruction, and weights go from shared memory to registers and no way back.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

import polyloop as pl
from polyloop.expr.dtypes import dtype_name, to_dtype
from polyloop.library.fragments import in_fragments, in_panels, short_name

__all__ = ["in_registers", "program"]

_TERMS: Final = 64
"""Of a tile: rows of 128 bytes."""
_MOST_ROWS: Final = 256
_MOST_PARTS: Final = 8
"""Blocks of a cluster."""
_GROUPS: Final = 2
"""Groups of four warps that may have the registers of a third one."""


def program(
    weights: str = "int4", dtype: Any = "bfloat16", group: int = 0, *, rows: int = 16, columns: int = 64,
    parts: int = 1, terms: int = 0,
) -> pl.LoopKernel:  # fmt: skip
    """Return a product with weights of 8 or 4 bits, as a sum over tiles of 64 terms for blocks of some elements.

    ::

        for by, bx:                                              # block of rows of a, and of columns of weights
            for t:                                               # tile of terms
                v[j, k] = w(q[k, j])*scale[k//group, j]
                acc[j, i] = acc[j, i] + sum(k, v[j, k]*a[i, k])
            c[i, j] = acc[j, i]

    With *parts*, each of them sums up *terms* terms to ``sums``, whose sum is the result: for few rows, of which there
    are too few blocks otherwise.

    Parameters
    ----------
    weights, dtype, group
        As for :func:`polyloop.library.fused.dequantized`, which tells the arguments of a call, too.
    rows, columns
        Of a block: rows of ``a``, 8 to 256, and columns of weights, a multiple of 64.
    parts, terms
        Blocks of a cluster, 8 at most, and their terms, a multiple of 64: there are no more terms than of all parts.

    Returns
    -------
    LoopKernel
        n and p are multiples of 16; with scales of groups, p is one of 64 and of *group*.

    Raises
    ------
    ArgumentError
        ``bad-value``: blocks or parts of other sizes.
    """
    _check(rows, columns, parts, terms)
    element = to_dtype(dtype)
    word, at, columns_of = dtype_name(element), f"{_TERMS}*t + k", f"{columns}*bx + j"
    if weights == "int4":
        value = f"((q[{_TERMS // 2}*t + k//2, {columns_of}] >> 4*(k % 2) & 15 ^ 8) - 8)"
    else:
        value = f"q[{at}, {columns_of}]"
    scaled = f"cast(float32, {value})*scale[({at})//{group}, {columns_of}]" if group else value
    around, tiles, result = "by, bx", "0 <= t", f"c[{rows}*by + i, {columns_of}]"
    factor = "" if group else f"scale[{columns_of}]*"
    last = f"{result} = {factor}acc[j, i]   {{id=c}}"
    if parts > 1:
        around, tiles = "by, bx, part", f"0 <= part < {parts} and {terms}*part <= {_TERMS}*t < {terms}*part + {terms}"
        last = f"""
            <float32> sums[part, i, j] = acc[j, i]   {{id=sums}}
            end
            {result} = {factor}sum(s, sums[s, i, j])   {{id=c}}
        """
    bits = to_dtype("uint8" if weights == "int4" else weights)
    return pl.make_kernel(
        [
            f"{{[by, bx]: 0 <= by and {rows}*by < m and 0 <= bx and {columns}*bx < n}}",
            *([f"{{[s]: 0 <= s < {parts}}}"] if parts > 1 else []),
            f"{{[{'part, ' * (parts > 1)}t]: {tiles} and {_TERMS}*t < p}}",
            f"{{[i]: 0 <= i < {rows} and {rows}*by + i < m}}",
            f"{{[j]: 0 <= j < {columns} and {columns}*bx + j < n}}",
            *(f"{{[{x}]: 0 <= {x} < {_TERMS} and {_TERMS}*t + {x} < p}}" for x in "kl"),
        ],
        f"""
        for by, bx
            {"for part" * (parts > 1)}
            <float32> acc[j, i] = 0                                                       {{id=acc_0}}
            for t
                for j, k
                    <{word}> v[j, k] = cast({word}, {scaled})                             {{id=v}}
                end
                for j, i
                    acc[j, i] = acc[j, i] + sum(l, v[j, l]*a[{rows}*by + i, {_TERMS}*t + l])   {{id=acc}}
                end
            end
            {last}
        end
        """,
        [
            pl.GlobalArg("a", element, shape="m, p"),
            pl.GlobalArg("q", bits, shape="p//2, n" if weights == "int4" else "p, n"),
            pl.GlobalArg("scale", np.float32, shape=f"p//{group}, n" if group else "n"),
            pl.GlobalArg("c", element, shape="m, n"),
            ...,
        ],
        name="product_dequantized",
        target=pl.CudaTarget("sm_90a"),
        loop_priority=[f"{around}, t, j"],
        silenced_warnings=["not-vectorized"],  # results of a thread are in several rows
        assumptions=f"m >= 1 and n >= 1 and p >= 1 and n mod 16 = 0 and p mod {_TERMS if group else 16} = 0"
                    + f" and p mod {group} = 0" * bool(group) + f" and p <= {parts * terms}" * (parts > 1),
    )


def in_registers(
    knl: pl.LoopKernel, stages: int = 6, *, roles: bool = False, boxes: bool = False
) -> pl.LoopKernel:  # fmt: skip
    """Return a product in blocks of groups of four warps, 64 columns of weights each, which convert what they multiply.

    ::

        # before
        for by, bx:  for t:  v[j, k] = w(q[k, j])*..;  acc[j, i] = acc[j, i] + sum(k, v[j, k]*a[i, k])
        # after
        each block (by, bx), each tile of terms t:
            a_tile, q_tile, scale_tile = parts of a, q and scale, by the copy engine, *stages* - 1 ahead
            each thread: v = w(q_tile)*scale_tile, its part of the first operand;  acc += v*a_tile

    With *roles*, a thread of its own fetches, and groups do not meet; two groups have 232 registers a thread.  With
    *boxes*, results go through the place of ``a_tile``, of more than 48 KiB with all tiles, from where the copy engine
    stores them.
    """
    word, rows = short_name(knl, "a"), (knl.temporaries["acc"].shape or ())[1]
    knl = _in_cluster(knl) if "sums" in knl.temporaries else pl.tag_inames(knl, "by:g.1, bx:g.0")
    knl = pl.split_iname(knl, "j", 64, outer_iname="wg", inner_iname="jj", outer_tag="l/128")
    knl = pl.split_iname(knl, "l", 16, outer_iname="kk", inner_iname="ki", outer_tag="unr")
    # terms lie on lanes and in registers as the first operand does
    knl = pl.split_iname(knl, "k", 8, outer_iname="k_reg_2", inner_iname="k_in", outer_tag="unr")
    knl = pl.split_iname(
        knl, "k_in", 2, outer_iname="k_lane", inner_iname="k_reg_0", outer_tag="l%4", inner_tag="unr"
    )
    knl = in_fragments(knl, (8, 2, 4), "v")
    knl = pl.set_temporary_address_space(knl, "v", "local")
    knl = pl.tensorize(knl, "id:acc", f"wgmma_m64n{rows}k16_{word}", from_registers=True)
    knl = in_fragments(knl, (8, 2, 4), "acc")
    own = "wg, jj_lane_2, jj_reg, jj_lane_0, k_reg_2, k_lane, k_reg_0"
    across = [iname for iname in knl.inames if iname.partition("_")[0] == "i"]
    knl = pl.add_prefetch(knl, "a", [*across, "kk", "ki"], temporary_name="a_tile", vec=8)
    knl = in_panels(knl, "a_tile", 64)
    knl = pl.add_prefetch(knl, "q", own, temporary_name="q_tile", vec=16)
    tiles = "a_tile, q_tile"
    if len(knl.arrays()["scale"].shape or ()) > 1:
        knl = pl.add_prefetch(knl, "scale", own, temporary_name="scale_tile", vec=4)
        tiles += ", scale_tile"
    if boxes:
        names = [*across, *(iname for iname in knl.inames if iname.partition("_")[0] in ("wg", "jj"))]
        knl = pl.buffer_array(
            knl, "c", names, temporary_name="c_tile", temporary_address_space="local", default_tag="box"
        )
        knl = in_panels(knl, "c_tile", (knl.temporaries["c_tile"].shape or ())[1])
        knl = pl.alias_temporaries(knl, ["a_tile", "c_tile"])
    knl = pl.pipeline(knl, "t", stages=stages, via="tma")
    if not roles:
        return knl
    budget = {"load": 40, "compute": 232} if (knl.temporaries["v"].shape or ())[0] == _GROUPS else None
    return pl.assign_roles(knl, {"load": tiles, "compute": "*"}, registers=budget)


def _in_cluster(knl: pl.LoopKernel) -> pl.LoopKernel:
    """Return a product whose parts are blocks of a cluster, which each add up a share of the rows of all."""
    parts, rows, columns = (extent for extent in knl.temporaries["sums"].shape or () if isinstance(extent, int))
    knl = pl.set_temporary_address_space(knl, "sums", "cluster")
    knl = pl.duplicate_inames(knl, "i, j", "id:c", new_inames="row, column")
    knl = pl.split_iname(knl, "row", rows // parts, outer_iname="share", inner_iname="row_in", outer_tag="c.0")
    knl = pl.split_iname(knl, "row_in", 2, outer_iname="row_step", inner_iname="row_low", outer_tag="unr",
                         inner_tag=f"l/{columns}")  # fmt: skip
    return pl.tag_inames(knl, f"by:g.1, bx:g.0, column:l%{columns}, part:c.0, s:unr")


def _check(rows: int, columns: int, parts: int, terms: int) -> None:
    """Raise ``bad-value`` unless there are blocks of so many *rows* and *columns*, and so many *parts* of *terms*."""
    if rows % 8 or not 8 <= rows <= _MOST_ROWS or columns % 64 or columns < 1:
        what, hint = f"blocks of {rows} by {columns}", "pass rows=8, 16, .. or 256, and columns=64, 128, .."
    elif not 1 <= parts <= _MOST_PARTS or (parts > 1 and (rows % (2 * parts) or terms % _TERMS or terms < 1)):
        what = f"{parts} parts of {terms} terms for {rows} rows"
        hint = f"pass parts=2, 4 or {_MOST_PARTS}, two rows or more for each, and terms that are a multiple of {_TERMS}"
    else:
        return
    raise pl.ArgumentError("product_dequantized", None, [pl.Diagnostic(
        "bad-value", f"the library has no product with weights in registers in {what}", (), (hint,))])
