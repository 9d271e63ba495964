"""Scans in tiles that are scanned by themselves; the sum of the tiles before comes last."""

from __future__ import annotations

import numpy as np

import polyloop as pl
from tests.gallery.base import Case, example

F = np.float32
PREFIX = "{[i, j]: 0 <= i < n and 0 <= j <= i}"


def _sum_case(n: int, rng: np.random.Generator) -> Case:
    a = rng.integers(-9, 9, n).astype(F)
    return {"a": a}, {"b": np.cumsum(a)}


@example(_sum_case, sizes=(1, 127, 128, 129, 700, 0))
def tiles_in_registers() -> pl.LoopKernel:
    """One launch: a thread keeps four results of its tile in registers until the sum of the tiles before is known."""
    knl = pl.make_kernel(PREFIX, "b[i] = sum(j, a[j])", [pl.GlobalArg("a, b", F, shape="n")], name="tiles_in_registers")
    knl = pl.split_scan(
        knl, "i", 128, outer_iname="tile", outer_tag="g.0", local_name="local", local_iname="e", sum_name="tile_sum",
        carry_name="before_tile",
    )  # fmt: skip
    knl = pl.split_iname(knl, "j_inner", 4, outer_tag="l.0")
    knl = pl.split_iname(knl, "i_inner", 4, outer_tag="l.0", inner_tag="vec")
    knl = pl.split_array_axis(knl, "local", 1, 4)
    knl = pl.split_scan(
        knl, "e", 4, outer_iname="t", outer_tag="l.0", inner_tag="unr", sum_name="thread_sum",
        carry_name="before_thread",
    )  # fmt: skip
    return pl.realize_scan(knl)


@example(_sum_case, sizes=(1, 15, 16, 17, 100))
def tiles_added() -> pl.LoopKernel:
    """Three launches: the sums of tiles, what is before each, and their threads' scans with that added."""
    knl = pl.make_kernel(PREFIX, "b[i] = sum(j, a[j])", [pl.GlobalArg("a, b", F, shape="n")], name="tiles_added")
    knl = pl.split_scan(
        knl, "i", 16, outer_iname="tile", outer_tag="g.0", inner_tag="l.0", carry_iname="before", local_iname="e"
    )
    knl = pl.tag_inames(knl, "j_inner:l.0, e:l.0")
    return pl.realize_scan(knl)


def _segment_case(n: int, rng: np.random.Generator) -> Case:
    x, starts = rng.integers(-9, 9, n).astype(F), rng.random(n) < 0.2
    expected = x.copy()
    for i in range(1, n):
        expected[i] += 0 if starts[i] else expected[i - 1]
    return {"x": x, "starts": starts}, {"b": expected}


@example(_segment_case, sizes=(1, 31, 32, 33, 200))
def segments_of_tiles() -> pl.LoopKernel:
    """Totals that begin again at each flag: what the blocks before have comes last in time, and first in order."""
    knl = pl.make_kernel(
        PREFIX,
        "b[i] = reduce(segmented(sum), j, x[j], starts[j]).value",
        [pl.GlobalArg("x, b", F, shape="n"), pl.GlobalArg("starts", np.bool_, shape="n")],
        name="segments_of_tiles",
    )
    knl = pl.split_scan(
        knl, "i", 32, outer_iname="tile", outer_tag="g.0", inner_tag="l.0", local_name="own", local_iname="e"
    )
    return pl.realize_scan(pl.tag_inames(knl, "j_inner:l.0, e:l.0"))
