"""The least value of a vector and where it stands: in each block, then of the blocks; of equal values the first."""

from typing import Any

import numpy as np

import polyloop as pl

BLOCK = 128
TILE = 8 * BLOCK
SIZES = [{"n": 1}, {"n": BLOCK + 1}, {"n": TILE}, {"n": 3 * TILE + 77}]


def program() -> pl.LoopKernel:
    return pl.make_kernel(
        "{[k]: 0 <= k < n}",
        "least, place = argmin(k, a[k], k)",
        [pl.GlobalArg("a", np.float32, shape="n"), ...],
        name="find_least",
        assumptions="n >= 1",
    )


def transformed() -> pl.LoopKernel:
    knl = program()
    knl = pl.split_iname(knl, "k", TILE, outer_iname="block", inner_iname="i")
    knl = pl.stage_reduction(knl, "block", default_tag="g.0", temporary_name="best", temporary_address_space="global")
    knl = pl.split_iname(knl, "i", BLOCK, inner_tag="l.0")
    return pl.split_iname(knl, "block", BLOCK, inner_tag="l.0")


def inputs(rng: np.random.Generator, n: int) -> dict[str, Any]:
    return {"a": rng.integers(0, max(2, n // 3), n).astype(np.float32)}


def expected(a: Any) -> dict[str, Any]:
    return {"least": a.min(), "place": np.int32(a.argmin())}


if __name__ == "__main__":
    arrays = inputs(np.random.default_rng(0), n=1 << 20)
    result = pl.compile(transformed())(**arrays)
    for name, value in expected(**arrays).items():
        np.testing.assert_array_equal(result[name], value)
    print("argmin_two_launches: the least of 2^20 values agrees with NumPy")
