"""Write the sources of the library that `main.c` calls: python generate.py DIRECTORY."""

import sys

import numpy as np

import polyloop as pl


def matvec() -> pl.LoopKernel:
    knl = pl.make_kernel(
        "{[i, j]: 0 <= i < m and 0 <= j < n}",
        "y[i] = sum(j, a[i, j]*x[j])",
        [pl.GlobalArg("a", np.float64, shape="m, n"), pl.GlobalArg("x, y", np.float64), pl.ValueArg("m, n", np.int32)],
        name="matvec",
        assumptions="m >= 1 and n >= 1",
    )
    return pl.split_iname(knl, "i", 64, outer_tag="g.0")


def heat() -> pl.LoopKernel:
    knl = pl.make_kernel(
        "{[t, i, k]: 0 <= t < steps and 1 <= i < n - 1 and 1 <= k < n - 1}",
        """
        for t
            v[i] = u[i] + 0.25*(u[i - 1] - 2*u[i] + u[i + 1]) {id=step}
            u[k] = v[k] {id=back, dep=step}
        end
        """,
        [pl.GlobalArg("u, v", np.float64, shape="n"), pl.ValueArg("n, steps", np.int32)],
        name="heat",
        assumptions="n >= 2 and steps >= 0",
    )
    knl = pl.split_iname(knl, "i", 256, outer_tag="g.0", inner_tag="l.0")
    return pl.split_iname(knl, "k", 256, outer_tag="g.0", inner_tag="l.0")


if __name__ == "__main__":
    for path in pl.export([matvec(), heat()], sys.argv[1], target=pl.CTarget(openmp=True), library="kernels"):
        print(path)
