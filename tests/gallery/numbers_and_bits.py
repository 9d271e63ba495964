"""Kernels over other types than float: complex numbers, 16-bit floating-point numbers, bits, mixed integers."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np

import polyloop as pl
from tests.gallery.base import Case, example

BF16 = ml_dtypes.bfloat16


def _fourier_case(n: int, rng: np.random.Generator) -> Case:
    x = (rng.uniform(-1, 1, n) + 1j * rng.uniform(-1, 1, n)).astype(np.complex128)
    return {"x": x, "pi": math.pi}, {"X": np.fft.fft(x)}


@example(_fourier_case, sizes=(1, 7, 32))
def fourier_transform() -> pl.LoopKernel:
    """The discrete Fourier transform as it is defined."""
    knl = pl.make_kernel(
        "{[k, j]: 0 <= k, j < n}",
        "X[k] = sum(j, x[j]*exp(-2j*pi*((j*k) % n)/n))",
        [pl.GlobalArg("x, X", np.complex128, shape="n"), pl.ValueArg("n", np.int32), pl.ValueArg("pi", np.float64)],
        name="fourier_transform",
        assumptions="n >= 1",
    )
    return pl.split_iname(knl, "k", 8, outer_tag="g.0", inner_tag="l.0")


def _mandelbrot_case(n: int, rng: np.random.Generator) -> Case:
    del rng
    x, y = np.meshgrid(np.linspace(-2, 0.5, n), np.linspace(-1.25, 1.25, n))
    c = (x + 1j * y).astype(np.complex64)
    z, count = np.zeros_like(c), np.zeros((n, n), np.int32)
    for _ in range(12):
        z = np.where(np.abs(z) <= 2, z * z + c, z)
        count += np.abs(z) <= 2
    return {"c": c}, {"count": count}


@example(_mandelbrot_case, sizes=(1, 9, 21))
def mandelbrot() -> pl.LoopKernel:
    """How many of 12 steps stay within the circle."""
    knl = pl.make_kernel(
        "{[i, j, t]: 0 <= i, j < n and 0 <= t < 12}",
        """
        for i, j
            <complex64> z = 0 {id=z0}
            <int32> steps = 0 {id=s0}
            for t
                z = if(real(z)**2 + imag(z)**2 <= 4, z**2 + c[i, j], z) {id=z1, dep=z0}
                steps = steps + (real(z)**2 + imag(z)**2 <= 4) {id=s1, dep=z1:s0}
            end
            count[i, j] = steps {dep=s1}
        end
        """,
        [pl.GlobalArg("c", np.complex64, shape="n, n"), pl.GlobalArg("count", np.int32, shape="n, n"), ...],
        name="mandelbrot",
    )
    knl = pl.split_iname(knl, "i", 8, outer_tag="g.1", inner_tag="l.1")
    return pl.split_iname(knl, "j", 8, outer_tag="g.0", inner_tag="l.0")


def _matmul_case(n: int, rng: np.random.Generator) -> Case:
    a, b = rng.uniform(-1, 1, (n, n)).astype(BF16), rng.uniform(-1, 1, (n, n)).astype(BF16)
    return {"a": a, "b": b}, {"c": a.astype(np.float32) @ b.astype(np.float32)}


@example(_matmul_case, sizes=(1, 17, 32), rtol=1e-4)
def matmul_of_bfloat16() -> pl.LoopKernel:
    """Tiles of 16-bit numbers in shared memory, sums in single precision."""
    knl = pl.make_kernel(
        "{[i, j, k]: 0 <= i, j, k < n}",
        "c[i, j] = sum(k, a[i, k]*b[k, j])",
        [pl.GlobalArg("a, b", "bfloat16", shape="n, n"), pl.GlobalArg("c", np.float32, shape="n, n"), ...],
        name="matmul_of_bfloat16",
        assumptions="n >= 1",
    )
    knl = pl.split_iname(knl, "i", 16, outer_tag="g.1", inner_tag="l.1")
    knl = pl.split_iname(knl, "j", 16, outer_tag="g.0", inner_tag="l.0")
    knl = pl.split_iname(knl, "k", 16)
    knl = pl.add_prefetch(knl, "a", ["i_inner", "k_inner"])
    return pl.add_prefetch(knl, "b", ["k_inner", "j_inner"])


def _softmax_case(n: int, rng: np.random.Generator) -> Case:
    x = rng.uniform(-4, 4, (n, n)).astype(np.float16)
    wide = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
    return {"x": x}, {"y": (wide / wide.sum(1, keepdims=True)).astype(np.float16)}


@example(_softmax_case, sizes=(1, 7, 33), rtol=2e-3)
def softmax_of_half() -> pl.LoopKernel:
    """Each row of float16 is read, summed in float32, and rounded once."""
    knl = pl.make_kernel(
        "{[i, j, k, l]: 0 <= i, j, k, l < n}",
        """
        for i
            <> top = max(j, x[i, j]) {id=top}
            <float32> total = sum(k, exp(x[i, k] - top)) {id=total, dep=top}
            y[i, l] = exp(x[i, l] - top)/total {dep=top:total}
        end
        """,
        [pl.GlobalArg("x, y", np.float16, shape="n, n"), ...],
        name="softmax_of_half",
        assumptions="n >= 1",
        precision="fast",
    )
    return pl.split_iname(knl, "i", 16, outer_tag="g.0", inner_tag="l.0")


def _hash_case(n: int, rng: np.random.Generator) -> Case:
    key = rng.integers(0, 2**32, n, dtype=np.uint32)
    with np.errstate(over="ignore"):
        h = key ^ (key >> 16)
        h = h * np.uint32(0x85EBCA6B)
        h ^= h >> 13
        h = h * np.uint32(0xC2B2AE35)
        h ^= h >> 16
    ones = np.array([int(x).bit_count() for x in h], np.int32)
    zeros = np.array([32 - int(x).bit_length() for x in h], np.int32)
    return {"key": key}, {"h": h, "ones": ones, "zeros": zeros, "bucket": (h % 97).astype(np.int8)}


@example(_hash_case, sizes=(1, 31, 64))
def hash_of_integers() -> pl.LoopKernel:
    """The finalizer of MurmurHash3: unsigned arithmetic that wraps, shifts, and counts of bits."""
    knl = pl.make_kernel(
        "{[i]: 0 <= i < n}",
        """
        for i
            <> a = key[i] ^ (key[i] >> 16) {id=a}
            <> b = a*0x85ebca6b {id=b, dep=a}
            <> c = b ^ (b >> 13) {id=c, dep=b}
            <> d = c*0xc2b2ae35 {id=d, dep=c}
            <> e = d ^ (d >> 16) {id=e, dep=d}
            h[i] = e {dep=e}
            ones[i] = popcount(e) {dep=e}
            zeros[i] = clz(e) {dep=e}
            bucket[i] = e % 97u {dep=e}
        end
        """,
        [
            pl.GlobalArg("key", np.uint32, shape="n"),
            pl.GlobalArg("h, ones, zeros", shape="n"),
            pl.GlobalArg("bucket", np.int8, shape="n"),
            ...,
        ],
        name="hash_of_integers",
    )
    return pl.split_iname(knl, "i", 32, outer_tag="g.0", inner_tag="l.0")


def _lattice_case(n: int, rng: np.random.Generator) -> Case:
    del rng
    h = np.float32(0.125)
    x, y = (np.arange(n, dtype=np.float32) + np.float32(0.5)) * h, np.arange(n, dtype=np.uint8)
    expected = np.hypot(x[:, None] - y[None, :], np.float32(1)) + (np.arange(n)[:, None] % 3 == 1)
    return {"h": h, "y": y}, {"f": expected.astype(np.float32)}


@example(_lattice_case)
def function_on_a_lattice() -> pl.LoopKernel:
    """Inames, float32 and uint8 in one expression: nothing becomes double, nothing wraps."""
    knl = pl.make_kernel(
        "{[i, j]: 0 <= i, j < n}",
        "f[i, j] = hypot((i + 0.5)*h - y[j], 1) + (i % 3 == 1)",
        [
            pl.ValueArg("h", np.float32),
            pl.GlobalArg("y", np.uint8, shape="n"),
            pl.GlobalArg("f", np.float32, shape="n, n"),
            ...,
        ],
        name="function_on_a_lattice",
    )
    knl = pl.split_iname(knl, "i", 8, outer_tag="g.1", inner_tag="l.1")
    return pl.split_iname(knl, "j", 8, outer_tag="g.0", inner_tag="l.0")
