"""Rows plus a bias, through GELU, in one pass: what a framework does in two. Rows have a multiple of 4 elements."""

from math import erf
from typing import Any

import numpy as np

import polyloop as pl

SIZES = [{"m": 1, "n": 4}, {"m": 3, "n": 1020}, {"m": 2, "n": 1028}]
SMALL = [{"m": 2, "n": 8}]


def program() -> pl.LoopKernel:
    return pl.make_kernel(
        "{[i, j]: 0 <= i < m and 0 <= j < n}",
        """
        gelu(s) := 0.5*s*(1 + erf(0.7071067811865476*s))
        <> t = x[i, j] + b[j]
        y[i, j] = gelu(t)
        """,
        [pl.GlobalArg("x, y", np.float32, shape="m, n"), pl.GlobalArg("b", np.float32, shape="n"), ...],
        name="bias_gelu",
        assumptions="m >= 1 and n >= 4 and n mod 4 = 0",
    )


def transformed() -> pl.LoopKernel:
    knl = pl.split_iname(program(), "j", 1024, outer_tag="g.0")
    knl = pl.split_iname(knl, "j_inner", 4, outer_tag="l.0", inner_tag="vec")
    return pl.tag_inames(knl, "i:g.1")


def inputs(rng: np.random.Generator, m: int, n: int) -> dict[str, Any]:
    return {"x": rng.standard_normal((m, n), np.float32), "b": rng.standard_normal(n, np.float32)}


def expected(x: Any, b: Any) -> dict[str, Any]:
    t = x.astype(np.float64) + b
    return {"y": 0.5 * t * (1 + np.vectorize(erf)(t / np.sqrt(2)))}


if __name__ == "__main__":
    arrays = inputs(np.random.default_rng(0), m=300, n=1004)
    wanted = expected(**arrays)
    np.testing.assert_allclose(pl.compile(transformed())(**arrays).y, wanted["y"], rtol=1e-5, atol=1e-6)
    print("bias_gelu: 300 rows of 1004 agree with NumPy")
