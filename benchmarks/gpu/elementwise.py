"""Kernels that touch each element once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from math import erf
from typing import Any, Final

import numpy as np

import polyloop as pl
from benchmarks.gpu.case import GIB, Arrays, Case, F, sampled, wide
from examples import axpy_vectors, bias_gelu

__all__ = ["ELEMENTWISE"]

def _vectors(*names: str) -> Callable[[Mapping[str, int], np.random.Generator], dict[str, Any]]:
    def make(sizes: Mapping[str, int], rng: np.random.Generator) -> dict[str, Any]:
        found: dict[str, Any] = {name: rng.random(sizes["n"], F) - F(0.5) for name in names}
        return found

    return make


def _copy() -> pl.LoopKernel:
    data = [pl.GlobalArg("x, y", F, shape="n"), ...]
    knl = pl.make_kernel("{[i]: 0 <= i < n}", "y[i] = x[i]", data, name="copy", assumptions="n >= 4 and n mod 4 = 0")
    return axpy_vectors.in_vectors(knl)


def _expected_copy(arrays: Arrays) -> dict[str, tuple[Any, np.ndarray[Any, Any]]]:
    at = sampled(len(arrays["x"]))
    return {"y": (at, wide(arrays["x"][at]))}


def _expected_axpy(arrays: Arrays) -> dict[str, tuple[Any, np.ndarray[Any, Any]]]:
    at = sampled(len(arrays["x"]))
    return {"z": (at, float(arrays["alpha"]) * wide(arrays["x"][at]) + wide(arrays["y"][at]))}


def _axpy_inputs(sizes: Mapping[str, int], rng: np.random.Generator) -> dict[str, Any]:
    return {**_vectors("x", "y")(sizes, rng), "alpha": F(1.25)}


def _gelu_inputs(sizes: Mapping[str, int], rng: np.random.Generator) -> dict[str, Any]:
    m, n = sizes["m"], sizes["n"]
    return {"x": rng.standard_normal((m, n), F), "b": rng.standard_normal(n, F)}


def _expected_gelu(arrays: Arrays) -> dict[str, tuple[Any, np.ndarray[Any, Any]]]:
    at = sampled(len(arrays["x"]), 8)
    t = wide(arrays["x"][at]) + arrays["b"]
    return {"y": (at, 0.5 * t * (1 + np.vectorize(erf)(t / np.sqrt(2))))}


ELEMENTWISE: Final = (
    Case(
        "copy",
        _copy,
        ({"n": GIB // 4},),
        {"n": 1000},
        _vectors("x"),
        _expected_copy,
        lambda sizes: 8 * sizes["n"],
    ),
    Case(
        "axpy",
        partial(axpy_vectors.transformed, 4),
        ({"n": GIB // 4},),
        {"n": 1000},
        _axpy_inputs,
        _expected_axpy,
        lambda sizes: 12 * sizes["n"],
    ),
    Case(
        "bias + GELU",
        bias_gelu.transformed,
        ({"m": 16384, "n": 16384},),
        {"m": 3, "n": 1028},
        _gelu_inputs,
        _expected_gelu,
        lambda sizes: 8 * sizes["m"] * sizes["n"],
    ),
)
