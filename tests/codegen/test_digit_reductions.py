"""Threads that combine along digits of their number: as along axes, where the digits follow each other."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import polyloop as pl
from polyloop.testing.brute import judge
from tests.transform.checking import check, cuda, refused, same_after_replay

F = np.float32
Way = Callable[[pl.LoopKernel], pl.LoopKernel]


def rows() -> pl.LoopKernel:
    return pl.make_kernel(
        "{[i, k]: 0 <= i < m and 0 <= k < n}",
        "y[i] = sum(k, a[i, k])",
        [pl.GlobalArg("a", F, shape="m, n"), pl.GlobalArg("y", F, shape="m"), ...],
        name="rows",
        assumptions="n >= 1 and m >= 1",
    )


def parts_of_a_warp(knl: pl.LoopKernel) -> pl.LoopKernel:
    return pl.split_iname(pl.split_iname(knl, "k", 8, inner_tag="l%8"), "i", 4, outer_tag="g.0", inner_tag="l/8")


def across_warps(knl: pl.LoopKernel) -> pl.LoopKernel:
    return pl.split_iname(pl.split_iname(knl, "i", 32, outer_tag="g.0", inner_tag="l%32"), "k", 2, inner_tag="l/32")


def two_digits(knl: pl.LoopKernel) -> pl.LoopKernel:
    knl = pl.split_iname(pl.split_iname(knl, "i", 4, outer_tag="g.0", inner_tag="l/8%4"), "k", 16)
    return pl.split_iname(knl, "k_inner", 8, inner_tag="l%8", outer_tag="l/32")


def whole_block(knl: pl.LoopKernel) -> pl.LoopKernel:
    return pl.split_iname(pl.tag_inames(knl, "i:g.0"), "k", 48, inner_tag="l%48")


WAYS: dict[str, tuple[Way, str]] = {
    "parts_of_a_warp": (parts_of_a_warp, "k_inner:l.0, i_inner:l.1"),
    "across_warps": (across_warps, "i_inner:l.0, k_inner:l.1"),
    "two_digits": (two_digits, "k_inner_inner:l.0, i_inner:l.1, k_inner_outer:l.2"),
    "whole_block": (whole_block, "k_inner:l.0"),
}


@pytest.mark.parametrize("way", WAYS)
def test_sums(way: str) -> None:
    spread, axes = WAYS[way]
    knl = spread(rows())
    for m, n in ((1, 1), (4, 16), (5, 35)):
        a = np.random.default_rng(m).integers(-4, 5, (m, n)).astype(F)
        check(knl, {"a": a}, {"y": a.sum(1)})
    assert cuda(knl) == cuda(pl.tag_inames(knl, axes, force=True))
    assert not list(judge(knl, {"m": 3, "n": 5}, {}))
    same_after_replay(rows(), knl)


@pytest.mark.parametrize("way", ["l%16", "l%32"])
def test_scans(way: str) -> None:
    knl = pl.make_kernel(
        "{[i, j]: 0 <= i < 48 and 0 <= j <= i}", "b[i] = sum(j, a[j])", [pl.GlobalArg("a, b", F, shape="48")]
    )
    knl = pl.realize_scan(pl.split_iname(knl, "i", int(way[2:]), inner_tag=way))
    a = np.arange(48, dtype=F) % 7
    check(knl, {"a": a}, {"b": np.cumsum(a)})
    assert "__shfl_up_sync" in cuda(knl)


def test_copies_follow_the_digits() -> None:
    knl = pl.make_kernel(
        "{[i, k]: 0 <= i < m and 0 <= k < 32}",
        "y[i] = sum(k, a[i, k]*x[k])",
        [pl.GlobalArg("a", F, shape="m, 32"), pl.GlobalArg("x", F, shape="32"), ...],
        name="weighted",
        assumptions="m >= 1",
    )
    knl = pl.split_iname(pl.split_iname(knl, "k", 8, inner_tag="l%8"), "i", 4, outer_tag="g.0", inner_tag="l/8")
    knl = pl.add_prefetch(knl, "x", ["k_outer", "k_inner"], default_tag="l.auto")
    x = np.arange(32, dtype=F)
    for m in (1, 4, 5):
        a = np.random.default_rng(m).integers(-4, 5, (m, 32)).astype(F)
        check(knl, {"a": a, "x": x}, {"y": a @ x})


REFUSED: dict[str, tuple[str, Way]] = {
    "nothing_below": ("parallel-reduction", lambda k: pl.split_iname(k, "k", 8, inner_tag="l/8")),
    "overlapping": (
        "axis-twice",
        lambda k: pl.split_iname(pl.split_iname(k, "i", 4, outer_tag="g.0", inner_tag="l/4"), "k", 8, inner_tag="l%8"),
    ),
    "beside_an_axis": (
        "parallel-reduction",
        lambda k: pl.split_iname(pl.split_iname(k, "i", 4, outer_tag="g.0", inner_tag="l.0"), "k", 8, inner_tag="l/4"),
    ),
}


def test_some_threads_of_a_digit_may_have_no_term() -> None:
    knl = pl.split_iname(rows(), "i", 4, outer_tag="g.0", inner_tag="l/8")
    knl = pl.split_iname(knl, "k", 6, inner_tag="l%8")
    for m, n in ((1, 1), (4, 6), (5, 32)):
        a = np.random.default_rng(m).integers(-4, 5, (m, n)).astype(F)
        check(knl, {"a": a}, {"y": a.sum(1)})


@pytest.mark.parametrize("case", REFUSED)
def test_refusals(case: str) -> None:
    code, way = REFUSED[case]
    text = refused(rows(), way, code)
    assert code == "axis-twice" or "threads combine along up to three digits that follow each other" in text
