"""Matrix products in other types than single precision."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from benchmarks.gpu.case import Arrays, Case, sampled
from examples import matmul_float64

__all__ = ["PRECISIONS"]


def _work(sizes: Mapping[str, int]) -> int:
    return 2 * sizes["m"] * sizes["n"] * sizes["p"]


def _elements(sizes: Mapping[str, int]) -> int:
    return sizes["m"] * sizes["p"] + sizes["p"] * sizes["n"] + sizes["m"] * sizes["n"]


def _doubles(sizes: Mapping[str, int], rng: np.random.Generator) -> dict[str, Any]:
    m, n, p = (sizes[name] for name in "mnp")
    return {"a": rng.random((m, p)) - 0.5, "b": rng.random((p, n)) - 0.5}


def _expected(arrays: Arrays) -> dict[str, tuple[Any, np.ndarray[Any, Any]]]:
    at = sampled(len(arrays["a"]), 16)
    return {"c": (at, arrays["a"][at].astype(np.float64) @ arrays["b"].astype(np.float64))}


PRECISIONS: Final = (
    Case(
        "fp64 GEMM",
        matmul_float64.transformed,
        ({"m": 4096, "n": 4096, "p": 4096},),
        {"m": 130, "n": 132, "p": 12},
        _doubles,
        _expected,
        lambda sizes: 8 * _elements(sizes),
        _work,
        unit="float64",
        rtol=1e-13,
    ),
)
