"""Axes of vector components, and lanes of plain arrays: each type and length compiles and is right, or is refused."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import polyloop as pl
from polyloop.runtime.fibres import run_on_fibres
from polyloop.runtime.nvrtc import compile_cuda

REAL = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float32", "float64"]
OTHER = ["bool", "float16", "bfloat16", "complex64", "complex128"]
BODY = "b[i, j] = a[i, j] + a[i, 0]\nc[i, j] = a[i, j] {id=copy}"


def kernel(dtype: str, count: int, tag: str, *, is_vector: bool = True) -> pl.LoopKernel:
    tags = "N0, vec" if is_vector else None
    arrays = pl.GlobalArg("a, b, c", np.dtype(getattr(ml_dtypes, dtype, dtype)), shape=f"n, {count}", dim_tags=tags)
    name = f"{dtype}_{count}_{tag}" + ("_axis" if is_vector else "")
    knl = pl.make_kernel(f"{{[i, j]: 0 <= i < n and 0 <= j < {count}}}", BODY, [arrays, ...], name=name)
    knl = pl.tag_inames(knl, {"j": tag})
    return pl.split_iname(knl, "i", 32, outer_tag="g.0", inner_tag="l.0")


def texts(dtype: str) -> list[pl.LoopKernel]:
    """Return everything of a type that is accepted."""
    knls = [kernel(dtype, count, "vec", is_vector=False) for count in (2, 4, 8, 16)]
    if dtype in REAL:
        knls += [kernel(dtype, count, tag) for count in (2, 4) for tag in ("vec", "unr")] + [kernel(dtype, 3, "unr")]
    return knls


@pytest.mark.few(12)
@pytest.mark.parametrize("dtype", REAL)
@pytest.mark.parametrize(("count", "tag"), [(2, "vec"), (4, "vec"), (3, "unr"), (4, "unr")])
def test_vectors_are_right_on_fibres_and_in_c(dtype: str, count: int, tag: str) -> None:
    knl = kernel(dtype, count, tag)
    a: np.ndarray[Any, Any] = np.arange(37 * count).reshape(37, count).astype(dtype) % 50
    wanted = (a + a[:, :1]).astype(dtype)
    for result in run_on_fibres(pl.generate_code(knl, target=pl.CudaTarget()), {"a": a}).values():
        np.testing.assert_array_equal(result.b, wanted)
        np.testing.assert_array_equal(result.c, a)
    np.testing.assert_array_equal(pl.compile(knl, target=pl.CTarget())(a=a).b, wanted)


@pytest.mark.few(1)
@pytest.mark.nvrtc
@pytest.mark.filterwarnings("ignore:not-vectorized")
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_nvrtc_takes_every_type_and_length(arch: str) -> None:
    knls = [knl for dtype in (*REAL, *OTHER) for knl in texts(dtype)]
    compile_cuda("\n".join(pl.generate_code(knl, pl.CudaTarget(arch)).device_code for knl in knls), arch=arch)


@pytest.mark.parametrize(
    ("dtype", "count", "tag", "code"),
    [
        *((dtype, 2, "vec", "unsupported-dtype") for dtype in OTHER),
        *((dtype, 3, "unr", "unsupported-dtype") for dtype in OTHER),
        ("float32", 1, "unr", "unsupported-dtype"),
        ("float32", 5, "unr", "bad-layout"),
        ("float64", 6, "vec", "bad-layout"),
    ],
)
def test_what_is_no_vector_type_is_refused(dtype: str, count: int, tag: str, code: str) -> None:
    with pytest.raises(pl.PolyloopError) as refused:
        pl.generate_code(kernel(dtype, count, tag), target=pl.CudaTarget())
    assert refused.value.codes == (code,)
