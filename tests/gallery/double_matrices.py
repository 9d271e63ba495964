"""Matrix units in double precision where a numerical method has small dense matrices."""

from __future__ import annotations

from typing import Any

import numpy as np

import polyloop as pl
from tests.gallery.base import Case, example

NODES = 20
"""Nodes of a tetrahedron for polynomials of degree 3."""


def _derivatives(n: int, rng: np.random.Generator) -> Case:
    d: Any = rng.integers(-3, 4, (NODES, NODES)).astype(np.float64)
    u: Any = rng.integers(-3, 4, (n, NODES)).astype(np.float64)
    return {"d": d, "u": u}, {"du": u @ d.T}


@example(_derivatives, sizes=(1, 9, 40))
def derivatives_on_elements() -> pl.LoopKernel:
    """A derivative on many elements, 8 elements a warp; 20 nodes fill no tiles of 8."""
    knl = pl.make_kernel(
        f"{{[e, i, j]: 0 <= e < n and 0 <= i, j < {NODES}}}",
        "du[e, i] = sum(j, u[e, j]*d[i, j])",
        [pl.GlobalArg("d", np.float64, shape=(NODES, NODES)), pl.GlobalArg("u, du", np.float64, shape=f"n, {NODES}"),
         ...],
        name="derivatives_on_elements", assumptions="n >= 1",
    )  # fmt: skip
    knl = pl.split_iname(knl, "e", 16, outer_tag="g.0")
    knl = pl.split_iname(knl, "e_inner", 8, outer_iname="w", inner_iname="ee", outer_tag="l/32")
    knl = pl.split_iname(knl, "i", 8, outer_tag="unr")
    knl = pl.split_iname(knl, "j", 4, outer_tag="unr")
    return pl.tensorize(knl, "writes:du", "mma_m8n8k4_f64")


def _gram(n: int, rng: np.random.Generator) -> Case:
    x: Any = rng.integers(-3, 4, (n, 12)).astype(np.float64)
    return {"x": x}, {"g": x.T @ x + np.eye(12)}


@example(_gram, sizes=(1, 9, 40))
def gram_matrix() -> pl.LoopKernel:
    """All products of 12 columns with each other, of one matrix on both sides, and what makes them regular."""
    knl = pl.make_kernel(
        "{[i, j, k]: 0 <= i, j < 12 and 0 <= k < n}",
        "g[i, j] = (1 if i == j else 0) + sum(k, x[k, i]*x[k, j])",
        [pl.GlobalArg("x", np.float64, shape="n, 12"), pl.GlobalArg("g", np.float64, shape=(12, 12)), ...],
        name="gram_matrix", assumptions="n >= 1",
    )  # fmt: skip
    knl = pl.split_iname(knl, "i", 8, outer_tag="g.0")
    knl = pl.split_iname(knl, "j", 8, outer_tag="g.1")
    knl = pl.split_iname(knl, "k", 16)
    knl = pl.split_iname(knl, "k_inner", 4, outer_tag="unr")
    return pl.tensorize(knl, "writes:g", "mma_m8n8k4_f64", ahead=True)
