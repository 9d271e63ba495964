"""Sums of long rows, a block a row: each of 512 threads loads 8 vectors of four numbers before it adds most of them.

Nothing is read twice, so that caches are told to keep nothing.
"""

from typing import Any

import numpy as np

import polyloop as pl

SIZES = [{"m": 1}, {"m": 3}]
COLUMNS = 16384


def program(columns: int = COLUMNS) -> pl.LoopKernel:
    return pl.make_kernel(
        f"{{[i, j]: 0 <= i < m and 0 <= j < {columns}}}",
        """
        for i
            <> row[j] = a[i, j]
            y[i] = sum(j, row[j])
        end
        """,
        [pl.GlobalArg("a", np.float32, shape=f"m, {columns}"), pl.GlobalArg("y", np.float32, shape="m"), ...],
        name="row_sums",
        assumptions="m >= 1",
    )


def transformed(columns: int = COLUMNS, threads: int = 512, rows: int = 1) -> pl.LoopKernel:
    """Return it with blocks of *rows* rows, each of which has *threads* threads."""
    knl = pl.split_iname(program(columns), "j", 4, outer_iname="part", inner_iname="lane", inner_tag="vec")
    knl = pl.split_iname(knl, "part", threads, outer_iname="step", outer_tag="unr", inner_iname="t", inner_tag="l.0")
    knl = pl.split_array_axis(pl.split_array_axis(knl, "row", 0, 4), "row", 0, threads)  # each thread has its own
    knl = pl.read_once(knl, "a")
    if rows == 1:
        return pl.tag_inames(knl, "i:g.0")
    return pl.split_iname(knl, "i", rows, outer_tag="g.0", inner_tag="l.1")


def inputs(rng: np.random.Generator, m: int) -> dict[str, Any]:
    return {"a": rng.random((m, COLUMNS), np.float32)}


def expected(a: Any) -> dict[str, Any]:
    return {"y": a.sum(1, dtype=np.float64)}


if __name__ == "__main__":
    arrays = inputs(np.random.default_rng(0), m=100)
    wanted = expected(**arrays)
    result = pl.compile(transformed())(**arrays)
    np.testing.assert_allclose(result.y, wanted["y"], rtol=1e-4)
    print(f"row_sums: 100 rows of {COLUMNS} agree with NumPy")
