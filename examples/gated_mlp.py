"""The first half of a gated MLP on Hopper: two products of the same rows, of which one is the gate of the other.

Both are added up in one loop over terms, so rows of `a` come to shared memory once; the gate is computed while the
results are in registers, and the copy engine stores them.  `polyloop/library/fused.py` has this and other chains.
"""

from typing import Any

import ml_dtypes
import numpy as np

import polyloop as pl
from polyloop.library.fused import on_tiles
from polyloop.runtime.gpu import gpu_available

__all__ = ["ARCH", "RTOL", "SIZES", "SMALL", "expected", "inputs", "program", "transformed"]

SIZES = [{"m": 1, "n": 8, "p": 8}, {"m": 65, "n": 72, "p": 136}]
SMALL = [{"m": 5, "n": 8, "p": 16}]
ARCH = "sm_90a"
RTOL = 2.0**-7  # of bfloat16


def program() -> pl.LoopKernel:
    return pl.make_kernel(
        "{[i, j, k]: 0 <= i < m and 0 <= j < n and 0 <= k < p}",
        """
        silu(x) := x/(1 + exp(-x))
        <float32> g = sum(k, a[i, k]*gate[k, j])   {id=product_gate}
        <float32> u = sum(k, a[i, k]*up[k, j])     {id=product_up}
        c[i, j] = silu(g)*u
        """,
        [
            pl.GlobalArg("a", ml_dtypes.bfloat16, shape="m, p"),
            pl.GlobalArg("gate, up", ml_dtypes.bfloat16, shape="p, n"),
            pl.GlobalArg("c", ml_dtypes.bfloat16, shape="m, n"),
            ...,
        ],
        name="gated_mlp",
        target=pl.CudaTarget(ARCH),
        assumptions="m >= 1 and n >= 1 and p >= 1 and n mod 8 = 0 and p mod 8 = 0",
    )


def transformed() -> pl.LoopKernel:
    return on_tiles(program(), 64, 64, operands=("a", "gate", "up"))


def inputs(rng: np.random.Generator, m: int, n: int, p: int) -> dict[str, Any]:
    shapes = {"a": (m, p), "gate": (p, n), "up": (p, n)}
    return {name: (rng.random(shape) - 0.5).astype(ml_dtypes.bfloat16) for name, shape in shapes.items()}


def expected(a: Any, gate: Any, up: Any) -> dict[str, Any]:
    g, u = (a.astype(np.float32) @ w.astype(np.float32) for w in (gate, up))
    return {"c": (g / (1 + np.exp(-g)) * u).astype(np.float32)}


if __name__ == "__main__":
    arrays = inputs(np.random.default_rng(0), m=100, n=136, p=200)
    wanted = expected(**arrays)
    result = pl.compile(transformed(), target=None if gpu_available()[0] else pl.CTarget())(**arrays)
    np.testing.assert_allclose(result.c.astype(np.float32), wanted["c"], rtol=2e-2, atol=2e-2)
    print("gated_mlp: 100 x 136 elements, sums of 200, agree with NumPy")
