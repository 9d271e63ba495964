"""Reductions with terms on several threads: by a block, by warps, over an inner axis, with operations of one's own."""

from __future__ import annotations

import numpy as np

import polyloop as pl
from tests.gallery.base import Case, example

F = np.float32


def _matrix(n: int, rng: np.random.Generator) -> np.ndarray[tuple[int, int], np.dtype[np.float32]]:
    return rng.integers(-9, 9, (3, n)).astype(F)


def _nearest_case(n: int, rng: np.random.Generator) -> Case:
    a, point = _matrix(n, rng), rng.integers(-9, 9, 3).astype(F)
    away = abs(a - point[:, None])
    return {"a": a, "point": point}, {"nearest": away.argmin(1).astype(np.int32), "distance": away.min(1)}


@example(_nearest_case, sizes=(1, 40, 41, 100))
def nearest_by_a_block() -> pl.LoopKernel:
    """The nearest of many numbers, by 40 threads: no power of two, and some have no number at all."""
    knl = pl.make_kernel(
        "{[i, j]: 0 <= i < m and 0 <= j < n}",
        "distance[i], nearest[i] = argmin(j, abs(a[i, j] - point[i]), j)",
        [
            pl.GlobalArg("a", F, shape="m, n"), pl.GlobalArg("point", F, shape="m"),
            pl.GlobalArg("distance, nearest", shape="m"), ...,
        ],
        name="nearest_by_a_block",
    )  # fmt: skip
    return pl.split_iname(pl.tag_inames(knl, "i:g.0"), "j", 40, inner_tag="l.0")


def _log_case(n: int, rng: np.random.Generator) -> Case:
    x = _matrix(n, rng)
    return {"x": x}, {"y": np.log(np.exp(x.astype(float)).sum(1)).astype(F)}


@example(_log_case, sizes=(1, 64, 70, 1000))
def logsumexp_by_a_block() -> pl.LoopKernel:
    """An operation whose combination of nothing with nothing is no number: threads without terms are left out."""
    operation = pl.ReductionOperation(
        "log_sum_exp",
        ("max(a.top, b.top)", "a.rest*exp(a.top - max(a.top, b.top)) + b.rest*exp(b.top - max(a.top, b.top))"),
        neutral=("least", 0),
        fields=("top", "rest"),
    )
    knl = pl.make_kernel(
        "{[i, j]: 0 <= i < m and 0 <= j < n}",
        """
        <> top, rest = log_sum_exp(j, x[i, j], 1)
        y[i] = top + log(rest)
        """,
        [pl.GlobalArg("x", F, shape="m, n"), pl.GlobalArg("y", shape="m"), ...],
        name="logsumexp_by_a_block",
        reductions=[operation],
    )
    return pl.split_iname(pl.tag_inames(knl, "i:g.0"), "j", 64, inner_tag="l.0")


def _dots_case(n: int, rng: np.random.Generator) -> Case:
    a, b = (_matrix(n, rng) + 1j * _matrix(n, rng) for _ in "ab")
    a, b = a.astype(np.complex64), b.astype(np.complex64)
    return {"a": a, "b": b}, {"y": (a * b.conj()).sum(1)}


@example(_dots_case, sizes=(1, 32, 33, 200))
def complex_dots_by_warps() -> pl.LoopKernel:
    """Inner products of complex rows, a warp a row, two rows at once in registers."""
    knl = pl.make_kernel(
        "{[i, k]: 0 <= i < m and 0 <= k < n}",
        "y[i] = sum(k, a[i, k]*conj(b[i, k]))",
        [pl.GlobalArg("a, b", np.complex64, shape="m, n"), pl.GlobalArg("y", shape="m"), ...],
        name="complex_dots_by_warps",
        assumptions="n >= 1",
    )
    knl = pl.split_iname(knl, "i", 2, inner_tag="ilp", outer_iname="pair")
    knl = pl.split_iname(knl, "pair", 4, outer_tag="g.0", inner_tag="w")
    return pl.split_iname(knl, "k", 32, inner_tag="lane")


def _product_case(n: int, rng: np.random.Generator) -> Case:
    a, b = rng.integers(-4, 4, (n, n)).astype(F), rng.integers(-4, 4, (n, n)).astype(F)
    return {"a": a, "b": b}, {"c": a @ b}


@example(_product_case, sizes=(1, 8, 9, 33))
def product_with_a_split_sum() -> pl.LoopKernel:
    """A matrix product whose sums are shared by four layers of threads, with tiles in shared memory."""
    knl = pl.make_kernel(
        "{[i, j, k]: 0 <= i, j, k < n}",
        "c[i, j] = sum(k, a[i, k]*b[k, j])",
        [pl.GlobalArg("a, b", F, shape="n, n"), pl.GlobalArg("c", shape="n, n"), ...],
        name="product_with_a_split_sum",
    )
    knl = pl.split_iname(knl, "i", 8, outer_tag="g.1", inner_tag="l.1")
    knl = pl.split_iname(knl, "j", 8, outer_tag="g.0", inner_tag="l.0")
    knl = pl.split_iname(knl, "k", 4, inner_tag="l.2")
    return pl.add_prefetch(knl, "a", ["i_inner", "k_inner"])


def _mirrored_case(n: int, rng: np.random.Generator) -> Case:
    a = rng.integers(-9, 9, (n, 32)).astype(F)
    return {"a": a}, {"o": a[:, ::-1] + np.roll(a, -1, 1) + a[:, 5:6]}


@example(_mirrored_case, sizes=(1, 3, 8))
def exchanged_within_a_warp() -> pl.LoopKernel:
    """Each lane reads its mirror image, its neighbour in a ring, and lane 5, out of their registers."""
    knl = pl.make_kernel(
        "{[b, lane, x]: 0 <= b < n and 0 <= lane, x < 32}",
        """
        t[lane] = a[b, lane]                              {id=load}
        o[b, x] = t[31 - x] + t[(x + 1) % 32] + t[5]      {dep=load}
        """,
        [pl.GlobalArg("a, o", F, shape="n, 32"), pl.TemporaryVariable("t", F, shape=(32,)), ...],
        name="exchanged_within_a_warp",
    )
    return pl.exchange_by_shuffle(pl.tag_inames(knl, "b:g.0, lane:l.0, x:l.0"), "t")
