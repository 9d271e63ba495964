"""Layer norm of rows of any length, a block of 256 threads a row: mean, then variance, then the scaled row."""

from typing import Any

import numpy as np

import polyloop as pl

SIZES = [{"n": 1, "m": 1}, {"n": 3, "m": 255}, {"n": 2, "m": 256}, {"n": 2, "m": 1000}]


def program() -> pl.LoopKernel:
    return pl.make_kernel(
        "{[i, k]: 0 <= i < n and 0 <= k < m}",
        """
        for i
            <> mean = sum(k, x[i, k])/m
            <> variance = sum(k, (x[i, k] - mean)**2)/m
            <> scale = rsqrt(variance + 1e-5)
            y[i, k] = (x[i, k] - mean)*scale*gamma[k] + beta[k]
        end
        """,
        [
            pl.GlobalArg("x, y", np.float32, shape="n, m"),
            pl.GlobalArg("gamma, beta", np.float32, shape="m"),
            pl.TemporaryVariable("mean, variance, scale", np.float32),
            ...,
        ],
        name="layer_norm",
        assumptions="n >= 1 and m >= 1",
    )


def transformed() -> pl.LoopKernel:
    knl = pl.split_iname(program(), "k", 256, inner_tag="l.0")
    return pl.tag_inames(knl, "i:g.0")


def inputs(rng: np.random.Generator, n: int, m: int) -> dict[str, Any]:
    gamma, beta = rng.random(m, np.float32), rng.random(m, np.float32)
    return {"x": rng.random((n, m), np.float32), "gamma": gamma, "beta": beta}


def expected(x: Any, gamma: Any, beta: Any) -> dict[str, Any]:
    x = x.astype(np.float64)
    away = x - x.mean(1, keepdims=True)
    return {"y": away / np.sqrt((away**2).mean(1, keepdims=True) + 1e-5) * gamma + beta}


if __name__ == "__main__":
    arrays = inputs(np.random.default_rng(0), n=100, m=3000)
    wanted = expected(**arrays)
    result = pl.compile(transformed())(**arrays)
    np.testing.assert_allclose(result.y, wanted["y"], rtol=1e-3, atol=1e-4)
    print("layer_norm: 100 rows of 3000 agree with NumPy")
