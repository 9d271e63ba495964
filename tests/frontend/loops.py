"""Functions with loops as people write them: the tests run them as they are, and as kernels."""
# mypy: ignore-errors
# ruff: noqa: ANN001, ANN201, ANN202, F821, A001, A002, B007, B023, C901, PLW0128
# Inside of a kernel the name of a type stands for an array with extents, which no type checker knows.

import math

import numpy as np

import polyloop as pl

D = np.float64
ROT = 0.5 + 2j


def backward(n: pl.int32, a: pl.Array[D, "n"], b: pl.Array[D, "n"]):
    for i in range(n - 1, -1, -1):
        a[i] = b[i] + (a[i + 1] if i < n - 1 else 0.0)


def triangular(n: pl.int32, u: pl.Array[D, "n", "n"], x: pl.Array[D, "n"], b: pl.Array[D, "n"]):
    for i in reversed(range(n)):
        s = b[i]
        for j in range(n - 1, i, -1):
            s -= u[i, j] * x[j]
        x[i] = s / (u[i, i] + 1)


def every_other(n: pl.int32, a: pl.Array[D, "n"], b: pl.Array[D, "n"]):
    for i in range(n - 1, 0, -2):
        a[i] = b[i] + a[i - 1]
    for i in reversed(range(1, n, 2)):
        b[i] += b[i - 1]
    for i in range(0, n, 3):
        b[i] += i


def squeezed(n: pl.int32, a: pl.Array[D, "n"], b: pl.Array[D, "n"]):
    for i in range(n):
        for j in range(min(i, 2), -1, -1):
            a[j] = a[i] + b[j] * i
        for j in reversed(range(max(i - 2, 0), min(i + 2, n))):
            b[j] += a[j]
        b[i] += sum(a[k] * k for k in range(i, -1, -1) if k > 0)


def counted(n: pl.int32, a: pl.Array[D, "n"], b: pl.Array[D, "n"]):
    i = 0
    while i < n:
        j = i + 1
        while n > j:
            a[i] += b[j]
            j = j + 1
        i += 1
    i = n - 1
    while i >= 1:
        i -= 1
        b[i] += b[i + 1]
        i_next = i
        a[i_next] += 1.0


def last_values(n: pl.int32, a: pl.Array[D, "n"], c: pl.Array[np.int64, 4]):
    i = 3
    while i < n:
        a[i] = 0.0
        i += 2
    c[0] = i
    while i > 1:
        i -= 3
    c[1] = i
    k = 0
    for j in range(n):
        while k <= j:
            a[j] += k
            k += 2
    c[2] = k


def rows(n: pl.int32, p: pl.Array[np.int32, "n + 1"], a: pl.Array[D, "n"], b: pl.Array[D, "n"]):
    for i in range(n):
        b[i] = sum(a[k] for k in range(p[i], p[i + 1]))
        for k in range(p[i + 1] - 1, p[i] - 1, -1):
            b[i] = b[i] * 0.5 + a[k]
        k = p[i]
        while k < p[i + 1]:
            b[i] -= a[k]
            k += 1
        m = p[i + 1] // 2
        for k in range(m):
            b[i] += a[k]
        m = 1
        if p[i] > 2:
            for k in range(m, p[i]):
                b[i] += k


def powers(n: pl.int32, a: pl.Array[D, "n"]):
    for i in range(n):
        t = 0.0
        for j in range(2**i):
            t += j
        for j in range(n * n):
            t -= 1.0
        a[i] = t


def several(n: pl.int32, a: pl.Array[D, "n"], b: pl.Array[D, "n"]):
    s = t = 0.0
    for i in range(n):
        a[i], old = b[i], a[i]
        s, (t, [u, s]) = t, (s + old, (t, old))
        b[i] = r = math.exp(s) + t
        a[i] = s = t = r + u
        a[i], b[n - 1 - i] = b[n - 1 - i], a[i]
    k = 0
    if n > 1:
        k, a[k] = 1, 7.0
        b[k] = k = 0


def tested(n: pl.int32, a: pl.Array[D, "n"], b: pl.Array[D, "n"]):
    top = 0.0
    for i in range(n):
        if a[i] > top:
            top = a[i]
            b[i] = top
        elif b[i] > top or i == 2:
            b[i] = 0.0
            b[n - 1 - i] += 1.0
        else:
            top *= 0.5
        if any(b[k] > a[i] for k in range(n)):
            for k in range(n):
                b[k] -= a[i] * 0.25
        elif i > 0 and b[i - 1] < a[i]:
            b[i - 1] += 3.0


def scopes(n: pl.int32, a: pl.Array[D, "n"], b: pl.Array[D, "n"]):
    def late(x):
        return x * factor + a[i]

    def steps(b, i):
        a = b + i
        if a > 1.0:
            b = a * 2
            return b - i
        a += 1
        return a

    def element(v, k):
        return v[k] + late(v[n - 1 - k])

    def exp(x):
        return x + 1

    factor = 2.0
    for i in range(n):
        b[i] = late(b[i]) + steps(a[i], i)
        factor = 3.0
    for i in range(n - 1, -1, -1):
        def inside(x):
            return x + a[i]

        a[i] = inside(element(b, i)) + exp(1.0)

    def late(x):
        return x - 1

    for i in range(n):
        b[i] = late(b[i]) + sum(late(i) for i in range(i))


def names(n: pl.int32, sum: pl.Array[D, "n"], exp: pl.Array[D, "n"], min: D, abs: pl.Array[D, "n"]):
    max = 0.0
    for i in range(n):
        max += exp[i] * math.exp(exp[i]) + min
        sum[i] = max + math.fabs(abs[i])


def rotated(n: pl.int32, z: pl.Array[np.complex128, "n"], w: pl.Array[np.complex128, "n"], r: pl.Array[D, "n"]):
    for i in range(n):
        w[i] = z[i] * 1j + ROT * w[i].conjugate() - (2 - 0.5j)
        r[i] = z[i].real - w[i].imag + abs(z[i] + 1j)


FUNCTIONS = [
    backward, triangular, every_other, squeezed, counted, last_values, rows, powers, several, tested, scopes, names,
    rotated,
]  # fmt: skip
