"""Gradients of layer norm, derived from the program of ``layer_norm.py``: a block a row, then a thread a column."""

from typing import Any

import numpy as np

import polyloop as pl
from examples import layer_norm

SIZES = [{"n": 1, "m": 3}, {"n": 3, "m": 255}, {"n": 2, "m": 256}, {"n": 300, "m": 20}]


def program() -> pl.LoopKernel:
    return pl.differentiate(layer_norm.program(), "x, gamma, beta", name="layer_norm_gradient")


def transformed() -> pl.LoopKernel:
    knl = pl.tag_inames(program(), "i:g.0")
    for iname in ("k_sum", "k_sum_0", "k_sum_1", "k_sum_2", "k"):  # sums over a row, and the row of grad_x
        knl = pl.split_iname(knl, iname, 256, inner_tag="l.0")
    for iname in ("k_0", "k_1"):  # columns of grad_gamma and grad_beta
        knl = pl.split_iname(knl, iname, 256, outer_tag="g.0", inner_tag="l.0")
    return knl


def inputs(rng: np.random.Generator, n: int, m: int) -> dict[str, Any]:
    x, grad_y = rng.random((n, m), np.float32), rng.random((n, m), np.float32)
    return {"x": x, "gamma": rng.random(m, np.float32), "grad_y": grad_y}


def expected(x: Any, gamma: Any, grad_y: Any) -> dict[str, Any]:
    """Return the gradients as books have them."""
    x, gamma, grad_y = (each.astype(np.float64) for each in (x, gamma, grad_y))
    scale = 1 / np.sqrt(x.var(1, keepdims=True) + 1e-5)
    normal = (x - x.mean(1, keepdims=True)) * scale
    weighted = grad_y * gamma
    away = weighted - weighted.mean(1, keepdims=True) - normal * (weighted * normal).mean(1, keepdims=True)
    return {"grad_x": away * scale, "grad_gamma": (grad_y * normal).sum(0), "grad_beta": grad_y.sum(0)}


if __name__ == "__main__":
    arrays = inputs(np.random.default_rng(0), n=100, m=3000)
    wanted = expected(**arrays)
    result = pl.compile(transformed())(**arrays)
    for name, value in wanted.items():
        np.testing.assert_allclose(getattr(result, name), value, rtol=1e-3, atol=1e-3)
    print("layer_norm_gradient: 100 rows of 3000 agree with NumPy")
