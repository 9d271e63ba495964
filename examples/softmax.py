"""Softmax of each row, a block a row: the row stays in registers between finding its maximum, its sum, and dividing."""

from typing import Any

import numpy as np

import polyloop as pl

SIZES = [{"n": 1}, {"n": 3}]
COLUMNS = 4096


def program() -> pl.LoopKernel:
    return pl.make_kernel(
        f"{{[i, k]: 0 <= i < n and 0 <= k < {COLUMNS}}}",
        """
        for i
            <> row[k] = x[i, k]
            <> top = max(k, row[k])
            <> power[k] = exp(row[k] - top)
            <> total = sum(k, power[k])
            y[i, k] = power[k]/total
        end
        """,
        [pl.GlobalArg("x, y", np.float32, shape=f"n, {COLUMNS}"), ...],
        name="softmax",
        assumptions="n >= 1",
    )


def transformed() -> pl.LoopKernel:
    knl = program()
    knl = pl.split_iname(knl, "k", 4, outer_iname="part", inner_iname="lane", inner_tag="vec")
    knl = pl.split_iname(knl, "part", 256, outer_iname="step", outer_tag="unr", inner_iname="thread", inner_tag="l.0")
    for name in ("row", "power"):  # [step, thread, lane], of which each thread has its own
        knl = pl.split_array_axis(pl.split_array_axis(knl, name, 0, 4), name, 0, 256)
    return pl.tag_inames(knl, "i:g.0")


def inputs(rng: np.random.Generator, n: int) -> dict[str, Any]:
    return {"x": rng.normal(0, 3, (n, COLUMNS)).astype(np.float32)}


def expected(x: Any) -> dict[str, Any]:
    powers = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
    return {"y": powers / powers.sum(1, keepdims=True)}


if __name__ == "__main__":
    arrays = inputs(np.random.default_rng(0), n=100)
    wanted = expected(**arrays)
    result = pl.compile(transformed())(**arrays)
    np.testing.assert_allclose(result.y, wanted["y"], rtol=1e-4, atol=1e-7)
    print(f"softmax: 100 rows of {COLUMNS} agree with NumPy")
