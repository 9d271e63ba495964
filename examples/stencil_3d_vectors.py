"""A 7-point stencil at the speed of memory: four points of a row at once, four planes a thread.

A thread reads a vector of each plane once, into a queue of three; the neighbours in its row are components of it, but
for the first and the last.  Whole rows are stored, so that vectors begin where rows do: at the ends of a row, which are
part of the boundary, values stay what they are in ``u``.  Stores of rows without their ends would leave sectors of 32
bytes that are written in part, which the memory has to read first.

It is meant for 8 blocks on a multiprocessor, and one text for full blocks and those at the ends,
``pl.CudaTarget(min_blocks=8, full_blocks=False)``: then it takes 32 registers, and the compiler has all loads of a
plane on their way ahead of the first sum, which is why the one that comes last from memory is added last.
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
        column(z, x) := u[z, j, x]
        left := column(i, k - 1) if k % 4 > 0 else u[i, j, k - 1] if k > 0 else 0
        right := column(i, k + 1) if k % 4 < 3 else u[i, j, k + 1] if k < n - 1 else 0
        around := u[i, j - 1, k] + u[i, j + 1, k] + left + right + column(i - 1, k) + column(i + 1, k)
        for i, j, k
            <> sum = around - 6*column(i, k)    {id=sum}
            v[i, j, k] = sum if k > 0 and k < n - 1 else column(i, k)    {id=store}
        end
        """,
        [pl.GlobalArg("u, v", np.float32, shape="m, n, n"), ...],
        name="stencil_3d_vectors",
        assumptions="m >= 3 and n >= 4 and n mod 4 = 0",
        silenced_warnings="not-vectorized(sum)",  # of a vector's neighbours, one each is read by itself
    )


def transformed() -> pl.LoopKernel:
    knl = program()
    knl = pl.shift(pl.shift(knl, "i", -1), "j", -1)
    knl = pl.split_iname(knl, "i", 4, outer_tag="g.2")
    knl = pl.split_iname(knl, "j", 8, outer_tag="g.1", inner_tag="l.1")
    knl = pl.split_iname(knl, "k", 128, outer_tag="g.0")
    knl = pl.vectorize(knl, "k_inner", 4, outer_tag="l.0")
    knl = pl.precompute(
        knl, "column", compute_at="i_inner", precompute_inames="plane, lane", temporary_name="queue",
        temporary_address_space="private", default_tag=None,
    )  # fmt: skip
    knl = pl.pipeline(knl, "i_inner", stages=1, window=0)
    return pl.tag_inames(knl, "i_inner:unr, lane:vec")


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
