"""A matrix product whose next two tiles are on their way by asynchronous copies while one is used (sm_80 and later).

A tile of 64 by 64 elements a block, of 4 by 4 a thread; 16 bytes a copy, so rows have a multiple of 4 elements.
"""

from typing import Any

import numpy as np

import polyloop as pl

SIZES = [
    {"m": 1, "n": 4, "p": 4},
    {"m": 63, "n": 20, "p": 16},
    {"m": 65, "n": 12, "p": 52},
    {"m": 64, "n": 68, "p": 8},
]


def program() -> pl.LoopKernel:
    return pl.make_kernel(
        "{[i, j, k]: 0 <= i < m and 0 <= j < n and 0 <= k < p}",
        "c[i, j] = sum(k, a[i, k]*b[k, j])",
        [
            pl.GlobalArg("a", np.float32, shape="m, p"),
            pl.GlobalArg("b", np.float32, shape="p, n"),
            pl.GlobalArg("c", np.float32, shape="m, n"),
            ...,
        ],
        name="matmul_pipelined",
        assumptions="m >= 1 and n >= 1 and p >= 1 and n mod 4 = 0 and p mod 4 = 0",
    )


def transformed() -> pl.LoopKernel:
    knl = program()
    knl = pl.split_iname(knl, "i", 64, outer_tag="g.1")
    knl = pl.split_iname(knl, "i_inner", 4, outer_tag="l.1", inner_tag="ilp")
    knl = pl.split_iname(knl, "j", 64, outer_tag="g.0")
    knl = pl.split_iname(knl, "j_inner", 4, outer_tag="l.0", inner_tag="vec")
    knl = pl.split_iname(knl, "k", 16, inner_tag="unr")
    knl = pl.add_prefetch(knl, "a", ["i_inner_outer", "i_inner_inner", "k_inner"], vec=4)
    knl = pl.add_prefetch(knl, "b", ["k_inner", "j_inner_outer", "j_inner_inner"], vec=4)
    return pl.pipeline(knl, "k_outer", stages=3, via="cp.async")


def inputs(rng: np.random.Generator, m: int, n: int, p: int) -> dict[str, Any]:
    return {"a": rng.random((m, p), np.float32), "b": rng.random((p, n), np.float32)}


def expected(a: Any, b: Any) -> dict[str, Any]:
    return {"c": a @ b}


if __name__ == "__main__":
    arrays = inputs(np.random.default_rng(0), m=300, n=400, p=500)
    wanted = expected(**arrays)
    result = pl.compile(transformed())(**arrays)
    np.testing.assert_allclose(result.c, wanted["c"], rtol=1e-4, atol=1e-5)
    print("matmul_pipelined: 300 x 400 elements, sums of 500, agree with NumPy")
