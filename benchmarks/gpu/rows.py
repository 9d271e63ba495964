"""Kernels along rows: sums of short, middling and long ones, and prefix sums."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np

import polyloop as pl
from benchmarks.gpu.case import Arrays, Case, F, sampled, wide
from examples import prefix_sum

__all__ = ["ROWS"]

_ELEMENTS: Final = 2**28


def _sums(columns: int) -> pl.LoopKernel:
    return pl.make_kernel(
        f"{{[i, j]: 0 <= i < m and 0 <= j < {columns}}}",
        "y[i] = sum(j, a[i, j])",
        [pl.GlobalArg("a", F, shape=f"m, {columns}"), pl.GlobalArg("y", F, shape="m"), ...],
        name=f"sums_of_{columns}",
        assumptions="m >= 1",
    )


def _short_rows(columns: int) -> pl.LoopKernel:
    """Return sums by a few threads a row, one vector each, and four rows at a time."""
    knl = pl.split_iname(_sums(columns), "j", 4, outer_tag="l.0", inner_tag="vec")
    knl = pl.split_iname(knl, "i", 1024 // (columns // 4), outer_tag="g.0")
    return pl.split_iname(knl, "i_inner", 256 // (columns // 4), inner_tag="l.1", outer_tag="ilp")


def _middling_rows(columns: int) -> pl.LoopKernel:
    """Return sums by a warp a row, all of its vectors in flight."""
    knl = pl.split_iname(_sums(columns), "j", 128, outer_tag="ilp")
    knl = pl.split_iname(knl, "j_inner", 4, outer_tag="l.0", inner_tag="vec")
    return pl.split_iname(knl, "i", 8, outer_tag="g.0", inner_tag="l.1")


def _long_rows(columns: int) -> pl.LoopKernel:
    """Return sums by a block of 256 threads a row, with 16 vectors of each thread in flight."""
    knl = pl.tag_inames(_sums(columns), "i:g.0")
    knl = pl.split_iname(knl, "j", 16384)
    knl = pl.split_iname(knl, "j_inner", 1024, outer_tag="ilp")
    return pl.split_iname(knl, "j_inner_inner", 4, outer_tag="l.0", inner_tag="vec")


def _rows(columns: int) -> Callable[[Mapping[str, int], np.random.Generator], dict[str, Any]]:
    return lambda sizes, rng: {"a": rng.random((sizes["m"], columns), F)}


def _expected_sums(arrays: Arrays) -> dict[str, tuple[Any, np.ndarray[Any, Any]]]:
    at = sampled(len(arrays["a"]), 256)
    return {"y": (at, wide(arrays["a"][at]).sum(1))}


def _sums_case(columns: int, recipe: Callable[[int], pl.LoopKernel]) -> Case:
    return Case(
        f"row sums of {columns}",
        lambda: recipe(columns),
        ({"m": _ELEMENTS // columns},),
        {"m": 9},
        _rows(columns),
        _expected_sums,
        lambda sizes: 4 * sizes["m"] * (columns + 1),
    )


def _expected_scan(arrays: Arrays) -> dict[str, tuple[Any, np.ndarray[Any, Any]]]:
    sums = np.cumsum(wide(arrays["a"]))
    at = sampled(len(sums))
    return {"b": (at, sums[at])}


ROWS: Final = (
    _sums_case(32, _short_rows),
    _sums_case(1024, _middling_rows),
    _sums_case(16384, _long_rows),
    Case(
        "prefix sum",
        prefix_sum.transformed,
        ({"n": _ELEMENTS},),
        {"n": 2051},
        lambda sizes, rng: {"a": rng.integers(-9, 9, sizes["n"]).astype(F)},
        _expected_scan,
        lambda sizes: 8 * sizes["n"],
    ),
)
