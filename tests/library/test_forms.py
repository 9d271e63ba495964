"""Products of batches, and of elements of 8 bits: every schedule on fibres, by NVRTC, in C, and on a GPU."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import polyloop as pl
from polyloop import library
from polyloop.runtime.nvrtc import compile_cuda
from polyloop.tuning.schedules import Schedule
from tests.library.schedules import on_fibres

CUDA = pl.CudaTarget("sm_90a")
RTOL = {"float64": 1e-12, "float32": 2e-5, "bfloat16": 1e-2, "float16": 2e-3}
FORMS = [
    ("float32", "float32"), ("float64", "float64"), ("bfloat16", "bfloat16"), ("float16", "float32"),
    ("float8_e4m3fn", "bfloat16"), ("float8_e5m2", "float32"),
]  # fmt: skip
"""Elements and results: those of 8 bits are of one product, the others of a batch."""
SIZES = [{"m": 1, "n": 1, "p": 1}, {"m": 67, "n": 35, "p": 37}, {"m": 130, "n": 136, "p": 144}]


def is_small(dtype: str) -> bool:
    return dtype.startswith("float8")


@cache
def ready(dtype: str, result: str) -> pl.Dispatcher:
    how: dict[str, Any] = {"transposed": True} if is_small(dtype) else {"batched": True}
    return library.matmul(dtype, result, **how, target=CUDA, device="H200")


def case(dtype: str, m: int, n: int, p: int, batch: int = 3) -> tuple[dict[str, Any], Any]:
    rng, kind = np.random.default_rng(m), np.dtype(getattr(ml_dtypes, dtype, dtype))
    if is_small(dtype):
        a, b = ((8 * rng.random(shape) - 4).astype(kind) for shape in ((m, p), (n, p)))
        return {"a": a, "b": b, "scale": np.float32(0.125)}, a.astype(np.float64) @ b.astype(np.float64).T / 8
    a, b = ((rng.random((batch, *shape)) - 0.5).astype(kind) for shape in ((m, p), (p, n)))
    return {"a": a, "b": b}, a.astype(np.float64) @ b.astype(np.float64)


def check(
    dtype: str, result: str, run: Callable[..., Any], sizes: Mapping[str, int], *, on_gpu: bool = False
) -> None:
    given, wanted = case(dtype, **sizes)
    found = np.asarray(run(**given)["c"]).astype(np.float64)
    part = RTOL[result]
    if on_gpu and is_small(dtype):  # sums of 8-bit products keep 13 bits behind the point, cut off after each 32 terms
        part += 2**-13 * sizes["p"] / 32 / 2
    np.testing.assert_allclose(found, wanted, RTOL[result], part * np.abs(wanted).max(), err_msg=f"{sizes}")


def valid(dtype: str, result: str, name: str, sizes: Mapping[str, int]) -> Schedule | None:
    made = ready(dtype, result)
    member = made._member(name, made._facts(dict(sizes) | ({} if is_small(dtype) else {"batch": 3})))
    return member if isinstance(member, Schedule) else None


EVERY = pytest.mark.parametrize(
    ("dtype", "result", "name"), [(*form, name) for form in FORMS for name in ready(*form).names]
)


@pytest.mark.few(1, shift=29)
@pytest.mark.filterwarnings("ignore:not-vectorized")
@EVERY
def test_every_schedule_on_fibres(dtype: str, result: str, name: str) -> None:
    found = [(sizes, schedule) for sizes in SIZES if (schedule := valid(dtype, result, name, sizes)) is not None]
    assert found, "one of the sizes is for each schedule"
    for sizes, schedule in found:
        check(dtype, result, on_fibres(schedule), sizes)


@pytest.mark.few(1, shift=29)
@pytest.mark.nvrtc
@pytest.mark.filterwarnings("ignore:not-vectorized")
@EVERY
def test_every_schedule_compiles(dtype: str, result: str, name: str) -> None:
    schedule = valid(dtype, result, name, SIZES[-1])
    assert schedule is not None
    assert compile_cuda(schedule.program.device_code, "sm_90a").cubin


@pytest.mark.few(1, shift=2)
@pytest.mark.parametrize("dtype", ["float32", "float64", "float8_e4m3fn"])
def test_in_c(dtype: str) -> None:
    result = "float32" if is_small(dtype) else dtype
    how: dict[str, Any] = {"transposed": True} if is_small(dtype) else {"batched": True}
    made = library.matmul(dtype, result, **how, target=pl.CTarget())
    check(dtype, result, lambda **arrays: made(**arrays, poison=True), SIZES[1])


@pytest.mark.parametrize(("how", "says"), [
    ({"dtype": "bfloat16", "transposed": True}, "no matmul of bfloat16 with transposed=True"),
    ({"dtype": "float8_e4m3fn"}, "no matmul of float8_e4m3fn"),
    ({"dtype": "float8_e4m3fn", "transposed": True, "batched": True}, "float8_e4m3fn with batches and transposed=True"),
    ({"dtype": "float32", "precision": "tf32", "batched": True}, "with precision='tf32' of a batch"),
])  # fmt: skip
def test_forms_that_a_type_does_not_have_are_refused(how: dict[str, Any], says: str) -> None:
    with pytest.raises(pl.ArgumentError, match=says) as refused:
        library.matmul(**how)
    assert refused.value.codes == ("wrong-dtype",)


GPU_SIZES = [(1, 1, 1), (127, 129, 131), (133, 1048, 2064), (1000, 1000, 1008), (260, 256, 4112)]


@pytest.mark.gpu
@pytest.mark.parametrize("shape", GPU_SIZES)
@pytest.mark.parametrize(("dtype", "result"), FORMS)
def test_every_schedule_on_a_gpu(dtype: str, result: str, shape: tuple[int, int, int]) -> None:
    how: dict[str, Any] = {"transposed": True} if is_small(dtype) else {"batched": True}
    made, sizes = library.matmul(dtype, result, **how), dict(zip("mnp", shape, strict=True))
    facts = sizes | ({} if is_small(dtype) else {"batch": 3})
    for schedule in made.valid(**facts).values():
        check(dtype, result, lambda run=schedule.compiled, **arrays: run(**arrays, poison=True), sizes, on_gpu=True)
    check(dtype, result, lambda **arrays: made(**arrays, poison=True), sizes, on_gpu=True)
