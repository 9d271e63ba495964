"""A scan of each row by one block, tile after tile: the threads scan a tile, and a running total joins the tiles."""

from typing import Any

import numpy as np

import polyloop as pl

SIZES = [{"m": 2, "n": n} for n in (1, 511, 512, 513, 1030)]
SMALL = [{"m": 2, "n": 1}, {"m": 2, "n": 100}]


def program() -> pl.LoopKernel:
    return pl.make_kernel(
        ["{[r]: 0 <= r < m}", "{[i, j]: 0 <= i < n and 0 <= j <= i}"],
        "b[r, i] = sum(j, a[r, j])",
        [pl.GlobalArg("a, b", np.float32, shape="m, n"), ...],
        name="row_scan",
    )


def transformed() -> pl.LoopKernel:
    knl = pl.tag_inames(program(), "r:g.0")
    knl = pl.split_scan(knl, "i", 512, outer_iname="tile", sum_name="tile_sum", carry_name="before_tile")
    knl = pl.split_iname(knl, "j_inner", 128, inner_tag="l.0")
    knl = pl.split_scan(
        knl, "i_inner", 4, outer_iname="t", inner_iname="k", outer_tag="l.0",
        sum_name="thread_sum", carry_name="before_thread",
    )  # fmt: skip
    return pl.realize_scan(knl)


def inputs(rng: np.random.Generator, m: int, n: int) -> dict[str, Any]:
    return {"a": rng.integers(-9, 9, (m, n)).astype(np.float32)}


def expected(a: Any) -> dict[str, Any]:
    return {"b": np.cumsum(a, 1)}


if __name__ == "__main__":
    arrays = inputs(np.random.default_rng(0), m=100, n=3000)
    wanted = expected(**arrays)
    np.testing.assert_array_equal(pl.compile(transformed())(**arrays).b, wanted["b"])
    print("row_scan: 100 rows of 3000 agree with NumPy")
