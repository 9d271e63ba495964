"""A matrix product of bfloat16 on Hopper: groups of four warps multiply tiles in shared memory with `wgmma` (sm_90a).

Blocks of 128 by 128 elements, two groups of warps of 64 rows each; the next tiles are on their way by asynchronous
copies, and the products of an iteration run while the next one begins (`lag=1`).  Tiles have rows of 128 bytes,
swizzled, as the instruction reads them; that of the second operand consists of panels of 64 columns.  Copies store
zeros where a tile reaches beyond its matrix.  `benchmarks/gpu/precisions.py` has the larger blocks that large matrices
ask for.
"""

from typing import Any

import ml_dtypes
import numpy as np

import polyloop as pl
from examples import matmul_mma
from polyloop.library.tensor_cores import on_groups_of_warps, stored_by_boxes
from polyloop.runtime.gpu import gpu_available

__all__ = ["ARCH", "SIZES", "SMALL", "by_rows_of_k", "expected", "inputs", "on_groups_of_warps", "program",
           "stored_by_boxes", "transformed"]

SIZES = [
    {"m": 1, "n": 8, "p": 8},
    {"m": 65, "n": 24, "p": 72},
    {"m": 130, "n": 136, "p": 200},
]
SMALL = [{"m": 5, "n": 8, "p": 16}]
ARCH = "sm_90a"

inputs = matmul_mma.inputs
expected = matmul_mma.expected


def program(dtype: Any = ml_dtypes.bfloat16) -> pl.LoopKernel:
    return matmul_mma.program(dtype, name="matmul_wgmma", target=pl.CudaTarget(ARCH))


def by_rows_of_k(dtype: Any = np.float32) -> pl.LoopKernel:
    """Return the product of a with b transposed, as operands of 32 bits have to be stored."""
    return pl.make_kernel(
        "{[i, j, k]: 0 <= i < m and 0 <= j < n and 0 <= k < p}",
        "c[i, j] = sum(k, a[i, k]*b[j, k])",
        [pl.GlobalArg("a", dtype, shape="m, p"), pl.GlobalArg("b", dtype, shape="n, p"),
         pl.GlobalArg("c", np.float32, shape="m, n"), ...],
        name="matmul_wgmma",
        target=pl.CudaTarget(ARCH),
        assumptions="m >= 1 and n >= 1 and p >= 1 and n mod 4 = 0 and p mod 4 = 0",
    )  # fmt: skip


def transformed() -> pl.LoopKernel:
    return on_groups_of_warps(program(), "wgmma_m64n128k16_bf16", lag=1)


if __name__ == "__main__":
    arrays = inputs(np.random.default_rng(0), m=300, n=400, p=504)
    wanted = expected(**arrays)
    result = pl.compile(transformed(), target=None if gpu_available()[0] else pl.CTarget())(**arrays)
    np.testing.assert_allclose(result.c, wanted["c"], rtol=1e-4, atol=1e-4)
    print("matmul_wgmma: 300 x 400 elements, sums of 504, agree with NumPy")
