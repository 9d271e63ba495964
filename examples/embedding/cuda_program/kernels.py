"""Two kernels for a program in C++ on a GPU: a step of Jacobi's method for Poisson's equation, and the residual.

``python kernels.py FOLDER [ARCH]`` writes them to folders of the names of their functions; ``CMakeLists.txt`` does it.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

import polyloop as pl

F = np.float64


def step() -> pl.LoopKernel:
    """Return ``v = (f + neighbours of u)/4`` inside of a square, a point a thread; its edges are left alone."""
    knl = pl.make_kernel(
        "{[i, j]: 1 <= i, j < n - 1}",
        "v[i, j] = 0.25*(f[i, j] + u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1])",
        [pl.GlobalArg("f, u, v", F, shape="n, n"), pl.ValueArg("n", np.int32)],
        name="jacobi_step", assumptions="n >= 3",
    )  # fmt: skip
    knl = knl.split_iname("j", 32, outer_tag="g.0", inner_tag="l.0")
    return knl.split_iname("i", 8, outer_tag="g.1", inner_tag="l.1")


def residual() -> pl.LoopKernel:
    """Return the sum of the squares of ``f - A u``: sums of rows, a block a row, then their sum in one block."""
    knl = pl.make_kernel(
        "{[i, j, k]: 1 <= i, j < n - 1 and 1 <= k < n - 1}",
        """
        row[i] = sum(j, (f[i, j] + u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1] - 4*u[i, j])**2) {id=rows}
        r[0] = sum(k, row[k]) {dep=rows}
        """,
        [pl.GlobalArg("f, u", F, shape="n, n"), pl.GlobalArg("r", F, shape="1"),
         pl.TemporaryVariable("row", F, shape="n"), pl.ValueArg("n", np.int32)],
        name="residual", assumptions="n >= 3",
    )  # fmt: skip
    for iname in ("j", "k"):
        knl = knl.split_iname(iname, 256, inner_tag="l.0")
    return knl.tag_inames({"i": "g.0"})


def main(folder: Path, arch: str) -> None:
    """Export both for *arch*."""
    for kernel in (step(), residual()):
        pl.export(kernel, folder / kernel.name, target=pl.CudaTarget(arch))


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:] or ["sm_90"])
