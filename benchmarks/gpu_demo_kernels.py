"""The demo kernels on a GPU at edge sizes, against NumPy, the product also pipelined: what compute-sanitizer is run on.

For example ``compute-sanitizer --tool racecheck python benchmarks/gpu_demo_kernels.py``.
"""

from __future__ import annotations

import sys

import numpy as np

import polyloop as pl
from polyloop.cli import kernels


def largest_error(sizes: tuple[int, ...]) -> float:
    """Return the largest error of the demo kernels over *sizes*, relative to the largest value."""
    rng = np.random.default_rng(0)
    worst = 0.0
    runs = {
        name: pl.compile(demo.build(), target=pl.CudaTarget()) for name, demo in kernels.DEMO_KERNELS.items()
    }
    product = kernels.DEMO_KERNELS["matmul"].build()
    ways = (("shared", 2), ("registers", 2), ("cp.async", 3))
    products = [runs["matmul"]]
    products += [
        pl.compile(pl.pipeline(product, "k_outer", stages, via=via), target=pl.CudaTarget()) for via, stages in ways
    ]
    for n in sizes:
        x, y = rng.random((2, n), dtype=np.float32)
        a, b = rng.random((2, n, n), dtype=np.float32)
        u = rng.random((n + 2, n + 5), dtype=np.float32)
        alpha = np.float32(1.5)
        inner = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - 4 * u[1:-1, 1:-1]
        for got, expected in (
            (runs["axpy"](x=x, y=y, alpha=alpha, poison=True).z, alpha * x + y),
            *((run(a=a, b=b, poison=True).c, a.astype(np.float64) @ b.astype(np.float64)) for run in products),
            (runs["stencil"](u=u, poison=True).lap, inner),
        ):
            assert not np.isnan(got).any(), f"an element was not written at n={n}"
            worst = max(worst, float(np.abs(got - expected).max() / np.abs(expected).max()))
    return worst


if __name__ == "__main__":
    error = largest_error((1, 2, 15, 16, 17, 31, 32, 33, 100))
    print(f"largest relative error {error:.3g}")
    sys.exit(error > 1e-5)
