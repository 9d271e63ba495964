"""What Triton does of the cases, each in a few configurations of which the fastest counts."""
# ruff: noqa: ANN401  # Triton has no types

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

__all__ = ["TRITON"]

_ROWS: Final = {1024: ((1024, 4),), 4096: ((4096, 8), (4096, 16)), 16384: ((16384, 16), (16384, 32))}
"""Columns -> configurations: columns again, and warps of a block."""
_PIECES: Final = ((4096, 8), (8192, 16), (16384, 32))
"""For longer rows: elements of a piece, and warps of a block."""

_HALF: Final = ((128, 256, 64, 8, 3), (128, 128, 64, 8, 4))

Arrays = Mapping[str, Any]
Variants = Sequence[Callable[[], object]]


def _blocks(count: int, size: int) -> int:
    return -(-count // size)


def _copy(kernels: Any, arrays: Arrays) -> Variants:
    x, y, n = arrays["x"], arrays["y"], arrays["x"].numel()
    return [functools.partial(kernels.copy[(_blocks(n, block),)], x, y, n, BLOCK=block, num_warps=warps)
            for block, warps in ((1024, 8), (4096, 8))]  # fmt: skip


def _axpy(kernels: Any, arrays: Arrays) -> Variants:
    x, y, z, n = arrays["x"], arrays["y"], arrays["z"], arrays["x"].numel()
    alpha = float(arrays["alpha"])
    return [functools.partial(kernels.axpy[(_blocks(n, block),)], alpha, x, y, z, n, BLOCK=block, num_warps=warps)
            for block, warps in ((1024, 8), (4096, 8))]  # fmt: skip


def _bias_gelu(kernels: Any, arrays: Arrays) -> Variants:
    m, n = arrays["x"].shape
    given = (arrays["x"], arrays["b"], arrays["y"], n)
    return [functools.partial(kernels.bias_gelu[(_blocks(n, block), m)], *given, BLOCK=block, num_warps=warps)
            for block, warps in ((1024, 8), (4096, 8))]  # fmt: skip


def _row_sums(kernels: Any, arrays: Arrays) -> Variants:
    a, y = arrays["a"], arrays["y"]
    m, columns = a.shape
    if columns > 4096:
        return [functools.partial(kernels.row_sums_long[(m,)], a, y, COLUMNS=columns, BLOCK=block, num_warps=warps)
                for block, warps in ((4096, 8), (16384, 16))]  # fmt: skip
    return [functools.partial(kernels.row_sums[(_blocks(m, rows),)], a, y, m, COLUMNS=columns, ROWS=rows, num_warps=4)
            for rows in (2048 // columns, 8192 // columns)]  # fmt: skip


def _softmax(kernels: Any, arrays: Arrays) -> Variants:
    x, y = arrays["x"], arrays["y"]
    m, columns = x.shape
    if columns in _ROWS:
        return [functools.partial(kernels.softmax[(m,)], x, y, COLUMNS=columns, num_warps=warps)
                for _, warps in _ROWS[columns]]  # fmt: skip
    return [functools.partial(kernels.softmax_long[(m,)], x, y, COLUMNS=columns, BLOCK=block, num_warps=warps)
            for block, warps in _PIECES]  # fmt: skip


def _layer_norm(kernels: Any, arrays: Arrays) -> Variants:
    m, columns = arrays["x"].shape
    given = tuple(arrays[name] for name in ("x", "gamma", "beta", "y"))
    if columns in _ROWS:
        return [functools.partial(kernels.layer_norm[(m,)], *given, COLUMNS=columns, num_warps=warps)
                for _, warps in _ROWS[columns]]  # fmt: skip
    return [functools.partial(kernels.layer_norm_long[(m,)], *given, COLUMNS=columns, BLOCK=block, num_warps=warps)
            for block, warps in _PIECES]  # fmt: skip


def _transpose(kernels: Any, arrays: Arrays) -> Variants:
    a, b, n = arrays["a"], arrays["b"], arrays["a"].shape[0]
    return [functools.partial(kernels.transpose[(_blocks(n, block),) * 2], a, b, n, BLOCK=block, num_warps=warps)
            for block, warps in ((64, 4), (64, 8), (128, 8))]  # fmt: skip


def _product(
    configurations: Sequence[tuple[int, int, int, int, int]], precision: str
) -> Callable[[Any, Arrays], Variants]:
    """Return the product in *configurations*: rows, columns and depth of a block, warps, stages."""

    def calls(kernels: Any, arrays: Arrays) -> Variants:
        a, b, c = (arrays[name] for name in "abc")
        (m, p), n = a.shape, b.shape[1]
        return [
            functools.partial(
                kernels.matmul[(_blocks(m, rows) * _blocks(n, columns),)], a, b, c, m, n, p, BLOCK_M=rows,
                BLOCK_N=columns, BLOCK_K=depth, PRECISION=precision, num_warps=warps, num_stages=stages,
            )
            for rows, columns, depth, warps, stages in configurations
        ]  # fmt: skip

    return calls


TRITON: Final[Mapping[str, Callable[[Any, Arrays], Variants]]] = {
    "copy": _copy,
    "axpy": _axpy,
    "bias + GELU": _bias_gelu,
    "transpose": _transpose,
    **{f"row sums of {columns}": _row_sums for columns in (32, 1024, 16384)},
    **{f"softmax of {columns}": _softmax for columns in (1024, 4096, 16384, 65536)},
    **{f"layer norm of {columns}": _layer_norm for columns in (1024, 4096, 16384, 65536)},
    "fp32 GEMM": _product(((128, 128, 16, 8, 2), (64, 64, 16, 4, 2)), "ieee"),
    "bf16 GEMM": _product(_HALF, "ieee"),
    "bf16 GEMM by wgmma": _product(_HALF, "ieee"),
    "bf16 GEMM by wgmma, lag 1": _product(_HALF, "ieee"),
    "bf16 GEMM by wgmma and TMA": _product(_HALF, "ieee"),
    "bf16 GEMM by wgmma, TMA both ways": _product(_HALF, "ieee"),
    "fp16 GEMM by wgmma": _product(_HALF, "ieee"),
    "fp16 GEMM": _product(_HALF, "ieee"),
    "tf32 GEMM": _product(((128, 128, 32, 8, 3), (128, 256, 32, 8, 3)), "tf32"),
}
"""Case name -> a function of the kernels and the arrays that returns what is timed."""
