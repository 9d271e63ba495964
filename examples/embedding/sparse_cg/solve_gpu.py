"""Conjugate gradients on a GPU, in the memory of PyTorch's tensors: ``python solve_gpu.py [POINTS]``.

Without a GPU the same loop runs on the CPU.
"""

from __future__ import annotations

import sys
import time
from typing import Any

import numpy as np
import torch
from kernels import direction_on_threads, product_and_dot_on_threads, update_and_norm_on_threads
from solve import poisson

import polyloop as pl

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
AT_ONCE = 20
"""Iterations between two looks at the norm, which wait for the GPU."""


def seconds_of(run: Any) -> float:
    """Return the time of *run* on the device."""
    if DEVICE == "cuda":
        torch.cuda.synchronize()
    start = time.perf_counter()
    run()
    if DEVICE == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - start


class Solver:
    """Solves ``A x = b``; its steps are calls that were checked once, and the host is told nothing but the norm."""

    def __init__(self, matrix: Any, b: np.ndarray[Any, Any]) -> None:
        target = pl.CudaTarget() if DEVICE == "cuda" else pl.CTarget()
        kernels = product_and_dot_on_threads(), update_and_norm_on_threads(), direction_on_threads()
        product, update, direction = (pl.compile(knl, target=target) for knl in kernels)
        csr = {"starts": matrix.indptr, "columns": matrix.indices, "values": matrix.data}
        given = {name: torch.from_numpy(array).to(DEVICE) for name, array in csr.items()}
        self.b = torch.from_numpy(b).to(DEVICE)
        self.x, self.r, self.p, self.q = (torch.zeros_like(self.b) for _ in range(4))
        norms, pq = [torch.zeros(1, dtype=torch.float64, device=DEVICE) for _ in range(2)], torch.zeros_like(self.b[:1])
        self.norms = norms
        self.steps: list[Any] = []  # of two iterations: the norms change places
        for rr, rn in (norms, norms[::-1]):
            self.steps += [
                product.bind(**given, p=self.p, q=self.q, pq=pq),
                update.bind(p=self.p, q=self.q, x=self.x, r=self.r, rr=rr, pq=pq, rn=rn),
                direction.bind(p=self.p, r=self.r, rr=rr, rn=rn),
            ]

    def __call__(self, tolerance: float = 1e-8) -> int:
        """Solve; return the number of iterations."""
        self.x.zero_()
        self.r.copy_(self.b)
        self.p.copy_(self.b)
        self.norms[0].copy_((self.b @ self.b).reshape(1))
        least, count = tolerance**2 * float(self.norms[0]), 0
        while float(self.norms[0]) > least:
            for _ in range(AT_ONCE // 2):
                for step in self.steps:
                    step()
            count += AT_ONCE
        return count

    def seconds_of_kernels(self, count: int) -> float:
        """Return the sum of the times of the kernels in *count* iterations, each measured by itself."""
        total = 0.0
        for step in self.steps[:3]:
            step()
            total += min(seconds_of(lambda step=step: [step() for _ in range(count)]) for _ in range(3))
        return total


def main(points: int) -> None:
    """Solve, compare with the matrix, and with the times of the kernels."""
    matrix = poisson(points)
    b = np.random.default_rng(0).random(matrix.shape[0])
    solver = Solver(matrix, b)
    count = solver()
    x = solver.x.cpu().numpy()
    np.testing.assert_allclose(matrix @ x, b, rtol=1e-5, atol=1e-6)
    seconds = min(seconds_of(solver) for _ in range(3))
    print(f"{b.size} unknowns on {DEVICE}: {count} iterations; the loop takes "
          f"{seconds / solver.seconds_of_kernels(count):.2f} times its kernels; the residuals agree")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000)
