"""Matrix products."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from benchmarks.gpu.case import Arrays, Case, F, sampled, wide
from examples import matmul_large_tiles

__all__ = ["PRODUCTS"]


def _matrices(sizes: Mapping[str, int], rng: np.random.Generator) -> dict[str, Any]:
    m, n, p = (sizes[name] for name in "mnp")
    return {"a": rng.random((m, p), F) - F(0.5), "b": rng.random((p, n), F) - F(0.5)}


def _square(n: int) -> dict[str, int]:
    return dict.fromkeys("mnp", n)


def _expected_matmul(arrays: Arrays) -> dict[str, tuple[Any, np.ndarray[Any, Any]]]:
    at = sampled(len(arrays["a"]), 16)
    return {"c": (at, wide(arrays["a"][at]) @ wide(arrays["b"]))}


PRODUCTS: Final = (
    Case(
        "fp32 GEMM",
        matmul_large_tiles.transformed,
        (_square(2048), _square(4096), _square(8192), {"m": 4000, "n": 3000, "p": 5000}),
        {"m": 130, "n": 132, "p": 12},
        _matrices,
        _expected_matmul,
        lambda sizes: 4 * (sizes["m"] * sizes["p"] + sizes["p"] * sizes["n"] + sizes["m"] * sizes["n"]),
        lambda sizes: 2 * sizes["m"] * sizes["n"] * sizes["p"],
        rtol=1e-4,
    ),
)
