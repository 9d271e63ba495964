"""A transpose by tiles of 64 by 64 in shared memory, read and written by `float4`.

Rows of the tile are padded by one element, so that the four that a thread writes together lie in different banks.
"""

from typing import Any

import numpy as np

import polyloop as pl

SIZES = [{"n": 4}, {"n": 60}, {"n": 64}, {"n": 132}]
SMALL = [{"n": 4}, {"n": 20}]


def program() -> pl.LoopKernel:
    return pl.make_kernel(
        "{[i, j]: 0 <= i, j < n}",
        "b[i, j] = a[j, i]",
        [pl.GlobalArg("a, b", np.float32, shape="n, n"), ...],
        name="transpose_vectors",
        assumptions="n >= 4 and n mod 4 = 0",
    )


def transformed() -> pl.LoopKernel:
    knl = pl.split_iname(program(), "i", 64, outer_tag="g.1")
    knl = pl.split_iname(knl, "i_inner", 16, outer_tag="unr", inner_tag="l.1")
    knl = pl.split_iname(knl, "j", 64, outer_tag="g.0")
    knl = pl.split_iname(knl, "j_inner", 4, outer_tag="l.0", inner_tag="vec")
    tile = ["i_inner_outer", "i_inner_inner", "j_inner_outer", "j_inner_inner"]
    return pl.add_prefetch(knl, "a", tile, temporary_name="tile", vec=4, pad=1)


def inputs(rng: np.random.Generator, n: int) -> dict[str, Any]:
    return {"a": rng.random((n, n), np.float32)}


def expected(a: Any) -> dict[str, Any]:
    return {"b": a.T}


if __name__ == "__main__":
    arrays = inputs(np.random.default_rng(0), n=1000)
    wanted = expected(**arrays)
    np.testing.assert_array_equal(pl.compile(transformed())(**arrays).b, wanted["b"])
    print("transpose_vectors: 1000 x 1000 elements agree with NumPy")
