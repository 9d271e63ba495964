"""Attention: ``o = softmax(scale * q k^T) v``, one kernel with two products, on tensor cores of Hopper (``wgmma``).

The program is the recurrence over tiles of keys: a running maximum and sum of each row, and an output that shrinks when
the maximum grows.  The scores of a tile, their exponentials, and the output stay in registers, where the first product
leaves them and the second one takes them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, partial
from math import prod
from typing import Any, Final

import numpy as np

import polyloop as pl
from polyloop.expr.dtypes import dtype_name, to_dtype
from polyloop.library.fragments import check_heads, in_panels, short_name
from polyloop.library.fragments import in_fragments as _in_fragments
from polyloop.library.records import ready
from polyloop.library.scores import LEAST, NONE_SEEN, Scores
from polyloop.transform.together import as_one

__all__ = ["VARIANTS", "Variant", "attention", "by_groups", "by_warps", "in_roles", "program", "scheduled"]

_BEGIN: Final = "-1e29f"
"""The maximum of no scores, which is above those that are not seen."""


def program(
    dtype: Any = "bfloat16", head: int = 128, *, causal: bool = False, group: int = 1, queries: int = 128,
    keys: int = 128, overlapped: bool = False, target: pl.Target | None = None, scores: Scores | None = None,
    lse: bool = False,
) -> pl.LoopKernel:  # fmt: skip
    """Return attention as it is written: a recurrence over tiles of some keys, for blocks of some queries.

    ::

        for h, g, b, i:                                          # head, query of a block
            for t:                                               # tile of keys
                s[j] = sum(c, q[i, c]*k[j, c])
                high = max(top, max(j, s[j]))
                shrink = exp2(scale*(top - high))
                w[j] = exp2(scale*s[j] - scale*high)
                part[jq] = part[jq]*shrink + sum(jh, w[8*jh + 2*jq] + w[8*jh + 2*jq + 1])
                acc[d] = acc[d]*shrink + sum(j, w[j]*v[j, d])
            o[i, d] = acc[d]*(1/sum(jq, part[jq]))

    Parameters
    ----------
    dtype
        Of q, k, v and o: bfloat16 or float16.
    head
        Elements of a query: 64, 128 or 256.
    causal
        Whether query i sees keys 0 to i alone, of as many as there are queries.
    group
        Heads of queries for one head of keys.
    queries, keys
        Of a block, and of a tile.
    scores
        What else becomes of scores, and whether they are causal, in place of *causal*.
    lse
        Whether ``lse[h, g, i]``, the logarithm of the sum of exponentials of a query's scores, is stored: the backward
        pass begins with it.

    Returns
    -------
    LoopKernel
        ``q`` and ``o`` are (heads, group, n, head), ``k`` and ``v`` (heads, m, head), n and m multiples of *queries*
        and *keys*; if it is causal, m is n.  Heads of several batches follow one another.  ``scale`` is that of scores,
        times log2(e); ``cap`` and ``bias`` are of scores as they are.

    Notes
    -----
    A query that sees no key has an output of 0, and 1e30 in ``lse``.
    """
    element = to_dtype(dtype)
    scores = scores or Scores(causal=causal)
    causal, factor = scores.causal, scores.factor
    first = f"n - {queries} - {queries}*b" if causal else f"{queries}*b"  # long rows first
    keys_of = "n" if causal else "m"

    def ends(tile: str) -> str:
        """Return the condition that a *tile* is not behind the last that a query of a block sees."""
        return f"{keys}*({tile}) < {first} + {queries}" if causal else f"{keys}*({tile}) < m"

    def begins(tile: str) -> str:
        """Return the condition that a *tile* is not before the first that a query of a block sees."""
        return f"{tile} >= 0" + (f" and {keys}*({tile}) + {keys} > {first} - {scores.window} + 1" * bool(scores.window))

    tiles = f"{begins('t')} and {ends('t - 1' if overlapped else 't')}"
    seen = ends("t")
    query, key = f"{first} + i", f"{keys}*t + j"
    sizes = "" if causal else " and m >= 1"
    before = f"""
                <float32> s[i, j] = sum(c, q[h, g, {query}, c]*k[h, {key}, c])   {{id=s}}
    """
    after = f"""
                {scores.statements("i, j", query, key)}
                {scores.masks("i, j", query, key)}
                <float32> high[i] = max(top[i], max(j, s[i, j]))   {{id=high}}
                <float32> shrink[i] = exp2({factor}(top[i] - high[i]))          {{id=shrink, precision=fast}}
                top[i] = high[i]                                   {{id=top}}
                <float32> w[i, j] = exp2({factor}s[i, j] - {factor}top[i])        {{id=w, precision=fast}}
                part[i, jq] = part[i, jq]*shrink[i] + sum(jh, w[i, 8*jh + 2*jq] + w[i, 8*jh + 2*jq + 1])   {{id=part}}
    """
    after_product = ", dep=acc" if overlapped else ""
    weights = f"<{dtype_name(element)}> p[i, j] = w[i, j]          {{id=p{after_product}}}"
    if overlapped:
        steps = f"""
                if {seen}
                    {before}
                end
                if {begins('t - 1')}
                    acc[i, d] = acc[i, d] + sum(jk, p[i, jk]*v[h, {keys}*t - {keys} + jk, d])   {{id=acc, dep=*acc_0:s}}
                end
                if {seen}
                    {after}
                    acc[i, d] = acc[i, d]*shrink[i]                {{id=shrunk, dep=acc}}
                    {weights}
                end
        """
    else:
        steps = f"""
                {before}
                {after}
                {weights}
                acc[i, d] = acc[i, d]*shrink[i] + sum(jk, p[i, jk]*v[h, {keys}*t + jk, d])      {{id=acc}}
        """
    inverse, logarithm = "1/total[i]", f"0.6931471805599453f*({factor}top[i] + log2(total[i]))"
    if scores.may_be_empty:
        inverse, logarithm = (f"({text} if total[i] > 0 else {other})"
                             for text, other in ((inverse, "0.0f"), (logarithm, NONE_SEEN)))  # fmt: skip
    statistics = f"lse[h, g, {query}] = {logarithm}    {{id=lse}}" if lse else ""
    return pl.make_kernel(
        [
            f"{{[h, g]: 0 <= h < heads and 0 <= g < {group}}}",
            f"{{[b]: 0 <= b and {queries}*b < n}}",
            f"{{[i]: 0 <= i < {queries}}}",
            f"{{[t]: {tiles}}}",
            f"{{[j, jk]: 0 <= j, jk < {keys}}}",
            f"{{[jh, jq]: 0 <= jh < {keys // 8} and 0 <= jq < 4}}",
            f"{{[c, d]: 0 <= c, d < {head}}}",
        ],
        f"""
        for h, g, b
            {scores.known}
            <float32> top[i] = {_BEGIN if scores.may_be_empty or scores.window else LEAST}        {{id=top_0}}
            <float32> part[i, jq] = 0                              {{id=part_0}}
            <float32> acc[i, d] = 0                                {{id=acc_0}}
            for t
                {steps}
            end
            <float32> total[i] = sum(jq, part[i, jq])              {{id=total}}
            <float32> over[i] = {inverse}                        {{id=over}}
            o[h, g, {query}, d] = acc[i, d]*over[i]              {{id=o}}
            {statistics}
        end
        """,
        [
            pl.GlobalArg("q, o", element, shape=f"heads, {group}, n, {head}"),
            pl.GlobalArg("k, v", element, shape=f"heads, {keys_of}, {head}"),
            *([pl.GlobalArg("lse", np.float32, shape=f"heads, {group}, n")] if lse else []),
            pl.ValueArg("scale", np.float32),
            *scores.arguments(element, group, keys_of),
            ...,
        ],
        name="attention",
        target=target,
        assumptions=f"heads >= 1 and n >= 1 and n mod {max(queries, keys) if causal else queries} = 0"
                    + ("" if causal else f"{sizes} and m mod {keys} = 0"),
    )


@as_one
def by_groups(
    knl: pl.LoopKernel, stages: int = 2, via: str | None = "tma", *, overlapped: bool = False, boxes: bool = False
) -> pl.LoopKernel:
    """Return attention in blocks of groups of four warps, 64 queries each, by ``wgmma``.

    The weights of a tile, of 16 bits, are the first operand of the second product, from registers.  Tiles of keys and
    values are fetched *stages* - 1 ahead.  With *boxes*, results go through the place of the queries, from where the
    copy engine stores them.
    """
    word = short_name(knl, "q")
    keys, head = ((knl.temporaries[name].shape or ())[1] for name in ("s", "acc"))
    assert isinstance(head, int), "a number"
    knl = _on_blocks(knl)
    knl = pl.split_iname(knl, "i", 64, outer_iname="wg", inner_iname="ii", outer_tag="l/128")
    knl = pl.split_iname(knl, "c", 64, outer_iname="panel", inner_iname="c_panel", outer_tag="unr")
    knl = pl.split_iname(knl, "c_panel", 16, outer_iname="cc", inner_iname="ci", outer_tag="unr")
    knl = pl.split_iname(knl, "jk", 16, outer_iname="kk", inner_iname="ki", outer_tag="unr")
    knl = pl.tensorize(knl, "id:s", f"wgmma_m64n{keys}k16_{word}")
    knl = _in_fragments(knl, (8, 2, 4), "top", "part", "total", "high", "shrink", "over", "s", "bend", "w", "p")
    knl = pl.tensorize(knl, "id:acc", f"wgmma_m64n{head}k16_{word}", from_registers=True)
    knl = _in_fragments(knl, (8, 2, 4), "acc")
    # tiles in shared memory: rows of 128 bytes, swizzled
    swept = {
        "q": "wg, ii_lane_0, ii_reg, ii_lane_2, panel, cc, ci",
        "k": "j_reg_0, j_lane, j_reg_2, panel, cc, ci",
        "v": "d_reg_0, d_lane, d_reg_2, kk, ki",
    }
    for name, inames in swept.items():
        around = "h, g, b" if name == "q" else None
        tile = f"{name}_tile"
        knl = pl.add_prefetch(knl, name, inames, fetch_outer_inames=around, temporary_name=tile, vec=8)
        knl = in_panels(knl, tile, head)
    if boxes:
        names = [x for x in knl.inames if x.partition("_")[0] in ("wg", "ii")]
        knl = pl.buffer_array(
            knl, "o", [*names, "d_reg_0", "d_lane", "d_reg_2"], temporary_name="o_tile",
            temporary_address_space="local", default_tag="box",
        )  # fmt: skip
        knl = pl.alias_temporaries(in_panels(knl, "o_tile", head), ["q_tile", "o_tile"])
    if via is not None:
        knl = pl.pipeline(knl, "t", stages=stages, via=via)
    return _peeled(knl, 0 if via is None else stages - 1, overlapped=overlapped)


def _on_blocks(knl: pl.LoopKernel) -> pl.LoopKernel:
    """Return *knl* with a block for each block of queries, and a thread for each part of a row's sum.

    Where queries see keys up to themselves, the long blocks of several heads run first, and the short ones last.
    """
    knl = pl.tag_inames(knl, "b:g.0, g:g.1, h:g.2, jq:l%4, jh:unr")
    is_causal = any(instruction.id == "mask" for instruction in knl.instructions)
    return pl.order_blocks(knl, "h", group=4) if is_causal else knl


def _peeled(knl: pl.LoopKernel, front: int, *, overlapped: bool = False) -> pl.LoopKernel:
    """Return *knl* with tiles set apart that have other text than most: the first and last ones, and on the diagonal.

    *front* is the number of iterations that copies are ahead.
    """
    diagonal = 0
    if any(instruction.id == "mask" for instruction in knl.instructions):
        shape = [extent for extent in knl.temporaries["s"].shape or () if isinstance(extent, int)]
        keys = prod(shape[-3:])
        diagonal = -(-prod(shape) // keys // keys)
    back = overlapped + diagonal
    return pl.peel(knl, "t", front=front + overlapped, back=back) if front + back else knl


def in_roles(knl: pl.LoopKernel, copying: int = 40, computing: int = 232) -> pl.LoopKernel:
    """Return attention by groups of warps, in which a thread of its own fetches keys and values.

    ::

        # before
        each group: for t: wait for copies t; all meet; one thread starts copies t + 1; ..
        # after
        the thread: for t: wait until the places are free; start copies t + 1
        each group: for t: wait for copies t; ..; its places are free

    Groups then do not meet: one computes exponentials while another one multiplies.  *copying* and *computing* are
    registers of the threads of both kinds.
    """
    roles = {"load": "k_tile, v_tile", "compute": "*"}
    return pl.assign_roles(knl, roles, registers={"load": copying, "compute": computing})


@as_one
def by_warps(knl: pl.LoopKernel) -> pl.LoopKernel:
    """Return attention in blocks of warps, 16 queries each, by ``mma.sync``: for devices before Hopper."""
    word = short_name(knl, "q")
    knl = _on_blocks(knl)
    knl = pl.split_iname(knl, "i", 16, outer_iname="warp", inner_iname="ii", outer_tag="l/32")
    knl = pl.split_iname(knl, "j", 8, outer_iname="nj", inner_iname="jj", outer_tag="unr")
    knl = pl.split_iname(knl, "d", 8, outer_iname="nd", inner_iname="dd", outer_tag="unr")
    knl = pl.split_iname(knl, "c", 16, outer_iname="cc", inner_iname="ci", outer_tag="unr")
    knl = pl.split_iname(knl, "jk", 16, outer_iname="kk", inner_iname="ki", outer_tag="unr")
    knl = pl.tensorize(knl, "id:s", f"mma_m16n8k16_{word}")
    knl = _in_fragments(knl, (8, 2), "top", "part", "total", "high", "shrink", "over", "s", "bend", "w", "p")
    knl = pl.tensorize(knl, "id:acc", f"mma_m16n8k16_{word}", from_registers=True)
    knl = _in_fragments(knl, (8, 2), "acc")
    swept = {
        "q": "warp, ii_lane, ii_reg, cc, ci", "k": "nj, jj_lane, jj_reg, cc, ci", "v": "nd, dd_lane, dd_reg, kk, ki",
    }  # fmt: skip
    for name, inames in swept.items():
        around = "h, g, b" if name == "q" else None
        knl = pl.add_prefetch(knl, name, inames, fetch_outer_inames=around, temporary_name=f"{name}_tile", vec=8)
        knl = pl.swizzle(knl, f"{name}_tile")
    return _peeled(pl.pipeline(knl, "t", stages=2, via="cp.async"), 1)


@dataclass(frozen=True)
class Variant:
    """A schedule: by groups of warps or by warps, queries of a block, keys of a tile, and tiles in shared memory.

    Those that are overlapped have the products of two tiles under way.  With roles, a thread of its own copies, and the
    copy engine stores results, too.
    """

    groups: bool
    queries: int
    keys: int
    stages: int = 2
    overlapped: bool = False
    roles: bool = False


VARIANTS: Final[Mapping[str, Variant]] = {
    "wgmma, 128 x 128": Variant(True, 128, 128),
    "wgmma, 128 x 64": Variant(True, 128, 64),
    "wgmma, 128 x 64, 3 stages": Variant(True, 128, 64, 3),
    "wgmma, 64 x 64": Variant(True, 64, 64),
    "wgmma, 128 x 128, overlapped": Variant(True, 128, 128, overlapped=True),
    "wgmma, 128 x 64, overlapped": Variant(True, 128, 64, overlapped=True),
    "wgmma, 128 x 128, roles": Variant(True, 128, 128, roles=True),
    "wgmma, 128 x 128, overlapped, roles": Variant(True, 128, 128, overlapped=True, roles=True),
    "wgmma, 128 x 64, overlapped, roles": Variant(True, 128, 64, overlapped=True, roles=True),
    "mma, 64 x 64": Variant(False, 64, 64),
    "mma, 64 x 32": Variant(False, 64, 32),
}
"""By name.  Heads of 256 elements have room for tiles of 64 keys in two stages."""
_FIRST: Final = "wgmma, 128 x 64"
"""The schedule that was the fastest of most calls that were measured."""


def scheduled(
    name: str, dtype: Any = "bfloat16", head: int = 128, *, causal: bool = False, group: int = 1,
    scores: Scores | None = None, lse: bool = False,
) -> pl.LoopKernel:  # fmt: skip
    """Return attention by the schedule called *name* in ``VARIANTS``; see :func:`program` for the others.

    Raises
    ------
    ArgumentError
        ``wrong-dtype``, ``bad-value``: another type, or a head of other than 64, 128 or 256 elements.
    """
    check_heads("attention", dtype, head, group)
    found = VARIANTS[name]
    target = pl.CudaTarget("sm_90a") if found.groups else None
    knl = program(dtype, head, causal=causal, group=group, queries=found.queries, keys=found.keys,
                  overlapped=found.overlapped, target=target, scores=scores, lse=lse)  # fmt: skip
    if not found.groups:
        return by_warps(knl)
    return _by_groups(knl, found)


@as_one
def _by_groups(knl: pl.LoopKernel, variant: Variant) -> pl.LoopKernel:
    knl = by_groups(knl, variant.stages, overlapped=variant.overlapped, boxes=variant.roles)
    return in_roles(knl) if variant.roles else knl


@cache
def attention(
    dtype: Any = "bfloat16", head: int = 128, *, causal: bool = False, group: int = 1, scores: Scores | None = None,
    lse: bool = False, target: pl.Target | None = None, device: str | None = None,
) -> pl.Dispatcher:  # fmt: skip
    """Return attention, ``o = softmax(scale*q k^T) v``, for numbers of queries and keys that are multiples of 64.

    ::

        o = attention("bfloat16", 128, causal=True)(q=q, k=k, v=v, scale=log2(e)/sqrt(128)).o
        print(attention("bfloat16", 128).choose(heads=64, n=4096, m=4096))

    Parameters
    ----------
    dtype, head, causal, group, scores, lse
        As for :func:`program`, which tells the arguments of a call, too.
    target, device
        As for :func:`polyloop.dispatch`.

    Raises
    ------
    ArgumentError
        ``wrong-dtype``, ``bad-value``: another type, or a head of other than 64, 128 or 256 elements.

    Notes
    -----
    Each schedule is a recurrence of its own, over tiles of its size, and results differ by rounding.  Source: T. Dao,
    "FlashAttention-2", 2023, https://arxiv.org/abs/2307.08691.
    """
    check_heads("attention", dtype, head, group)
    scores = scores or Scores(causal=causal)
    base = program(dtype, head, group=group, queries=64, keys=32, scores=scores, lse=lse)
    names = sorted(VARIANTS, key=lambda name: name != _FIRST)
    made = {name: partial(scheduled, name, dtype, head, group=group, scores=scores, lse=lse) for name in names}
    kernel = f"attention of {head}{', causal' * scores.causal}"
    return ready(kernel, to_dtype(dtype), base, made, target, device, vouched=True)
