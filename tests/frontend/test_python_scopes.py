"""Names in a function that becomes a kernel: they mean what they mean in Python."""

# mypy: ignore-errors

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import polyloop as pl


def bounded_by_a_parameter(x: pl.Array[np.int64, 4], y: pl.Array[np.int64, 4]) -> None:
    def first(v: Any) -> Any:
        return sum(v * x[k] for k in range(2))

    def below(k: Any) -> Any:
        return sum(x[j] for j in range(4) if j < k)

    for i in range(4):
        y[i] = first(0) + below(i)


def parameter_of_a_closed_loop(x: pl.Array[np.int64, 4], y: pl.Array[np.int64, 4]) -> None:
    def below(k: Any) -> Any:
        return sum(x[j] for j in range(4) if j < k)

    for k in range(3):
        y[k] = 0
    for i in range(4):
        y[i] = below(i)


def parameter_of_an_open_loop(x: pl.Array[np.int64, 4], y: pl.Array[np.int64, 4]) -> None:
    def below(i: Any) -> Any:
        return sum(x[j] for j in range(4) if j < i)

    for i in range(4):
        y[i] = below(3 - i)


def range_of_its_own_name(x: pl.Array[np.int64, 4], y: pl.Array[np.int64, 4]) -> None:
    for i in range(4):
        y[i] = sum(x[i] for i in range(i))


def ranges_inside_each_other(x: pl.Array[np.int64, 4], y: pl.Array[np.int64, 4]) -> None:
    for i in range(4):
        y[i] = sum(x[j] for j in range(i) for k in range(j) if k < i)


@pytest.mark.parametrize(
    "function",
    [
        bounded_by_a_parameter, parameter_of_a_closed_loop, parameter_of_an_open_loop, range_of_its_own_name,
        ranges_inside_each_other,
    ],
)  # fmt: skip
def test_names_are_those_of_python(function: Callable[..., None]) -> None:
    x, expected = np.array([1, 10, 100, 1000]), np.zeros(4, np.int64)
    function(x, expected)
    knl = pl.kernel(function)
    np.testing.assert_array_equal(pl.interpret(knl, x=x, y=np.zeros(4, np.int64))["y"], expected)
    np.testing.assert_array_equal(pl.compile(knl, target=pl.CTarget())(x=x, y=np.zeros(4, np.int64))["y"], expected)


def test_a_parameter_bounds_no_loop() -> None:
    def bounded(x: pl.Array[np.int64, 4], y: pl.Array[np.int64, 4]) -> None:
        def below(k: Any) -> Any:
            return sum(x[j] for j in range(k))

        for k in range(4):
            y[k] = below(2)

    with pytest.raises(pl.KernelError) as error:
        pl.kernel(bounded)
    assert error.value.codes == ("unsupported-loop",)
    assert "'k', a parameter of a function in the kernel" in str(error.value)


def test_functions_have_defaults_and_take_keywords() -> None:
    @pl.kernel
    def knl(x: pl.Array[np.float64, 4], y: pl.Array[np.float64, 4], c: np.float64) -> None:
        def scaled(u: Any, k: Any = 2.0, *, shift: Any = c) -> Any:
            return u*k + shift

        for i in range(4):
            y[i] = scaled(x[i]) + scaled(x[i], k=3.0, shift=x[0]) + scaled(shift=1.0, u=x[i])

    x = np.arange(1.0, 5.0)
    np.testing.assert_array_equal(pl.interpret(knl, x=x, c=10.0)["y"], 7 * x + 12)
