"""``read_once``: loads that caches need not keep."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest

import polyloop as pl
from examples import row_sums
from polyloop.runtime.nvrtc import compile_cuda
from tests.transform.checking import check, cuda, refused

Golden = Callable[[str, str], None]

N = 37


def product(dtype: type[np.generic] = np.float32) -> pl.LoopKernel:
    data = [pl.GlobalArg("x, y", dtype, shape="n"), pl.GlobalArg("at", np.int32, shape="n"), ...]
    knl = pl.make_kernel("{[i]: 0 <= i < n}", "y[i] = x[at[i]] + 2*x[i]", data, name="gather")
    return pl.split_iname(knl, "i", 16, outer_tag="g.0", inner_tag="l.0")


def check_product(knl: pl.LoopKernel, dtype: type[np.generic]) -> None:
    rng = np.random.default_rng(0)
    x, at = rng.integers(0, 9, N).astype(dtype), rng.integers(0, N, N, np.int32)
    check(knl, {"x": x, "at": at}, {"y": (x[at] + 2 * x).astype(dtype)})


def test_vectors_are_loaded_past_the_caches(golden: Golden) -> None:
    text = cuda(row_sums.transformed())
    golden("golden/read_once.cu", text)
    assert "= __ldcs((const float4 *)&a[" in text


def test_single_elements_are_too_and_nothing_else() -> None:
    knl = pl.read_once(product(), "x, at")
    assert "y[i] = __ldcs(&x[__ldcs(&at[i])]) + 2.0f * __ldcs(&x[i]);" in cuda(knl)
    assert "__ldcs" not in pl.generate_code(knl, target=pl.CTarget()).device_code
    assert "pl.read_once(knl, ary_names=['x', 'at'])" in str(knl.trace)
    check_product(knl, np.float32)


@pytest.mark.parametrize("dtype", [np.float64, np.int32, np.uint32, np.int64, np.uint64])
def test_numbers_of_four_and_eight_bytes(dtype: type[np.generic]) -> None:
    knl = pl.read_once(product(dtype), "x")
    assert cuda(knl).count("__ldcs") == 2
    check_product(knl, dtype)


@pytest.mark.parametrize("dtype", [np.int8, np.uint16, np.float16, np.complex64])
def test_other_types_are_loaded_as_before(dtype: type[np.generic]) -> None:
    assert cuda(pl.read_once(product(dtype), "x")) == cuda(product(dtype))


def test_what_is_written_or_no_argument_is_refused(golden: Golden) -> None:
    knl = pl.make_kernel(
        "{[i]: 0 <= i < n}", "<> t = x[i]\ny[i] = t*a", [pl.GlobalArg("x, y", np.float32, shape="n"), ...], name="twice"
    )
    codes = {"y": "bad-read-once", "t": "bad-read-once", "a": "unknown-array", "z": "unknown-array"}
    texts = [refused(knl, partial(pl.read_once, ary_names=name), code) for name, code in codes.items()]
    golden("messages/read_once.txt", "\n".join(texts))


def test_arrays_that_become_one_stay_so_if_all_are() -> None:
    data = [pl.GlobalArg("a, b, y", np.float32, shape="n"), ...]
    knl = pl.make_kernel("{[i]: 0 <= i < n}", "y[i] = a[i] + b[i]", data, name="both")
    for names, count in (("a", 0), ("a, b", 2)):
        joined = pl.concatenate_arrays(pl.read_once(knl, names), ["a", "b"], "ab")
        assert cuda(joined).count("__ldcs(&ab[") == count


@pytest.mark.nvrtc
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_nvrtc_takes_it(arch: str) -> None:
    for dtype in (np.float32, np.float64, np.int32, np.uint64):
        compile_cuda(cuda(pl.read_once(product(dtype), "x, at")), arch)
    assert "ld.global.cs.v4" in compile_cuda(cuda(row_sums.transformed()), arch).ptx
