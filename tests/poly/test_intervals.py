"""Ranges of expressions hold every value, and are the value at a point."""

from __future__ import annotations

import random
from itertools import product

import pytest

from polyloop.errors import KernelError
from polyloop.expr.parser import parse_expression
from polyloop.poly.intervals import is_computed, value_range

_FORMS = (
    "({a} + {b})", "({a} - {b})", "({a} * {b})", "({a} // {b})", "({a} % {b})", "({a} << abs({b}) % 5)",
    "({a} >> abs({b}) % 5)", "({a} & {b})", "({a} | {b})", "({a} ^ {b})", "~{a}", "abs({a})", "min({a}, {b})",
    "max({a}, {b})", "({a})**2", "({a})**3", "cast(int8, {a})", "choose({a} < {b}, {c}, {a})",
    "choose({a} == {b} or {c} >= 1, {c}, {a})", "choose(not {a} != {b} and {c} <= {a}, {c}, {b})",
)  # fmt: skip


def _text(rng: random.Random, depth: int) -> str:
    if not depth:
        return rng.choice(["i", "j", str(rng.randint(-6, 6))])
    parts = {name: _text(rng, depth - 1) for name in "abc"}
    return rng.choice(_FORMS).format(**parts)


_PYTHON = {
    "abs": abs, "min": min, "max": max, "int8": None, "cast": lambda _, x: (x + 128) % 256 - 128,
    "choose": lambda c, a, b: a if c else b,
}  # fmt: skip


def _value(text: str, i: int, j: int) -> int | None:
    try:
        return int(eval(text, {**_PYTHON, "i": i, "j": j}))
    except ZeroDivisionError:
        return None


def check(seed: int, count: int) -> None:
    rng = random.Random(seed)
    known = 0
    for _ in range(count):
        text = _text(rng, rng.randint(1, 3))
        try:
            expr = parse_expression(text.replace("choose(", "if("), inames=frozenset())
        except KernelError:
            continue  # a division of constants by zero
        assert is_computed(expr)
        (i0, j0), lengths = (rng.randint(-9, 9), rng.randint(-9, 9)), (rng.randint(0, 6), rng.randint(0, 6))
        box = {"i": (i0, i0 + lengths[0]), "j": (j0, j0 + lengths[1])}
        found = value_range(expr, box)
        if found is None:
            continue
        known += 1
        for i, j in product(range(i0, box["i"][1] + 1), range(j0, box["j"][1] + 1)):
            value = _value(text, i, j)
            if value is None:
                continue
            assert found[0] <= value <= found[1], (text, box, found, value)
            at = value_range(expr, {"i": (i, i), "j": (j, j)})
            assert at in (None, (value, value)), (text, i, j, at, value)
    assert known > count // 2


def test_ranges_hold_all_values() -> None:
    check(1, 1500)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 12))
def test_ranges_hold_all_values_at_length(seed: int) -> None:
    check(seed, 5000)


@pytest.mark.parametrize("text", ["x[i]", "exp(i)", "i/2", "i*0.5", "cast(float32, i)", "sum(j, j)"])
def test_what_is_not_computed(text: str) -> None:
    assert not is_computed(parse_expression(text))


def test_large_powers_are_not_computed() -> None:
    assert value_range(parse_expression("2**n"), {"n": (0, 10**9)}) is None
    assert value_range(parse_expression("1 << n"), {"n": (0, 10**9)}) is None
