"""Interpolation on hexahedra, one axis after the other: what the sums share is computed once, in shared memory."""

from typing import Any

import numpy as np

import polyloop as pl

SIZES = [{"elements": 1}, {"elements": 3}]


def program() -> pl.LoopKernel:
    return pl.make_kernel(
        "{[e, a, b, c, i, j, k]: 0 <= e < elements and 0 <= a, b, c < 6 and 0 <= i, j, k < 5}",
        """
        first(a_, j_, k_) := sum(i, p[a_, i]*u[e, i, j_, k_])
        second(a_, b_, k_) := sum(j, p[b_, j]*first(a_, j, k_))
        v[e, a, b, c] = sum(k, p[c, k]*second(a, b, k))
        """,
        [
            pl.GlobalArg("p", np.float32, shape="6, 5"),
            pl.GlobalArg("u", np.float32, shape="elements, 5, 5, 5"),
            pl.GlobalArg("v", np.float32, shape="elements, 6, 6, 6"),
            ...,
        ],
        name="sum_factorization",
        assumptions="elements >= 1",
    )


def transformed() -> pl.LoopKernel:
    knl = program()
    knl = pl.tag_inames(knl, "e:g.0, a:l.2, b:l.1, c:l.0, i:unr, j:unr, k:unr")
    knl = pl.precompute(knl, "second", ["a", "b", "k"], precompute_inames="a_, b_, k_")
    return pl.precompute(knl, "first", ["a_", "j", "k_"])


def inputs(rng: np.random.Generator, elements: int) -> dict[str, Any]:
    return {"p": rng.random((6, 5), np.float32), "u": rng.random((elements, 5, 5, 5), np.float32)}


def expected(p: Any, u: Any) -> dict[str, Any]:
    return {"v": np.einsum("ai,bj,ck,eijk->eabc", p, p, p, u)}


if __name__ == "__main__":
    arrays = inputs(np.random.default_rng(0), elements=200)
    wanted = expected(**arrays)
    result = pl.compile(transformed())(**arrays)
    np.testing.assert_allclose(result.v, wanted["v"], rtol=1e-4, atol=1e-5)
    print("sum_factorization: 200 elements agree with NumPy")
