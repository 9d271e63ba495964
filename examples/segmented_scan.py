"""Running totals that begin again at each flag, in three launches: not commutative, so the order of threads is kept."""

from typing import Any

import numpy as np

import polyloop as pl

SIZES = [{"n": n} for n in (1, 255, 256, 257, 600)]
SMALL = [{"n": 1}, {"n": 100}]


def program() -> pl.LoopKernel:
    return pl.make_kernel(
        "{[i, j]: 0 <= i < n and 0 <= j <= i}",
        "b[i] = reduce(segmented(sum), j, x[j], starts[j]).value",
        [pl.GlobalArg("x, b", np.float32, shape="n"), pl.GlobalArg("starts", np.bool_, shape="n"), ...],
        name="segmented_scan",
    )


def transformed() -> pl.LoopKernel:
    knl = program()
    knl = pl.split_scan(
        knl, "i", 256, outer_iname="tile", outer_tag="g.0", carry_iname="c",
        sum_name="tile_sum", carry_name="before_tile",
    )  # fmt: skip
    knl = pl.split_iname(knl, "j_inner", 4, outer_tag="l.0")
    knl = pl.split_scan(
        knl, "i_inner", 4, outer_iname="t", inner_iname="k", outer_tag="l.0",
        sum_name="thread_sum", carry_name="before_thread",
    )  # fmt: skip
    return pl.realize_scan(knl)


def inputs(rng: np.random.Generator, n: int) -> dict[str, Any]:
    return {"x": rng.integers(-9, 9, n).astype(np.float32), "starts": rng.random(n) < 0.05}


def expected(x: Any, starts: Any) -> dict[str, Any]:
    total = np.cumsum(x)
    first = np.maximum.accumulate(np.where(starts, np.arange(len(x)), 0))
    return {"b": (total - np.where(first > 0, total[first - 1], 0)).astype(np.float32)}


if __name__ == "__main__":
    arrays = inputs(np.random.default_rng(0), n=100_000)
    wanted = expected(**arrays)
    np.testing.assert_array_equal(pl.compile(transformed())(**arrays).b, wanted["b"])
    print("segmented_scan: 100000 elements agree with NumPy")
