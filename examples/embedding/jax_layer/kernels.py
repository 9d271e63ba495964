"""Normalization of rows by their root mean square, ``y = w*x/rms(x)``, and its gradients."""

from __future__ import annotations

import numpy as np

import polyloop as pl

F = np.float32


def forward() -> pl.LoopKernel:
    """Return ``y[i, :] = w*x[i, :]/sqrt(mean(x[i, :]**2) + eps)``."""
    knl = pl.make_kernel(
        "{[i, j, k]: 0 <= i < m and 0 <= j, k < n}",
        """
        for i
            <> r = 1/sqrt(sum(k, x[i, k]**2)/n + eps)
            y[i, j] = w[j]*x[i, j]*r
        end
        """,
        [pl.GlobalArg("x, y", F, shape="m, n"), pl.GlobalArg("w", F, shape="n"), pl.ValueArg("eps", F), ...],
        name="rms_norm", assumptions="n >= 1",
    )  # fmt: skip
    return knl.tag_inames({"i": "g.0"}).split_iname("j", 128, inner_tag="l.0")  # for a GPU; loops on the CPU


def backward() -> pl.LoopKernel:
    """Return the gradients of ``x`` and ``w``."""
    knl = pl.make_kernel(
        "{[p, q, i, j, k, l]: 0 <= p, q < m and 0 <= i, j, k, l < n}",
        """
        for p
            r[p] = 1/sqrt(sum(k, x[p, k]**2)/n + eps)
            <> d = sum(l, grad_y[p, l]*w[l]*x[p, l])*r[p]**2/n
            grad_x[p, j] = r[p]*(w[j]*grad_y[p, j] - x[p, j]*d)
        end
        grad_w[i] = sum(q, grad_y[q, i]*x[q, i]*r[q])
        """,
        [pl.GlobalArg("x, grad_x, grad_y", F, shape="m, n"), pl.GlobalArg("w, grad_w", F, shape="n"),
         pl.TemporaryVariable("r", F, shape="m"), pl.ValueArg("eps", F), ...],
        name="rms_norm_backward", assumptions="n >= 1",
    )  # fmt: skip
    return knl.tag_inames({"p": "g.0", "i": "g.0"})
