"""Functions that are both Python and kernels: the tests run them as they are, and as kernels."""
# mypy: ignore-errors
# ruff: noqa: ANN001, ANN201, ANN202, F821
# Inside of a kernel the name of a type stands for an array with extents, which no type checker knows.

import math

import numpy as np

import polyloop as pl

F = np.float32
TILE = 4
HALF = 0.5


def axpy(n: pl.int32, alpha: F, x: pl.Array[F, "n"], y: pl.Array[F, "n"]):
    for i in range(n):
        y[i] = alpha * x[i] + y[i]


def flipped(n: pl.int32, x: pl.Array[F, "n"], y: pl.Array[F, "n"], a: pl.Array[F, "n"]):
    """One loop, as written: `x` sees what was in `y` for the first half."""
    for i in range(n):
        y[i] = a[i]
        x[i] = y[n - 1 - i]


def carried(n: pl.int32, a: pl.Array[F, "n"], c: pl.Array[F, "n"]):
    t = 0.0
    for i in range(n):
        c[i] = t
        t = a[i]


def prefix(n: pl.int32, a: pl.Array[F, "n"], c: pl.Array[F, "n"]):
    s = 0.0
    for i in range(n):
        s += a[i]
        c[i] = s


def two_loops(n: pl.int32, a: pl.Array[F, "n"], c: pl.Array[F, "n"]):
    for i in range(n):
        t = a[i]
        c[i] = t
    for i in range(n):
        t = c[n - 1 - i]
        c[i] += t


def inner_loops(n: pl.int32, a: pl.Array[F, "n"], c: pl.Array[F, "n"]):
    for i in range(n):
        m = 0.0
        for j in range(i):
            m = max(m, a[j])
        c[i] = m
        for j in range(i, n):
            m = min(m, a[j])
        c[i] += 2 * m


def windows(n: pl.int32, a: pl.Array[F, "n"], c: pl.Array[F, "n"]):
    for i in range(n):
        c[i] = 0.0
        for j in range(max(0, i - 2), min(n, i + 3)):
            c[i] += a[j]
        for j in range(i // 2, i, 2):
            c[i] -= a[j]


def strided(n: pl.int32, a: pl.Array[F, "n"], c: pl.Array[F, "n"]):
    for i in range(0, n, 3):
        c[i] = 1.0
    for i in range(1, n, 3):
        c[i] = a[i]
    for i in range(2, n, 3):
        c[i] = -a[i] % HALF


def branches(n: pl.int32, a: pl.Array[F, "n"], c: pl.Array[F, "n"]):
    for i in range(n):
        t = a[i]
        if t > HALF and i > 0:
            c[i] = math.sqrt(t)
        elif not t > 0.25:
            if i % 2 == 0:
                c[i] = -1
            else:
                c[i] = -2
        else:
            u = t * 2
            c[i] = u if 0.3 < t < 0.4 or i == 3 else abs(u - 1) ** 2


def reductions(n: pl.int32, a: pl.Array[F, "n"], c: pl.Array[F, "n"], s: pl.Array[F, ()]):
    for i in range(n):
        c[i] = sum(a[k] for k in range(n) if k != i) + max(a[k] for k in range(i + 1))
    s[()] = sum(a[k] * a[j] for k in range(n) for j in range(k) if a[j] > HALF)


def truths(n: pl.int32, a: pl.Array[F, "n"], c: pl.Array[pl.int32, "n"]):
    for i in range(n):
        above = any(a[k] > 0.9 for k in range(i))
        all_below = all(a[k] < 0.95 for k in range(n) if a[k] > 0.1)
        if above or not all_below:
            c[i] = 1
        else:
            c[i] = i // 2 - i % 3


def rows(n: pl.int32, a: pl.Array[F, "n", "n"], c: pl.Array[F, "n"]):
    """A triangle, and the transposed element of the same matrix."""

    def twice(x):
        return x + x

    for i in range(n):
        c[i] = 0
        for j in range(i + 1):
            c[i] += twice(a[i, j]) - a[j, i]


def in_place(n: pl.int32, a: pl.Array[F, "n", "n"]):
    for i in range(n):
        for j in range(n):
            a[i, j] = a[i, j] + a[j, i]


def swaps(n: pl.int32, a: pl.Array[F, "n"], c: pl.Array[F, "n"]):
    """Both values are found before either is assigned."""
    for i in range(n // 2):
        a[i], a[n - 1 - i] = a[n - 1 - i], a[i]
    for i in range(n):
        low, high = 0.5 * a[i], a[i] + 1
        low, high = high, low
        c[i] = low - high


FUNCTIONS = [
    axpy, flipped, carried, prefix, two_loops, inner_loops, windows, strided, branches, reductions, truths, rows,
    in_place, swaps,
]  # fmt: skip


@pl.kernel
def with_functions(n: pl.int32, a: pl.Array[np.int64, "n + 1"], w: pl.Array[np.int64, "n"]):
    def f(i):
        return 2 * a[i]

    def g(j):
        return sum(a[i] for i in range(n)) * j + a[n]

    for i in range(n):
        j = f(i + 1)
        w[i] = j + g(i)
