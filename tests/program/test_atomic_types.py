"""Types in which atomic updates are computed: that of the element, as the interpreter has it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import polyloop as pl

I64, U32, I32, U8, F32, F64 = np.int64, np.uint32, np.int32, np.uint8, np.float32, np.float64


def made(text: str, element: Any, operand: Any) -> pl.LoopKernel:
    data = [pl.GlobalArg("c", element, shape="1"), pl.GlobalArg("x", operand, shape="1")]
    return pl.make_kernel("{[i]: 0 <= i < 1}", [f"{text} {{atomic}}"], data)


@pytest.mark.few(4)
@pytest.mark.parametrize(
    ("text", "element", "operand"),
    [
        ("c[0] = c[0] + x[i]", I32, U8), ("c[0] = c[0] - x[i]", I32, I32), ("c[0] = c[0] - x[i]", F64, F32),
        ("c[0] = c[0] + 2 + x[i]", I32, I32), ("c[0] = c[0] - cast(int64, x[i])", I64, U32),
        ("c[0] = c[0] - 1", I64, U8), ("c[0] = c[0] + x[i]*x[i] - 1", F32, F32),
        ("c[0] = c[0] + cast(int32, x[i]) + cast(int32, x[i])", I32, U8),
    ],
)  # fmt: skip
def test_values_are_those_of_the_interpreter(text: str, element: Any, operand: Any) -> None:
    knl = made(text, element, operand)
    given = {"c": np.array([3], element), "x": np.array([200], operand)}
    expected = pl.interpret(knl, **given)["c"]
    found = pl.compile(knl, target=pl.CTarget())(**{name: value.copy() for name, value in given.items()})["c"]
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    ("text", "element", "operand"),
    [
        ("c[0] = c[0] - x[i]", I64, U32), ("c[0] = c[0] + x[i] + x[i]", I32, U8), ("c[0] = c[0] - x[i]", F32, U8),
        ("c[0] = c[0]*x[i]*x[i]", I32, U8), ("c[0] = x[i] + c[0] + x[i]", I32, U8), ("c[0] = c[0] - 2*x[i]", I64, U32),
        ("c[0] = c[0] + x[i] + x[i]", F64, F32),
    ],
)  # fmt: skip
def test_what_would_be_combined_in_a_type_of_its_own_is_refused(text: str, element: Any, operand: Any) -> None:
    with pytest.raises(pl.KernelError) as error:
        made(text, element, operand)
    assert error.value.codes == ("type-conflict",)
    assert f"cast({np.dtype(element)}, ...)" in str(error.value)
