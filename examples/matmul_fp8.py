"""A matrix product of 8-bit floating-point numbers on Hopper: `wgmma` for e4m3, tiles by the copy engine (sm_90a).

The second matrix is stored by rows of k, as the instruction asks of operands of 8 bits: `b` is n by p.  Sums are in
float32; a factor that undoes the scaling of both matrices is applied to them, and the result is rounded to bfloat16.
Tiles have rows of 128 bytes, that is 128 terms, swizzled; the products of an iteration run while the next one begins
(`lag=1`).  The tensor cores of Hopper keep about 14 bits of a sum of such products: compare with a tolerance.
"""

from typing import Any

import ml_dtypes
import numpy as np

import polyloop as pl
from polyloop.library.tensor_cores import on_groups_of_warps, stored_by_boxes
from polyloop.runtime.gpu import gpu_available

__all__ = ["ARCH", "RTOL", "SIZES", "SMALL", "expected", "inputs", "on_groups_of_warps", "program", "stored_by_boxes",
           "transformed"]

SIZES = [
    {"m": 1, "n": 8, "p": 16},
    {"m": 65, "n": 24, "p": 144},
    {"m": 130, "n": 136, "p": 400},
]
SMALL = [{"m": 5, "n": 8, "p": 16}]
ARCH = "sm_90a"
RTOL = 2.0**-8  # half a step of bfloat16


def program(dtype: Any = ml_dtypes.float8_e4m3fn, result: Any = ml_dtypes.bfloat16) -> pl.LoopKernel:
    return pl.make_kernel(
        "{[i, j, k]: 0 <= i < m and 0 <= j < n and 0 <= k < p}",
        "c[i, j] = scale*sum(k, a[i, k]*b[j, k])",
        [
            pl.GlobalArg("a", dtype, shape="m, p"),
            pl.GlobalArg("b", dtype, shape="n, p"),
            pl.GlobalArg("c", result, shape="m, n"),
            pl.ValueArg("scale", np.float32),
            ...,
        ],
        name="matmul_fp8",
        target=pl.CudaTarget(ARCH),
        assumptions="m >= 1 and n >= 1 and p >= 1 and n mod 8 = 0 and p mod 16 = 0",
    )


def transformed() -> pl.LoopKernel:
    return on_groups_of_warps(program(), "wgmma_m64n128k32_e4m3", lag=1, via="tma", panels=False)


def inputs(rng: np.random.Generator, m: int, n: int, p: int) -> dict[str, Any]:
    shapes = {"a": (m, p), "b": (n, p)}
    arrays = {name: rng.uniform(-8, 8, shape).astype(ml_dtypes.float8_e4m3fn) for name, shape in shapes.items()}
    return {**arrays, "scale": np.float32(2.0**-6)}


def expected(a: Any, b: Any, scale: Any) -> dict[str, Any]:
    return {"c": scale * (a.astype(np.float32) @ b.astype(np.float32).T)}


if __name__ == "__main__":
    arrays = inputs(np.random.default_rng(0), m=300, n=400, p=512)
    wanted = expected(**arrays)
    result = pl.compile(transformed(), target=None if gpu_available()[0] else pl.CTarget())(**arrays)
    np.testing.assert_allclose(result.c.astype(np.float32), wanted["c"], rtol=2.0**-8, atol=2e-2)
    print("matmul_fp8: 300 x 400 elements, sums of 512, agree with NumPy")
