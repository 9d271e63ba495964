"""What regroups the terms of a reduction: ``ordered`` forbids every way, and states of no terms change nothing."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import polyloop as pl
from tests.transform.checking import check, refused

F = np.float32
Way = Callable[[pl.LoopKernel], pl.LoopKernel]
MEAN = pl.ReductionOperation(
    "mean", ("a.count + b.count", "(a.count*a.mean + b.count*b.mean)/(a.count + b.count)"), neutral=(0, 0),
    fields=("count", "mean"),
)  # fmt: skip
"""Of two states of no terms it makes no number."""


def means(domain: str) -> pl.LoopKernel:
    return pl.make_kernel(
        ["{[i]: 0 <= i < m}", domain],
        "<> count, average = mean(k, 1.0f, x[i, k])\ny[i] = count + average",
        [pl.GlobalArg("x", F, shape="m, m"), pl.GlobalArg("y", F, shape="m"), ...],
        name="means",
        assumptions="m >= 1",
        reductions=[MEAN],
    )


GROUPINGS: dict[str, Way] = {
    "inward": lambda k: pl.split_reduction_inward(k, "k_inner"),
    "outward": lambda k: pl.split_reduction_outward(k, "k_inner"),
    "staged": lambda k: pl.stage_reduction(k, "k_inner"),
    "staged_rows": lambda k: pl.stage_reduction(k, "k_inner", sweep_inames="i_inner"),
    "threads": lambda k: pl.tag_inames(k, "k_inner:l.0"),
    "threads_outside": lambda k: pl.split_reduction_outward(pl.tag_inames(k, "k_inner:l.0"), "k_inner"),
    "warps": lambda k: pl.tag_inames(k, "i_inner:w, k_inner:lane"),
    "lanes": lambda k: pl.tag_inames(k, "k_inner:ilp"),
}


@pytest.mark.few(2)
@pytest.mark.parametrize("way", GROUPINGS)
def test_states_of_no_terms(way: str) -> None:
    knl = means("{[k]: 0 <= k <= i}")  # a row has fewer terms than there are parts
    knl = pl.split_iname(pl.split_iname(knl, "i", 2), "k", 4)
    for m in (1, 2, 5, 9):
        x = np.arange(m * m, dtype=F).reshape(m, m)
        y = np.array([i + 1 + x[i, : i + 1].astype(float).mean() for i in range(m)], F)
        check(GROUPINGS[way](knl), {"x": x}, {"y": y}, rtol=1e-5)


def ordered() -> pl.LoopKernel:
    knl = pl.make_kernel(
        "{[i, k]: 0 <= i < m and 0 <= k < n}",
        "s[i] = reduce(ordered(sum), k, a[i, k])",
        [pl.GlobalArg("a", F, shape="m, n"), ...],
        name="ordered",
        assumptions="m >= 1 and n >= 1",
    )
    return pl.split_iname(knl, "k", 4)


FORBIDDEN: dict[str, tuple[str, Way]] = {
    "inward": ("ordered-reduction", lambda k: pl.split_reduction_inward(k, "k_inner")),
    "outward": ("ordered-reduction", lambda k: pl.split_reduction_outward(k, "k_inner")),
    "staged": ("ordered-reduction", lambda k: pl.stage_reduction(k, "k_outer")),
    "atomically": ("no-atomic-reduction", lambda k: pl.reduce_atomically(k, "k_outer")),
    "launches": ("ordered-reduction", lambda k: pl.realize_reduction(k, grid="two launches", grid_inames="k_outer")),
    "atomics": ("no-atomic-reduction", lambda k: pl.realize_reduction(k, grid="atomics", grid_inames="k_outer")),
    "threads": ("parallel-reduction", lambda k: pl.tag_inames(k, "k_inner:l.0")),
    "warp": ("parallel-reduction", lambda k: pl.tag_inames(k, "k_inner:lane")),
    "blocks": ("parallel-reduction", lambda k: pl.tag_inames(k, "k_outer:g.0")),
    "digits": ("parallel-reduction", lambda k: pl.tag_inames(k, "k_inner:l%4")),
    "reordered": ("illegal-order", lambda k: pl.prioritize_loops(k, "k_inner, k_outer")),
    "reversed": ("illegal-order", lambda k: pl.reverse(k, "k_outer")),
    "scan": ("not-a-scan", lambda k: pl.realize_reduction(k, force_scan=True)),
}


@pytest.mark.parametrize("way", FORBIDDEN)
def test_ordered_forbids_it(way: str) -> None:
    code, regroup = FORBIDDEN[way]
    refused(ordered(), regroup, code)


def test_ordered_terms_are_added_in_their_order() -> None:
    a = np.array([[1e8, 1, -1e8, 1, 3, 1e8, -1e8]], F)
    total = F(0)
    for term in a[0]:
        total += term
    for knl in (ordered(), pl.tag_inames(ordered(), "k_inner:ilp"), pl.tag_inames(ordered(), "k_inner:unr")):
        check(knl, {"a": a}, {"s": np.array([total], F)})
