"""Kernels with foreign functions, and copies between layouts."""

from __future__ import annotations

from typing import Any

import numpy as np

import polyloop as pl
from tests.gallery.base import Case, example

F = np.float32
U = np.uint32

HASH = """unsigned int mixed(unsigned int key)
{
    key ^= key >> 16;
    key *= 0x7feb352du;
    key ^= key >> 15;
    key *= 0x846ca68bu;
    return key ^ key >> 16;
}"""
MIXED = pl.ForeignFunction(
    "mixed",
    (U,),
    preamble={target: f"{words} {HASH}" for target, words in (("c", "static inline"), ("cuda", "static __device__"))},
    reference=lambda key: U(_mixed(np.array([key]))[0]),
)


def _mixed(key: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    key = key ^ key >> U(16)
    key = key * U(0x7FEB352D)
    key = key ^ key >> U(15)
    key = key * U(0x846CA68B)
    mixed: np.ndarray[Any, Any] = key ^ key >> U(16)
    return mixed


def _noise_case(n: int, rng: np.random.Generator) -> Case:
    seed = U(rng.integers(2**32))
    bits = _mixed(np.arange(n, dtype=U) ^ seed)
    return {"n": n, "seed": seed}, {"noise": (bits >> U(8)).astype(F) / F(2**24)}


@example(_noise_case, sizes=(1, 31, 97))
def hashed_noise() -> pl.LoopKernel:
    """Random numbers by a hash of the index: the hash is the user's own C."""
    knl = pl.make_kernel(
        "{[i]: 0 <= i < n}",
        ["<> bits = mixed(cast(uint32, i) ^ seed)", "noise[i] = cast(float32, bits >> 8) / 16777216.0"],
        [pl.GlobalArg("noise", F, shape="n"), pl.ValueArg("seed", U), ...],
        name="hashed_noise",
        functions=[MIXED],
    )
    return pl.split_iname(knl, "i", 32, outer_tag="g.0", inner_tag="l.0")


def _limiter_case(n: int, rng: np.random.Generator) -> Case:
    u = rng.integers(-8, 9, (3, n + 2)).astype(F)
    left, right = u[:, 1:-1] - u[:, :-2], u[:, 2:] - u[:, 1:-1]
    slope = np.where(left * right > 0, np.sign(left) * np.minimum(np.abs(left), np.abs(right)), 0)
    return {"u": u}, {"slope": slope.astype(F), "steepest": np.abs(slope).max(1, initial=0).astype(F)}


MINMOD = [
    pl.ForeignFunction(
        "minmod",
        (dtype, dtype),
        c_name=f"minmod_{suffix}",
        preamble={
            target: f"""
                {words} {ctype} minmod_{suffix}({ctype} a, {ctype} b)
                {{
                    if (!(a * b > 0))
                        return 0;
                    return fabs(a) < fabs(b) ? a : b;
                }}
                """
            for target, words in (("c", "static inline"), ("cuda", "static __device__"))
        },
        reference=lambda a, b: (a if abs(a) < abs(b) else b) if a * b > 0 else 0,
    )
    for dtype, ctype, suffix in ((F, "float", "float"), (np.float64, "double", "double"))
]
"""A library: one function for two types."""


@example(_limiter_case, sizes=(1, 15, 40))
def slope_limiter() -> pl.LoopKernel:
    """Slopes by minmod, which has an overload for each type, in an assignment and inside of a reduction."""
    knl = pl.make_kernel(
        ["{[s, i]: 0 <= s < 3 and 0 <= i < n}", "{[j]: 0 <= j < n}"],
        """
        step(c, k) := u[c, k + 1] - u[c, k]
        slope[s, i] = minmod(step(s, i), step(s, i + 1))
        steepest[s] = max(max(j, fabs(minmod(step(s, j), step(s, j + 1)))), 0)
        """,
        [pl.GlobalArg("u", F, shape="3, n + 2"), pl.GlobalArg("slope", F, shape="3, n"), ...],
        name="slope_limiter",
        functions=[MINMOD],
    )
    knl = pl.split_iname(knl, "i", 16, outer_tag="g.0", inner_tag="l.0")
    return knl
