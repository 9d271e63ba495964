"""A matrix product on all cores of a processor: tiles of 6 by 32 elements stay in vector registers while k runs.

Threads share blocks of 132 by 256 elements (`pl.CTarget(openmp=True)`), each with panels of both operands in buffers
of its own; the 16 lanes of a vector are columns.  With `contract=True` a product and its sum are one instruction.
Tiles, blocks and panels of twice the size, as `polyloop.library.matmul` has them, are faster; these also run as CUDA.
"""

from typing import Any

import numpy as np

import polyloop as pl
from examples import matmul_tiled
from polyloop.library.matmul import in_panels

SIZES = [
    {"m": 1, "n": 1, "p": 1},
    {"m": 13, "n": 33, "p": 5},
    {"m": 150, "n": 400, "p": 7},
]

inputs = matmul_tiled.inputs
expected = matmul_tiled.expected
TARGET = pl.CTarget(openmp=True, contract=True)


def program(dtype: Any = np.float32) -> pl.LoopKernel:
    return pl.make_kernel(
        "{[i, j, k]: 0 <= i < m and 0 <= j < n and 0 <= k < p}",
        "c[i, j] = sum(k, a[i, k]*b[k, j])",
        [pl.GlobalArg("a, b, c", dtype), ...],
        name="matmul_processor",
        assumptions="m >= 1 and n >= 1 and p >= 1",
    )


def transformed() -> pl.LoopKernel:
    return in_panels(program(), 16, block=(132, 16), terms=64, height=6)


if __name__ == "__main__":
    arrays = inputs(np.random.default_rng(0), m=300, n=400, p=500)
    wanted = expected(**arrays)
    result = pl.compile(transformed(), target=TARGET)(**arrays)
    np.testing.assert_allclose(result.c, wanted["c"], rtol=1e-5)
    print("matmul_processor: 300 x 400 elements, sums of 500, agree with NumPy")
