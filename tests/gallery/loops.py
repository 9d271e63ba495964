"""Loop nests in another order than they were written in: wavefronts, time skewing, diamonds."""

from __future__ import annotations

import numpy as np

import polyloop as pl
from tests.gallery.base import Case, example

I = np.int32  # noqa: E741 - the type of all of these


def _longest_common_case(n: int, rng: np.random.Generator) -> Case:
    x, y = rng.integers(0, 3, n).astype(I), rng.integers(0, 3, n + 2).astype(I)
    length = np.zeros((n + 1, n + 3), I)
    for i in range(1, n + 1):
        for j in range(1, n + 3):
            same = length[i - 1, j - 1] + 1 if x[i - 1] == y[j - 1] else 0
            length[i, j] = max(same, length[i - 1, j], length[i, j - 1])
    return {"x": x, "y": y, "length": np.zeros_like(length)}, {"length": length}


@example(_longest_common_case, sizes=(1, 7, 33))
def longest_common_subsequence() -> pl.LoopKernel:
    """One block of 32 threads walks over the antidiagonals."""
    knl = pl.make_kernel(
        "{[i, j]: 1 <= i <= n and 1 <= j <= m}",
        """
        length[i, j] = max(if(x[i-1] == y[j-1], length[i-1, j-1] + 1, 0), length[i-1, j], length[i, j-1])
        """,
        [pl.GlobalArg("x", I, shape="n"), pl.GlobalArg("y", I, shape="m"),
         pl.GlobalArg("length", I, shape="n + 1, m + 1"), ...],
        name="longest_common_subsequence",
        assumptions="n >= 1 and m >= 1",
    )  # fmt: skip
    knl = pl.map_domain(knl, "{[i, j] -> [diagonal, i]: diagonal = i + j}")
    return pl.split_iname(knl, "i", 32, inner_tag="l.0")


def _steps_case(n: int, rng: np.random.Generator) -> Case:
    steps = 6
    a = rng.integers(-2, 3, (steps + 1, n + 2)).astype(I)
    want = a.copy()
    for t in range(steps):
        want[t + 1, 1:-1] = want[t, :-2] + want[t, 1:-1] + want[t, 2:]
    return {"a": a, "steps": steps}, {"a": want}


def _stencil(name: str) -> pl.LoopKernel:
    return pl.make_kernel(
        "{[t, i]: 0 <= t < steps and 1 <= i <= n}",
        "a[t+1, i] = a[t, i-1] + a[t, i] + a[t, i+1]",
        [pl.GlobalArg("a", I, shape="steps + 1, n + 2"), ...],
        name=name,
        assumptions="n >= 1 and steps >= 0",
    )


@example(_steps_case, sizes=(1, 7, 8, 33))
def time_skewed_stencil() -> pl.LoopKernel:
    """Tiles of 4 steps and 8 cells, skewed so that a tile needs only tiles before it."""
    knl = pl.map_domain(_stencil("time_skewed_stencil"), "{[t, i] -> [t, i + t]}")
    knl = pl.split_iname(knl, "t", 4)
    knl = pl.split_iname(knl, "i", 8)
    return pl.prioritize_loops(knl, "t_outer, i_outer, t_inner, i_inner")


@example(_steps_case, sizes=(1, 7, 8, 33))
def diamond_tiles() -> pl.LoopKernel:
    """The diamonds of one row need only rows before: the threads of a block each take some."""
    knl = _stencil("diamond_tiles")
    knl = pl.map_domain(knl, "{[t, i] -> [u, v, t, i]: u = floor((t + i)/4) and v = floor((t - i)/4)}")
    knl = pl.map_domain(knl, "{[u, v] -> [row, u]: row = u + v}")
    return pl.split_iname(knl, "u", 4, inner_tag="l.0")


def _pipeline_case(n: int, rng: np.random.Generator) -> Case:
    a = rng.integers(-9, 9, n + 2).astype(I)
    edge = a[1:] - a[:-1]
    return {"a": a}, {"edge": edge, "bend": edge[1:] - edge[:-1], "size": np.abs(edge[1:] - edge[:-1]) + edge[:-1]}


@example(_pipeline_case, sizes=(1, 7, 32, 33))
def fused_pipeline() -> pl.LoopKernel:
    """Three stages in one pass over the array: each runs one iteration behind what it needs."""
    knl = pl.make_kernel(
        ["{[i]: 0 <= i <= n}", "{[j, k]: 0 <= j, k < n}"],
        """
        edge[i] = a[i+1] - a[i]
        bend[j] = edge[j+1] - edge[j]
        size[k] = abs(bend[k]) + edge[k]
        """,
        [pl.GlobalArg("a", I, shape="n + 2"), pl.GlobalArg("edge", I, shape="n + 1"),
         pl.GlobalArg("bend, size", I, shape="n"), ...],
        name="fused_pipeline",
        assumptions="n >= 1",
    )  # fmt: skip
    knl = pl.shift(pl.shift(knl, "j", 1), "k", 1)
    return pl.fuse_loops(knl, "i, j, k")
