"""What the compiler is told of pointers: a fault of NVRTC, found by random kernels on a GPU, stays out of its way."""

from __future__ import annotations

import re

import numpy as np
import pytest

import polyloop as pl
from polyloop.runtime.gpu import gpu_available
from polyloop.runtime.nvrtc import compile_cuda
from tests.generated import flat

_TEXTS = {
    "choice": "t[i, j] = 3*y[j] {id=put}\no[i, j] = if(i + j < 4, x[i], t[i, j]) {dep=put}",
    "condition": """
        for i, j
            t[i, j] = 3*y[j]
            <> v = t[i, j] {id=get}
            v = x[i] {id=other, if=k[i] < 4, dep=get}
            o[i, j] = v {dep=other}
        end
        """,
    "two types": "t[i, j] = 3*y[j] {id=put}\no[i, j] = if(i + j < 4, k[i], t[i, j]) {dep=put}",
}


def _kernel(text: str) -> pl.LoopKernel:
    knl = pl.make_kernel(
        "{[i, j]: 0 <= i, j < n}",
        text,
        [pl.GlobalArg("x, y", np.float32, shape="n"), pl.GlobalArg("t, o", np.float32, shape="n, n"),
         *([pl.GlobalArg("k", np.int32, shape="n")] if "k[" in text else []), ...],
        name="chosen",
    )
    return pl.split_iname(knl, "i", 32, outer_tag="g.0", inner_tag="l.0")


@pytest.mark.nvrtc
@pytest.mark.parametrize("name", _TEXTS)
def test_no_stored_array_is_read_through_the_read_only_cache(name: str) -> None:
    """An address that may be one of two is loaded from by an ordinary load."""
    ptx = compile_cuda(pl.generate_code(_kernel(_TEXTS[name]), target=pl.CudaTarget()).device_code, "sm_90").ptx
    chosen = set(re.findall(r"selp\.b64\s+(%\w+),", ptx))
    through = set(re.findall(r"ld\.global\.nc\.\w+\s+%\w+, \[(%\w+)", ptx))
    assert not chosen & through
    assert "ld.global." in ptx


def test_what_is_only_read_stays_restrict_where_nothing_is_read_back() -> None:
    apart = _kernel("o[i, j] = if(i + j < 4, x[i], y[j])\nt[i, j] = x[i]")
    text = pl.generate_code(apart, target=pl.CudaTarget()).device_code
    assert "const float *__restrict__ x, const float *__restrict__ y" in flat(text)
    kept = pl.generate_code(_kernel(_TEXTS["choice"]), target=pl.CudaTarget()).device_code
    assert "const float *x, const float *y, float *__restrict__ t, float *__restrict__ o" in flat(kept)
    in_c = pl.generate_code(_kernel(_TEXTS["choice"]), target=pl.CTarget()).device_code
    assert "const float *restrict x" in flat(in_c)


@pytest.mark.gpu
@pytest.mark.skipif(not gpu_available()[0], reason=gpu_available()[1] or "a GPU is there")
@pytest.mark.parametrize("name", _TEXTS)
def test_gpu_values_that_were_just_stored_are_read(name: str) -> None:
    rng = np.random.default_rng(1)
    n = 77
    given = {"x": rng.random(n, np.float32), "y": rng.random(n, np.float32)}
    if "k[" in _TEXTS[name]:
        given["k"] = rng.integers(0, 9, n, np.int32)
    got = pl.compile(_kernel(_TEXTS[name]), pl.CudaTarget())(**given, poison=True)
    expected = pl.interpret(_kernel(_TEXTS[name]), **given)
    np.testing.assert_array_equal(got.o, expected["o"])
