"""Threads that combine their terms inside of loops whose length data decides: who agrees on it, and who does not."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import polyloop as pl
from polyloop.runtime.nvrtc import compile_cuda
from polyloop.testing.brute import judge
from tests.transform.checking import check, cuda, refused, same_after_replay

F, INT = np.float32, np.int32
Arrays = dict[str, Any]
Way = Callable[[pl.LoopKernel], pl.LoopKernel]


def groups() -> pl.LoopKernel:
    """Return a sum over the segments of each group, which are sums themselves."""
    return pl.make_kernel(
        ["{[g]: 0 <= g < m}", "{[s]: low <= s < high}", "{[j]: begin <= j < stop}"],
        """
        for g
            <> low = group[g]
            <> high = group[g + 1]
            <> t = 0.0f
            for s
                <> begin = first[s]
                <> stop = first[s + 1]
                t = max(t, sum(j, x[j]))
            end
            y[g] = t
        end
        """,
        [
            pl.GlobalArg("group", INT, shape="m + 1"),
            pl.GlobalArg("first", INT, shape="n + 1"),
            pl.GlobalArg("x", F, shape="entries"),
            pl.GlobalArg("y", F, shape="m"),
            ...,
        ],
        name="groups",
        assumptions="m >= 1 and n >= 1",
    )


def case(m: int, longest: int) -> tuple[Arrays, Arrays]:
    rng = np.random.default_rng(m + 7 * longest)
    group = np.concatenate([[0], np.cumsum(rng.integers(0, 4, m))]).astype(INT)
    group[-1] = n = max(1, int(group[-1]))
    first = np.concatenate([[0], np.cumsum(rng.integers(0, longest + 1, n))]).astype(INT)
    x = rng.integers(-3, 5, int(first[-1])).astype(F)
    sums = [x[a:b].sum() for a, b in pairwise(first)]
    y = [max([0.0, *sums[a:b]]) for a, b in pairwise(group)]
    return {"group": group, "first": first, "x": x}, {"y": np.array(y, F)}


def by_warps(knl: pl.LoopKernel) -> pl.LoopKernel:
    return pl.split_iname(pl.split_iname(knl, "g", 2, outer_tag="g.0", inner_tag="w"), "j", 32, inner_tag="lane")


def by_blocks(knl: pl.LoopKernel) -> pl.LoopKernel:
    return pl.split_iname(pl.tag_inames(knl, "g:g.0"), "j", 64, inner_tag="l.0")


def by_odd_blocks(knl: pl.LoopKernel) -> pl.LoopKernel:
    return pl.split_iname(pl.split_iname(knl, "g", 3, outer_tag="g.0"), "j", 12, inner_tag="l.0")


WAYS: dict[str, Way] = {"warps": by_warps, "blocks": by_blocks, "odd_blocks": by_odd_blocks}


@pytest.mark.parametrize("way", WAYS)
def test_groups_of_segments(way: str) -> None:
    knl = WAYS[way](groups())
    for m, longest in ((1, 0), (1, 40), (2, 63), (5, 70)):
        check(knl, *case(m, longest))
    same_after_replay(groups(), knl)


@pytest.mark.parametrize("way", ["warps", "blocks"])
def test_text(way: str, golden: Callable[[str, str], None]) -> None:
    golden(f"golden/groups_by_{way}.cu", cuda(WAYS[way](groups())))


def test_the_warps_of_a_block_have_loops_of_their_own_in_c(golden: Callable[[str, str], None]) -> None:
    golden("golden/groups_by_warps.c", pl.generate_code(by_warps(groups()), target=pl.CTarget()).device_code)


def by_half_warps(knl: pl.LoopKernel) -> pl.LoopKernel:
    return pl.split_iname(pl.split_iname(knl, "g", 4, outer_tag="g.0", inner_tag="l.1"), "j", 16, inner_tag="l.0")


def by_two_warps_each(knl: pl.LoopKernel) -> pl.LoopKernel:
    return pl.split_iname(pl.split_iname(knl, "g", 4, outer_tag="g.0", inner_tag="l.1"), "j", 64, inner_tag="l.0")


def across(knl: pl.LoopKernel) -> pl.LoopKernel:
    return pl.split_iname(pl.split_iname(knl, "g", 32, outer_tag="g.0", inner_tag="l.0"), "j", 4, inner_tag="l.1")


APART: dict[str, Way] = {"half_warps": by_half_warps, "two_warps_each": by_two_warps_each, "across": across}


@pytest.mark.parametrize("way", APART)
def test_those_that_disagree_are_named(way: str, golden: Callable[[str, str], None]) -> None:
    knl = groups()
    golden(f"messages/groups_by_{way}.txt", refused(knl, APART[way], "divergent-reduction"))


# {{{ a loop over blocks of a sparse matrix, around rows on threads of which the last may be missing


def blocks() -> pl.LoopKernel:
    return pl.make_kernel(
        ["{[b]: 0 <= b < n}", "{[e]: 0 <= e < count}", "{[i, k]: 0 <= i < m and 0 <= k < 24}"],
        """
        for b
            <> count = lengths[b]
            for e, i
                y[b, e, i] = sum(k, a[b, e, i, k])
            end
        end
        """,
        [
            pl.GlobalArg("lengths", INT, shape="n"),
            pl.GlobalArg("a", F, shape="n, 3, m, 24"),
            pl.GlobalArg("y", F, shape="n, 3, m"),
            ...,
        ],
        name="blocks",
        assumptions="n >= 1 and m >= 1",
        silenced_warnings="*",
    )


def block_case(n: int, m: int) -> tuple[Arrays, Arrays]:
    rng = np.random.default_rng(n + m)
    lengths = (np.arange(n) % 4).astype(INT)
    a = rng.integers(-4, 5, (n, 3, m, 24)).astype(F)
    y = np.full((n, 3, m), 7, F)
    wanted = y.copy()
    for b, count in enumerate(lengths):
        wanted[b, :count] = a[b, :count].sum(-1)
    return {"lengths": lengths, "a": a, "y": y}, {"y": wanted}


BLOCKS: dict[str, Way] = {
    "through_memory": lambda k: pl.split_iname(pl.tag_inames(k, "b:g.0, k:l.0"), "i", 4, inner_tag="l.1"),
    "rows_on_threads": lambda k: pl.tag_inames(
        pl.split_iname(k, "i", 4, outer_tag="g.1", inner_tag="l.1"), "b:g.0, k:l.0"
    ),
    "by_two": lambda k: pl.split_iname(
        pl.split_iname(pl.tag_inames(k, "b:g.0"), "i", 16, inner_tag="l.1"), "k", 2, inner_tag="l.0"
    ),
    "ilp": lambda k: pl.split_iname(
        pl.split_iname(pl.tag_inames(k, "b:g.0"), "i", 2, inner_tag="ilp"), "k", 3, inner_tag="l.0"
    ),
}


@pytest.mark.few(2)
@pytest.mark.parametrize("way", BLOCKS)
def test_rows_of_blocks(way: str) -> None:
    knl = BLOCKS[way](blocks())
    for n, m in ((1, 1), (4, 4), (5, 5)):
        check(knl, *block_case(n, m))
    assert not list(judge(knl, {"n": 3, "m": 5}, {"lengths": np.array([1, 0, 2], INT)}))


# }}}


def test_a_bound_that_threads_have_combined_is_no_common_one() -> None:
    knl = pl.make_kernel(
        ["{[i]: 0 <= i < n}", "{[q, k]: 0 <= q, k < 32}", "{[j]: 0 <= j < count}"],
        """
        for i
            <> count = sum(q, flags[i, q])
            for j
                y[i, j] = sum(k, a[i, j, k])
            end
        end
        """,
        [
            pl.GlobalArg("flags", INT, shape="n, 32"),
            pl.GlobalArg("a", F, shape="n, 32, 32"),
            pl.GlobalArg("y", F, shape="n, 32"),
            ...,
        ],
        name="flags",
        silenced_warnings="*",
    )
    same = pl.tag_inames(knl, "i:g.0, k:l.0")
    flags = (np.arange(96).reshape(3, 32) % 5 == 0).astype(INT)
    a = np.ones((3, 32, 32), F)
    y = np.zeros((3, 32), F)
    for row, count in zip(y, flags.sum(1), strict=True):
        row[:count] = 32
    check(same, {"flags": flags, "a": a, "y": np.zeros((3, 32), F)}, {"y": y})
    refused(same, lambda k: pl.tag_inames(k, "q:l.0"), "divergent-reduction")


@pytest.mark.nvrtc
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_nvrtc_compiles_them(arch: str) -> None:
    for knl in (*(way(groups()) for way in WAYS.values()), *(way(blocks()) for way in BLOCKS.values())):
        compile_cuda(pl.generate_code(knl, target=pl.CudaTarget(arch)).device_code, arch)
