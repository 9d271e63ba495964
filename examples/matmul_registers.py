"""A matrix product for any sizes: a tile of 64 by 64 elements a block, of 4 by 4 a thread, which stay in registers."""

from typing import Any

import numpy as np

import polyloop as pl

SIZES = [
    {"m": 1, "n": 1, "p": 1},
    {"m": 63, "n": 65, "p": 17},
    {"m": 65, "n": 15, "p": 16},
    {"m": 64, "n": 64, "p": 15},
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
        name="matmul_registers",
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
    return {"a": rng.random((m, p), np.float32), "b": rng.random((p, n), np.float32)}


def expected(a: Any, b: Any) -> dict[str, Any]:
    return {"c": a @ b}


if __name__ == "__main__":
    arrays = inputs(np.random.default_rng(0), m=300, n=400, p=500)
    wanted = expected(**arrays)
    result = pl.compile(transformed())(**arrays)
    np.testing.assert_allclose(result.c, wanted["c"], rtol=1e-5)
    print("matmul_registers: 300 x 400 elements, sums of 500, agree with NumPy")
