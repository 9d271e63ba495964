"""Data-dependent conditions that neighbours share are tested once, unless what is between changes them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import polyloop as pl

DATA = [pl.GlobalArg("x, y, z", np.int32, shape="n"), ...]


def text_of(instructions: str) -> str:
    return pl.generate_code(pl.make_kernel("{[i]: 0 <= i < n}", instructions, DATA), target=pl.CTarget()).device_code


def body_of(instructions: str) -> list[str]:
    lines = text_of(instructions).splitlines()
    return [line.strip().partition("  //")[0] for line in lines[lines.index("{") + 2 : -2]]


def test_if_elif_else() -> None:
    assert body_of(
        """
        if x[i] > 0
            y[i] = 1
            z[i] = 2
        elif x[i] < -5
            y[i] = 3
        else
            z[i] = 4
        end
        """
    ) == [
        "if (x[i] > 0) {",
        "y[i] = 1;",
        "z[i] = 2;",
        "} else if (x[i] < -5) {",
        "y[i] = 3;",
        "} else {",
        "z[i] = 4;",
        "}",
    ]


def test_an_if_inside_an_if_is_one_condition() -> None:
    assert body_of("if x[i] > 0\nif x[i] < 9 or x[i] > 20\ny[i] = 1\nz[i] = 1\nend\nend") == [
        "if (x[i] > 0 && (x[i] < 9 || x[i] > 20)) {",
        "y[i] = 1;",
        "z[i] = 1;",
        "}",
    ]


def test_only_the_else_branch_does_something() -> None:
    text = "y[i] = 1 {if=not x[i] > 3}\nz[i] = 1 {if=not x[i] > 3}"
    assert body_of(text)[0] == "if (!(x[i] > 3)) {"


CHANGING = """
x[i] = -x[i] {id=flip, if=x[i] > 0}
y[i] = 5 {dep=flip, if=x[i] > 0}
z[i] = 7 {dep=flip, if=not x[i] > 0}
"""


def test_a_condition_that_changes_is_tested_again() -> None:
    assert body_of(CHANGING) == [
        "if (x[i] > 0)",
        "x[i] = -(unsigned int)x[i];",
        "if (x[i] > 0) {",
        "y[i] = 5;",
        "} else {",
        "z[i] = 7;",
        "}",
    ]


@pytest.mark.parametrize("n", [1, 6])
def test_a_condition_that_changes_computes_the_same(n: int) -> None:
    knl = pl.make_kernel("{[i]: 0 <= i < n}", CHANGING, DATA)
    zeros = np.zeros(n, np.int32)
    arguments: dict[str, Any] = {"x": np.arange(n, dtype=np.int32) - 2, "y": zeros, "z": zeros}
    expected = pl.interpret(knl, **{name: value.copy() for name, value in arguments.items()})
    got = pl.compile(knl, target=pl.CTarget())(**{name: value.copy() for name, value in arguments.items()})
    for name in ("x", "y", "z"):
        np.testing.assert_array_equal(got[name], expected[name])
