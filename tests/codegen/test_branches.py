"""Data-dependent conditions that neighbours share are tested once, unless what is between changes them."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest

import polyloop as pl
from tests.transform.checking import check, cuda

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


def test_two_choices_are_apart_where_the_first_changes_the_condition() -> None:
    body = body_of(
        "y[i] = 1 {if=x[i] > 0}\nx[i] = 5 {if=not x[i] > 0}\ny[i] = 2 {if=x[i] > 0}\nz[i] = 3 {if=not x[i] > 0}"
    )
    assert body.count("if (x[i] > 0) {") == 2


@pytest.mark.few(4)
@pytest.mark.parametrize("seed", range(8))
def test_statements_under_any_conditions_run_as_they_are_written(seed: int) -> None:
    rng = Random(seed)
    lines = []
    for _ in range(6):
        condition = rng.choice(["x[i] > 0", "x[i] > 0", "y[i] > z[i]", "x[i] > 0 and y[i] > z[i]"])
        for case in rng.sample([condition, f"not ({condition})"], rng.choice([1, 2, 2, 2])):
            value = rng.choice(["-x[i]", "y[i] + 1", "z[i] - 2", "x[i] + z[i]", "3"])
            lines.append(f"{rng.choice('xyz')}[i] = {value} {{if={case}}}")
    knl = pl.make_kernel("{[i]: 0 <= i < n}", "for i\n" + "\n".join(lines) + "\nend", DATA, name="conditions")
    given = {name: np.random.default_rng(seed + k).integers(-3, 4, 64).astype(np.int32) for k, name in enumerate("xyz")}
    expected = pl.interpret(knl, **{name: value.copy() for name, value in given.items()})
    on_blocks = pl.split_iname(knl, "i", 16, outer_tag="g.0", inner_tag="l.0")
    for each in (knl, on_blocks):
        check(each, given, expected, fibres=each is on_blocks)


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


def test_a_loop_ends_where_its_flag_is_false() -> None:
    """Only where a register of the thread holds the flag, and the loop itself sets it."""
    text = """
    for i
        <> v = x[i]
        <> more = v > 1
        for k
            v = v/2 {if=more}
            more = v > 1 {if=more}
        end
        y[i] = v
    end
    """
    data = [pl.GlobalArg("x, y", np.float32, shape="n"), ...]
    knl = pl.make_kernel("{[i, k]: 0 <= i < n and 0 <= k < 20}", text, data, seq_dependencies=True)
    knl = knl.split_iname("i", 4, outer_tag="g.0", inner_tag="l.0")
    source = cuda(knl)
    assert "for (int k = 0; k < 20 && more; ++k) {" in source
    assert "if (more)" not in source
    x = np.array([1, 3, 0, 1000, 2**30, -4], np.float32)
    wanted = np.array([v if v <= 1 else v / 2 ** min(20, np.ceil(np.log2(v))) for v in x], np.float32)
    check(knl, {"x": x}, {"y": wanted})
    kept = pl.make_kernel(
        "{[i, k]: 0 <= i < n and 0 <= k < 20}", text.replace("more = v > 1 {if=more}", ""), data, seq_dependencies=True
    )
    assert "if (more)" in cuda(kept)
