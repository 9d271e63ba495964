"""The programs in Numba, with ``parallel=True``; imported where Numba is."""
# mypy: ignore-errors
# ruff: noqa: ANN001, ANN202, E741  # loops as Numba takes them, named as their C is

import numpy as np
from numba import njit, prange

__all__ = ["FUNCTIONS"]

FUNCTIONS = {}


def program(function):
    FUNCTIONS[function.__name__] = njit(parallel=True, fastmath=True)(function)
    return function


@njit(parallel=True, fastmath=True)
def product(a, b, c, alpha, scale):
    n = len(a)
    for i in prange(n):
        for j in range(n):
            c[i, j] *= scale
        for k in range(n):
            f = alpha * a[i, k]
            for j in range(n):
                c[i, j] += f * b[k, j]


@njit(parallel=True, fastmath=True)
def rows(a, x, y):
    for i in prange(len(a)):
        s = 0.0
        for j in range(len(a)):
            s += a[i, j] * x[j]
        y[i] = s


@njit(parallel=True, fastmath=True)
def columns(a, x, y):
    n = len(a)
    for b in prange((n + 255) // 256):
        first, last = 256 * b, min(256 * b + 256, n)
        s = np.zeros(256)
        for l in range(n):
            f = x[l]
            for k in range(first, last):
                s[k - first] += a[l, k] * f
        for k in range(first, last):
            y[k] = s[k - first]


@program
def atax(a, x, t, y):
    rows(a, x, t)
    columns(a, t, y)


@program
def bicg(a, p, q, r, s):
    rows(a, p, q)
    columns(a, r, s)


@program
def mvt(a, x, y, z, w):
    t, u = np.empty_like(x), np.empty_like(z)
    rows(a, y, t)
    columns(a, w, u)
    x += t
    z += u


@program
def gemver(a, u, v, p, q, x, y, z, w):
    n = len(a)
    for i in prange(n):
        for j in range(n):
            a[i, j] += u[i] * v[j] + p[i] * q[j]
    columns(a, y, x)
    for k in prange(n):
        x[k] = 1.2 * x[k] + z[k]
    rows(a, x, w)
    w *= 1.5


@program
def gesummv(a, b, x, y):
    for i in prange(len(a)):
        s, t = 0.0, 0.0
        for j in range(len(a)):
            s += a[i, j] * x[j]
            t += b[i, j] * x[j]
        y[i] = 1.5 * s + 1.2 * t


@program
def gemm(a, b, c):
    product(a, b, c, 1.5, 1.2)


@program
def two_products(a, b, c, d, w):
    product(a, b, w, 1.5, 0.0)
    product(w, c, d, 1.0, 1.2)


@program
def three_products(a, b, c, d, e, f, g):
    product(a, b, e, 1.0, 0.0)
    product(c, d, f, 1.0, 0.0)
    product(e, f, g, 1.0, 0.0)


@program
def syrk(a, c):
    for i in prange(len(a)):
        for j in range(i + 1):
            s = 0.0
            for k in range(len(a)):
                s += a[i, k] * a[j, k]
            c[i, j] = 1.2 * c[i, j] + 1.5 * s


@program
def syr2k(a, b, c):
    for i in prange(len(a)):
        for j in range(i + 1):
            s = 0.0
            for k in range(len(a)):
                s += a[j, k] * b[i, k] + b[j, k] * a[i, k]
            c[i, j] = 1.2 * c[i, j] + 1.5 * s


@program
def trmm(a, b):
    n = len(a)
    for strip in prange((n + 127) // 128):
        first, last = 128 * strip, min(128 * strip + 128, n)
        s = np.empty(128)
        for i in range(n):
            for j in range(first, last):
                s[j - first] = b[i, j]
            for k in range(i + 1, n):
                f = a[k, i]
                for j in range(first, last):
                    s[j - first] += f * b[k, j]
            for j in range(first, last):
                b[i, j] = 1.5 * s[j - first]


@program
def covariance(data, away, flip, cov, mean):
    n = len(data)
    columns(data, np.ones(n), mean)
    mean /= n
    for r in prange(n):
        for s in range(n):
            away[r, s] = data[r, s] - mean[s]
    for s in prange(n):
        for r in range(n):
            flip[s, r] = away[r, s]
    product(flip, away, cov, 1.0 / (n - 1.0), 0.0)


@program
def doitgen(a, w, c):
    n = len(a)
    for r in prange(n):
        for q in range(n):
            for p in range(n):
                w[r, q, p] = 0.0
            for s in range(n):
                f = a[r, q, s]
                for p in range(n):
                    w[r, q, p] += f * c[s, p]


@program
def lu(a):
    n = len(a)
    for k in range(n):
        for i in prange(k + 1, n):
            a[i, k] /= a[k, k]
            f = a[i, k]
            for j in range(k + 1, n):
                a[i, j] -= f * a[k, j]


@program
def jacobi_1d(u, v):
    n = len(u)
    for _ in range(20):
        for i in prange(1, n - 1):
            v[i] = 0.33333 * (u[i - 1] + u[i] + u[i + 1])
        for i in prange(1, n - 1):
            u[i] = 0.33333 * (v[i - 1] + v[i] + v[i + 1])


@njit(parallel=True, fastmath=True)
def cross(u, v):
    n = len(u)
    for i in prange(1, n - 1):
        for j in range(1, n - 1):
            v[i, j] = 0.2 * (u[i, j] + u[i, j - 1] + u[i, j + 1] + u[i + 1, j] + u[i - 1, j])


@program
def jacobi_2d(u, v):
    for _ in range(20):
        cross(u, v)
        cross(v, u)


@njit(parallel=True, fastmath=True)
def second(u, v):
    n = len(u)
    for i in prange(1, n - 1):
        for j in range(1, n - 1):
            for k in range(1, n - 1):
                x = u[i, j, k]
                v[i, j, k] = (
                    0.125 * (u[i + 1, j, k] - 2.0 * x + u[i - 1, j, k])
                    + 0.125 * (u[i, j + 1, k] - 2.0 * x + u[i, j - 1, k])
                    + 0.125 * (u[i, j, k + 1] - 2.0 * x + u[i, j, k - 1])
                    + x
                )


@program
def heat_3d(u, v):
    for _ in range(20):
        second(u, v)
        second(v, u)


@program
def fdtd_2d(ex, ey, hz, f):
    n = len(ex)
    for t in range(20):
        for i in prange(n):
            if i == 0:
                for j in range(n):
                    ey[0, j] = f[t]
            else:
                for j in range(n):
                    ey[i, j] -= 0.5 * (hz[i, j] - hz[i - 1, j])
            for j in range(1, n):
                ex[i, j] -= 0.5 * (hz[i, j] - hz[i, j - 1])
        for i in prange(n - 1):
            for j in range(n - 1):
                hz[i, j] -= 0.7 * (ex[i, j + 1] - ex[i, j] + ey[i + 1, j] - ey[i, j])


@program
def recursive(u, v, w):
    n = len(u)
    for i in prange(n):
        low = 0.0
        for j in range(n):
            low = 0.7 * low + 0.3 * u[i, j]
            v[i, j] = low
    for b in prange((n + 63) // 64):
        first, last = 64 * b, min(64 * b + 64, n)
        s = np.zeros(64)
        for r in range(n):
            for j in range(first, last):
                s[j - first] = 0.7 * s[j - first] + 0.3 * v[r, j]
                w[r, j] = s[j - first]


@program
def convolution(u, v, m):
    n = len(u)
    for i in prange(n - 4):
        for j in range(n - 4):
            s = 0.0
            for k in range(5):
                for l in range(5):
                    s += m[k, l] * u[i + k, j + l]
            v[i, j] = s
