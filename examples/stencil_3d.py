"""A 7-point stencil that streams along the first axis: three planes in registers, a tile of one in shared memory."""

from typing import Any

import numpy as np

import polyloop as pl

SIZES = [{"m": 3, "n": 3}, {"m": 4, "n": 9}, {"m": 7, "n": 33}, {"m": 3, "n": 34}, {"m": 5, "n": 35}]


def program() -> pl.LoopKernel:
    return pl.make_kernel(
        "{[k, i, j]: 1 <= k < m - 1 and 1 <= i, j < n - 1}",
        """
        plane(y, x) := u[k, y, x]
        around(y, x) := plane(y - 1, x) + plane(y + 1, x) + plane(y, x - 1) + plane(y, x + 1)
        for i, j
            <> below = u[0, i, j]
            <> here = u[1, i, j]
            for k
                <> above = u[k + 1, i, j]
                v[k, i, j] = below + above + around(i, j) - 6*here
                below = here
                here = above
            end
        end
        """,
        [pl.GlobalArg("u, v", np.float32, shape="m, n, n"), ...],
        name="stencil_3d",
        assumptions="m >= 3 and n >= 3",
    )


def transformed() -> pl.LoopKernel:
    knl = program()
    knl = pl.shift(pl.shift(knl, "i", -1), "j", -1)
    knl = pl.split_iname(knl, "i", 8, outer_tag="g.1", inner_tag="l.1")
    knl = pl.split_iname(knl, "j", 32, outer_tag="g.0", inner_tag="l.0")
    return pl.precompute(knl, "plane", ["i_inner", "j_inner"])


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
