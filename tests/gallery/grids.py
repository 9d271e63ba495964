"""Reductions over the whole grid, and over digits of the thread number."""

from __future__ import annotations

import numpy as np

import polyloop as pl
from tests.gallery.base import Case, example

F = np.float32


def _pi(n: int, rng: np.random.Generator) -> Case:
    del rng
    x = (np.arange(n) + 0.5) / n
    return {"n": n, "h": 1.0 / n}, {"pi": np.asarray((4 / (1 + x * x)).sum() / n)}


@example(_pi, sizes=(1, 64, 65, 500), rtol=1e-12)
def quadrature() -> pl.LoopKernel:
    """The area under a curve, by the midpoint rule: nothing is read, and blocks combine in a second launch."""
    knl = pl.make_kernel(
        "{[k]: 0 <= k < n}",
        "pi = h*sum(k, 4.0/(1.0 + ((k + 0.5)*h)*((k + 0.5)*h)))",
        [pl.ValueArg("h", np.float64), ...],
        name="quadrature",
        assumptions="n >= 1",
    )
    knl = pl.split_iname(knl, "k", 64, outer_iname="block", inner_iname="i")
    knl = pl.split_iname(knl, "i", 32, inner_tag="l.0")
    knl = pl.realize_reduction(knl, grid="two launches", grid_inames="block")
    return pl.split_iname(knl, "block", 32, inner_tag="l.0")


def _norms(n: int, rng: np.random.Generator) -> Case:
    a = rng.integers(-4, 5, (n, 21)).astype(F)
    return {"a": a}, {"best": np.abs(a).max(1), "at": np.abs(a).argmax(1).astype(np.int32)}


@example(_norms, sizes=(1, 16, 17))
def pivots_by_eight() -> pl.LoopKernel:
    """The greatest entry of each row and its place, with 8 threads a row, which are digits of the thread number."""
    knl = pl.make_kernel(
        "{[i, k]: 0 <= i < n and 0 <= k < m}",
        "best[i], at[i] = argmax(k, abs(a[i, k]), k)",
        [
            pl.GlobalArg("a", F, shape="n, m"),
            pl.GlobalArg("best", F, shape="n"),
            pl.GlobalArg("at", np.int32, shape="n"),
            ...,
        ],
        name="pivots_by_eight",
        assumptions="n >= 1 and m >= 1",
    )
    knl = pl.split_iname(knl, "i", 16, outer_tag="g.0", inner_tag="l/8")
    return pl.split_iname(knl, "k", 8, inner_tag="l%8")
