"""Element types: complex, half, small and large integers, bool."""

from __future__ import annotations

from typing import Any

import numpy as np

import polyloop as pl
from tests.gallery.base import Case, example, on_threads

F = np.float32


def _complexes(n: int, rng: np.random.Generator) -> np.ndarray[Any, np.dtype[np.complex64]]:
    return (rng.standard_normal(n) + 1j * rng.standard_normal(n)).astype(np.complex64)


def _butterfly_case(n: int, rng: np.random.Generator) -> Case:
    a, b = _complexes(n, rng), _complexes(n, rng)
    w = np.exp(-2j * np.pi * np.arange(n) / (2 * n)).astype(np.complex64)
    return {"a": a, "b": b, "w": w}, {"top": a + w * b, "bottom": a - w * b}


@example(_butterfly_case, sizes=(1, 32, 70), rtol=1e-4)
def butterflies() -> pl.LoopKernel:
    """One stage of a fast Fourier transform."""
    knl = pl.make_kernel(
        "{[i]: 0 <= i < n}",
        """
        <> turned = w[i]*b[i]
        top[i] = a[i] + turned
        bottom[i] = a[i] - turned
        """,
        [pl.GlobalArg("a, b, w", np.complex64, shape="n"), ...],
        name="butterflies",
    )
    return on_threads(knl)


def _parts_case(n: int, rng: np.random.Generator) -> Case:
    z = (rng.standard_normal(n) + 1j * rng.standard_normal(n)).astype(np.complex128)
    w = np.exp(1j * z.real) * np.conj(z) / (2 + z * z)
    return {"z": z}, {"w": w, "size": np.abs(z), "angle": np.angle(z)}


@example(_parts_case, sizes=(1, 32, 70), rtol=1e-10)
def complex_functions() -> pl.LoopKernel:
    knl = pl.make_kernel(
        "{[i]: 0 <= i < n}",
        """
        w[i] = exp(1j*real(z[i]))*conj(z[i])/(2 + z[i]*z[i])
        size[i] = abs(z[i])
        angle[i] = atan2(imag(z[i]), real(z[i]))
        """,
        [pl.GlobalArg("z", np.complex128, shape="n"), ...],
        name="complex_functions",
    )
    return on_threads(knl)


def _half_case(n: int, rng: np.random.Generator) -> Case:
    x, y = rng.random((2, n)).astype(np.float16)
    return {"x": x, "y": y.copy()}, {"y": (F(1.5) * x.astype(F) + y.astype(F)).astype(np.float16)}


@example(_half_case, sizes=(1, 32, 70), rtol=2e-3)
def half_axpy() -> pl.LoopKernel:
    knl = pl.make_kernel(
        "{[i]: 0 <= i < n}",
        "y[i] = 1.5*x[i] + y[i]",
        [pl.GlobalArg("x, y", np.float16, shape="n"), ...],
        name="half_axpy",
    )
    return on_threads(knl)


def _saturating_case(n: int, rng: np.random.Generator) -> Case:
    a, b = rng.integers(0, 256, (2, n)).astype(np.uint8)
    total = a.astype(np.int32) + b
    return {"a": a, "b": b}, {"c": np.minimum(total, 255).astype(np.uint8), "over": total > 255}


@example(_saturating_case, sizes=(1, 32, 70))
def saturating_bytes() -> pl.LoopKernel:
    knl = pl.make_kernel(
        "{[i]: 0 <= i < n}",
        """
        <> total = cast(int32, a[i]) + cast(int32, b[i])
        over[i] = total > 255
        c[i] = cast(uint8, min(total, 255))
        """,
        [pl.GlobalArg("a, b, c", np.uint8, shape="n"), pl.GlobalArg("over", np.bool_, shape="n"), ...],
        name="saturating_bytes",
    )
    return on_threads(knl)


def _random_case(n: int, rng: np.random.Generator) -> Case:
    state = rng.integers(0, 2**63, n, dtype=np.uint64)
    with np.errstate(over="ignore"):
        new = state * np.uint64(6364136223846793005) + np.uint64(1442695040888963407)
    return {"state": state.copy()}, {"state": new, "x": (new >> np.uint64(40)).astype(F) * F(2**-24)}


@example(_random_case, sizes=(1, 32, 70))
def random_numbers_by_congruence() -> pl.LoopKernel:
    """64-bit integers that wrap around."""
    knl = pl.make_kernel(
        "{[i]: 0 <= i < n}",
        """
        state[i] = 6364136223846793005*state[i] + 1442695040888963407 {id=step}
        x[i] = cast(float32, state[i] >> 40)*5.9604644775390625e-08 {dep=step}
        """,
        [pl.GlobalArg("state", np.uint64, shape="n"), pl.GlobalArg("x", F, shape="n"), ...],
        name="random_numbers_by_congruence",
    )
    return on_threads(knl)
