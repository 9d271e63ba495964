"""Softmax of each row, which stays in registers between finding its maximum, its sum, and scaling."""

from typing import Any

import numpy as np

import polyloop as pl

SIZES = [{"m": 1}, {"m": 3}]
COLUMNS = 4096


def program(columns: int = COLUMNS) -> pl.LoopKernel:
    return pl.make_kernel(
        f"{{[i, k]: 0 <= i < m and 0 <= k < {columns}}}",
        """
        for i
            <> row[k] = x[i, k]
            <> top = max(k, row[k])
            <> power[k] = exp(row[k] - top)
            <> scale = 1/sum(k, power[k])
            y[i, k] = power[k]*scale
        end
        """,
        [pl.GlobalArg("x, y", np.float32, shape=f"m, {columns}"), ...],
        name="softmax",
        assumptions="m >= 1",
    )


def transformed(columns: int = COLUMNS, threads: int = 256, rows: int = 2) -> pl.LoopKernel:
    """Return it with blocks of *rows* rows, each of which has *threads* threads."""
    knl = pl.split_iname(program(columns), "k", 4, outer_iname="part", inner_iname="lane", inner_tag="vec")
    knl = pl.split_iname(knl, "part", threads, outer_iname="step", outer_tag="unr", inner_iname="t", inner_tag="l.0")
    for name in ("row", "power"):  # [step, thread, lane], of which each thread has its own
        knl = pl.split_array_axis(pl.split_array_axis(knl, name, 0, 4), name, 0, threads)
    if rows == 1:
        return pl.tag_inames(knl, "i:g.0")
    return pl.split_iname(knl, "i", rows, outer_tag="g.0", inner_tag="l.1")


def inputs(rng: np.random.Generator, m: int) -> dict[str, Any]:
    return {"x": rng.normal(0, 3, (m, COLUMNS)).astype(np.float32)}


def expected(x: Any) -> dict[str, Any]:
    powers = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
    return {"y": powers / powers.sum(1, keepdims=True)}


if __name__ == "__main__":
    arrays = inputs(np.random.default_rng(0), m=100)
    wanted = expected(**arrays)
    result = pl.compile(transformed())(**arrays)
    np.testing.assert_allclose(result.y, wanted["y"], rtol=1e-4, atol=1e-7)
    print(f"softmax: 100 rows of {COLUMNS} agree with NumPy")
