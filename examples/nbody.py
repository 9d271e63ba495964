"""Forces between all pairs of bodies: a thread sums over all of them, a block reads them tile by tile."""

from typing import Any

import numpy as np

import polyloop as pl

SIZES = [{"n": 1}, {"n": 63}, {"n": 64}, {"n": 66}]


def program() -> pl.LoopKernel:
    return pl.make_kernel(
        "{[i, j]: 0 <= i, j < n}",
        """
        square(v) := v.x*v.x + v.y*v.y + v.z*v.z
        for i
            <> here = p[i]
            for j
                <> away = p[j] - here
                <> inverse = rsqrt(square(away) + softening)
            end
            a[i] = sum(j, mass[j]*inverse*inverse*inverse*away)
        end
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
    knl = pl.split_iname(knl, "i", 64, outer_tag="g.0", inner_tag="l.0")
    knl = pl.split_iname(knl, "j", 64)
    knl = pl.add_prefetch(knl, "mass", ["j_inner"])
    return pl.add_prefetch(knl, "p", ["j_inner"])


def inputs(rng: np.random.Generator, n: int) -> dict[str, Any]:
    p = rng.random((n, 3), np.float32).view(pl.vec.float3)[:, 0]
    return {"p": p, "mass": rng.random(n, np.float32), "softening": np.float32(0.01)}


def expected(p: Any, mass: Any, softening: Any) -> dict[str, Any]:
    p = p.view(np.float32).reshape(-1, 3)
    away = p[None] - p[:, None]
    strength = mass / (np.square(away).sum(-1) + softening) ** 1.5
    return {"a": np.einsum("ij,ijx->ix", strength, away).astype(np.float32).view(pl.vec.float3)[:, 0]}


if __name__ == "__main__":
    arrays = inputs(np.random.default_rng(0), n=1000)
    wanted = expected(**arrays)
    result = pl.compile(transformed())(**arrays)
    np.testing.assert_allclose(result.a.view(np.float32), wanted["a"].view(np.float32), rtol=1e-4, atol=1e-3)
    print("nbody: 1000 bodies agree with NumPy")
