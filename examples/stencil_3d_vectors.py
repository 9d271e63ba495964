"""A 7-point stencil at the speed of memory: four points of a row at once, four planes a thread.

A thread reads each plane's vector once; the neighbours in its row are components of it, but for the first and the
last.  Whole rows are computed, so that vectors begin where rows do, and their ends are not stored.
"""

from typing import Any

import numpy as np

import polyloop as pl

SIZES = [{"m": 3, "n": 4}, {"m": 7, "n": 128}, {"m": 6, "n": 132}, {"m": 8, "n": 20}]
SMALL = [{"m": 3, "n": 4}, {"m": 6, "n": 12}]


def program() -> pl.LoopKernel:
    return pl.make_kernel(
        "{[i, j, k]: 1 <= i < m - 1 and 1 <= j < n - 1 and 0 <= k < n}",
        """
        left(i, j, k) := u[i, j, k - 1] if k > 0 else 0
        right(i, j, k) := u[i, j, k + 1] if k < n - 1 else 0
        column(i, j, k) := u[i - 1, j, k] + u[i + 1, j, k] + u[i, j - 1, k] + u[i, j + 1, k]
        for i, j, k
            <> sum = column(i, j, k) + left(i, j, k) + right(i, j, k) - 6*u[i, j, k]    {id=sum}
            v[i, j, k] = sum    {id=store, if=k > 0 and k < n - 1}
        end
        """,
        [pl.GlobalArg("u, v", np.float32, shape="m, n, n"), ...],
        name="stencil_3d_vectors",
        assumptions="m >= 3 and n >= 4 and n mod 4 = 0",
    )


def transformed() -> pl.LoopKernel:
    knl = program()
    knl = pl.shift(pl.shift(knl, "i", -1), "j", -1)
    knl = pl.split_iname(knl, "i", 4, outer_tag="g.2", inner_tag="unr")
    knl = pl.split_iname(knl, "j", 8, outer_tag="g.1", inner_tag="l.1")
    knl = pl.split_iname(knl, "k", 128, outer_tag="g.0")
    return pl.vectorize(knl, "k_inner", 4, outer_tag="l.0")


def inputs(rng: np.random.Generator, m: int, n: int) -> dict[str, Any]:
    u = rng.random((m, n, n), np.float32)
    return {"u": u, "v": u.copy()}


def expected(u: Any, v: Any) -> dict[str, Any]:
    v = v.copy()
    v[1:-1, 1:-1, 1:-1] = (
        u[:-2, 1:-1, 1:-1] + u[2:, 1:-1, 1:-1] + u[1:-1, :-2, 1:-1] + u[1:-1, 2:, 1:-1]
        + u[1:-1, 1:-1, :-2] + u[1:-1, 1:-1, 2:] - 6 * u[1:-1, 1:-1, 1:-1]
    )  # fmt: skip
    return {"v": v}


if __name__ == "__main__":
    arrays = inputs(np.random.default_rng(0), m=60, n=100)
    wanted = expected(**arrays)
    result = pl.compile(transformed())(**arrays)
    np.testing.assert_allclose(result.v, wanted["v"], rtol=1e-4, atol=1e-5)
    print("stencil_3d_vectors: 60 x 100 x 100 points agree with NumPy")
