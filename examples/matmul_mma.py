"""A matrix product of bfloat16 on tensor cores: warps add up tiles of 16 by 8 by 16 with `mma.sync` (sm_80 and later).

Blocks of 64 by 64 elements, four warps of 32 by 32; the next tiles are on their way by asynchronous copies, and rows
of tiles are padded so that `ldmatrix` finds each of 8 rows in other banks.  Copies store zeros where a tile reaches
beyond its matrix, so that all blocks have one text.  How many elements they move at once follows from what the lengths
of rows are multiples of; `transformed` is for multiples of 8, and `matmul_mma_any_size.py` chooses.
`benchmarks/gpu/precisions.py` has the larger blocks that large matrices ask for.
"""

from typing import Any

import ml_dtypes
import numpy as np

import polyloop as pl
from polyloop.library.tensor_cores import on_tensor_cores

__all__ = ["SIZES", "SMALL", "expected", "inputs", "on_tensor_cores", "program", "transformed"]

SIZES = [
    {"m": 1, "n": 8, "p": 8},
    {"m": 65, "n": 24, "p": 40},
    {"m": 64, "n": 72, "p": 64},
]
SMALL = [{"m": 5, "n": 8, "p": 16}]


def program(
    dtype: Any = ml_dtypes.bfloat16, result: Any = np.float32, multiple: int = 8, *, name: str = "matmul_mma",
    target: pl.Target | None = None,
) -> pl.LoopKernel:  # fmt: skip
    return pl.make_kernel(
        "{[i, j, k]: 0 <= i < m and 0 <= j < n and 0 <= k < p}",
        "c[i, j] = sum(k, a[i, k]*b[k, j])",
        [
            pl.GlobalArg("a", dtype, shape="m, p"),
            pl.GlobalArg("b", dtype, shape="p, n"),
            pl.GlobalArg("c", result, shape="m, n"),
            ...,
        ],
        name=name,
        target=target,
        assumptions=f"m >= 1 and n >= 1 and p >= 1 and n mod {multiple} = 0 and p mod {multiple} = 0",
    )


def transformed(multiple: int = 8) -> pl.LoopKernel:
    return on_tensor_cores(program(multiple=multiple), "mma_m16n8k16_bf16", depth=16, vec=multiple)


def inputs(rng: np.random.Generator, m: int, n: int, p: int) -> dict[str, Any]:
    shapes = {"a": (m, p), "b": (p, n)}
    return {name: (rng.random(shape) - 0.5).astype(ml_dtypes.bfloat16) for name, shape in shapes.items()}


def expected(a: Any, b: Any) -> dict[str, Any]:
    return {"c": a.astype(np.float32) @ b.astype(np.float32)}


if __name__ == "__main__":
    arrays = inputs(np.random.default_rng(0), m=300, n=400, p=504)
    wanted = expected(**arrays)
    result = pl.compile(transformed())(**arrays)
    np.testing.assert_allclose(result.c, wanted["c"], rtol=1e-4, atol=1e-4)
    print("matmul_mma: 300 x 400 elements, sums of 504, agree with NumPy")
