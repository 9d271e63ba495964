"""Loops that threads divide: over the index itself, or over the count where the body uses it."""

from __future__ import annotations

import numpy as np
import pytest

import polyloop as pl
from polyloop.runtime.fibres import run_on_fibres

OVER_THE_INDEX = "for (int i = tx; i < n; i += 32)"
OVER_THE_COUNT = "for (int i_outer = 0; i_outer < (n - tx + 31) / 32; ++i_outer)"


def build(value: str) -> pl.LoopKernel:
    data = [pl.GlobalArg("x, y", np.float32, shape="n"), ...]
    knl = pl.make_kernel("{[i]: 0 <= i < n}", f"y[i] = {value}", data, assumptions="n >= 1")
    return knl.split_iname("i", 32, inner_tag="l.0")


@pytest.mark.parametrize(
    ("value", "head"),
    [("2*x[i]", OVER_THE_INDEX), ("x[i] + x[n - 1 - i]", OVER_THE_INDEX), ("x[i] + i % 32", OVER_THE_INDEX),
     ("x[i] + i // 32", OVER_THE_COUNT)],
)  # fmt: skip
def test_the_count_stays_where_the_body_uses_it(value: str, head: str) -> None:
    text = pl.generate_code(build(value), target=pl.CudaTarget()).device_code
    found = [line.strip(" {") for line in text.splitlines() if line.startswith("    for (")]
    assert found == [head]


@pytest.mark.parametrize("value", ["x[i] + x[n - 1 - i]", "x[i] + i // 32"])
def test_each_index_is_met_once(value: str) -> None:
    n = 97
    x = np.arange(n, dtype=np.float32)
    expected = 1 + x + (x[::-1] if "n - 1" in value else np.arange(n) // 32)
    program = pl.generate_code(build("y[i] + " + value), target=pl.CudaTarget())
    for result in run_on_fibres(program, {"x": x, "y": np.ones(n, np.float32)}).values():
        np.testing.assert_array_equal(result.y, expected)


def test_tiles_by_hand_are_a_loop_over_the_index() -> None:
    domain = "{[lo, l]: 0 <= l < 32 and 0 <= 32*lo + l < n}"
    data = [pl.GlobalArg("x, y", np.float32, shape="n"), ...]
    knl = pl.make_kernel(domain, "y[32*lo + l] = 2*x[32*lo + l]", data, assumptions="n >= 1")
    program = pl.generate_code(knl.tag_inames("l:l.0"), target=pl.CudaTarget())
    assert "for (int l = tx; l < n; l += 32)\n        y[l] = 2.0f * x[l];" in program.device_code
    x = np.arange(97, dtype=np.float32)
    for result in run_on_fibres(program, {"x": x, "y": np.zeros(97, np.float32)}).values():
        np.testing.assert_array_equal(result.y, 2 * x)


def test_the_bound_of_an_inner_loop_has_the_index_of_the_outer_one() -> None:
    data = [pl.GlobalArg("a", np.float64, shape="n, n"), ...]
    knl = pl.make_kernel("{[i, j]: 0 <= i, j and i + j < n}", "a[j, i] = j", data, assumptions="n >= 1")
    program = pl.generate_code(pl.tile(knl, {"i": 4, "j": 3}, inner_tags={"i": "l.0", "j": "l.1"}))
    assert "for (int j = ty; j < n - i; j += 3)" in program.device_code
    j, i = np.indices((7, 7))
    for result in run_on_fibres(program, {"a": np.full((7, 7), -1.0)}).values():
        np.testing.assert_array_equal(result.a, np.where(i + j < 7, j, -1))
