"""A kernel is a function beside those of C's headers, which its name must leave alone."""

from __future__ import annotations

import numpy as np
import pytest

import polyloop as pl
from tests.transform.checking import check


def named(name: str) -> pl.LoopKernel:
    data = [pl.GlobalArg("x, y", np.float64, shape="n"), ...]
    return pl.make_kernel("{[i]: 0 <= i < n}", "y[i] = 2*x[i]", data, name=name)


@pytest.mark.parametrize("name", ["free", "malloc", "y0", "sinf", "expl", "main"])
def test_names_of_functions_are_refused(name: str) -> None:
    with pytest.raises(pl.KernelError) as refusal:
        named(name)
    assert refusal.value.found[0].code == "reserved-name"
    assert refusal.value.found[0].hints == (f"choose another name, such as '{name}_'",)


@pytest.mark.parametrize("name", ["shared", "grid", "block", "order", "free_", "self", "axpyf"])
def test_others_compile(name: str) -> None:
    x = np.arange(3.0)
    check(named(name), {"x": x}, {"y": 2 * x})


def test_arguments_may_have_the_name_of_a_function() -> None:
    data = [pl.GlobalArg("y0, y1", np.float64, shape="n"), ...]
    knl = pl.make_kernel("{[i]: 0 <= i < n}", "y1[i] = free*y0[i]", data)
    knl = pl.add_dtypes(knl, {"free": np.float64})
    y0 = np.arange(3.0)
    check(knl, {"y0": y0, "free": 2.0}, {"y1": 2 * y0})
