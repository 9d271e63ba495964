"""Kernels that touch each element once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import erf
from typing import Any, Final

import numpy as np

import polyloop as pl
from benchmarks.gpu.case import GIB, Arrays, Case, F, sampled, wide

__all__ = ["ELEMENTWISE"]

def _vectors(*names: str) -> Callable[[Mapping[str, int], np.random.Generator], dict[str, Any]]:
    def make(sizes: Mapping[str, int], rng: np.random.Generator) -> dict[str, Any]:
        found: dict[str, Any] = {name: rng.random(sizes["n"], F) - F(0.5) for name in names}
        return found

    return make


def _elementwise(name: str, text: str, arrays: str, *numbers: str) -> Callable[[], pl.LoopKernel]:
    def build() -> pl.LoopKernel:
        data = [pl.GlobalArg(arrays, F, shape="n"), *(pl.ValueArg(number, F) for number in numbers), ...]
        knl = pl.make_kernel("{[i]: 0 <= i < n}", text, data, name=name, assumptions="n >= 4 and n mod 4 = 0")
        knl = pl.split_iname(knl, "i", 1024, outer_tag="g.0")
        return pl.split_iname(knl, "i_inner", 4, outer_tag="l.0", inner_tag="vec")

    return build


def _expected_copy(arrays: Arrays) -> dict[str, tuple[Any, np.ndarray[Any, Any]]]:
    at = sampled(len(arrays["x"]))
    return {"y": (at, wide(arrays["x"][at]))}


def _expected_axpy(arrays: Arrays) -> dict[str, tuple[Any, np.ndarray[Any, Any]]]:
    at = sampled(len(arrays["x"]))
    return {"z": (at, float(arrays["alpha"]) * wide(arrays["x"][at]) + wide(arrays["y"][at]))}


def _axpy_inputs(sizes: Mapping[str, int], rng: np.random.Generator) -> dict[str, Any]:
    return {**_vectors("x", "y")(sizes, rng), "alpha": F(1.25)}


def _gelu() -> pl.LoopKernel:
    knl = pl.make_kernel(
        "{[i, j]: 0 <= i < m and 0 <= j < n}",
        """
        gelu(s) := 0.5*s*(1 + erf(0.7071067811865476*s))
        <> t = x[i, j] + b[j]
        y[i, j] = gelu(t)
        """,
        [pl.GlobalArg("x, y", F, shape="m, n"), pl.GlobalArg("b", F, shape="n"), ...],
        name="bias_gelu",
        assumptions="m >= 1 and n >= 4 and n mod 4 = 0",
    )
    knl = pl.split_iname(knl, "j", 1024, outer_tag="g.0")
    knl = pl.split_iname(knl, "j_inner", 4, outer_tag="l.0", inner_tag="vec")
    return pl.tag_inames(knl, "i:g.1")


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
        _elementwise("copy", "y[i] = x[i]", "x, y"),
        ({"n": GIB // 4},),
        {"n": 1000},
        _vectors("x"),
        _expected_copy,
        lambda sizes: 8 * sizes["n"],
    ),
    Case(
        "axpy",
        _elementwise("axpy", "z[i] = alpha*x[i] + y[i]", "x, y, z", "alpha"),
        ({"n": GIB // 4},),
        {"n": 1000},
        _axpy_inputs,
        _expected_axpy,
        lambda sizes: 12 * sizes["n"],
    ),
    Case(
        "bias + GELU",
        _gelu,
        ({"m": 16384, "n": 16384},),
        {"m": 3, "n": 1028},
        _gelu_inputs,
        _expected_gelu,
        lambda sizes: 8 * sizes["m"] * sizes["n"],
    ),
)
