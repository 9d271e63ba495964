"""The gate of a feed-forward block, ``y = silu(g)*u``, and its gradients."""

from __future__ import annotations

import numpy as np

import polyloop as pl

F = np.float32


def _on_threads(knl: pl.LoopKernel) -> pl.LoopKernel:
    """Give the columns to threads, for a GPU; on the CPU these are loops."""
    return knl.split_iname("j", 128, outer_tag="g.0", inner_tag="l.0").tag_inames({"i": "g.1"})


def forward() -> pl.LoopKernel:
    """Return ``y = g*u/(1 + exp(-g))``."""
    return _on_threads(pl.make_kernel(
        "{[i, j]: 0 <= i < m and 0 <= j < n}", "y[i, j] = g[i, j]*u[i, j]/(1 + exp(-g[i, j]))",
        [pl.GlobalArg("g, u, y", F, shape="m, n"), ...], name="gate",
    ))  # fmt: skip


def backward() -> pl.LoopKernel:
    """Return the gradients of both factors: the exponential is computed once."""
    return _on_threads(pl.make_kernel(
        "{[i, j]: 0 <= i < m and 0 <= j < n}",
        """
        for i, j
            <> s = 1/(1 + exp(-g[i, j]))
            grad_u[i, j] = grad_y[i, j]*g[i, j]*s
            grad_g[i, j] = grad_y[i, j]*u[i, j]*s*(1 + g[i, j]*(1 - s))
        end
        """,
        [pl.GlobalArg("g, u, grad_y, grad_g, grad_u", F, shape="m, n"), ...], name="gate_backward",
    ))  # fmt: skip
