"""A matrix product of bfloat16 on tensor cores, for matrices of any size.

The recipe of `matmul_mma.py`.  How many elements a copy moves at once depends on what the lengths of rows are multiples
of: 8 elements are 16 bytes, 2 are the 4 bytes that an asynchronous copy has at least, and rows of odd length are copied
element by element, through registers.  `for_rows` chooses, as libraries do, and `transformed` is the one for all sizes.
To be run as a module, `python -m examples.matmul_mma_any_size`, since it takes its recipe from another script.
"""

from math import gcd
from typing import Any

import numpy as np

import polyloop as pl
from examples import matmul_mma
from examples.matmul_mma import expected, inputs

__all__ = ["SIZES", "SMALL", "expected", "for_rows", "inputs", "program", "transformed"]

SIZES = [
    {"m": 1, "n": 1, "p": 1},
    {"m": 63, "n": 65, "p": 33},
    {"m": 70, "n": 7, "p": 101},
]
SMALL = [{"m": 5, "n": 3, "p": 7}]


def program() -> pl.LoopKernel:
    return matmul_mma.program(multiple=1)


def transformed() -> pl.LoopKernel:
    return matmul_mma.transformed(multiple=1)


def for_rows(n: int, p: int) -> pl.LoopKernel:
    """Return the product for rows of n and of p elements."""
    return matmul_mma.transformed(multiple=gcd(8, n, p))


if __name__ == "__main__":
    for n, p in ((400, 504), (300, 500), (310, 502), (301, 503)):
        arrays = inputs(np.random.default_rng(0), m=123, n=n, p=p)
        wanted: dict[str, Any] = expected(**arrays)
        result = pl.compile(for_rows(n, p))(**arrays)
        np.testing.assert_allclose(result.c, wanted["c"], rtol=1e-4, atol=1e-4)
    print("matmul_mma_any_size: 123 rows and sums of 504, 500, 502 and 503, agree with NumPy")
