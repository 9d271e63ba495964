"""Attention and its gradients in float64, and arguments drawn with a seed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import ml_dtypes
import numpy as np

from polyloop.library.scores import Scores

__all__ = ["drawn", "exact"]

CAP = 1.5
"""Low enough that scores bend."""


def drawn(scores: Scores, n: int, m: int, head: int, group: int, dtype: Any = ml_dtypes.bfloat16) -> dict[str, Any]:
    """Return the arguments of a forward pass of two heads of keys; if there are lengths, the second has no keys."""
    rng = np.random.default_rng(n + head)
    given = {"q": rng.standard_normal((2, group, n, head)).astype(dtype),
             **{name: rng.standard_normal((2, m, head)).astype(dtype) for name in "kv"},
             "scale": np.float32(np.log2(np.e) / np.sqrt(head))}  # fmt: skip
    if scores.lengths:
        given["lengths"] = np.array([m - 29, 0], np.int32)
    if scores.bias:
        given["bias"] = (2 * rng.standard_normal((2, group, n, m))).astype(dtype)
    if scores.cap:
        given["cap"] = np.float32(CAP)
    return given


def exact(given: Mapping[str, Any], scores: Scores, d_o: Any = None, cap: float = CAP) -> dict[str, Any]:
    """Return ``o`` and ``lse`` in float64; with *d_o*, ``delta``, ``dq``, ``dk`` and ``dv``, too."""
    q, k, v = (given[name].astype(np.float64) for name in "qkv")
    n, m, head = q.shape[2], k.shape[1], q.shape[3]
    x = np.einsum("hgic,hjc->hgij", q, k) / np.sqrt(head)
    slope = np.ones_like(x)
    if scores.cap:
        slope = 1 - np.tanh(x / cap)**2
        x = cap * np.tanh(x / cap)
    if scores.bias:
        x = x + given["bias"].astype(np.float64)
    i, j = np.arange(n)[:, None], np.arange(m)[None]
    seen = np.ones(x.shape, bool)
    if scores.causal:
        seen &= j <= i
    if scores.window:
        seen &= j > i - scores.window
    if scores.lengths:
        seen &= j < given["lengths"][:, None, None, None]
    top = np.where(seen, x, -1e300).max(-1, keepdims=True)
    weights = np.where(seen, np.exp(np.minimum(x - top, 0)), 0)
    total = weights.sum(-1, keepdims=True)
    weights /= np.where(total > 0, total, 1)
    lse = np.where(total > 0, top + np.log(np.where(total > 0, total, 1)), 1e30)[..., 0]
    o = np.einsum("hgij,hjd->hgid", weights, v)
    if d_o is None:
        return {"o": o, "lse": lse}
    d_o = d_o.astype(np.float64)
    delta = (d_o * o).sum(-1)
    ds = weights * (np.einsum("hgid,hjd->hgij", d_o, v) - delta[..., None]) * slope / np.sqrt(head)
    return {"o": o, "lse": lse, "delta": delta, "dv": np.einsum("hgij,hgid->hjd", weights, d_o),
            "dq": np.einsum("hgij,hjc->hgic", ds, k), "dk": np.einsum("hgij,hgic->hjc", ds, q)}  # fmt: skip
