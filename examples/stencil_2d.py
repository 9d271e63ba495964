"""A heat step on a plane: a tile of 8 by 32 points is read with its halo into shared memory."""

from typing import Any

import numpy as np

import polyloop as pl

SIZES = [{"m": 3, "n": 3}, {"m": 9, "n": 33}, {"m": 10, "n": 34}, {"m": 11, "n": 35}, {"m": 24, "n": 70}]


def program() -> pl.LoopKernel:
    return pl.make_kernel(
        "{[i, j]: 1 <= i < m - 1 and 1 <= j < n - 1}",
        "v[i, j] = u[i, j] + k*(u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1] - 4*u[i, j])",
        [pl.GlobalArg("u, v", np.float32, shape="m, n"), pl.ValueArg("k", np.float32), ...],
        name="stencil_2d",
        assumptions="m >= 3 and n >= 3",
    )


def transformed() -> pl.LoopKernel:
    knl = program()
    knl = pl.shift(pl.shift(knl, "i", -1), "j", -1)
    knl = pl.split_iname(knl, "i", 8, outer_tag="g.1", inner_tag="l.1")
    knl = pl.split_iname(knl, "j", 32, outer_tag="g.0", inner_tag="l.0")
    return pl.add_prefetch(knl, "u", ["i_inner", "j_inner"])


def inputs(rng: np.random.Generator, m: int, n: int) -> dict[str, Any]:
    u = rng.random((m, n), np.float32)
    return {"u": u, "v": u.copy(), "k": np.float32(0.2)}


def expected(u: Any, v: Any, k: Any) -> dict[str, Any]:
    v = v.copy()
    around = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:]
    v[1:-1, 1:-1] = u[1:-1, 1:-1] + k * (around - 4 * u[1:-1, 1:-1])
    return {"v": v}


if __name__ == "__main__":
    arrays = inputs(np.random.default_rng(0), m=500, n=700)
    wanted = expected(**arrays)
    result = pl.compile(transformed())(**arrays)
    np.testing.assert_allclose(result.v, wanted["v"], rtol=1e-4, atol=1e-5)
    print("stencil_2d: 500 x 700 points agree with NumPy")
