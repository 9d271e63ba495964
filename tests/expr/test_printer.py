"""Printing: little text, and the parser gives back the very same node."""

from __future__ import annotations

import dataclasses
from typing import Any, cast

import pymbolic.primitives as p
import pytest
from hypothesis import example, given, settings

from polyloop.expr.nodes import Expression
from polyloop.expr.parser import parse_expression
from polyloop.expr.printer import show
from tests.expr.strategies import INAMES, expressions

pytestmark = pytest.mark.filterwarnings("ignore:Generating overly large repr")

X, Y, Z = p.Variable("x"), p.Variable("y"), p.Variable("z")


@settings(max_examples=400)
@given(expressions)
@example(p.Sum((X, p.Product((-1, Y)))))
@example(p.Sum((X, p.Quotient(p.Product((-1, Y)), Z))))
@example(p.Product((-1, p.Product((X, Y)))))
@example(p.Product((-1, -1, X)))
@example(p.Sum((X, p.Product((-1, 2)))))
@example(p.Product((X, p.Product((-1, Y)))))
@example(p.Sum((X, -0.0)))
def test_the_parser_reads_back_what_is_printed(expr: Expression) -> None:
    assert repr_all(parse_expression(show(expr), inames=INAMES)) == repr_all(expr)


@pytest.mark.slow
@settings(max_examples=20_000, deadline=None)
@given(expressions)
def test_the_parser_reads_back_what_is_printed_at_length(expr: Expression) -> None:
    assert repr_all(parse_expression(show(expr), inames=INAMES)) == repr_all(expr)


def repr_all(expr: Expression) -> str:
    """Return a text that tells 1, 1.0 and True apart, at any depth."""
    if not isinstance(expr, p.ExpressionNode):
        return repr(expr)
    fields = [getattr(expr, field.name) for field in dataclasses.fields(cast("Any", expr)) if field.init]
    parts = ", ".join(
        f"({', '.join(map(repr_all, value))})" if isinstance(value, tuple) else repr_all(value) for value in fields
    )
    return f"{type(expr).__name__}({parts})"


@pytest.mark.parametrize(
    "text",
    [
        "a[i, k - 1]*b",
        "x - y",
        "-x*y",
        "x - y*z/2",
        "-(x/y)",
        "x + (y + z)",
        "(x + y)*z",
        "x*(y*z)",
        "x - i // 2",
        "x**2**y",
        "(-x)**2",
        "-x**2",
        "if(x < 0, -x, x)",
        "sum(k, a[i, k]*b[k, j])",
        "max((i, j), a[i, j])",
        "min(x, y, 3)",
        "cast(float32, x) + 1.5",
        "not x and (y or z)",
        "x << 2 & 7",
        "0 < x and x < 3",
        "f(x, y)",
        "1.5f*x - 2u",
        "0.1d + 3l*x - 4ul",
        "2.0 + 1j*x",
        "x - 2.5j*y",
        "1e-30f",
    ],
)
def test_text_with_minimal_parentheses_is_printed_as_it_was(text: str) -> None:
    assert show(parse_expression(text, inames=INAMES)) == text


@pytest.mark.parametrize("text", [
    "a[i].x + 1", "-a[i].re*b", "argmax(k, a[k], k).index + 1", "cast(int64, x) + sum(k, x[k])", "2*cse(x + 1, c)",
])  # fmt: skip
def test_what_pymbolic_prints_is_read_back(text: str) -> None:
    expr = parse_expression(text)
    assert parse_expression(str(expr)) == expr
