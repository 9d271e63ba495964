"""Two kernels for a program in C: a step of Jacobi's method for Poisson's equation, and the residual.

``python kernels.py FOLDER`` writes them to folders of the names of their functions; ``CMakeLists.txt`` does it.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

import polyloop as pl

F = np.float64


def step() -> pl.LoopKernel:
    """Return ``v = (f + neighbours of u)/4`` inside of a square; its edges are zero."""
    knl = pl.make_kernel(
        "{[i, j]: 1 <= i, j < n - 1}",
        "v[i, j] = 0.25*(f[i, j] + u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1])",
        [pl.GlobalArg("f, u, v", F, shape="n, n"), pl.ValueArg("n", np.int32)],
        name="jacobi_step", assumptions="n >= 3",
    )  # fmt: skip
    return knl.split_iname("j", 64)


def residual() -> pl.LoopKernel:
    """Return the sum of the squares of ``f - A u``."""
    return pl.make_kernel(
        "{[i, j]: 1 <= i, j < n - 1}",
        "r[0] = sum((i, j), (f[i, j] + u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1] - 4*u[i, j])**2)",
        [pl.GlobalArg("f, u", F, shape="n, n"), pl.GlobalArg("r", F, shape="1"), pl.ValueArg("n", np.int32)],
        name="residual", assumptions="n >= 3",
    )  # fmt: skip


def main(folder: Path) -> None:
    """Export both."""
    for kernel in (step(), residual()):
        pl.export(kernel, folder / kernel.name, target=pl.CTarget())


if __name__ == "__main__":
    main(Path(sys.argv[1]))
