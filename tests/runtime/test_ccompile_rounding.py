"""Conversions to float round, whatever the C compiler makes of several of them."""

from __future__ import annotations

import numpy as np
import pytest

import polyloop as pl

DATA = [pl.GlobalArg("x, y", np.float64, shape="n"), ...]


@pytest.mark.few(10)
@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 8, 17])
@pytest.mark.parametrize("instructions", [["y[i] = cast(float32, x[i])"], ["<float32> t = x[i]", "y[i] = t"]])
@pytest.mark.parametrize("tag", ["for", "unr"])
def test_a_conversion_to_float_rounds(n: int, instructions: list[str], tag: str) -> None:
    knl = pl.fix_parameters(pl.make_kernel("{[i]: 0 <= i < n}", instructions, DATA), n=n)
    knl = knl if tag == "for" else pl.tag_inames(knl, "i:unr")
    x = 0.1 * np.arange(1, n + 1)
    found = pl.compile(knl, target=pl.CTarget())(x=x)["y"]
    np.testing.assert_array_equal(found, x.astype(np.float32).astype(np.float64))
