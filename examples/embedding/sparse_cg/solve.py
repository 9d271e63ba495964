"""Conjugate gradients by three kernels, and by SciPy's solver over one: ``python solve.py [POINTS]``."""

from __future__ import annotations

import sys
import time
from typing import Any

import numpy as np
import scipy.sparse
import scipy.sparse.linalg
from kernels import direction, product, product_and_dot, update_and_norm

import polyloop as pl

C = pl.CTarget()


def poisson(points: int) -> Any:
    """Return the matrix of Poisson's equation on a square of *points* by *points*."""
    line = scipy.sparse.diags([-1.0, 2.0, -1.0], [-1, 0, 1], shape=(points, points))
    return scipy.sparse.kronsum(line, line, format="csr")


class Solver:
    """Solves ``A x = b`` for one matrix; all arrays are NumPy's, and nothing is allocated in the loop."""

    def __init__(self, matrix: Any) -> None:
        self.csr = {"starts": matrix.indptr, "columns": matrix.indices, "values": matrix.data}
        kernels = product_and_dot(), update_and_norm(), direction()
        self.product, self.update, self.direction = (pl.compile(knl, target=C) for knl in kernels)
        self.seconds = 0.0  # in the kernels alone

    def _timed(self, run: Any, **arguments: Any) -> None:
        start = time.perf_counter()
        run(**arguments)
        self.seconds += time.perf_counter() - start

    def __call__(self, b: np.ndarray[Any, Any], tolerance: float = 1e-8) -> tuple[np.ndarray[Any, Any], int]:
        """Return the solution and the number of iterations."""
        x, r, p, q = np.zeros_like(b), b.copy(), b.copy(), np.empty_like(b)
        pq, rr = np.empty(1), np.array([b @ b])
        least, steps = tolerance**2 * float(b @ b), 0
        while rr[0] > least:
            before = float(rr[0])
            self._timed(self.product, **self.csr, p=p, q=q, pq=pq)
            self._timed(self.update, p=p, q=q, x=x, r=r, rr=rr, alpha=before / float(pq[0]))
            self._timed(self.direction, p=p, r=r, beta=float(rr[0]) / before)
            steps += 1
        return x, steps


def main(points: int) -> None:
    """Solve by both, and compare with a direct solver."""
    matrix = poisson(points)
    b = np.random.default_rng(0).random(matrix.shape[0])
    wanted = scipy.sparse.linalg.spsolve(matrix.tocsc(), b)
    solver = Solver(matrix)
    solver(b)  # compiles, and checks the arrays
    solver.seconds, start = 0.0, time.perf_counter()
    x, steps = solver(b)
    seconds = time.perf_counter() - start
    np.testing.assert_allclose(x, wanted, rtol=1e-5, atol=1e-6 * abs(wanted).max())
    operator = pl.aslinearoperator(product(), solver.csr, target=C)
    other, status = scipy.sparse.linalg.cg(operator, b, rtol=1e-8)
    assert status == 0, "SciPy's solver converges"
    np.testing.assert_allclose(other, wanted, rtol=1e-5, atol=1e-6 * abs(wanted).max())
    print(f"{b.size} unknowns: {steps} iterations; the loop takes {seconds / solver.seconds:.2f} times its kernels; "
          "SciPy's solver agrees")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 200)
