"""Kernels whose loops depend on each other, run in one block with barriers between the steps."""

from __future__ import annotations

import numpy as np

import polyloop as pl
from tests.gallery.base import Case, example

__all__ = ["lu", "shortest_paths", "triangular_solve"]


def _lu(n: int, rng: np.random.Generator) -> Case:
    a = rng.random((n, n)) + n * np.eye(n)
    factors = a.copy()
    for k in range(n):
        factors[k + 1 :, k] /= factors[k, k]
        factors[k + 1 :, k + 1 :] -= np.outer(factors[k + 1 :, k], factors[k, k + 1 :])
    return {"a": a.astype(np.float32)}, {"a": factors}


@example(_lu, sizes=(1, 9, 17))
def lu() -> pl.LoopKernel:
    """LU factorisation without pivoting, in place: rows on threads, a barrier after each step."""
    knl = pl.make_kernel(
        "{[k, i, j]: 0 <= k < n and k < i, j < n}",
        """
        for k
            for i
                a[i, k] = a[i, k]/a[k, k]               {id=scale}
            end
            for i
                for j
                    a[i, j] = a[i, j] - a[i, k]*a[k, j] {id=update}
                end
            end
        end
        """,
        [pl.GlobalArg("a", np.float32, shape="n, n"), ...],
        name="lu",
    )
    return pl.split_iname(knl, "i", 8, inner_tag="l.0")


def _shortest_paths(n: int, rng: np.random.Generator) -> Case:
    d = rng.integers(1, 50, (n, n)).astype(np.int32)
    np.fill_diagonal(d, 0)
    shortest = d.copy()
    for k in range(n):
        shortest = np.minimum(shortest, shortest[:, k : k + 1] + shortest[k : k + 1, :])
    return {"d": d}, {"e": shortest}


@example(_shortest_paths, sizes=(1, 5, 12))
def shortest_paths() -> pl.LoopKernel:
    """All shortest paths (Floyd and Warshall), from one matrix into the next: a launch for all, one block."""
    knl = pl.make_kernel(
        "{[k, i, j, p, q]: 0 <= k, i, j, p, q < n}",
        """
        for p
            for q
                e[p, q] = d[p, q]                                   {id=copy}
            end
        end
        for k
            for i
                for j
                    f[i, j] = min(e[i, j], e[i, k] + e[k, j])       {id=relax}
                end
            end
            for i
                for j
                    e[i, j] = f[i, j]                               {id=back}
                end
            end
        end
        """,
        [pl.GlobalArg("d, e", np.int32, shape="n, n"),
         pl.TemporaryVariable("f", np.int32, shape="n, n", address_space=pl.AddressSpace.GLOBAL), ...],
        name="shortest_paths",
    )  # fmt: skip
    knl = pl.split_iname(knl, "q", 16, inner_tag="l.0")
    return pl.split_iname(knl, "j", 16, inner_tag="l.0")


def _triangular_solve(n: int, rng: np.random.Generator) -> Case:
    lower = np.tril(rng.random((n, n))) + n * np.eye(n)
    b = rng.random((n, 20))
    x = np.linalg.solve(lower, b)
    return {"l": lower.astype(np.float32), "b": b.astype(np.float32)}, {"x": x}


@example(_triangular_solve, sizes=(1, 6, 20))
def triangular_solve() -> pl.LoopKernel:
    """Forward substitution for twenty right-hand sides, one on each thread: no thread waits for another."""
    knl = pl.make_kernel(
        ["{[i, c]: 0 <= i < n and 0 <= c < 20}", "{[j]: 0 <= j < i}"],
        "x[i, c] = (b[i, c] - sum(j, l[i, j]*x[j, c]))/l[i, i]",
        [pl.GlobalArg("l", np.float32, shape="n, n"), pl.GlobalArg("b, x", np.float32, shape="n, 20"), ...],
        name="triangular_solve",
    )
    return pl.tag_inames(knl, "c:l.0")
