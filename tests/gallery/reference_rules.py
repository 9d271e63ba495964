"""Kernels whose meaning rests on the rules of the reference program: when a reduction reads, what shares a loop."""

from __future__ import annotations

import numpy as np

import polyloop as pl
from tests.gallery.base import Case, example

__all__ = ["defects", "drained", "weights"]


def _defects(n: int, rng: np.random.Generator) -> Case:
    m = rng.standard_normal((n, n)).astype(np.float32)
    x, f = (rng.standard_normal(n).astype(np.float32) for _ in range(2))
    defect = f - m @ x
    return {"m": m, "x": x, "f": f}, {"r": defect, "norm": np.array([defect @ defect])}


@example(_defects, rtol=2e-4)
def defects() -> pl.LoopKernel:
    """The square norm is collected in the loop that sets what it sums."""
    return pl.make_kernel(
        "{[i, j]: 0 <= i, j < n}",
        """
        for i
            <> defect = f[i] - sum(j, m[i, j]*x[j])
            r[i] = defect
        end
        norm[0] = sum(i, defect**2)
        """,
        [pl.GlobalArg("m", np.float32, shape="n, n"), pl.GlobalArg("x, f, r", np.float32, shape="n"),
         pl.GlobalArg("norm", np.float32, shape="1"), ...],
        name="defects",
    )  # fmt: skip


def _weights(n: int, rng: np.random.Generator) -> Case:
    q = rng.standard_normal((n, 6)).astype(np.float32)
    weight = np.exp(q - q.max(1, keepdims=True))
    return {"q": q}, {"total": weight.sum(1), "mean": (weight * q).sum(1) / weight.sum(1)}


@example(_weights, rtol=2e-5)
def weights() -> pl.LoopKernel:
    """One weight a term, used by two reductions that collect in its loop; rows on threads."""
    knl = pl.make_kernel(
        "{[i, k, l]: 0 <= i < n and 0 <= k, l < 6}",
        """
        for i
            <> top = max(l, q[i, l])
            for k
                <> weight = exp(q[i, k] - top)
            end
            total[i] = sum(k, weight)
            mean[i] = sum(k, weight*q[i, k])/total[i]
        end
        """,
        [pl.GlobalArg("q", np.float32, shape="n, 6"), pl.GlobalArg("total, mean", np.float32, shape="n"), ...],
        name="weights",
    )
    return pl.split_iname(knl, "i", 16, outer_tag="g.0", inner_tag="l.0")


def _drained(n: int, rng: np.random.Generator) -> Case:
    a = rng.integers(-9, 10, (n, 5)).astype(np.int32)
    return {"a": a}, {"s": a.sum(1), "a": np.zeros_like(a)}


@example(_drained)
def drained() -> pl.LoopKernel:
    """The terms are read before the loop that clears them, though both are loops over one iname."""
    knl = pl.make_kernel(
        "{[i, k]: 0 <= i < n and 0 <= k < 5}",
        "s[i] = sum(k, a[i, 4 - k])\na[i, k] = 0",
        [pl.GlobalArg("a", np.int32, shape="n, 5"), pl.GlobalArg("s", np.int32, shape="n"), ...],
        name="drained",
    )
    return pl.split_iname(knl, "i", 8, outer_tag="g.0", inner_tag="l.0")
