"""Forces between all pairs of bodies: a thread sums over all bodies, which a block reads tile by tile into shared memory."""

from typing import Any

import numpy as np

import polyloop as pl

SIZES = [{"n": 1}, {"n": 127}, {"n": 128}, {"n": 130}]


def program() -> pl.LoopKernel:
    return pl.make_kernel(
        "{[i, j]: 0 <= i, j < n}",
        """
        away(j_) := p[j_] - p[i]
        square(v) := v.x*v.x + v.y*v.y + v.z*v.z
        strength(s) := rsqrt(s + softening)*rsqrt(s + softening)*rsqrt(s + softening)
        a[i] = sum(j, mass[j]*strength(square(away(j)))*away(j))
        """,
        [
            pl.GlobalArg("p, a", pl.vec.float3, shape="n"),
            pl.GlobalArg("mass", np.float32, shape="n"),
            pl.ValueArg("softening", np.float32),
            ...,
        ],
        name="nbody",
        assumptions="n >= 1",
    )


def transformed() -> pl.LoopKernel:
    knl = program()
    knl = pl.split_iname(knl, "i", 128, outer_tag="g.0", inner_tag="l.0")
    knl = pl.split_iname(knl, "j", 128)
    return knl


def inputs(rng: np.random.Generator, n: int) -> dict[str, Any]:
    p = rng.random((n, 3), np.float32).view(pl.vec.float3)[:, 0]
    return {"p": p, "mass": rng.random(n, np.float32), "softening": np.float32(0.01)}


def expected(p: Any, mass: Any, softening: Any) -> dict[str, Any]:
    p = p.view(np.float32).reshape(-1, 3)
    away = p[None] - p[:, None]
    strength = mass / (np.square(away).sum(-1) + softening) ** 1.5
    return {"a": np.einsum("ij,ijx->ix", strength, away).astype(np.float32)}



if __name__ == "__main__":
    arrays = inputs(np.random.default_rng(0), n=1000)
    result = pl.compile(transformed())(**arrays)
    np.testing.assert_allclose(result.a, expected(**arrays)["a"], rtol=1e-4, atol=1e-5)
    print("nbody: 1000 bodies agree with NumPy")
