"""Integer expressions of sizes as C: exact, in 128 bits, with divisions that round down."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
from pymbolic import primitives as p

from polyloop.expr.nodes import Expression

__all__ = ["DEFINITIONS", "Inexpressible", "as_c", "bare"]

DEFINITIONS: Final = """\
#ifndef POLYLOOP_EXACT
#define POLYLOOP_EXACT
typedef __int128 polyloop_exact;  // sizes, and what is computed from them
static inline polyloop_exact polyloop_quotient(polyloop_exact a, polyloop_exact b)
{
    return a / b - (a % b != 0 && (a < 0) != (b < 0));
}
static inline polyloop_exact polyloop_remainder(polyloop_exact a, polyloop_exact b)
{
    return a - b * polyloop_quotient(a, b);
}
static inline polyloop_exact polyloop_least(polyloop_exact a, polyloop_exact b) { return a < b ? a : b; }
static inline polyloop_exact polyloop_greatest(polyloop_exact a, polyloop_exact b) { return a > b ? a : b; }
#endif
"""
_LARGEST: Final = 2**63 - 1


class Inexpressible(Exception):  # noqa: N818 - no error of a user
    """An expression that C cannot express."""


def as_c(expression: Expression, names: Mapping[str, str]) -> str:
    """Return *expression* as C, in parentheses where it is no name or number; *names* are those of its variables.

    Raises
    ------
    Inexpressible
        The expression has a part that is only evaluated by the library.
    """
    match expression:
        case int() | np.integer() | np.bool_():
            return _number(int(expression))
        case p.Variable():
            return names[expression.name]
        case p.Sum():
            return _joined(" + ", expression.children, names)
        case p.Product():
            return _joined(" * ", expression.children, names)
        case p.FloorDiv():
            return _call("quotient", (expression.numerator, expression.denominator), names)
        case p.Remainder():
            return _call("remainder", (expression.numerator, expression.denominator), names)
        case p.Power() if isinstance(expression.exponent, int) and expression.exponent >= 0:
            return _joined(" * ", (1, *[expression.base] * expression.exponent), names)
        case _:
            return _condition(expression, names)


def _number(value: int) -> str:
    if abs(value) > _LARGEST:
        raise Inexpressible(f"the number {value}")
    return str(value) if value >= 0 else f"({value})"


def _condition(expression: Expression, names: Mapping[str, str]) -> str:
    match expression:
        case p.Min() | p.Max():
            return _extreme("least" if isinstance(expression, p.Min) else "greatest", expression.children, names)
        case p.Comparison():
            operator = str(getattr(expression.operator, "value", expression.operator))
            return f"({as_c(expression.left, names)} {operator} {as_c(expression.right, names)})"
        case p.LogicalAnd():
            return _joined(" && ", expression.children, names)
        case p.LogicalOr():
            return _joined(" || ", expression.children, names)
        case p.LogicalNot():
            return f"(!{as_c(expression.child, names)})"
        case p.If():
            parts = [as_c(part, names) for part in (expression.condition, expression.then, expression.else_)]
            return f"({parts[0]} ? {parts[1]} : {parts[2]})"
        case _:
            raise Inexpressible(f"a condition on '{type(expression).__name__}'")


def _joined(operator: str, children: Sequence[Expression], names: Mapping[str, str]) -> str:
    texts = [as_c(child, names) for child in children]
    if all(isinstance(child, int | np.integer) for child in children):
        texts[0] = f"(polyloop_exact){texts[0]}"  # else the type of what is computed from numbers alone is int
    return f"({operator.join(texts)})"


def bare(text: str) -> str:
    """Return an expression without parentheses around all of it."""
    depth = 0
    for position, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if depth == 0 and position < len(text) - 1:
            return text
    return text[1:-1] if text.startswith("(") else text


def _call(name: str, arguments: Sequence[Expression], names: Mapping[str, str]) -> str:
    return f"polyloop_{name}({', '.join(as_c(argument, names) for argument in arguments)})"


def _extreme(name: str, children: Sequence[Expression], names: Mapping[str, str]) -> str:
    first, *others = children
    found = as_c(first, names)
    for other in others:
        found = f"polyloop_{name}({found}, {as_c(other, names)})"
    return found
