"""Kernels that read what lies beside: transpose, stencil."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

import polyloop as pl
from benchmarks.gpu.case import Arrays, Case, F, sampled, wide
from examples import stencil_3d_vectors

__all__ = ["NEIGHBOURS"]

def _transpose() -> pl.LoopKernel:
    knl = pl.make_kernel(
        "{[i, j]: 0 <= i, j < n}",
        "b[i, j] = a[j, i]",
        [pl.GlobalArg("a, b", F, shape="n, n"), ...],
        name="transpose",
        assumptions="n >= 4 and n mod 4 = 0",
    )
    knl = pl.split_iname(knl, "i", 64, outer_tag="g.1")
    knl = pl.split_iname(knl, "i_inner", 16, outer_tag="unr", inner_tag="l.1")
    knl = pl.split_iname(knl, "j", 64, outer_tag="g.0")
    knl = pl.split_iname(knl, "j_inner", 4, outer_tag="l.0", inner_tag="vec")
    tile = ["i_inner_outer", "i_inner_inner", "j_inner_outer", "j_inner_inner"]
    return pl.add_prefetch(knl, "a", tile, temporary_name="tile", vec=4, pad=1)


def _matrix(sizes: Mapping[str, int], rng: np.random.Generator) -> dict[str, Any]:
    return {"a": rng.random((sizes["n"], sizes["n"]), F)}


def _expected_transpose(arrays: Arrays) -> dict[str, tuple[Any, np.ndarray[Any, Any]]]:
    at = sampled(len(arrays["a"]), 32)
    return {"b": (at, wide(arrays["a"][:, at]).T)}


def _cube(sizes: Mapping[str, int], rng: np.random.Generator) -> dict[str, Any]:
    return stencil_3d_vectors.inputs(rng, sizes["m"], sizes["n"])


def _expected_stencil(arrays: Arrays) -> dict[str, tuple[Any, np.ndarray[Any, Any]]]:
    u = arrays["u"]
    planes = sorted({1, len(u) // 2, len(u) - 2})
    found = np.zeros((len(planes), *u.shape[1:]))
    for row, i in enumerate(planes):
        below, here, above = (wide(u[k]) for k in (i - 1, i, i + 1))
        found[row] = here
        found[row, 1:-1, 1:-1] = (
            below[1:-1, 1:-1] + above[1:-1, 1:-1] + here[:-2, 1:-1] + here[2:, 1:-1] + here[1:-1, :-2]
            + here[1:-1, 2:] - 6 * here[1:-1, 1:-1]
        )  # fmt: skip
    return {"v": (planes, found)}


NEIGHBOURS: Final = (
    Case(
        "transpose",
        _transpose,
        ({"n": 16384},),
        {"n": 68},
        _matrix,
        _expected_transpose,
        lambda sizes: 8 * sizes["n"] ** 2,
    ),
    Case(
        "stencil",
        stencil_3d_vectors.transformed,
        ({"m": 512, "n": 512},),
        {"m": 5, "n": 12},
        _cube,
        _expected_stencil,
        lambda sizes: 8 * sizes["m"] * sizes["n"] ** 2,
        rtol=1e-4,
        min_blocks=6,
    ),
)
