"""A 7-point stencil that streams along the first axis with a queue of three values in registers.

Each point of a column is used by three iterations, of which the first one loads it.  That is a window that slides with
the loop: ``pipeline`` with ``window``.  The loop is unrolled by the length of the queue, so that the places in it are
known to the compiler, and registers can hold it.
"""

from typing import Any

import numpy as np

import polyloop as pl

SIZES = [{"m": 3, "n": 3}, {"m": 4, "n": 9}, {"m": 7, "n": 33}, {"m": 3, "n": 34}, {"m": 5, "n": 35}]


def program() -> pl.LoopKernel:
    return pl.make_kernel(
        "{[k, i, j]: 1 <= k < m - 1 and 1 <= i, j < n - 1}",
        """
        column(z) := u[z, i, j]
        around := u[k, i - 1, j] + u[k, i + 1, j] + u[k, i, j - 1] + u[k, i, j + 1]
        v[k, i, j] = column(k - 1) + column(k + 1) + around - 6*column(k)
        """,
        [pl.GlobalArg("u, v", np.float32, shape="m, n, n"), ...],
        name="stencil_3d",
        assumptions="m >= 3 and n >= 3",
    )


def transformed() -> pl.LoopKernel:
    knl = program()
    for iname in ("k", "i", "j"):
        knl = pl.shift(knl, iname, -1)
    knl = pl.split_iname(knl, "i", 8, outer_tag="g.1", inner_tag="l.1")
    knl = pl.split_iname(knl, "j", 32, outer_tag="g.0", inner_tag="l.0")
    knl = pl.precompute(
        knl, "column", compute_at="k", temporary_name="queue", temporary_address_space="private", default_tag=None
    )
    knl = pl.pipeline(knl, "k", stages=1, window=0)
    knl = pl.split_iname(knl, "k", 3, inner_tag="unr")
    return pl.peel(knl, "k_outer")


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
    print("stencil_3d: 60 x 100 x 100 points agree with NumPy")
