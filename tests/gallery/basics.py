"""Elementwise maps, reductions, stencils, scans: the kernels that everybody writes first."""

from __future__ import annotations

import numpy as np

import polyloop as pl
from tests.gallery.base import Case, example

F = np.float32


def _saxpy_case(n: int, rng: np.random.Generator) -> Case:
    x, y = rng.random(n, dtype=F), rng.random(n, dtype=F)
    return {"x": x, "y": y.copy(), "alpha": F(1.5)}, {"y": F(1.5) * x + y}


@example(_saxpy_case, sizes=(1, 127, 128, 129))
def saxpy() -> pl.LoopKernel:
    data = [pl.ValueArg("alpha", F), pl.GlobalArg("x, y", F, shape="n"), ...]
    knl = pl.make_kernel("{[i]: 0 <= i < n}", "y[i] = alpha*x[i] + y[i]", data, name="saxpy")
    return pl.split_iname(knl, "i", 128, outer_tag="g.0", inner_tag="l.0")


def _row_sums_case(n: int, rng: np.random.Generator) -> Case:
    a = rng.random((n, n + 2), dtype=F)
    return {"a": a}, {"s": a.sum(1)}


@example(_row_sums_case)
def row_sums() -> pl.LoopKernel:
    data = [pl.GlobalArg("a", F, shape="n, m"), ...]
    knl = pl.make_kernel("{[i, j]: 0 <= i < n and 0 <= j < m}", "s[i] = sum(j, a[i, j])", data, name="row_sums")
    return pl.split_iname(knl, "i", 32, outer_tag="g.0", inner_tag="l.0")


def _prefix_case(n: int, rng: np.random.Generator) -> Case:
    a = rng.integers(-5, 9, n, dtype=np.int32)
    return {"a": a}, {"s": np.cumsum(a, dtype=np.int32)}


@example(_prefix_case, sizes=(1, 2, 40))
def prefix_sums_by_triangle() -> pl.LoopKernel:
    knl = pl.make_kernel(
        "{[i, j]: 0 <= j <= i < n}",
        "s[i] = sum(j, a[j])",
        [pl.GlobalArg("a", np.int32, shape="n"), ...],
        name="prefix_sums_by_triangle",
    )
    return pl.split_iname(knl, "i", 16, outer_tag="g.0", inner_tag="l.0")


def _recurrence_case(n: int, rng: np.random.Generator) -> Case:
    a = rng.integers(-5, 9, (n, n), dtype=np.int32)
    return {"a": a}, {"s": np.cumsum(a, axis=1, dtype=np.int32)}


@example(_recurrence_case)
def running_sum_of_each_row() -> pl.LoopKernel:
    """A recurrence along the row, one row a thread."""
    knl = pl.make_kernel(
        "{[i, j]: 0 <= i, j < n}",
        """
        for i
            <> total = 0 {id=start}
            for j
                total = total + a[i, j] {id=add, dep=start}
                s[i, j] = total {dep=add}
            end
        end
        """,
        [pl.GlobalArg("a", np.int32, shape="n, n"), ...],
        name="running_sum_of_each_row",
    )
    return pl.split_iname(knl, "i", 32, outer_tag="g.0", inner_tag="l.0")


def _heat_case(n: int, rng: np.random.Generator) -> Case:
    u = rng.random(n + 2, dtype=F)
    return {"u": u}, {"v": u[1:-1] + F(0.25) * (u[2:] - 2 * u[1:-1] + u[:-2])}


@example(_heat_case, sizes=(1, 31, 32, 33))
def heat_step() -> pl.LoopKernel:
    """An explicit step of the heat equation, its halo fetched to shared memory."""
    knl = pl.make_kernel(
        "{[i]: 0 <= i < n}",
        "v[i] = u[i + 1] + 0.25*(u[i + 2] - 2*u[i + 1] + u[i])",
        [pl.GlobalArg("u", F, shape="n + 2"), ...],
        name="heat_step",
    )
    knl = pl.split_iname(knl, "i", 32, outer_tag="g.0", inner_tag="l.0")
    return pl.add_prefetch(knl, "u", ["i_inner"])


def _horner_case(n: int, rng: np.random.Generator) -> Case:
    x = rng.random(n, dtype=F)
    return {"x": x}, {"y": ((x * F(0.5) + 2) * x - 1) * x + 3}


@example(_horner_case, sizes=(1, 64, 65))
def horner() -> pl.LoopKernel:
    """A chain of scalar temporaries."""
    knl = pl.make_kernel(
        "{[i]: 0 <= i < n}",
        """
        <> p = 0.5*x[i] + 2
        <> q = p*x[i] - 1
        y[i] = q*x[i] + 3
        """,
        [pl.GlobalArg("x", F, shape="n"), ...],
        name="horner",
    )
    return pl.split_iname(knl, "i", 64, outer_tag="g.0", inner_tag="l.0")


def _clip_case(n: int, rng: np.random.Generator) -> Case:
    x = rng.standard_normal((n, n)).astype(F)
    return {"x": x}, {"y": np.where(np.abs(x) < 1, x, np.sign(x)).astype(F)}


@example(_clip_case)
def clip() -> pl.LoopKernel:
    """Branches that depend on data."""
    knl = pl.make_kernel(
        "{[i, j]: 0 <= i, j < n}",
        """
        if -1 < x[i, j] < 1
            y[i, j] = x[i, j]
        elif x[i, j] > 0
            y[i, j] = 1
        else
            y[i, j] = -1
        end
        """,
        [pl.GlobalArg("x, y", F, shape="n, n"), ...],
        name="clip",
    )
    knl = pl.split_iname(knl, "i", 8, outer_tag="g.1", inner_tag="l.1")
    return pl.split_iname(knl, "j", 16, outer_tag="g.0", inner_tag="l.0")
