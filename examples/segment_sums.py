"""Sums of segments of an array, by a thread, a warp or a block each: one program, three ways, for their lengths."""

from typing import Any

import numpy as np

import polyloop as pl

SIZES = [{"n": 1, "longest": 5}, {"n": 5, "longest": 300}, {"n": 9, "longest": 2}]


def program() -> pl.LoopKernel:
    return pl.make_kernel(
        ["{[s]: 0 <= s < n}", "{[j]: 0 <= j < count}"],
        """
        for s
            <> begin = first[s]
            <> count = first[s + 1] - begin
            y[s] = sum(j, x[begin + j])
        end
        """,
        [
            pl.GlobalArg("first", np.int32, shape="n + 1"),
            pl.GlobalArg("x", np.float32, shape="entries"),
            pl.GlobalArg("y", np.float32, shape="n"),
            ...,
        ],
        name="segment_sums",
        assumptions="n >= 1",
    )


def by_threads() -> pl.LoopKernel:
    return pl.split_iname(program(), "s", 128, outer_tag="g.0", inner_tag="l.0")


def by_warps() -> pl.LoopKernel:
    knl = pl.split_iname(program(), "s", 4, outer_tag="g.0", inner_tag="w")
    return pl.split_iname(knl, "j", 32, inner_tag="lane")


def transformed() -> pl.LoopKernel:
    """Return the program with a block for each segment."""
    return pl.split_iname(pl.tag_inames(program(), "s:g.0"), "j", 256, inner_tag="l.0")


def inputs(rng: np.random.Generator, n: int, longest: int) -> dict[str, Any]:
    first = np.concatenate([[0], np.cumsum(rng.integers(0, longest + 1, n))]).astype(np.int32)
    return {"first": first, "x": rng.random(first[-1], np.float32)}


def expected(first: Any, x: Any) -> dict[str, Any]:
    sums = np.concatenate([[0], np.cumsum(x, dtype=np.float64)])
    return {"y": sums[first[1:]] - sums[first[:-1]]}


if __name__ == "__main__":
    for way, longest in ((by_threads, 8), (by_warps, 200), (transformed, 20000)):
        arrays = inputs(np.random.default_rng(0), n=100, longest=longest)
        wanted = expected(**arrays)
        result = pl.compile(way())(**arrays)
        np.testing.assert_allclose(result.y, wanted["y"], rtol=1e-4, atol=1e-5)
    print("segment_sums: 100 segments by threads, by warps, and by blocks agree with NumPy")
