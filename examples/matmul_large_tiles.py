"""A matrix product about as fast as a vendor's library: each thread has 8 by 16 elements in registers.

Blocks of 128 by 128 elements have 4 warps of 64 by 64, so that a thread reads 24 numbers of the tiles for 128 products.
The next tiles are on their way in registers while the present ones are used.  Blocks that run at the same time lie
close together, 8 rows of blocks at a time, and find most of what they read in the cache.  The recipe is in
`polyloop/library/registers.py`.
"""

from typing import Any

import numpy as np

import polyloop as pl
from polyloop.library.registers import Tiles, in_registers

SIZES = [
    {"m": 1, "n": 4, "p": 4},
    {"m": 130, "n": 132, "p": 28},
    {"m": 257, "n": 128, "p": 8},
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
        name="matmul_large_tiles",
        assumptions="m >= 1 and n >= 1 and p >= 1 and n mod 4 = 0 and p mod 4 = 0",
    )


def transformed(k_tile: int = 8, rows: int = 8) -> pl.LoopKernel:
    return in_registers(program(), Tiles(terms=k_tile, rows=rows))


def inputs(rng: np.random.Generator, m: int, n: int, p: int) -> dict[str, Any]:
    return {"a": rng.random((m, p), np.float32), "b": rng.random((p, n), np.float32)}


def expected(a: Any, b: Any) -> dict[str, Any]:
    return {"c": a @ b}


if __name__ == "__main__":
    arrays = inputs(np.random.default_rng(0), m=300, n=400, p=500)
    wanted = expected(**arrays)
    result = pl.compile(transformed())(**arrays)
    np.testing.assert_allclose(result.c, wanted["c"], rtol=1e-5)
    print("matmul_large_tiles: 300 x 400 elements, sums of 500, agree with NumPy")
