"""A transpose: a block turns a tile of 32 by 32 in shared memory, padded so that no column meets a bank twice."""

from typing import Any

import numpy as np

import polyloop as pl

SIZES = [{"n": 1, "m": 1}, {"n": 31, "m": 33}, {"n": 32, "m": 64}, {"n": 65, "m": 7}]


def program() -> pl.LoopKernel:
    return pl.make_kernel(
        "{[i, j]: 0 <= i < n and 0 <= j < m}",
        "b[i, j] = a[j, i]",
        [pl.GlobalArg("a", np.float32, shape="m, n"), pl.GlobalArg("b", np.float32, shape="n, m"), ...],
        name="transpose",
        assumptions="n >= 1 and m >= 1",
    )


def transformed() -> pl.LoopKernel:
    knl = program()
    knl = pl.split_iname(knl, "i", 32, outer_tag="g.1")
    knl = pl.split_iname(knl, "j", 32, outer_tag="g.0", inner_tag="l.0")
    knl = pl.split_iname(knl, "i_inner", 8, outer_tag="unr", inner_tag="l.1")
    knl = pl.add_prefetch(knl, "a", ["i_inner_outer", "i_inner_inner", "j_inner"])
    return pl.add_padding(knl, "a_fetch", axis=0, align_bytes=4 * 33)


def inputs(rng: np.random.Generator, n: int, m: int) -> dict[str, Any]:
    return {"a": rng.random((m, n), np.float32)}


def expected(a: Any) -> dict[str, Any]:
    return {"b": a.T}


if __name__ == "__main__":
    arrays = inputs(np.random.default_rng(0), n=1000, m=700)
    wanted = expected(**arrays)
    result = pl.compile(transformed())(**arrays)
    np.testing.assert_array_equal(result.b, wanted["b"])
    print("transpose: 1000 x 700 agrees with NumPy")
