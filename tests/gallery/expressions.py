"""What an expression can say: integers as in Python, bits, conditions, casts, powers, literals, functions."""

from __future__ import annotations

import math

import numpy as np

import polyloop as pl
from tests.gallery.base import Case, example, on_threads

F = np.float32
D = np.float64


def _divisions_case(n: int, rng: np.random.Generator) -> Case:
    a = rng.integers(-50, 50, n, dtype=np.int32)
    b = rng.integers(1, 9, n, dtype=np.int32) * rng.choice([-1, 1], n).astype(np.int32)
    return {"a": a, "b": b}, {"q": a // b, "r": a % b, "wrapped": (a - 3) % 7}


@example(_divisions_case, sizes=(1, 32, 70))
def floor_divisions() -> pl.LoopKernel:
    """Rounded down, as in Python, whatever the signs."""
    knl = pl.make_kernel(
        "{[i]: 0 <= i < n}",
        """
        q[i] = a[i] // b[i]
        r[i] = a[i] % b[i]
        wrapped[i] = (a[i] - 3) % 7
        """,
        [pl.GlobalArg("a, b", np.int32, shape="n"), ...],
        name="floor_divisions",
    )
    return on_threads(knl)


def _hash_case(n: int, rng: np.random.Generator) -> Case:
    x = rng.integers(0, 2**32, n, dtype=np.uint32)
    h = x.astype(np.uint64)
    h = (h ^ (h >> np.uint64(16))) * np.uint64(0x45D9F3B) & np.uint64(0xFFFFFFFF)
    h = (h ^ (h >> np.uint64(16))) & np.uint64(0xFFFFFFFF)
    folded = ((h << np.uint64(8)) & np.uint64(0xFFFFFFFF)) | (h & np.uint64(255))
    ones = np.array([int(v).bit_count() for v in x], np.uint32)
    return {"x": x}, {"y": folded.astype(np.uint32), "ones": ones}


@example(_hash_case, sizes=(1, 32, 70))
def integer_hash() -> pl.LoopKernel:
    """Shifts and bits of 32-bit words, which wrap around."""
    knl = pl.make_kernel(
        "{[i]: 0 <= i < n}",
        """
        <> h = (x[i] ^ (x[i] >> 16))*0x45d9f3bu
        <> g = h ^ (h >> 16)
        y[i] = (g << 8) | (g & 255)
        ones[i] = popcount(x[i])
        """,
        [pl.GlobalArg("x, y, ones", np.uint32, shape="n"), ...],
        name="integer_hash",
    )
    return on_threads(knl)


def _gcds_case(n: int, rng: np.random.Generator) -> Case:
    a, b = rng.integers(-99, 99, (2, n)).astype(np.int32)
    zeros = np.array([32 - int(v).bit_length() if v >= 0 else 0 for v in a], np.int32)
    return {"a": a, "b": b}, {"g": np.gcd(a, b), "zeros": zeros, "size": np.maximum(np.abs(a), np.abs(b))}


@example(_gcds_case, sizes=(1, 32, 70))
def greatest_common_divisors() -> pl.LoopKernel:
    knl = pl.make_kernel(
        "{[i]: 0 <= i < n}",
        """
        g[i] = gcd(a[i], b[i])
        zeros[i] = clz(a[i])
        size[i] = max(abs(a[i]), abs(b[i]))
        """,
        [pl.GlobalArg("a, b, g, zeros, size", np.int32, shape="n"), ...],
        name="greatest_common_divisors",
    )
    return on_threads(knl)


def _powers_case(n: int, rng: np.random.Generator) -> Case:
    x = rng.uniform(0.5, 2, n).astype(F)
    return {"x": x}, {"y": x**3 - F(2) * x**2 + F(1) / x**2 + np.sqrt(x), "whole": np.trunc(x * 10).astype(np.int32)}


@example(_powers_case, sizes=(1, 32, 70))
def powers_casts_and_suffixes() -> pl.LoopKernel:
    """Powers with integer exponents are products; literals take the type of what they meet."""
    knl = pl.make_kernel(
        "{[i]: 0 <= i < n}",
        """
        y[i] = x[i]**3 - 2*x[i]**2 + 1.0f*x[i]**(-2) + x[i]**0.5
        whole[i] = cast(int32, 10*x[i])
        """,
        [pl.GlobalArg("x, y", F, shape="n"), pl.GlobalArg("whole", np.int32, shape="n"), ...],
        name="powers_casts_and_suffixes",
    )
    return on_threads(knl)


def _long_sum_case(n: int, rng: np.random.Generator) -> Case:
    a = rng.integers(-5, 5, (n, 500), dtype=np.int32)
    return {"a": a}, {"s": (a * (np.arange(500, dtype=np.int32) % 3)).sum(1, dtype=np.int32)}


@example(_long_sum_case, sizes=(1, 32, 33))
def a_sum_of_500_terms() -> pl.LoopKernel:
    text = " + ".join(f"{k % 3}*a[i, {k}]" for k in range(500))
    data = [pl.GlobalArg("a", np.int32, shape="n, 500"), ...]
    return on_threads(pl.make_kernel("{[i]: 0 <= i < n}", f"s[i] = {text}", data, name="a_sum_of_500_terms"))


def _special_case(n: int, rng: np.random.Generator) -> Case:
    x = rng.uniform(0.2, 3, n)
    y = [
        math.erf(v) + math.gamma(v) + math.lgamma(v) + math.log1p(v) + math.expm1(-v) + math.hypot(v, 2)
        + math.exp2(v) + math.copysign(v, -1) + v * v + 1
        for v in x
    ]  # fmt: skip
    return {"x": x}, {"y": np.array(y), "is_large": x > 2, "root": 1 / np.sqrt(x)}


@example(_special_case, sizes=(1, 32, 70), rtol=1e-12)
def special_functions() -> pl.LoopKernel:
    knl = pl.make_kernel(
        "{[i]: 0 <= i < n}",
        """
        y[i] = erf(x[i]) + tgamma(x[i]) + lgamma(x[i]) + log1p(x[i]) + expm1(-x[i]) + hypot(x[i], 2) + exp2(x[i]) \
            + copysign(x[i], -1) + fma(x[i], x[i], 1)
        is_large[i] = x[i] > 2 and not isnan(x[i]) and isfinite(x[i])
        root[i] = rsqrt(x[i])
        """,
        [pl.GlobalArg("x, y, root", D, shape="n"), pl.GlobalArg("is_large", np.bool_, shape="n"), ...],
        name="special_functions",
    )
    return on_threads(knl)
