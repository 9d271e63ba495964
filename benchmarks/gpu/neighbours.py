"""Kernels that read what lies beside: transpose, stencil."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from benchmarks.gpu.case import Arrays, Case, F, sampled, wide
from examples import stencil_3d_vectors, transpose_vectors

__all__ = ["NEIGHBOURS"]

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
        transpose_vectors.transformed,
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
        min_blocks=8,
        full_blocks=False,
    ),
)
