from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pymbolic import parse, var
from pymbolic.primitives import If, LogicalAnd, LogicalNot, LogicalOr, Max, Min

from polyloop.runtime.evaluate import affine_in, describe, evaluate, names_in


@given(st.integers(-10**20, 10**20), st.integers(-50, 50).filter(bool))
def test_division_rounds_towards_minus_infinity_at_any_size(a: int, b: int) -> None:
    values = {"a": a, "b": b}
    assert evaluate(parse("a // b"), values) == a // b
    assert evaluate(parse("a % b"), values) == a % b


@pytest.mark.parametrize(("text", "expected"), [
    ("2*n + m - 1", 12), ("n**2", 25), ("n < m", 0), ("n >= m", 1), ("n == 5", 1), ("n != 5", 0), ("m", 3), ("7", 7),
    ("-n", -5),
])
def test_arithmetic_and_comparisons(text: str, expected: int) -> None:
    assert evaluate(parse(text), {"n": 5, "m": 3}) == expected


def test_extremes_and_logic() -> None:
    n, values = var("n"), {"n": 5}
    assert evaluate(Min((n, 3)), values) == 3
    assert evaluate(Max((n, 3, 9)), values) == 9
    assert evaluate(LogicalAnd((parse("n > 1"), parse("n < 9"))), values) == 1
    assert evaluate(LogicalOr((parse("n > 9"), parse("n < 0"))), values) == 0
    assert evaluate(LogicalNot(parse("n > 9")), values) == 1
    assert evaluate(If(parse("n > 9"), 1, n + 2), values) == 7


def test_names_are_found_everywhere() -> None:
    assert names_in(Max((parse("a + b*c"), parse("d // 2"), LogicalNot(parse("e % 3 == f"))))) == set("abcdef")
    assert names_in(If(parse("a > 1"), parse("b"), parse("c**2"))) == set("abc")


@pytest.mark.parametrize(("text", "known", "expected"), [
    ("2*n + 1", {}, ({"n": 2}, 1)),
    ("n*m + m", {"m": 3}, ({"n": 3}, 3)),
    ("n*m", {}, None),
    ("n // 2 + 1", {}, None),
    ("n // 2 + 1", {"n": 8}, ({}, 5)),
    ("n - n", {}, ({}, 0)),
    ("2*(n + m)*3", {}, ({"n": 6, "m": 6}, 0)),
])
def test_affine_forms_of_the_unknown_names(
    text: str, known: dict[str, int], expected: tuple[dict[str, int], int] | None
) -> None:
    assert affine_in(parse(text), known) == expected


def test_description_lists_known_names() -> None:
    assert describe(parse("b*n + a"), {"a": 1, "n": 3}) == "a = 1, n = 3"
