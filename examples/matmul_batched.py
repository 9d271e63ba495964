"""Many products of 8 by 8 matrices: four a block, a thread an element, the factors pass through shared memory."""

from typing import Any

import numpy as np

import polyloop as pl

SIZES = [{"p": 1}, {"p": 3}, {"p": 4}, {"p": 5}, {"p": 17}]


def program() -> pl.LoopKernel:
    return pl.make_kernel(
        "{[e, i, j, k]: 0 <= e < p and 0 <= i, j, k < 8}",
        "c[e, i, j] = sum(k, a[e, i, k]*b[e, k, j])",
        [pl.GlobalArg("a, b, c", np.float32, shape="p, 8, 8"), ...],
        name="matmul_batched",
        assumptions="p >= 1",
    )


def transformed() -> pl.LoopKernel:
    knl = program()
    knl = pl.split_iname(knl, "e", 4, outer_tag="g.0", inner_tag="l.2")
    knl = pl.tag_inames(knl, "i:l.1, j:l.0, k:unr")
    knl = pl.add_prefetch(knl, "a", ["e_inner", "i", "k"])
    return pl.add_prefetch(knl, "b", ["e_inner", "k", "j"])


def inputs(rng: np.random.Generator, p: int) -> dict[str, Any]:
    return {"a": rng.random((p, 8, 8), np.float32), "b": rng.random((p, 8, 8), np.float32)}


def expected(a: Any, b: Any) -> dict[str, Any]:
    return {"c": a @ b}


if __name__ == "__main__":
    arrays = inputs(np.random.default_rng(0), p=1001)
    wanted = expected(**arrays)
    result = pl.compile(transformed())(**arrays)
    np.testing.assert_allclose(result.c, wanted["c"], rtol=1e-4, atol=1e-5)
    print("matmul_batched: 1001 products of 8 x 8 agree with NumPy")
