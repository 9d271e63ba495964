"""Reductions with other operations than sums: arg max, segments, operations of the user's, and over nothing."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

import polyloop as pl
from tests.gallery.base import Case, example

F = np.float32
Flags: TypeAlias = np.ndarray[tuple[int, ...], np.dtype[np.bool_]]
ROWS = "{[i, j]: 0 <= i < m and 0 <= j < n}"
APART = ["{[i]: 0 <= i < m}", "{[j]: 0 <= j < n}"]


def _matrix(n: int, rng: np.random.Generator) -> np.ndarray[tuple[int, int], np.dtype[np.float32]]:
    return rng.integers(-9, 9, (n + 2, n)).astype(F)


def _by_rows(knl: pl.LoopKernel) -> pl.LoopKernel:
    return pl.split_iname(knl, "i", 16, outer_tag="g.0", inner_tag="l.0")


def _pivot_case(n: int, rng: np.random.Generator) -> Case:
    a = _matrix(n, rng)
    return {"a": a}, {"pivot": abs(a).argmax(1).astype(np.int32), "size": abs(a).max(1)}


@example(_pivot_case)
def pivots() -> pl.LoopKernel:
    """The largest entry of each row by magnitude, and where it stands; of equal ones the first."""
    knl = pl.make_kernel(
        ROWS,
        "size[i], pivot[i] = argmax(j, abs(a[i, j]), j)",
        [pl.GlobalArg("a", F, shape="m, n"), pl.GlobalArg("size", shape="m"), pl.GlobalArg("pivot", shape="m"), ...],
        name="pivots",
    )
    return pl.split_iname(_by_rows(knl), "j", 4)


def _nearest_case(n: int, rng: np.random.Generator) -> Case:
    x, y = rng.integers(0, 6, (2, 50, 3)).astype(F)
    near = ((x[:, None] - y[None, :n]) ** 2).sum(2).argmin(1).astype(np.int32)
    return {"x": x, "y": np.ascontiguousarray(y[:n])}, {"near": near}


@example(_nearest_case, sizes=(1, 7, 33))
def nearest() -> pl.LoopKernel:
    """The nearest of n points to each of m: argmin of a sum, with many ties."""
    knl = pl.make_kernel(
        "{[i, j, d]: 0 <= i < m and 0 <= j < n and 0 <= d < 3}",
        "near[i] = argmin(j, sum(d, (x[i, d] - y[j, d])**2), j).index",
        [pl.GlobalArg("x", F, shape="m, 3"), pl.GlobalArg("y", F, shape="n, 3"), pl.GlobalArg("near", shape="m"), ...],
        name="nearest",
    )
    return _by_rows(knl)


def _segments_case(n: int, rng: np.random.Generator) -> Case:
    a = _matrix(n, rng)
    begins: Flags = rng.integers(0, 2, (n + 2, n)).astype(np.bool_)
    last, found = np.zeros(n + 2, F), np.array([row.any() for row in begins])
    for i in range(n + 2):
        start = np.flatnonzero(begins[i])[-1] if found[i] else 0
        last[i] = a[i, start:].sum()
    return {"a": a, "begins": begins}, {"last": last, "found": found}


@example(_segments_case)
def last_segments() -> pl.LoopKernel:
    """The sum of each row from the last place on where a segment begins."""
    knl = pl.make_kernel(
        ROWS,
        "last[i], found[i] = reduce(segmented(sum), j, (a[i, j], begins[i, j]))",
        [
            pl.GlobalArg("a", F, shape="m, n"),
            pl.GlobalArg("begins", np.bool_, shape="m, n"),
            pl.GlobalArg("last, found", shape="m"),
            ...,
        ],
        name="last_segments",
    )
    return pl.split_iname(_by_rows(knl), "j", 8)


def _logsumexp_case(n: int, rng: np.random.Generator) -> Case:
    x = (50 * rng.standard_normal((n + 2, n))).astype(F)
    top = x.max(1)
    return {"x": x}, {"y": top + np.log(np.exp(x - top[:, None]).sum(1, dtype=np.float64))}


@example(_logsumexp_case)
def logsumexp() -> pl.LoopKernel:
    """log(sum(exp(x))) in one pass over the data, without overflow."""
    operation = pl.ReductionOperation(
        "log_sum_exp",
        ("max(a.top, b.top)", "a.rest*exp(a.top - max(a.top, b.top)) + b.rest*exp(b.top - max(a.top, b.top))"),
        neutral=("least", 0),
        fields=("top", "rest"),
    )
    knl = pl.make_kernel(
        ROWS,
        """
        <> top, rest = log_sum_exp(j, x[i, j], 1)
        y[i] = top + log(rest)
        """,
        [pl.GlobalArg("x", F, shape="m, n"), pl.GlobalArg("y", shape="m"), ...],
        name="logsumexp",
        reductions=[operation],
    )
    return _by_rows(knl)


def _empty_case(n: int, rng: np.random.Generator) -> Case:
    a = _matrix(n, rng)
    m = n + 2
    if n:
        first = (a.argmax(1), a.argmin(1))
        extremes = (a.max(1), a.min(1))
    else:
        first = (np.full(m, 2**31 - 1), np.full(m, 2**31 - 1))
        extremes = (np.full(m, -np.inf), np.full(m, np.inf))
    expected = {
        "s": a.sum(1), "p": np.prod(a / 8, axis=1), "high": extremes[0], "low": extremes[1],
        "some": (a > 7).any(1), "each": (a > -9).all(1),
        "first": first[0].astype(np.int32), "last": first[1].astype(np.int32),
        "total": a.sum(1), "flag": np.zeros(m, bool), "norm": np.sqrt((a * a).sum(1)),
    }  # fmt: skip
    return {"a": a}, expected


@example(_empty_case, sizes=(0, 1, 7, 33))
def over_nothing() -> pl.LoopKernel:
    """Every operation, also where there are no terms: then the result is the neutral element."""
    knl = pl.make_kernel(
        APART,
        """
        s[i] = sum(j, a[i, j])
        p[i] = product(j, a[i, j]/8)
        high[i] = max(j, a[i, j])
        low[i] = min(j, a[i, j])
        some[i] = any(j, a[i, j] > 7)
        each[i] = all(j, a[i, j] > -9)
        first[i] = argmax(j, a[i, j], j).index
        last[i] = argmin(j, a[i, j], j).index
        total[i], flag[i] = reduce(segmented(sum), j, a[i, j], a[i, j] > 100)
        norm[i] = simul_reduce(euclid, j, a[i, j])
        """,
        [
            pl.GlobalArg("a", F, shape="m, n"),
            pl.GlobalArg("s, p, high, low, some, each, first, last, total, flag, norm", shape="m"),
            ...,
        ],
        name="over_nothing",
        reductions=[pl.ReductionOperation("euclid", "hypot(a, b)", neutral=0)],
    )
    return _by_rows(knl)


def _filtered_case(n: int, rng: np.random.Generator) -> Case:
    a, wanted = _matrix(n, rng), rng.integers(0, 2, n + 2).astype(np.int32)
    up = np.where(a > 0, a, 0).sum(1)
    return {"a": a, "wanted": wanted, "up": -np.ones(n + 2, F)}, {"up": np.where(wanted == 1, up, -1).astype(F)}


@example(_filtered_case)
def under_conditions() -> pl.LoopKernel:
    """A condition on the instruction, and one on each term."""
    knl = pl.make_kernel(
        ROWS,
        "up[i] = sum(j, if(a[i, j] > 0, a[i, j], 0)) {if=wanted[i] == 1}",
        [pl.GlobalArg("a", F, shape="m, n"), pl.GlobalArg("wanted", np.int32, shape="m"), pl.GlobalArg("up"), ...],
        name="under_conditions",
    )
    return _by_rows(knl)
