"""Sums of long rows, a block a row: each of 256 threads loads 16 vectors of four numbers before it adds the first."""

from typing import Any

import numpy as np

import polyloop as pl

SIZES = [{"n": 1}, {"n": 3}]
COLUMNS = 16384


def program() -> pl.LoopKernel:
    return pl.make_kernel(
        f"{{[i, k]: 0 <= i < n and 0 <= k < {COLUMNS}}}",
        "y[i] = sum(k, x[i, k])",
        [pl.GlobalArg("x", np.float32, shape=f"n, {COLUMNS}"), pl.GlobalArg("y", np.float32, shape="n"), ...],
        name="row_sums",
        assumptions="n >= 1",
    )


def transformed() -> pl.LoopKernel:
    knl = pl.split_iname(program(), "k", 4, outer_iname="part", inner_iname="lane", inner_tag="vec")
    knl = pl.split_iname(knl, "part", 256, outer_iname="step", outer_tag="unr", inner_iname="thread", inner_tag="l.0")
    return pl.tag_inames(knl, "i:g.0")


def inputs(rng: np.random.Generator, n: int) -> dict[str, Any]:
    return {"x": rng.random((n, COLUMNS), np.float32)}


def expected(x: Any) -> dict[str, Any]:
    return {"y": x.sum(1, dtype=np.float64)}


if __name__ == "__main__":
    arrays = inputs(np.random.default_rng(0), n=100)
    wanted = expected(**arrays)
    result = pl.compile(transformed())(**arrays)
    np.testing.assert_allclose(result.y, wanted["y"], rtol=1e-4)
    print(f"row_sums: 100 rows of {COLUMNS} agree with NumPy")
