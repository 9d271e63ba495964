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
WORDS = (("c", "static inline"), ("cuda", "static __device__"), ("opencl", "static inline"))
MIXED = pl.ForeignFunction(
    "mixed",
    (U,),
    preamble={target: f"{words} {HASH}" for target, words in WORDS},
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
            for target, words in WORDS
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


def _copy_case(n: int, rng: np.random.Generator) -> Case:
    values = rng.random((n, n + 2), dtype=F)
    return {"input": values}, {"output": values}


@example(_copy_case, sizes=(1, 15, 33))
def transposed_layout() -> pl.LoopKernel:
    """A copy to columns; neighbouring threads write neighbouring elements."""
    knl = pl.add_dtypes(pl.make_copy_kernel("N0,N1"), {"input": F, "output": F})
    knl = pl.split_iname(knl, "i0", 16, outer_tag="g.1", inner_tag="l.0")
    return pl.split_iname(knl, "i1", 16, outer_tag="g.0", inner_tag="l.1")


def _volume_case(n: int, rng: np.random.Generator) -> Case:
    values = rng.random((2, n, 5), dtype=F)
    return {"input": np.asfortranarray(values)}, {"output": values}


@example(_volume_case, sizes=(1, 16, 31))
def padded_volume() -> pl.LoopKernel:
    """A copy from columns to rows that begin at multiples of 8 elements."""
    knl = pl.make_copy_kernel("N2,N1,N0(pad=8)", "F,F,F")
    knl = pl.add_dtypes(knl, {"input": F, "output": F})
    knl = pl.split_iname(knl, "i2", 16, outer_tag="g.0", inner_tag="l.0")
    return pl.tag_inames(knl, "i0:g.2, i1:g.1")


def _collected_case(n: int, rng: np.random.Generator) -> Case:
    x = rng.integers(-4, 5, n).astype(F)
    return {"x": x}, {"y0": x, "y1": x + 1, "y2": x + 4, "total": 3 * x + 5}


@example(_collected_case)
def collected_statements() -> pl.LoopKernel:
    """Instructions that a program put together, beside text."""
    powers = [pl.Assignment(f"y{k}[i]", f"x[i] + {k * k}", id=f"power{k}", tags="power") for k in range(3)]
    return pl.make_kernel(
        "{[i]: 0 <= i < n}",
        [
            *powers,
            pl.NoOpInstruction(id="powers", depends_on="power*"),
            "total[i] = y0[i] + y1[i] + y2[i] {dep=powers}",
        ],
        [pl.GlobalArg("x, y0, y1, y2, total", F, shape="n"), ...],
        name="collected_statements",
    )
