"""Jacobi steps on many rods, skewed in time: 8 steps of 128 points are done before the next ones, and stay in cache."""

from typing import Any

import numpy as np

import polyloop as pl

SIZES = [
    {"rods": 1, "n": 3, "steps": 1},
    {"rods": 2, "n": 20, "steps": 7},
    {"rods": 1, "n": 130, "steps": 8},
    {"rods": 1, "n": 200, "steps": 9},
]


def program() -> pl.LoopKernel:
    return pl.make_kernel(
        "{[b, t, i]: 0 <= b < rods and 0 <= t < steps and 1 <= i < n - 1}",
        "u[b, (t + 1) % 2, i] = (u[b, t % 2, i - 1] + u[b, t % 2, i] + u[b, t % 2, i + 1])/3",
        [pl.GlobalArg("u", np.float32, shape="rods, 2, n"), ...],
        name="jacobi_time_skewed",
        assumptions="n >= 3 and steps >= 1 and rods >= 1",
    )


def transformed() -> pl.LoopKernel:
    knl = program()
    knl = pl.map_domain(knl, "{[t, i] -> [t, s]: s = i + t}")
    knl = pl.split_iname(knl, "t", 8)
    knl = pl.split_iname(knl, "s", 128, inner_tag="l.0")
    knl = pl.prioritize_loops(knl, "t_outer, s_outer, t_inner")
    return pl.tag_inames(knl, "b:g.0")


def inputs(rng: np.random.Generator, rods: int, n: int, steps: int) -> dict[str, Any]:
    u = rng.random((rods, 2, n), np.float32)
    u[:, 1] = u[:, 0]
    return {"u": u, "steps": steps}


def expected(u: Any, steps: int) -> dict[str, Any]:
    u = u.copy()
    for t in range(steps):
        old, new = u[:, t % 2], u[:, (t + 1) % 2]
        new[:, 1:-1] = (old[:, :-2] + old[:, 1:-1] + old[:, 2:]) / 3
    return {"u": u}


if __name__ == "__main__":
    arrays = inputs(np.random.default_rng(0), rods=10, n=1000, steps=50)
    wanted = expected(**arrays)
    result = pl.compile(transformed())(**arrays)
    np.testing.assert_allclose(result.u, wanted["u"], rtol=1e-4, atol=1e-5)
    print("jacobi_time_skewed: 50 steps of 10 rods of 1000 points agree with NumPy")
