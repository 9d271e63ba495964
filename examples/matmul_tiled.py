"""A matrix product in tiles: 16 by 16 elements a block, one a thread, both operands pass through shared memory."""

from typing import Any

import numpy as np

import polyloop as pl

SIZES = [
    {"m": 1, "n": 1, "p": 1},
    {"m": 15, "n": 16, "p": 17},
    {"m": 17, "n": 33, "p": 15},
    {"m": 32, "n": 16, "p": 32},
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
        name="matmul_tiled",
        assumptions="m >= 1 and n >= 1 and p >= 1",
    )


def transformed() -> pl.LoopKernel:
    knl = program()
    knl = pl.split_iname(knl, "i", 16, outer_tag="g.1", inner_tag="l.1")
    knl = pl.split_iname(knl, "j", 16, outer_tag="g.0", inner_tag="l.0")
    knl = pl.split_iname(knl, "k", 16)
    knl = pl.add_prefetch(knl, "a", ["i_inner", "k_inner"])
    return pl.add_prefetch(knl, "b", ["k_inner", "j_inner"])


def inputs(rng: np.random.Generator, m: int, n: int, p: int) -> dict[str, Any]:
    return {"a": rng.random((m, p), np.float32), "b": rng.random((p, n), np.float32)}


def expected(a: Any, b: Any) -> dict[str, Any]:
    return {"c": a @ b}


if __name__ == "__main__":
    arrays = inputs(np.random.default_rng(0), m=300, n=400, p=500)
    wanted = expected(**arrays)
    result = pl.compile(transformed())(**arrays)
    np.testing.assert_allclose(result.c, wanted["c"], rtol=1e-5)
    print("matmul_tiled: 300 x 400 elements, sums of 500, agree with NumPy")
