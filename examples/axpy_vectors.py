"""A sum of two vectors at the speed of memory: each thread moves four neighbours at once, the last one what is left."""

from typing import Any

import numpy as np

import polyloop as pl

SIZES = [{"n": n} for n in (1, 3, 4, 1023, 1024, 1027)]
SMALL = [{"n": 1}, {"n": 7}]


def program(multiple: int = 1) -> pl.LoopKernel:
    """Return the program, for vectors whose lengths are multiples of a number."""
    return pl.make_kernel(
        "{[i]: 0 <= i < n}",
        "z[i] = alpha*x[i] + y[i]",
        [pl.GlobalArg("x, y, z", np.float32, shape="n"), pl.ValueArg("alpha", np.float32), ...],
        name="axpy_vectors",
        assumptions=f"n >= 1 and n mod {multiple} = 0",
    )


def in_vectors(knl: pl.LoopKernel) -> pl.LoopKernel:
    """Return a kernel of one loop, over i, in blocks of 256 threads, each with four neighbours."""
    knl = pl.split_iname(knl, "i", 1024, outer_tag="g.0")
    return pl.split_iname(knl, "i_inner", 4, outer_tag="l.0", inner_tag="vec")


def transformed(multiple: int = 1) -> pl.LoopKernel:
    return in_vectors(program(multiple))


def inputs(rng: np.random.Generator, n: int) -> dict[str, Any]:
    return {"alpha": np.float32(1.25), "x": rng.random(n, np.float32), "y": rng.random(n, np.float32)}


def expected(alpha: Any, x: Any, y: Any) -> dict[str, Any]:
    return {"z": np.float64(alpha) * x + y}


if __name__ == "__main__":
    arrays = inputs(np.random.default_rng(0), n=1_000_003)
    wanted = expected(**arrays)
    np.testing.assert_allclose(pl.compile(transformed())(**arrays).z, wanted["z"], rtol=1e-6)
    print("axpy_vectors: 1000003 elements agree with NumPy")
