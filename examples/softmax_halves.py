"""Softmax of rows that are longer than the registers of a block: the second half of a row lies in shared memory.

All of a row is read before the first barrier, by `float4`, and once; both halves have their maximum and sum together.
"""

from typing import Any

import numpy as np

import polyloop as pl

SIZES = [{"m": 1}, {"m": 3}]
SMALL = [{"m": 1}]


def program(columns: int = 4096) -> pl.LoopKernel:
    half = columns // 2
    return pl.make_kernel(
        f"{{[i, k]: 0 <= i < m and 0 <= k < {half}}}",
        f"""
        for i
            <> low[k] = x[i, k]
            <> high[k] = x[i, k + {half}]
            <> top = max(k, max(low[k], high[k]))
            low[k] = exp(low[k] - top)
            high[k] = exp(high[k] - top)
            <> scale = 1/sum(k, low[k] + high[k])
            y[i, k] = low[k]*scale
            y[i, k + {half}] = high[k]*scale
        end
        """,
        [pl.GlobalArg("x, y", np.float32, shape=f"m, {columns}"), ...],
        name="softmax_halves",
        assumptions="m >= 1",
        precision="fast",
    )


def transformed(columns: int = 4096, threads: int = 256) -> pl.LoopKernel:
    """Return it with a block a row; rows of 65536 take 1024 threads, each with 32 elements in registers."""
    knl = pl.split_iname(program(columns), "k", 4, outer_iname="part", inner_iname="lane", inner_tag="vec")
    knl = pl.split_iname(knl, "part", threads, outer_iname="step", outer_tag="unr", inner_iname="t", inner_tag="l.0")
    for name in ("low", "high"):  # [step, thread, lane], of which each thread has its own
        knl = pl.split_array_axis(pl.split_array_axis(knl, name, 0, 4), name, 0, threads)
    knl = pl.set_temporary_address_space(knl, "high", "local")
    return pl.tag_inames(knl, "i:g.0")


def inputs(rng: np.random.Generator, m: int) -> dict[str, Any]:
    return {"x": rng.normal(0, 3, (m, 4096)).astype(np.float32)}


def expected(x: Any) -> dict[str, Any]:
    powers = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
    return {"y": powers / powers.sum(1, keepdims=True)}


if __name__ == "__main__":
    arrays = inputs(np.random.default_rng(0), m=100)
    wanted = expected(**arrays)
    result = pl.compile(transformed())(**arrays)
    np.testing.assert_allclose(result.y, wanted["y"], rtol=1e-4, atol=1e-7)
    print("softmax_halves: 100 rows of 4096 agree with NumPy")
