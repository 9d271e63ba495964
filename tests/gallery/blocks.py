"""Scans over a large array in one launch: each block passes its total on to those after it."""

from __future__ import annotations

import numpy as np

import polyloop as pl
from tests.gallery.base import Case, example

F = np.float32
PREFIX = "{[i, j]: 0 <= i < n and 0 <= j <= i}"


def _sum_case(n: int, rng: np.random.Generator) -> Case:
    a = rng.integers(-9, 9, n).astype(F)
    return {"a": a}, {"b": np.cumsum(a)}


@example(_sum_case, sizes=(1, 129, 0, 63, 64, 65, 1000))
def prefix_sum_by_blocks() -> pl.LoopKernel:
    """A tile of 64 elements for each block, two for each thread of a warp."""
    knl = pl.make_kernel(PREFIX, "b[i] = sum(j, a[j])", [pl.GlobalArg("a, b", F, shape="n")], name="prefix_by_blocks")
    knl = pl.split_scan(knl, "i", 64, outer_tag="g.0", sum_name="tile_sum", carry_name="before_tile")
    knl = pl.split_iname(knl, "j_inner", 2, outer_tag="l.0")
    return pl.realize_scan(pl.split_scan(knl, "i_inner", 2, outer_tag="l.0"))


@example(_sum_case, sizes=(1, 9, 4, 5, 33))
def prefix_sum_by_blocks_of_one_thread() -> pl.LoopKernel:
    """Blocks of one thread, which looks back at one block after the other; double as accumulator."""
    knl = pl.make_kernel(
        PREFIX, "b[i] = sum(j, cast(float64, a[j]))", [pl.GlobalArg("a, b", F, shape="n")], name="prefix_by_threads"
    )
    return pl.realize_scan(pl.split_scan(knl, "i", 4, outer_tag="g.0"))


def _segment_case(n: int, rng: np.random.Generator) -> Case:
    x, starts = rng.integers(-9, 9, n).astype(F), rng.random(n) < 0.05
    expected = x.copy()
    for i in range(1, n):
        expected[i] += 0 if starts[i] else expected[i - 1]
    return {"x": x, "starts": starts}, {"b": expected}


@example(_segment_case, sizes=(1, 97, 32, 33, 400))
def segments_by_blocks() -> pl.LoopKernel:
    """Running totals that begin again at each flag: what blocks pass on are records, and their order matters."""
    knl = pl.make_kernel(
        PREFIX,
        "b[i] = reduce(segmented(sum), j, x[j], starts[j]).value",
        [pl.GlobalArg("x, b", F, shape="n"), pl.GlobalArg("starts", np.bool_, shape="n")],
        name="segments_by_blocks",
    )
    return pl.realize_scan(pl.split_scan(pl.split_scan(knl, "i", 32, outer_tag="g.0"), "i_inner", 1, outer_tag="l.0"))


def _compact_case(n: int, rng: np.random.Generator) -> Case:
    x = rng.integers(-9, 9, n).astype(F)
    kept = x[x > 0]
    out = np.zeros(n, F)
    out[: len(kept)] = kept
    return {"x": x, "out": np.zeros(n, F)}, {"out": out}


@example(_compact_case, sizes=(1, 130, 64, 65))
def compaction_by_blocks() -> pl.LoopKernel:
    """Positive elements moved together: each block learns from those before it where its own begin."""
    knl = pl.make_kernel(
        ["{[i]: 0 <= i < n}", "{[j]: 0 <= j < i}", "{[k]: 0 <= k < n}"],
        """
        <> place[i] = sum(j, if(x[j] > 0, 1, 0))
        if x[k] > 0
            out[place[k]] = x[k]    {id=store}
        end
        """,
        [pl.GlobalArg("x, out", F, shape="n"), ...],
        name="compaction_by_blocks",
    )
    knl = pl.add_nosync(knl, "any", "store", "store")  # no two elements have one place
    knl = pl.split_iname(knl, "k", 64, outer_tag="g.0", inner_tag="l.0")
    knl = pl.split_scan(knl, "i", 64, outer_tag="g.0", inner_tag="l.0")
    return pl.realize_scan(pl.tag_inames(knl, "j_inner:l.0"))
