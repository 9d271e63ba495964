"""Casts in subscripts: what is converted is a value, computed in its own type, as the interpreter has it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import polyloop as pl


@pytest.mark.parametrize(
    ("subscript", "dtype"),
    [
        ("cast(uint8, (u[i] + 200)//2)", np.uint8), ("cast(int32, u[i] + u[i])", np.uint8),
        ("cast(int64, u[i]*2)", np.uint8),
        ("cast(int32, u[i] // 2)", np.int32), ("(u[i] + 56)//2", np.uint8),
    ],
)  # fmt: skip
def test_a_cast_in_a_subscript_is_of_a_value(subscript: str, dtype: Any) -> None:
    data = [pl.GlobalArg("u", dtype, shape="1"), pl.GlobalArg("x", np.int32, shape="512"), pl.GlobalArg("y", np.int32)]
    knl = pl.make_kernel("{[i]: 0 <= i < 1}", f"y[i] = x[{subscript}]", data)
    given = {"u": np.array([200], dtype), "x": np.arange(512, dtype=np.int32)}
    expected = pl.interpret(knl, **given)["y"]
    np.testing.assert_array_equal(pl.compile(knl, target=pl.CTarget())(**given)["y"], expected)
