"""An eighth-order second derivative: a block of 256 points reads its points and a halo of four on both sides once."""

from typing import Any

import numpy as np

import polyloop as pl

SIZES = [{"n": 1}, {"n": 255}, {"n": 256}, {"n": 257}, {"n": 700}]
WEIGHTS = np.array([-9, 128, -1008, 8064, -14350, 8064, -1008, 128, -9], np.float32) / np.float32(5040)


def program() -> pl.LoopKernel:
    return pl.make_kernel(
        "{[i, r]: 0 <= i < n and 0 <= r < 9}",
        "d[i] = sum(r, weight[r]*u[i + r])",
        [
            pl.GlobalArg("u", np.float32, shape="n + 8"),
            pl.GlobalArg("d", np.float32, shape="n"),
            pl.TemporaryVariable("weight", initializer=WEIGHTS),
            ...,
        ],
        name="stencil_1d",
        assumptions="n >= 1",
    )


def transformed() -> pl.LoopKernel:
    knl = program()
    knl = pl.split_iname(knl, "i", 256, outer_tag="g.0", inner_tag="l.0")
    knl = pl.tag_inames(knl, "r:unr")
    return pl.add_prefetch(knl, "u", ["i_inner", "r"])


def inputs(rng: np.random.Generator, n: int) -> dict[str, Any]:
    return {"u": rng.random(n + 8, np.float32)}


def expected(u: Any) -> dict[str, Any]:
    return {"d": np.correlate(u, WEIGHTS, "valid")}


if __name__ == "__main__":
    arrays = inputs(np.random.default_rng(0), n=100000)
    wanted = expected(**arrays)
    result = pl.compile(transformed())(**arrays)
    np.testing.assert_allclose(result.d, wanted["d"], rtol=1e-4, atol=1e-5)
    print("stencil_1d: 100000 points agree with NumPy")
