"""Layer norm of each row, two rows a block: a row is read once, as `float4`, and stays in the threads' registers."""

from typing import Any

import numpy as np

import polyloop as pl

SIZES = [{"m": 1}, {"m": 3}]
SMALL = [{"m": 1}]


def program(columns: int = 4096) -> pl.LoopKernel:
    return pl.make_kernel(
        f"{{[i, k]: 0 <= i < m and 0 <= k < {columns}}}",
        f"""
        for i
            <> row[k] = x[i, k]
            <> mean = sum(k, row[k])/{columns}
            <> away[k] = row[k] - mean
            <> scale = rsqrt(sum(k, away[k]*away[k])/{columns} + 1e-5)
            y[i, k] = away[k]*scale*gamma[k] + beta[k]
        end
        """,
        [
            pl.GlobalArg("x, y", np.float32, shape=f"m, {columns}"),
            pl.GlobalArg("gamma, beta", np.float32, shape=columns),
            ...,
        ],
        name="layer_norm_registers",
        assumptions="m >= 1",
    )


def in_registers(knl: pl.LoopKernel, threads: int, *held: str, rows: int = 1) -> pl.LoopKernel:
    """Return *knl* with blocks of *rows* rows, vectors along them, and what *held* names in registers of threads."""
    knl = pl.split_iname(knl, "k", 4, outer_iname="part", inner_iname="lane", inner_tag="vec")
    knl = pl.split_iname(knl, "part", threads, outer_iname="step", outer_tag="unr", inner_iname="t", inner_tag="l.0")
    for name in held:  # [step, thread, lane], of which each thread has its own
        knl = pl.split_array_axis(pl.split_array_axis(knl, name, 0, 4), name, 0, threads)
    if rows == 1:
        return pl.tag_inames(knl, "i:g.0")
    return pl.split_iname(knl, "i", rows, outer_tag="g.0", inner_tag="l.1")


def transformed(columns: int = 4096, threads: int = 256, rows: int = 2) -> pl.LoopKernel:
    return in_registers(program(columns), threads, "row", "away", rows=rows)


def inputs(rng: np.random.Generator, m: int) -> dict[str, Any]:
    gamma, beta = rng.random(4096, np.float32), rng.random(4096, np.float32)
    return {"x": rng.normal(0, 3, (m, 4096)).astype(np.float32), "gamma": gamma, "beta": beta}


def expected(x: Any, gamma: Any, beta: Any) -> dict[str, Any]:
    away = x.astype(np.float64) - x.mean(1, dtype=np.float64, keepdims=True)
    return {"y": away / np.sqrt((away**2).mean(1, keepdims=True) + 1e-5) * gamma + beta}


if __name__ == "__main__":
    arrays = inputs(np.random.default_rng(0), m=100)
    wanted = expected(**arrays)
    result = pl.compile(transformed())(**arrays)
    np.testing.assert_allclose(result.y, wanted["y"], rtol=1e-4, atol=1e-4)
    print("layer_norm_registers: 100 rows of 4096 agree with NumPy")
