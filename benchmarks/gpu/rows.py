"""Kernels along rows: sums of short, middling and long ones, and prefix sums."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np

import polyloop as pl
from benchmarks.gpu.case import Arrays, Case, F, sampled, wide
from examples import layer_norm_registers, prefix_sum, prefix_sum_single_pass, row_sums, softmax, softmax_halves

__all__ = ["ROWS"]

_ELEMENTS: Final = 2**28
_WIDEST: Final = 65536
_WIDTHS: Final = (1024, 4096, 16384, _WIDEST)


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


def _softmax(columns: int) -> pl.LoopKernel:
    if columns == _WIDEST:
        return softmax_halves.transformed(_WIDEST, 1024)
    return softmax.transformed(columns, *{1024: (128, 1), 4096: (256, 2), 16384: (1024, 1)}[columns])


def _layer_norm(columns: int) -> pl.LoopKernel:
    if columns == _WIDEST:
        return _wide_norm()
    return layer_norm_registers.transformed(columns, *{1024: (128, 1), 4096: (256, 2), 16384: (512, 1)}[columns])


def _wide_norm() -> pl.LoopKernel:
    """Return layer norm of rows of 65536, more than the registers of a block hold: half of it lies in shared memory."""
    half = _WIDEST // 2
    knl = pl.make_kernel(
        f"{{[i, k]: 0 <= i < m and 0 <= k < {half}}}",
        f"""
        for i
            <> low[k] = x[i, k]
            <> high[k] = x[i, k + {half}]
            <> mean = sum(k, low[k] + high[k])/{_WIDEST}
            <> scale = rsqrt(sum(k, (low[k] - mean)**2 + (high[k] - mean)**2)/{_WIDEST} + 1e-5)
            y[i, k] = (low[k] - mean)*scale*gamma[k] + beta[k]
            y[i, k + {half}] = (high[k] - mean)*scale*gamma[k + {half}] + beta[k + {half}]
        end
        """,
        [pl.GlobalArg("x, y", F, shape=f"m, {_WIDEST}"), pl.GlobalArg("gamma, beta", F, shape=_WIDEST), ...],
        name=f"layer_norm_{_WIDEST}",
        assumptions="m >= 1",
    )
    knl = layer_norm_registers.in_registers(knl, 1024, "low", "high")
    return pl.set_temporary_address_space(knl, "high", "local")


def _expected_softmax(arrays: Arrays) -> dict[str, tuple[Any, np.ndarray[Any, Any]]]:
    at = sampled(len(arrays["x"]), 64)
    powers = np.exp(wide(arrays["x"][at]) - arrays["x"][at].max(1, keepdims=True))
    return {"y": (at, powers / powers.sum(1, keepdims=True))}


def _expected_norm(arrays: Arrays) -> dict[str, tuple[Any, np.ndarray[Any, Any]]]:
    at = sampled(len(arrays["x"]), 64)
    x = wide(arrays["x"][at])
    away = x - x.mean(1, keepdims=True)
    return {"y": (at, away / np.sqrt((away**2).mean(1, keepdims=True) + 1e-5) * arrays["gamma"] + arrays["beta"])}


def _normal_rows(columns: int, *more: str) -> Callable[[Mapping[str, int], np.random.Generator], dict[str, Any]]:
    def make(sizes: Mapping[str, int], rng: np.random.Generator) -> dict[str, Any]:
        found = {"x": rng.standard_normal((sizes["m"], columns), F)}
        return found | {name: rng.random(columns, F) for name in more}

    return make


def _normalized(columns: int) -> tuple[Case, Case]:
    sizes = ({"m": _ELEMENTS // columns},)
    powers = Case(
        f"softmax of {columns}",
        lambda: _softmax(columns),
        sizes,
        {"m": 3},
        _normal_rows(columns),
        _expected_softmax,
        lambda sizes: 8 * sizes["m"] * columns,
        min_blocks=2 if columns == 4096 else 0,
    )
    norm = Case(
        f"layer norm of {columns}",
        lambda: _layer_norm(columns),
        sizes,
        {"m": 3},
        _normal_rows(columns, "gamma", "beta"),
        _expected_norm,
        lambda sizes: 8 * sizes["m"] * columns,
        min_blocks=2 if columns in (4096, 16384) else 0,
    )
    return powers, norm


def _expected_scan(arrays: Arrays) -> dict[str, tuple[Any, np.ndarray[Any, Any]]]:
    sums = np.cumsum(wide(arrays["a"]))
    at = sampled(len(sums))
    return {"b": (at, sums[at])}


ROWS: Final = (
    _sums_case(32, _short_rows),
    _sums_case(1024, lambda columns: row_sums.transformed(columns, 32, 8)),
    _sums_case(16384, row_sums.transformed),
    *(case for columns in _WIDTHS for case in _normalized(columns)),
    Case(
        "prefix sum",
        prefix_sum.transformed,
        ({"n": _ELEMENTS},),
        {"n": 2051},
        lambda sizes, rng: {"a": rng.integers(-9, 9, sizes["n"]).astype(F)},
        _expected_scan,
        lambda sizes: 8 * sizes["n"],
    ),
    Case(
        "prefix sum, one pass",
        lambda: prefix_sum_single_pass.transformed(warps=8, rounds=24),
        ({"n": _ELEMENTS},),
        {"n": 24579},
        lambda sizes, rng: {"a": rng.integers(-9, 9, sizes["n"]).astype(F)},
        _expected_scan,
        lambda sizes: 8 * sizes["n"],
        min_blocks=2,
    ),
)
