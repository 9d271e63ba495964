"""A dot product in two launches: threads collect several sums, a block combines them, a second launch the rest."""

from typing import Any

import numpy as np

import polyloop as pl

BLOCK = 256
EACH = 16
"""Terms of a thread, four sums at once."""
TILE = BLOCK * EACH
SIZES = [{"n": 1}, {"n": BLOCK + 1}, {"n": TILE}, {"n": 3 * TILE + 77}]


def program() -> pl.LoopKernel:
    return pl.make_kernel(
        "{[k]: 0 <= k < n}",
        "out = sum(k, a[k] * b[k])",
        [pl.GlobalArg("a, b", np.float32, shape="n"), ...],
        name="dot",
        assumptions="n >= 1",
    )


def transformed() -> pl.LoopKernel:
    knl = program()
    knl = pl.split_iname(knl, "k", TILE, outer_iname="block", inner_iname="i")
    knl = pl.stage_reduction(knl, "block", default_tag="g.0", temporary_name="sums", temporary_address_space="global")
    knl = pl.split_iname(knl, "i", 4 * BLOCK)
    knl = pl.split_iname(knl, "i_inner", BLOCK, outer_iname="lane", outer_tag="ilp", inner_tag="l.0")
    return pl.split_iname(knl, "block", BLOCK, inner_tag="l.0")


def inputs(rng: np.random.Generator, n: int) -> dict[str, Any]:
    return {"a": rng.random(n, np.float32), "b": rng.random(n, np.float32)}


def expected(a: Any, b: Any) -> dict[str, Any]:
    return {"out": np.dot(a.astype(np.float64), b)}


if __name__ == "__main__":
    arrays = inputs(np.random.default_rng(0), n=1 << 20)
    result = pl.compile(transformed())(**arrays)
    np.testing.assert_allclose(result.out, expected(**arrays)["out"], rtol=1e-5)
    print("dot_two_launches: 2^20 terms agree with NumPy")
