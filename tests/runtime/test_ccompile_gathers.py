"""Loads under a condition that all iterations share, as GCC makes gathers of them for processors with AVX2."""

from __future__ import annotations

import ctypes
from pathlib import Path

import numpy as np
import pytest

import polyloop as pl
from polyloop.errors import CompilerError
from polyloop.runtime.ccompile import find_compiler, open_library, portable_flags

F = np.float32


def triangular_sum() -> pl.LoopKernel:
    knl = pl.make_kernel(
        "{[i, j]: 0 <= i < n and 0 <= j <= i}",
        "s[i] = sum(j, a[i, j] * x[j])",
        [pl.GlobalArg("a", F, shape="n, n"), pl.GlobalArg("x, s", F, shape="n"), ...],
        name="triangular",
    )
    knl = knl.split_iname("i", 8, outer_tag="g.0", inner_tag="l.0").split_iname("j", 8)
    return knl.add_prefetch("a", "i_inner, j_inner")


@pytest.mark.parametrize("processor", ["haswell", "skylake", "znver3"])
def test_rows_that_are_copied_under_a_condition(processor: str) -> None:
    info = Path("/proc/cpuinfo")
    if not info.exists() or not {"avx2", "fma", "bmi2"} <= {*info.read_text().split()}:
        pytest.skip("this processor has no AVX2")
    source = pl.generate_code(triangular_sum(), target=pl.CTarget()).device_code
    flags = (*portable_flags(find_compiler(), source), f"-march={processor}")
    try:
        library = open_library(source, flags=flags)
    except CompilerError:
        pytest.skip(f"the compiler does not know {processor}")
    for n in (8, 9, 20):
        a = np.random.default_rng(n).integers(-3, 4, (n, n)).astype(F)
        x, s = np.arange(n).astype(F), np.full(n, np.nan, F)
        library.triangular(*(ctypes.c_void_p(array.ctypes.data) for array in (a, x, s)), ctypes.c_int(n))
        np.testing.assert_array_equal(s, np.tril(a) @ x)
