"""Matrix products in other types than single precision."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import ml_dtypes
import numpy as np

import polyloop as pl
from benchmarks.gpu.case import Arrays, Case, F, sampled
from examples import matmul_float64, matmul_float64_mma, matmul_fp8, matmul_mma, matmul_wgmma

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


def _matrices(dtype: np.dtype[Any]) -> Callable[[Mapping[str, int], np.random.Generator], dict[str, Any]]:
    def make(sizes: Mapping[str, int], rng: np.random.Generator) -> dict[str, Any]:
        m, n, p = (sizes[name] for name in "mnp")
        shapes = {"a": (m, p), "b": (p, n)}
        return {name: (rng.random(shape, F) - F(0.5)).astype(dtype) for name, shape in shapes.items()}

    return make


_TILES: Final = {2: ((256, 128, 64), (64, 64), 3, 16), 4: ((128, 256, 32), (64, 64), 3, 16)}
"""Bytes of an element -> rows, columns and terms of a block, rows and columns of a warp, stages, columns of blocks."""
_ODD_TILES: Final = ((128, 128, 32), (64, 32), 2, 16)
"""The same for rows of odd length, which come element by element through registers."""
_UNEVEN: Final = {"m": 4000, "n": 3000, "p": 5000}
"""Sizes that no tile divides."""


def _on_tensor_cores(
    name: str, dtype: np.dtype[Any], intrinsic: str, *sizes: int | Mapping[str, int], rtol: float, row_bytes: int = 16
) -> Case:
    """Return a product of elements of *dtype*, with results in single precision; rows are aligned to some bytes."""
    size = dtype.itemsize
    depth, vec = 32 // size, row_bytes // size  # the terms of an instruction, and elements that are copied at once
    tiles, is_async = (_TILES[size], True) if row_bytes >= 4 else (_ODD_TILES, False)

    def build() -> pl.LoopKernel:
        program = matmul_mma.program(dtype, np.float32, vec)
        is_turned = intrinsic.endswith("_pairs")
        return matmul_mma.on_tensor_cores(
            program, intrinsic, depth, vec, *tiles, ahead=is_async, spread=is_async, swizzled=row_bytes == 16,
            turned=is_turned,
        )

    return Case(
        name,
        build,
        tuple(dict.fromkeys("mnp", n) if isinstance(n, int) else n for n in sizes),
        {"m": 130, "n": 264, "p": 72},
        _matrices(dtype),
        _expected,
        lambda sizes: size * _elements(sizes) + (4 - size) * sizes["m"] * sizes["n"],
        _work,
        unit=f"tensor {'tf32' if dtype == F else dtype.name}",
        rtol=rtol,
    )


def _on_groups_of_warps(
    name: str, dtype: np.dtype[Any], intrinsic: str, *sizes: int | Mapping[str, int], lag: int = 0,
    via: str = "cp.async", by_boxes: bool = False, turns: str = "",
) -> Case:  # fmt: skip
    """Return a product by an instruction of groups of four warps, in blocks of 128 by 256 elements.

    Products are waited for *lag* iterations later, tiles are fetched *via* threads or a copy engine, and results are
    stored by threads or, *by_boxes*, by the engine.  *turns* are as in :func:`_in_turns`.
    """

    def build() -> pl.LoopKernel:
        program = matmul_wgmma.program(dtype)
        if turns:
            knl = matmul_wgmma.on_groups_of_warps(program, intrinsic, 128, 256, stages=4, lag=lag, via=via)
            return _in_turns(knl, turns)
        knl = matmul_wgmma.on_groups_of_warps(program, intrinsic, 128, 256, stages=4, group=8, lag=lag, via=via)
        return matmul_wgmma.stored_by_boxes(knl) if by_boxes else knl

    return Case(
        name,
        build,
        tuple(dict.fromkeys("mnp", n) if isinstance(n, int) else n for n in sizes),
        {"m": 130, "n": 264, "p": 72},
        _matrices(dtype),
        _expected,
        lambda sizes: 2 * _elements(sizes) + 2 * sizes["m"] * sizes["n"],
        _work,
        unit=f"tensor {dtype.name}",
        rtol=1e-4,
        arch=matmul_wgmma.ARCH,
    )


_MULTIPROCESSORS: Final = 132
"""Of an H100 and of an H200."""


def _in_turns(knl: pl.LoopKernel, turns: str) -> pl.LoopKernel:
    """Return a product with blocks in panels of 8 columns; if *turns* are not ``"panels"``, with persistent ones.

    If they are ``"ahead"``, copies for the next block start before the stores of the present one.
    """
    knl = pl.order_blocks(knl, "bx", group=8)
    return knl if turns == "panels" else pl.persist_blocks(knl, _MULTIPROCESSORS, ahead=turns == "ahead")


def _transposed(sizes: Mapping[str, int], rng: np.random.Generator) -> dict[str, Any]:
    m, n, p = (sizes[name] for name in "mnp")
    return {name: rng.random(shape, F) - F(0.5) for name, shape in (("a", (m, p)), ("b", (n, p)))}


def _expected_transposed(arrays: Arrays) -> dict[str, tuple[Any, np.ndarray[Any, Any]]]:
    at = sampled(len(arrays["a"]), 16)
    return {"c": (at, arrays["a"][at].astype(np.float64) @ arrays["b"].T.astype(np.float64))}


def _tf32_on_groups_of_warps(
    name: str, *sizes: int | Mapping[str, int], by_boxes: bool = False, turns: str = ""
) -> Case:
    """Return a product of float32 with the second matrix transposed; the copy engine rounds operands to 11 bits."""

    def build() -> pl.LoopKernel:
        program, group = matmul_wgmma.by_rows_of_k(), 1 if turns else 8
        knl = matmul_wgmma.on_groups_of_warps(
            program, "wgmma_m64n256k8_tf32", 128, 256, stages=4, group=group, lag=1, via="tma", panels=False
        )
        knl = matmul_wgmma.stored_by_boxes(knl) if by_boxes else knl
        return _in_turns(knl, turns) if turns else knl

    return Case(
        name,
        build,
        tuple(dict.fromkeys("mnp", n) if isinstance(n, int) else n for n in sizes),
        {"m": 130, "n": 264, "p": 72},
        _transposed,
        _expected_transposed,
        lambda sizes: 4 * _elements(sizes),
        _work,
        unit="tensor tf32",
        rtol=1e-3,
        arch=matmul_wgmma.ARCH,
    )


def _bytes(sizes: Mapping[str, int], rng: np.random.Generator) -> dict[str, Any]:
    arrays = _transposed(sizes, rng)
    return {name: (16 * value).astype(ml_dtypes.float8_e4m3fn) for name, value in arrays.items()} | {"scale": F(2**-6)}


def _expected_of_bytes(arrays: Arrays) -> dict[str, tuple[Any, np.ndarray[Any, Any]]]:
    (at, product), = _expected_transposed({name: arrays[name].astype(F) for name in "ab"}).values()
    return {"c": (at, product * float(arrays["scale"]))}


def _fp8_on_groups_of_warps(
    name: str, *sizes: int | Mapping[str, int], by_boxes: bool = False, turns: str = ""
) -> Case:
    """Return a product of e4m3 with the second matrix transposed, with results in bfloat16."""

    def build() -> pl.LoopKernel:
        knl = matmul_fp8.on_groups_of_warps(
            matmul_fp8.program(), "wgmma_m64n256k32_e4m3", 128, 256, stages=4, group=1 if turns else 8, lag=1,
            via="tma", panels=False,
        )  # fmt: skip
        knl = matmul_fp8.stored_by_boxes(knl) if by_boxes else knl
        return _in_turns(knl, turns) if turns else knl

    return Case(
        name,
        build,
        tuple(dict.fromkeys("mnp", n) if isinstance(n, int) else n for n in sizes),
        {"m": 130, "n": 272, "p": 144},
        _bytes,
        _expected_of_bytes,
        lambda sizes: _elements(sizes) + sizes["m"] * sizes["n"],
        _work,
        unit="tensor float8_e4m3fn",
        rtol=1e-2,
        arch=matmul_fp8.ARCH,
    )


def _of_doubles(
    name: str, build: Callable[[], pl.LoopKernel], small: Mapping[str, int], unit: str, *sizes: int | Mapping[str, int]
) -> Case:
    return Case(
        name,
        build,
        tuple(dict.fromkeys("mnp", n) if isinstance(n, int) else n for n in sizes),
        small,
        _doubles,
        _expected,
        lambda sizes: 8 * _elements(sizes),
        _work,
        unit=unit,
        rtol=1e-13,
    )


PRECISIONS: Final = (
    _of_doubles(
        "fp64 GEMM", matmul_float64_mma.transformed, {"m": 130, "n": 132, "p": 12}, "tensor float64", 4096, 8192,
        _UNEVEN,
    ),
    _of_doubles("fp64 GEMM by FMA", matmul_float64.transformed, {"m": 130, "n": 132, "p": 12}, "float64", 4096),
    _on_tensor_cores("bf16 GEMM", np.dtype(ml_dtypes.bfloat16), "mma_m16n8k16_bf16", 4096, 8192, _UNEVEN, rtol=1e-4),
    _on_groups_of_warps(
        "bf16 GEMM by wgmma", np.dtype(ml_dtypes.bfloat16), "wgmma_m64n256k16_bf16", 4096, 8192, _UNEVEN
    ),
    _on_groups_of_warps(
        "bf16 GEMM by wgmma, lag 1", np.dtype(ml_dtypes.bfloat16), "wgmma_m64n256k16_bf16", 4096, 8192, _UNEVEN, lag=1
    ),
    _on_groups_of_warps(
        "bf16 GEMM by wgmma and TMA", np.dtype(ml_dtypes.bfloat16), "wgmma_m64n256k16_bf16", 4096, 8192, _UNEVEN,
        {"m": 8192, "n": 8192, "p": 512}, lag=1, via="tma",
    ),
    _on_groups_of_warps(
        "bf16 GEMM by wgmma, TMA both ways", np.dtype(ml_dtypes.bfloat16), "wgmma_m64n256k16_bf16", 4096, 8192, _UNEVEN,
        {"m": 8192, "n": 8192, "p": 512}, lag=1, via="tma", by_boxes=True,
    ),
    *(
        _on_groups_of_warps(
            f"bf16 GEMM by wgmma and TMA, {turns}", np.dtype(ml_dtypes.bfloat16), "wgmma_m64n256k16_bf16", 4096, 8192,
            {"m": 8192, "n": 8192, "p": 512}, lag=1, via="tma", turns=turns,
        )
        for turns in ("panels", "persistent", "ahead")
    ),
    _on_groups_of_warps("fp16 GEMM by wgmma", np.dtype(np.float16), "wgmma_m64n256k16_f16", 4096),
    _on_tensor_cores(
        "bf16 GEMM, 8-byte rows", np.dtype(ml_dtypes.bfloat16), "mma_m16n8k16_bf16", {"m": 4001, "n": 3004, "p": 5004},
        rtol=1e-4, row_bytes=8,
    ),
    _on_tensor_cores(
        "bf16 GEMM, odd rows", np.dtype(ml_dtypes.bfloat16), "mma_m16n8k16_bf16", {"m": 4001, "n": 3001, "p": 5001},
        rtol=1e-4, row_bytes=2,
    ),
    _on_tensor_cores("fp16 GEMM", np.dtype(np.float16), "mma_m16n8k16_f16", 4096, 8192, _UNEVEN, rtol=1e-4),
    _tf32_on_groups_of_warps("tf32 GEMM by wgmma and TMA", 4096, 8192, _UNEVEN),
    _tf32_on_groups_of_warps("tf32 GEMM by wgmma, TMA both ways", 4096, 8192, by_boxes=True),
    _tf32_on_groups_of_warps(
        "tf32 GEMM by wgmma and TMA, ahead", 4096, 8192, {"m": 8192, "n": 8192, "p": 512}, turns="ahead"
    ),
    _fp8_on_groups_of_warps("fp8 GEMM by wgmma and TMA", 4096, 8192, {"m": 4000, "n": 3008, "p": 5008}),
    _fp8_on_groups_of_warps("fp8 GEMM by wgmma, TMA both ways", 4096, 8192, by_boxes=True),
    _fp8_on_groups_of_warps("fp8 GEMM by wgmma, TMA both ways, ahead", 4096, 8192, by_boxes=True, turns="ahead"),
    _on_tensor_cores("tf32 GEMM", np.dtype(np.float32), "mma_m16n8k8_tf32_pairs", 8192, _UNEVEN, rtol=1e-3),
)
