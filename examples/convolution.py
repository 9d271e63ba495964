"""A layer of 3 by 3 convolutions: a tile of the image in shared memory serves four filters, with sums in registers."""

from typing import Any

import numpy as np

import polyloop as pl

SIZES = [
    {"channels": 1, "filters": 1, "m": 1, "n": 1},
    {"channels": 3, "filters": 5, "m": 9, "n": 15},
    {"channels": 2, "filters": 4, "m": 8, "n": 17},
]


def program() -> pl.LoopKernel:
    return pl.make_kernel(
        "{[f, c, i, j, p, q]: 0 <= f < filters and 0 <= c < channels and 0 <= i < m and 0 <= j < n and 0 <= p, q < 3}",
        "y[f, i, j] = sum((c, p, q), w[f, c, p, q]*x[c, i + p, j + q])",
        [
            pl.GlobalArg("x", np.float32, shape="channels, m + 2, n + 2"),
            pl.GlobalArg("w", np.float32, shape="filters, channels, 3, 3"),
            pl.GlobalArg("y", np.float32, shape="filters, m, n"),
            ...,
        ],
        name="convolution",
        assumptions="filters >= 1 and channels >= 1 and m >= 1 and n >= 1",
    )


def transformed() -> pl.LoopKernel:
    knl = program()
    knl = pl.split_iname(knl, "i", 8, outer_tag="g.1", inner_tag="l.1")
    knl = pl.split_iname(knl, "j", 16, outer_tag="g.0", inner_tag="l.0")
    knl = pl.split_iname(knl, "f", 4, outer_tag="g.2", inner_tag="ilp")
    knl = pl.tag_inames(knl, "p:unr, q:unr")
    return pl.add_prefetch(knl, "x", ["i_inner", "j_inner", "p", "q"])


def inputs(rng: np.random.Generator, channels: int, filters: int, m: int, n: int) -> dict[str, Any]:
    x = rng.random((channels, m + 2, n + 2), np.float32)
    return {"x": x, "w": rng.random((filters, channels, 3, 3), np.float32)}


def expected(x: Any, w: Any) -> dict[str, Any]:
    windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3), (1, 2))
    return {"y": np.einsum("cijpq,fcpq->fij", windows, w)}


if __name__ == "__main__":
    arrays = inputs(np.random.default_rng(0), channels=3, filters=10, m=50, n=70)
    wanted = expected(**arrays)
    result = pl.compile(transformed())(**arrays)
    np.testing.assert_allclose(result.y, wanted["y"], rtol=1e-4, atol=1e-5)
    print("convolution: 10 filters of 3 channels agree with NumPy")
