"""A prefix sum over a large array in three launches: sums of tiles, a scan of these, a scan inside of each tile."""

from typing import Any

import numpy as np

import polyloop as pl

SIZES = [{"n": n} for n in (1, 2047, 2048, 2051)]
SMALL = [{"n": 1}, {"n": 200}]


def program() -> pl.LoopKernel:
    return pl.make_kernel(
        "{[i, j]: 0 <= i < n and 0 <= j <= i}",
        "b[i] = sum(j, a[j])",
        [pl.GlobalArg("a, b", np.float32, shape="n"), ...],
        name="prefix_sum",
    )


def transformed() -> pl.LoopKernel:
    knl = program()
    # A block adds up each tile of 2048, and scans it in the last launch; one block scans the sums in between.
    knl = pl.split_scan(
        knl, "i", 2048, outer_iname="tile", outer_tag="g.0", carry_iname="c",
        sum_name="tile_sum", carry_name="before_tile",
    )  # fmt: skip
    knl = pl.split_iname(knl, "j_inner", 256, inner_tag="l.0")
    # In a tile: eight elements a thread, and a scan of the sums of the threads.
    knl = pl.split_scan(
        knl, "i_inner", 8, outer_iname="t", inner_iname="k", outer_tag="l.0",
        sum_name="thread_sum", carry_name="before_thread",
    )  # fmt: skip
    # The sums of the tiles: 2048 at a time, eight a thread.
    knl = pl.split_scan(
        knl, "c", 2048, outer_iname="chunk", within="id:before_tile", sum_name="chunk_sum", carry_name="before_chunk"
    )
    knl = pl.split_iname(knl, "j_outer_inner", 256, inner_tag="l.0")
    knl = pl.split_scan(
        knl, "c_inner", 8, outer_iname="s", inner_iname="m", outer_tag="l.0", within="id:before_tile",
        sum_name="eight_tiles", carry_name="before_eight",
    )  # fmt: skip
    knl = pl.realize_scan(knl)
    # Elements are read and written four at once.
    knl = pl.add_prefetch(knl, "a", ["j_local_inner"], default_tag="vec", temporary_name="eight")
    return pl.buffer_array(knl, "b", ["k"], default_tag="vec")


def inputs(rng: np.random.Generator, n: int) -> dict[str, Any]:
    return {"a": rng.integers(-9, 9, n).astype(np.float32)}


def expected(a: Any) -> dict[str, Any]:
    return {"b": np.cumsum(a)}


if __name__ == "__main__":
    arrays = inputs(np.random.default_rng(0), n=1_000_000)
    wanted = expected(**arrays)
    np.testing.assert_array_equal(pl.compile(transformed())(**arrays).b, wanted["b"])
    print("prefix_sum: 1000000 elements agree with NumPy")
