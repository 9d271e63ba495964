"""Kernels that several tests of transforms use, each with its check against NumPy at edge sizes."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

import polyloop as pl
from tests.transform.checking import check, vectors

__all__ = [
    "F",
    "blur",
    "check_blur",
    "check_matmul",
    "check_normalise",
    "check_rule",
    "check_transposed",
    "check_triangle",
    "matmul",
    "normalise",
    "rule",
    "spread",
    "sweep",
    "transposed",
    "triangle",
]

F = np.float32


def spread(knl: pl.LoopKernel, iname: str = "i", length: int = 16) -> pl.LoopKernel:
    """Return the kernel with *iname* on blocks and threads."""
    return pl.split_iname(knl, iname, length, outer_tag="g.0", inner_tag="l.0")


def blur() -> pl.LoopKernel:
    """Three neighbours; the domain does not begin at 0."""
    return pl.make_kernel(
        "{[i]: 1 <= i < n - 1}",
        "out[i] = a[i-1] + a[i] + a[i+1]",
        [pl.GlobalArg("a, out", F, shape="n"), ...],
        name="blur",
        assumptions="n >= 3",
    )


def check_blur(knl: pl.LoopKernel, sizes: Iterable[int] = (3, 4, 17, 18, 19, 50)) -> None:
    for n in sizes:
        a, out = vectors(n, 2)
        want = out.copy()
        want[1:-1] = a[:-2] + a[1:-1] + a[2:]
        check(knl, {"a": a, "out": out}, {"out": want})


def matmul() -> pl.LoopKernel:
    return pl.make_kernel(
        "{[i, j, k]: 0 <= i, j, k < n}",
        "c[i, j] = sum(k, a[i, k] * b[k, j])",
        [pl.GlobalArg("a, b, c", F, shape="n, n"), ...],
        name="matmul",
        assumptions="n >= 1",
    )


def check_matmul(knl: pl.LoopKernel, sizes: Iterable[int] = (1, 5, 16, 17)) -> None:
    for n in sizes:
        a, b = np.random.default_rng(n).integers(-3, 4, (2, n, n)).astype(F)
        check(knl, {"a": a, "b": b}, {"c": a @ b})


def sweep() -> pl.LoopKernel:
    """A dependence of distance (1, -1), which no interchange keeps."""
    return pl.make_kernel(
        "{[i, j]: 1 <= i < n and 0 <= j < n - 1}",
        "a[i, j] = a[i-1, j+1] + 1 {id=update}",
        [pl.GlobalArg("a", F, shape="n, n"), ...],
        name="sweep",
    )


def triangle() -> pl.LoopKernel:
    return pl.make_kernel(
        "{[i, j]: 0 <= i < n and 0 <= j <= i}",
        "l[i, j] = 2*u[j, i]",
        [pl.GlobalArg("l, u", F, shape="n, n"), ...],
        name="triangle",
        assumptions="n >= 1",
    )


def check_triangle(knl: pl.LoopKernel, sizes: Iterable[int] = (1, 2, 8, 16, 17, 20)) -> None:
    for n in sizes:
        u, lower = np.random.default_rng(n).integers(-3, 4, (2, n, n)).astype(F)
        want = lower.copy()
        where = np.tril_indices(n)
        want[where] = 2 * u.T[where]
        check(knl, {"u": u, "l": lower}, {"l": want})


def normalise() -> pl.LoopKernel:
    """An imperfect nest: a sum for each row, then a loop over the row."""
    return pl.make_kernel(
        "{[i, j, k]: 0 <= i < m and 0 <= j, k < n}",
        "<> s = sum(k, a[i, k])\nb[i, j] = a[i, j] - s",
        [pl.GlobalArg("a, b", F, shape="m, n"), ...],
        name="normalise",
        assumptions="m >= 1 and n >= 1",
    )


def check_normalise(knl: pl.LoopKernel) -> None:
    for m, n in ((1, 1), (5, 17), (16, 16), (20, 3), (17, 33)):
        a = np.random.default_rng(n).integers(-3, 4, (m, n)).astype(F)
        check(knl, {"a": a}, {"b": a - a.sum(1)[:, None]})


def rule() -> pl.LoopKernel:
    return pl.make_kernel(
        "{[i]: 0 <= i < n - 2}",
        "f(x) := 2*a[x] + 1\nout[i] = f(i) + f(i+2)",
        [pl.GlobalArg("a", F, shape="n"), pl.GlobalArg("out", F, shape="n - 2"), ...],
        name="rule",
        assumptions="n >= 3",
    )


def check_rule(knl: pl.LoopKernel, sizes: Iterable[int] = (3, 4, 17, 18, 19, 50)) -> None:
    for n in sizes:
        (a,) = vectors(n, 1)
        f = 2 * a + 1
        check(knl, {"a": a}, {"out": f[:-2] + f[2:]})


def transposed() -> pl.LoopKernel:
    """A transposition through a tile: what one thread stores, another reads."""
    knl = pl.make_kernel(
        "{[io, jo, ii, jj]: 0 <= io, jo < n and 0 <= ii, jj < 16}",
        """
        <> t[ii, jj] = a[16*io + ii, 16*jo + jj]   {id=store}
        b[16*jo + ii, 16*io + jj] = t[jj, ii]      {id=load, dep=store}
        """,
        [pl.GlobalArg("a, b", F, shape="16*n, 16*n"), ...],
        name="transposed",
        assumptions="n >= 1",
    )
    return pl.tag_inames(knl, "io:g.1, jo:g.0, ii:l.1, jj:l.0")


def check_transposed(knl: pl.LoopKernel) -> None:
    for n in (1, 2, 3):
        a = np.random.default_rng(n).integers(-9, 9, (16 * n, 16 * n)).astype(F)
        check(knl, {"a": a}, {"b": np.ascontiguousarray(a.T)})
