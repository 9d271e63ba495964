"""Kernels written as Python functions."""
# mypy: ignore-errors
# ruff: noqa: ANN202, F821
# Inside of a kernel the name of a type stands for an array with extents, which no type checker knows.

import math

import numpy as np

import polyloop as pl
from tests.gallery.base import Case, example

F = np.float32
TAPS = 3
LEAK = 0.125


def _square_case(n: int, rng: np.random.Generator) -> Case:
    a, b = rng.integers(-4, 5, (2, n, n)).astype(F)
    return {"a": a, "b": b}, {"c": a @ b}


@example(_square_case, sizes=(1, 15, 33))
def python_matmul() -> pl.LoopKernel:
    @pl.kernel(assumptions="n >= 1")
    def python_matmul(a: pl.Array[F, "n", "n"], b: pl.Array[F, "n", "n"], c: pl.Array[F, "n", "n"], n: pl.int32):
        for i, j in pl.domain("0 <= i, j < n"):
            c[i, j] = sum(a[i, k] * b[k, j] for k in range(n))

    knl = pl.split_iname(python_matmul, "i", 16, outer_tag="g.1", inner_tag="l.1")
    knl = pl.split_iname(knl, "j", 16, outer_tag="g.0", inner_tag="l.0")
    knl = pl.split_iname(knl, "k", 16)
    knl = pl.add_prefetch(knl, "a", ["i_inner", "k_inner"])
    return pl.add_prefetch(knl, "b", ["k_inner", "j_inner"])


def _convolution_case(n: int, rng: np.random.Generator) -> Case:
    u, w = rng.random(n + 2, dtype=F), rng.random(TAPS, dtype=F)
    v = np.convolve(u, w[::-1], mode="valid")
    return {"u": u, "w": w}, {"v": np.where(v > 1, v, F(LEAK) * v)}


@example(_convolution_case, sizes=(1, 63, 64, 65))
def python_leaky_convolution() -> pl.LoopKernel:
    @pl.kernel
    def python_leaky_convolution(
        u: pl.Array[F, "n + 2"], w: pl.Array[F, TAPS], v: pl.Array[F, "n"], n: pl.int32
    ):
        for i in range(n):
            total: F = sum(w[k] * u[i + k] for k in range(TAPS))
            if total > 1:
                v[i] = total
            else:
                v[i] = LEAK * total

    return pl.split_iname(python_leaky_convolution, "i", 64, outer_tag="g.0", inner_tag="l.0")


def _softmax_case(n: int, rng: np.random.Generator) -> Case:
    x = rng.random((n, n), dtype=F)
    e = np.exp(x - x.max(1, keepdims=True))
    return {"x": x}, {"y": e / e.sum(1, keepdims=True)}


@example(_softmax_case)
def python_softmax_of_rows() -> pl.LoopKernel:
    @pl.kernel(assumptions="n >= 1")
    def python_softmax_of_rows(x: pl.Array[F, "n", "n"], y: pl.Array[F, "n", "n"], n: pl.int32):
        for i in range(n):
            top = max(x[i, j] for j in range(n))
            total = sum(math.exp(x[i, j] - top) for j in range(n))
            for j in range(n):
                y[i, j] = math.exp(x[i, j] - top) / total

    return pl.split_iname(python_softmax_of_rows, "i", 16, outer_tag="g.0", inner_tag="l.0")


def _red_black_case(n: int, rng: np.random.Generator) -> Case:
    u = rng.integers(-8, 9, n + 2).astype(F)
    new = u.copy()
    new[1:-1:2] = F(0.5) * (new[:-2:2] + new[2::2])[: len(new[1:-1:2])]
    new[2:-1:2] = F(0.5) * (new[1:-2:2][: len(new[2:-1:2])] + new[3::2][: len(new[2:-1:2])])
    return {"u": u}, {"u": new}


@example(_red_black_case, sizes=(1, 2, 9, 64))
def python_red_black_sweep() -> pl.LoopKernel:
    """Two loops with a step, in place, one after the other."""

    @pl.kernel
    def python_red_black_sweep(u: pl.Array[F, "n + 2"], n: pl.int32):
        for i in range(1, n + 1, 2):
            u[i] = 0.5 * (u[i - 1] + u[i + 1])
        for i in range(2, n + 1, 2):
            u[i] = 0.5 * (u[i - 1] + u[i + 1])

    return python_red_black_sweep


def _horner_case(n: int, rng: np.random.Generator) -> Case:
    c, x = rng.random(TAPS, dtype=F), rng.random(n, dtype=F)
    return {"c": c, "x": x}, {"y": (c[2] * x + c[1]) * x + c[0]}


@example(_horner_case, sizes=(1, 31, 33))
def python_horner() -> pl.LoopKernel:
    """A recurrence through a temporary, inside of a parallel loop."""

    @pl.kernel
    def python_horner(c: pl.Array[F, TAPS], x: pl.Array[F, "n"], y: pl.Array[F, "n"], n: pl.int32):
        for i in range(n):
            value: F = 0
            for k in range(TAPS):
                value = value * x[i] + c[TAPS - 1 - k]
            y[i] = value

    return pl.split_iname(python_horner, "i", 32, outer_tag="g.0", inner_tag="l.0")
