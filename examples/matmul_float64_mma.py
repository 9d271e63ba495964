"""A matrix product in double precision on tensor cores: warps add up tiles of 16 by 8 by 8 with `mma.sync` (sm_90).

Blocks of 128 by 128 elements, eight warps of 64 by 32; the next tiles are on their way by asynchronous copies, and
each step loads its operands while the products of the one before are added up.  Rows of both tiles are padded by 4
elements, so that 4 by 4 lanes, which load 8 bytes each, find all banks.  Blocks run down the rows, 4 columns of blocks
at a time, and find most of what they read in the cache.  Rows have an even number of elements.
"""

from typing import Any

import numpy as np

import polyloop as pl
from polyloop.library.tensor_cores import in_double_precision

SIZES = [
    {"m": 1, "n": 2, "p": 2},
    {"m": 129, "n": 130, "p": 50},
    {"m": 128, "n": 128, "p": 32},
]
SMALL = [{"m": 5, "n": 6, "p": 10}]
RTOL = 1e-13
ARCH = "sm_90"


def program() -> pl.LoopKernel:
    return pl.make_kernel(
        "{[i, j, k]: 0 <= i < m and 0 <= j < n and 0 <= k < p}",
        "c[i, j] = sum(k, a[i, k]*b[k, j])",
        [
            pl.GlobalArg("a", np.float64, shape="m, p"),
            pl.GlobalArg("b", np.float64, shape="p, n"),
            pl.GlobalArg("c", np.float64, shape="m, n"),
            ...,
        ],
        name="matmul_float64_mma",
        assumptions="m >= 1 and n >= 1 and p >= 1 and n mod 2 = 0 and p mod 2 = 0",
    )


def transformed() -> pl.LoopKernel:
    return in_double_precision(program())


def inputs(rng: np.random.Generator, m: int, n: int, p: int) -> dict[str, Any]:
    return {"a": rng.random((m, p)), "b": rng.random((p, n))}


def expected(a: Any, b: Any) -> dict[str, Any]:
    return {"c": a @ b}


if __name__ == "__main__":
    arrays = inputs(np.random.default_rng(0), m=300, n=400, p=500)
    wanted = expected(**arrays)
    result = pl.compile(transformed())(**arrays)
    np.testing.assert_allclose(result.c, wanted["c"], rtol=1e-12)
    print("matmul_float64_mma: 300 x 400 elements, sums of 500, agree with NumPy")
