"""A matrix product with an epilogue: a bias is added and GELU applied while the results are still in registers."""

from math import erf
from typing import Any

import numpy as np

import polyloop as pl

SIZES = [{"m": 1, "n": 1, "p": 1}, {"m": 63, "n": 65, "p": 17}, {"m": 64, "n": 64, "p": 16}]


def program() -> pl.LoopKernel:
    return pl.make_kernel(
        "{[i, j, k]: 0 <= i < m and 0 <= j < n and 0 <= k < p}",
        """
        gelu(x) := 0.5*x*(1 + erf(0.7071067811865476*x))
        <> s = bias[j] + sum(k, a[i, k]*b[k, j])
        c[i, j] = gelu(s)
        """,
        [
            pl.GlobalArg("a", np.float32, shape="m, p"),
            pl.GlobalArg("b", np.float32, shape="p, n"),
            pl.GlobalArg("bias", np.float32, shape="n"),
            pl.GlobalArg("c", np.float32, shape="m, n"),
            ...,
        ],
        name="matmul_bias_gelu",
        assumptions="m >= 1 and n >= 1 and p >= 1",
    )


def transformed() -> pl.LoopKernel:
    knl = program()
    knl = pl.split_iname(knl, "i", 64, outer_tag="g.1")
    knl = pl.split_iname(knl, "i_inner", 16, outer_tag="ilp", inner_tag="l.1")
    knl = pl.split_iname(knl, "j", 64, outer_tag="g.0")
    knl = pl.split_iname(knl, "j_inner", 16, outer_tag="ilp", inner_tag="l.0")
    knl = pl.split_iname(knl, "k", 16)
    knl = pl.add_prefetch(knl, "a", ["i_inner_outer", "i_inner_inner", "k_inner"])
    return pl.add_prefetch(knl, "b", ["k_inner", "j_inner_outer", "j_inner_inner"])


def inputs(rng: np.random.Generator, m: int, n: int, p: int) -> dict[str, Any]:
    return {
        "a": rng.random((m, p), np.float32) - np.float32(0.5),
        "b": rng.random((p, n), np.float32) - np.float32(0.5),
        "bias": rng.random(n, np.float32),
    }


def expected(a: Any, b: Any, bias: Any) -> dict[str, Any]:
    s = a @ b + bias
    return {"c": 0.5 * s * (1 + np.vectorize(erf)(s / np.sqrt(2)))}


if __name__ == "__main__":
    arrays = inputs(np.random.default_rng(0), m=200, n=300, p=400)
    wanted = expected(**arrays)
    result = pl.compile(transformed())(**arrays)
    np.testing.assert_allclose(result.c, wanted["c"], rtol=1e-4, atol=1e-5)
    print("matmul_bias_gelu: 200 x 300 elements agree with NumPy")
