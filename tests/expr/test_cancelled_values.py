"""Values that cancel: ``x - x`` is no 0 where ``x`` is infinite, and it is the value of the instance that reads it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import polyloop as pl
from polyloop.expr.parser import parse_expression
from polyloop.poly.affine import Affine, affine_in, affine_of
from polyloop.runtime.fibres import run_on_fibres

X = np.array([1, np.inf, 2, np.nan, 0])
CONDITIONS = [
    "s - s < 1", "s - s == 0", "0*s < 1", "j + s - s < 9", "x[j] - x[j] < 1", "s - s >= 0 and j >= 0",
    "not (s - s >= 1)",
]  # fmt: skip
DATA = [pl.GlobalArg("x, y, z", np.float64, shape="5"), ...]


@pytest.mark.parametrize("condition", CONDITIONS)
def test_a_condition_of_values_that_cancel_is_computed(condition: str) -> None:
    knl = pl.make_kernel(
        "{[j]: 0 <= j < 5}",
        ["<> s = x[j]", f"y[j] = if({condition}, 1, 2)", f"z[j] = 7 {{if={condition}}}"],
        DATA,
    )
    with np.errstate(invalid="ignore"):
        holds = np.array([eval(condition, {"s": X[j], "x": X, "j": j}) for j in range(5)])
    for made in (knl, pl.split_iname(knl, "j", 2)):
        results: list[Any] = [
            pl.interpret(made, x=X, z=np.zeros(5)),
            pl.compile(made, target=pl.CTarget())(x=X, z=np.zeros(5), y=np.zeros(5)),
        ]
        for result in results:
            np.testing.assert_array_equal(result.y, np.where(holds, 1, 2))
            np.testing.assert_array_equal(result.z, np.where(holds, 7, 0))


@pytest.mark.parametrize("value", ["s - s", "s - s + j", "0*s", "2*s - s - s"])
def test_a_value_that_cancels_is_that_of_its_instance(value: str) -> None:
    knl = pl.make_kernel("{[j]: 0 <= j < 5}", [f"late() := {value}", "<> s = x[j]", "y[j] = late()"], DATA)
    with pytest.raises(pl.TransformError) as error:
        pl.precompute(knl, "late", sweep_inames=["j"])
    assert error.value.codes[0] in {"illegal-order", "outer-missing"}


def test_a_sum_beside_a_named_index_keeps_its_values() -> None:
    knl = pl.make_kernel("{[j]: 0 <= j < 5}", ["<> s = x[j]", "z[j] = 1", "y[j] = j + s - s"], DATA)
    knl = pl.split_iname(knl, "j", 2, outer_tag="g.0", inner_tag="l.0")
    arguments = {"x": X, "y": np.zeros(5), "z": np.zeros(5)}
    with np.errstate(invalid="ignore"):
        expected = np.arange(5) + X - X
    for outputs in run_on_fibres(pl.generate_code(knl, target=pl.CudaTarget()), arguments).values():
        np.testing.assert_array_equal(outputs["y"], expected)


def test_integers_may_cancel_and_others_may_not() -> None:
    expr = parse_expression("i + 4*j - s - 4*j + s")
    assert affine_of(expr) == Affine.variable("i")
    assert affine_in(expr, {"i", "j"}) is None
    assert affine_in(expr, {"i", "j", "s"}) == Affine.variable("i")
