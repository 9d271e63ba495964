"""Reductions of which data says how many terms, and of how many there are: rows of blocks, groups of segments."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

import polyloop as pl
from tests.gallery.base import Case, example

F, INT = np.float32, np.int32


def _block_rows(n: int, rng: np.random.Generator) -> Case:
    first = np.concatenate([[0], np.cumsum(rng.integers(0, 4, n))]).astype(INT)
    blocks = int(first[-1])
    column = rng.integers(0, 3, blocks, INT)
    a = rng.integers(-4, 5, (blocks, 2, 32)).astype(F)
    x = rng.integers(-4, 5, (3, 32)).astype(F)
    y = np.zeros((n, 2), F)
    for i in range(n):
        for e in range(first[i], first[i + 1]):
            y[i] += a[e] @ x[column[e]]
    return {"first": first, "column": column, "a": a, "x": x}, {"y": y}


def _block_sparse(name: str) -> pl.LoopKernel:
    return pl.make_kernel(
        ["{[i]: 0 <= i < n}", "{[e]: begin <= e < end}", "{[q, r, s, k]: 0 <= q, r, s < 2 and 0 <= k < 32}"],
        """
        for i
            <> begin = first[i]
            <> end = first[i + 1]
            t[q] = 0
            for e, r
                t[r] = t[r] + sum(k, a[e, r, k]*x[column[e], k])
            end
            y[i, s] = t[s]
        end
        """,
        [
            pl.GlobalArg("first", INT, shape="n + 1"),
            pl.GlobalArg("column", INT, shape="blocks"),
            pl.GlobalArg("a", F, shape="blocks, 2, 32"),
            pl.GlobalArg("x", F, shape="columns, 32"),
            pl.GlobalArg("y", F, shape="n, 2"),
            pl.TemporaryVariable("t", F, shape="2"),
            ...,
        ],
        name=name,
        assumptions="n >= 1",
    )


@example(_block_rows, sizes=(1, 5, 8))
def block_sparse_by_warps() -> pl.LoopKernel:
    """A sparse matrix of 2 x 32 blocks times a vector: each warp goes through the blocks of its rows."""
    knl = pl.split_iname(_block_sparse("block_sparse_by_warps"), "i", 4, outer_tag="g.0", inner_tag="w")
    return pl.tag_inames(knl, "k:lane, q:unr, r:unr, s:unr")


@example(_block_rows, sizes=(1, 5, 8))
def block_sparse_by_blocks() -> pl.LoopKernel:
    """The same with 16 threads a block of the matrix, and the rows one after the other."""
    knl = pl.split_iname(_block_sparse("block_sparse_by_blocks"), "i", 2, outer_tag="g.0")
    knl = pl.split_iname(knl, "k", 16, inner_tag="l.0")
    return pl.tag_inames(knl, "k_outer:unr, q:unr, r:unr, s:unr")


def _group_case(n: int, rng: np.random.Generator) -> Case:
    group = np.concatenate([[0], np.cumsum(rng.integers(0, 4, n))]).astype(INT)
    first = np.concatenate([[0], np.cumsum(rng.integers(0, 50, int(group[-1])))]).astype(INT)
    x = rng.integers(-9, 9, int(first[-1])).astype(F)
    sums = np.array([x[a:b].sum() for a, b in pairwise(first)], F)
    best = [max([0.0, *sums[a:b]]) for a, b in pairwise(group)]
    return {"group": group, "first": first, "x": x}, {"best": np.array(best, F)}


@example(_group_case, sizes=(1, 3, 6))
def best_segment_of_a_group() -> pl.LoopKernel:
    """The greatest sum of the segments of each group: a block a group, one segment after the other."""
    knl = pl.make_kernel(
        ["{[g]: 0 <= g < m}", "{[s]: low <= s < high}", "{[j]: 0 <= j < count}"],
        """
        for g
            <> low = group[g]
            <> high = group[g + 1]
            <> t = 0.0f
            for s
                <> begin = first[s]
                <> count = first[s + 1] - begin
                t = max(t, sum(j, x[begin + j]))
            end
            best[g] = t
        end
        """,
        [
            pl.GlobalArg("group", INT, shape="m + 1"),
            pl.GlobalArg("first", INT, shape="segments + 1"),
            pl.GlobalArg("x", F, shape="entries"),
            pl.GlobalArg("best", F, shape="m"),
            ...,
        ],
        name="best_segment_of_a_group",
        assumptions="m >= 1 and segments >= 0",
    )
    return pl.split_iname(pl.tag_inames(knl, "g:g.0"), "j", 64, inner_tag="l.0")
