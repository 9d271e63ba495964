"""Scans: running totals, exclusive ones, along rows, of segments, in tiles, for compaction."""

from __future__ import annotations

import numpy as np

import polyloop as pl
from tests.gallery.base import Case, example

F = np.float32
PREFIX = "{[i, j]: 0 <= i < n and 0 <= j <= i}"
BEFORE = ["{[i]: 0 <= i < n}", "{[j]: 0 <= j < i}"]


def _vectors(n: int, rng: np.random.Generator) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    return rng.integers(-9, 9, n).astype(F)


def _sum_case(n: int, rng: np.random.Generator) -> Case:
    a = _vectors(n, rng)
    return {"a": a}, {"b": np.cumsum(a)}


@example(_sum_case, sizes=(1, 7, 0, 33))
def prefix_sum() -> pl.LoopKernel:
    """A prefix sum with one running total."""
    knl = pl.make_kernel(PREFIX, "b[i] = sum(j, a[j])", [pl.GlobalArg("a, b", F, shape="n")], name="prefix_sum")
    return pl.realize_scan(knl)


@example(_sum_case, sizes=(1, 7, 16, 17, 33, 0))
def prefix_sum_in_tiles() -> pl.LoopKernel:
    """Sums of tiles by one thread each, their scan, and the tiles again by one thread each: three launches."""
    knl = pl.make_kernel(
        PREFIX, "b[i] = sum(j, a[j])", [pl.GlobalArg("a, b", F, shape="n")], name="prefix_sum_in_tiles"
    )
    knl = pl.split_scan(knl, "i", 4, outer_iname="tile", inner_iname="k", carry_iname="before")
    knl = pl.split_iname(knl, "tile", 2, outer_tag="g.0", inner_tag="l.0")
    return pl.realize_scan(knl)


def _row_case(n: int, rng: np.random.Generator) -> Case:
    a = rng.integers(-9, 9, (5, n)).astype(F)
    before = np.zeros((5, n), F)
    np.cumsum(a[:, :-1], 1, out=before[:, 1:])
    return {"a": a}, {"b": 2 * before + a}


@example(_row_case)
def exclusive_rows() -> pl.LoopKernel:
    """An exclusive scan of each row, with an expression around it."""
    knl = pl.make_kernel(
        ["{[r]: 0 <= r < m}", *BEFORE],
        "b[r, i] = 2*sum(j, a[r, j]) + a[r, i]",
        [pl.GlobalArg("a, b", F, shape="m, n"), ...],
        name="exclusive_rows",
    )
    knl = pl.split_iname(knl, "r", 32, outer_tag="g.0", inner_tag="l.0")
    return pl.realize_scan(knl)


def _segment_case(n: int, rng: np.random.Generator) -> Case:
    x, starts = _vectors(n, rng), rng.random(n) < 0.3
    expected = x.copy()
    for i in range(1, n):
        expected[i] += 0 if starts[i] else expected[i - 1]
    return {"x": x, "starts": starts}, {"b": expected}


@example(_segment_case, sizes=(1, 7, 8, 9, 33))
def segmented_scan() -> pl.LoopKernel:
    """Running totals that begin again at each flag, in tiles: not commutative, so order matters."""
    knl = pl.make_kernel(
        PREFIX,
        "b[i] = reduce(segmented(sum), j, x[j], starts[j]).value",
        [pl.GlobalArg("x, b", F, shape="n"), pl.GlobalArg("starts", np.bool_, shape="n")],
        name="segmented_scan",
    )
    knl = pl.split_scan(knl, "i", 8, outer_iname="tile", inner_iname="k")
    return pl.realize_scan(knl)


def _best_case(n: int, rng: np.random.Generator) -> Case:
    a = _vectors(n, rng)
    where = np.array([a[: i + 1].argmax() for i in range(n)], np.int32)
    return {"a": a}, {"best": where}


@example(_best_case)
def best_so_far() -> pl.LoopKernel:
    """Where the greatest element so far stands."""
    knl = pl.make_kernel(
        PREFIX,
        "best[i] = argmax(j, a[j], j).index",
        [pl.GlobalArg("a", F, shape="n"), pl.GlobalArg("best", np.int32, shape="n")],
        name="best_so_far",
    )
    return pl.realize_scan(pl.split_scan(knl, "i", 4))


def _compact_case(n: int, rng: np.random.Generator) -> Case:
    x = _vectors(n, rng)
    kept = x[x > 0]
    out = np.zeros(n, F)
    out[: len(kept)] = kept
    return {"x": x, "out": np.zeros(n, F)}, {"out": out}


@example(_compact_case)
def compaction() -> pl.LoopKernel:
    """Positive elements moved together: an exclusive scan of the predicate says where each one goes."""
    knl = pl.make_kernel(
        [*BEFORE, "{[k]: 0 <= k < n}"],
        """
        place[i] = sum(j, if(x[j] > 0, 1, 0))
        if x[k] > 0
            out[place[k]] = x[k]
        end
        """,
        [
            pl.GlobalArg("x", F, shape="n"),
            pl.GlobalArg("out", F, shape="n"),
            pl.TemporaryVariable("place", np.int32, shape="n"),
            ...,
        ],
        name="compaction",
    )
    knl = pl.split_scan(knl, "i", 8)
    return pl.realize_scan(knl)
