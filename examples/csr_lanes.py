"""A sparse matrix in CSR form times a vector, a few lanes a row: for rows of some ten entries."""

from typing import Any

import numpy as np

import polyloop as pl

SIZES = [{"n": 1, "m": 1}, {"n": 31, "m": 50}, {"n": 32, "m": 300}, {"n": 65, "m": 7}]


def program() -> pl.LoopKernel:
    return pl.make_kernel(
        ["{[i]: 0 <= i < n}", "{[j]: 0 <= j < count}"],
        """
        for i
            <> begin = first[i]
            <> count = first[i + 1] - begin
            y[i] = sum(j, a[begin + j]*x[column[begin + j]])
        end
        """,
        [
            pl.GlobalArg("first", np.int32, shape="n + 1"),
            pl.GlobalArg("column", np.int32, shape="entries"),
            pl.GlobalArg("a", np.float32, shape="entries"),
            pl.GlobalArg("x", np.float32, shape="m"),
            pl.GlobalArg("y", np.float32, shape="n"),
            ...,
        ],
        name="csr_lanes",
        assumptions="n >= 1",
    )


def transformed(lanes: int = 8, at_once: int = 4) -> pl.LoopKernel:
    """Return the product with blocks of 256 threads, *lanes* of them a row, each with *at_once* entries at a time."""
    knl = pl.split_iname(program(), "i", 256 // lanes, outer_tag="g.0", inner_tag="l.1")
    knl = pl.split_iname(knl, "j", lanes * at_once)
    return pl.split_iname(knl, "j_inner", lanes, outer_tag="ilp", inner_tag="l.0")


def inputs(rng: np.random.Generator, n: int, m: int) -> dict[str, Any]:
    first = np.concatenate([[0], np.cumsum(rng.integers(0, 90, n))]).astype(np.int32)
    return {
        "first": first,
        "column": rng.integers(0, m, first[-1], np.int32),
        "a": rng.random(first[-1], np.float32),
        "x": rng.random(m, np.float32),
    }


def expected(first: Any, column: Any, a: Any, x: Any) -> dict[str, Any]:
    sums = np.concatenate([[0], np.cumsum(a.astype(np.float64) * x[column])])
    return {"y": sums[first[1:]] - sums[first[:-1]]}


if __name__ == "__main__":
    arrays = inputs(np.random.default_rng(0), n=10000, m=10000)
    wanted = expected(**arrays)
    result = pl.compile(transformed())(**arrays)
    np.testing.assert_allclose(result.y, wanted["y"], rtol=1e-4, atol=1e-5)
    print("csr_lanes: 10000 rows agree with NumPy")
