"""Reductions in stages: partial results in registers, shared and global memory, by launches and by atomic updates."""

from __future__ import annotations

import numpy as np

import polyloop as pl
from tests.gallery.base import Case, example

F = np.float32


def _rows_case(n: int, rng: np.random.Generator) -> Case:
    a = rng.random((5, 40 * n), np.float32)
    norms = np.sqrt((a.astype(np.float64) ** 2).sum(1))
    return {"a": a}, {"norms": norms.astype(F)}


@example(_rows_case, sizes=(1, 7, 33))
def long_rows() -> pl.LoopKernel:
    """Norms of few long rows: several blocks a row, several sums a thread; a block for the rest of each row."""
    knl = pl.make_kernel(
        "{[i, k]: 0 <= i < m and 0 <= k < n}",
        "<> s = sum(k, a[i, k]**2) {id=sums}\nnorms[i] = sqrt(s)",
        [pl.GlobalArg("a", F, shape="m, n"), pl.GlobalArg("norms", F, shape="m"), ...],
        name="long_rows",
        assumptions="m >= 1 and n >= 1",
    )
    knl = pl.split_iname(knl, "k", 256, outer_iname="b", inner_iname="t")
    knl = pl.stage_reduction(
        knl, "b", sweep_inames="i", new_inames="row, chunk", temporary_name="sums", temporary_address_space="global"
    )
    knl = pl.tag_inames(knl, "row:g.1, chunk:g.0, i:g.0")
    knl = pl.split_iname(pl.split_iname(knl, "t", 128), "t_inner", 64, outer_tag="ilp", inner_tag="l.0")
    return pl.split_iname(knl, "b", 64, inner_tag="l.0")


def _extrema_case(n: int, rng: np.random.Generator) -> Case:
    x = rng.integers(-99, 99, 31 * n).astype(np.int32)
    return {"x": x}, {"low": x.min(), "high": x.max()}


@example(_extrema_case, sizes=(1, 7, 33))
def extrema_by_atomics() -> pl.LoopKernel:
    """The least and the greatest of many values: a block finds its own, then updates the result."""
    knl = pl.make_kernel(
        "{[k, l]: 0 <= k, l < n}",
        ["low = min(k, x[k]) {id=low}", "high = max(l, x[l]) {id=high}"],
        [pl.GlobalArg("x", np.int32, shape="n"), ...],
        name="extrema_by_atomics",
        assumptions="n >= 1",
    )
    for iname in "kl":
        knl = pl.split_iname(knl, iname, 128)
        knl = pl.reduce_atomically(knl, f"{iname}_outer")
        knl = pl.split_iname(pl.tag_inames(knl, {f"{iname}_outer": "g.0"}), f"{iname}_inner", 32, inner_tag="l.0")
    return knl


def _mean_case(n: int, rng: np.random.Generator) -> Case:
    x = rng.random(37 * n)
    return {"x": x}, {"mean": x.mean(), "spread": ((x - x.mean()) ** 2).sum() / x.size}


@example(_mean_case, sizes=(1, 7, 33), rtol=1e-10)
def mean_and_variance() -> pl.LoopKernel:
    """Welford's update as an operation of the user's: states of three fields, partial ones in global memory."""
    delta = "(b.mean - a.mean)"
    weight = "fmax(a.count + b.count, 1.0)"
    welford = pl.ReductionOperation(
        "welford",
        (
            "a.count + b.count",
            f"a.mean + {delta}*(b.count/{weight})",
            f"a.rest + b.rest + {delta}*{delta}*(a.count*b.count/{weight})",
        ),
        neutral=(0, 0, 0),
        fields=("count", "mean", "rest"),
    )
    knl = pl.make_kernel(
        "{[k]: 0 <= k < n}",
        "<> number, middle, rest = welford(k, 1.0, x[k], 0.0)\nmean = middle\nspread = rest/number",
        [pl.GlobalArg("x", np.float64, shape="n"), ...],
        reductions=[welford],
        name="mean_and_variance",
        assumptions="n >= 1",
    )
    knl = pl.split_iname(knl, "k", 64, outer_iname="b", inner_iname="t")
    knl = pl.stage_reduction(knl, "b", default_tag="g.0", temporary_name="states", temporary_address_space="global")
    return pl.split_iname(knl, "t", 32, inner_tag="l.0")
