"""Expression to text, as a person would write it; :func:`polyloop.expr.parser.parse_expression` reads it back."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from typing import Any, Final

import numpy as np
import pymbolic.primitives as p

from polyloop.expr.nodes import (
    CText,
    Expression,
    Lookup,
    Node,
    Record,
    Reduction,
    Shared,
    Targets,
    Terms,
    TypeCast,
    opposite,
)
from polyloop.expr.records import record_name

__all__ = ["foreign_node", "show"]

# How tightly an operator binds, as in Python: an operand that binds less tightly is put in parentheses.
_LOWEST, _OR, _AND, _NOT, _COMPARE, _BIT_OR, _BIT_XOR, _BIT_AND = range(8)
_SHIFT, _ADD, _MULTIPLY, _UNARY, _POWER, _ATOM = range(8, 14)

_JOINED: Final[dict[type, tuple[str, int]]] = {
    p.LogicalOr: (" or ", _OR),
    p.LogicalAnd: (" and ", _AND),
    p.BitwiseOr: (" | ", _BIT_OR),
    p.BitwiseXor: (" ^ ", _BIT_XOR),
    p.BitwiseAnd: (" & ", _BIT_AND),
}
_CHAINED: Final[dict[type, tuple[str, int, str, str]]] = {
    p.Quotient: ("/", _MULTIPLY, "numerator", "denominator"),
    p.FloorDiv: (" // ", _MULTIPLY, "numerator", "denominator"),
    p.Remainder: (" % ", _MULTIPLY, "numerator", "denominator"),
    p.LeftShift: (" << ", _SHIFT, "shiftee", "shift"),
    p.RightShift: (" >> ", _SHIFT, "shiftee", "shift"),
}


def show(expr: Expression) -> str:
    """Return *expr* as text with few parentheses: ``a[i, k - 1]*b - c``, ``if(x > 0, x, 0)``, ``sum(k, ...)``."""
    return _show(expr, _LOWEST)


def foreign_node(expr: object) -> str | None:
    """Return the class of the first node of *expr* that has no text, as of other programs that use pymbolic."""
    if type(expr) in _RENDERERS:
        parts: Iterable[object] = vars(expr).values()
    elif isinstance(expr, tuple | list):
        parts = expr
    else:
        return type(expr).__name__ if isinstance(expr, p.ExpressionNode) else None
    return next((found for part in parts if (found := foreign_node(part)) is not None), None)


def _show(expr: Expression, context: int) -> str:
    text, level = _render(expr)
    return f"({text})" if level < context else text


def _list(parts: tuple[Expression, ...]) -> str:
    return ", ".join([_show(part, _LOWEST) for part in parts])


def _is_negative(value: Expression) -> bool:
    if isinstance(value, complex):
        return not value.real and math.copysign(1.0, value.imag) < 0
    if isinstance(value, float | np.floating):
        return math.copysign(1.0, value) < 0
    return isinstance(value, int | np.integer) and bool(value < 0)


def _is_number(value: Expression) -> bool:
    return not isinstance(value, p.ExpressionNode)


_SUFFIXES: Final[dict[str, str]] = {"float32": "f", "float64": "d", "uint32": "u", "int64": "l", "uint64": "ul"}


def _strong(value: np.generic) -> tuple[str, int]:
    """Return a constant that does not adapt: with a suffix, or as a cast."""
    suffix = _SUFFIXES.get(value.dtype.name)
    if suffix is None or not np.isfinite(value):
        return f"cast({value.dtype.name}, {value!s})", _ATOM
    return f"{value!s}{suffix}", _UNARY if _is_negative(value) else _ATOM


def _number(value: Expression) -> tuple[str, int]:
    if isinstance(value, np.generic) and not isinstance(value, np.bool_):
        return _strong(value)
    if isinstance(value, complex):
        imaginary = repr(value.imag).removesuffix(".0") + "j"
        text = imaginary if not value.real else f"{value.real!r} + {imaginary}"
        return (text, _UNARY if _is_negative(value) else _ATOM) if not value.real else (text, _ADD)
    text = str(value) if isinstance(value, np.generic) else repr(value)
    return text, _UNARY if _is_negative(value) else _ATOM


def _sum(expr: Expression) -> tuple[str, int]:
    pieces: list[str] = []
    for child in expr.children:
        if not pieces:
            pieces.append(_show(child, _ADD))
        elif type(child) is p.Product and _is_minus(child):
            pieces.append(" - " + _term(child.children[1:]))
        elif type(child) is p.Product and opposite(child) is not None:
            pieces.append(" + " + _term(child.children))
        else:
            text = _show(child, _ADD + 1)
            signed = text.startswith("-") and (
                _is_number(child) or (type(child) is p.Product and _is_number(child.children[0]))
            )
            pieces.append(" - " + text[1:] if signed else " + " + text)
    return "".join(pieces), _ADD


def _is_minus(product: Expression) -> bool:
    """Return whether *product* is parsed from, and printed as, ``-x``."""
    first, *rest = product.children
    if type(first) is not int or first != -1 or not rest:
        return False
    if isinstance(rest[0], np.unsignedinteger) or opposite(p.Product(tuple(rest))) is not None:
        return True
    return not _is_number(rest[0]) and type(rest[0]) is not p.Product


def _factors(factors: tuple[Expression, ...]) -> str:
    first, *rest = factors
    return "*".join([_show(first, _MULTIPLY), *(_show(factor, _POWER) for factor in rest)])


def _term(factors: tuple[Expression, ...]) -> str:
    """Return a term behind a sign: ``-b*c`` for one that is negative by its first factor, ``b*-1*c``."""
    return _factors(factors) if len(factors) == 1 else _product(p.Product(factors))[0]


def _product(expr: Expression) -> tuple[str, int]:
    if opposite(expr) is not None:
        first, _, *rest = expr.children
        begin = f"({_factors(first.children)})" if type(first) is p.Product else _show(first, _POWER)
        return "*".join([f"-{begin}", *(_show(factor, _POWER) for factor in rest)]), _MULTIPLY
    if not _is_minus(expr):
        return _factors(expr.children), _MULTIPLY
    _, first, *rest = expr.children
    return f"-({_term((first, *rest))})" if rest else f"-{_show(first, _POWER)}", _MULTIPLY


def _chained(expr: Expression) -> tuple[str, int]:
    symbol, level, left, right = _CHAINED[type(expr)]
    tight = _POWER if level == _MULTIPLY else level + 1
    return f"{_show(getattr(expr, left), level)}{symbol}{_show(getattr(expr, right), tight)}", level


def _joined(expr: Expression) -> tuple[str, int]:
    symbol, level = _JOINED[type(expr)]
    first, *rest = expr.children
    return symbol.join([_show(first, level), *(_show(child, level + 1) for child in rest)]), level


def _mentions(expr: Expression, name: str) -> bool:
    return re.search(rf"(?<![\w.]){name}\b", _show(expr, _LOWEST)) is not None


def _extreme(expr: p.Min | p.Max) -> tuple[str, int]:
    """Return the smaller or the larger one of numbers, which is not to look like a reduction: ``min(+i, n - i)``."""
    first, *rest = expr.children
    alike = len(rest) == 1 and type(first) is p.Variable and _mentions(rest[0], first.name)
    name = "min" if type(expr) is p.Min else "max"
    return f"{name}({'+' if alike else ''}{_list(expr.children)})", _ATOM


def _reduction(expr: Expression) -> tuple[str, int]:
    inames = expr.inames[0] if len(expr.inames) == 1 else f"({', '.join(expr.inames)})"
    if len(expr.inames) == 1 and expr.operation.name in ("min", "max") and not _mentions(expr.expr, inames):
        # an element of an array may vary; max(i, 3) is the larger number
        is_plain = re.search(r"\w\[", _show(expr.expr, _LOWEST)) is not None
        inames = inames if is_plain else f"[{inames}]"
    head = f"reduce({expr.operation}, " if expr.operation.text else f"{expr.operation}("
    more = "" if expr.start is None else f", start={_show(expr.start, _LOWEST)}"
    if expr.along:
        more += f", along={':'.join(expr.along)}{' (after)' if expr.after else ''}"
    return f"{head}{inames}, {_show(expr.expr, _LOWEST)}{more})", _ATOM


def _nan(expr: p.NaN) -> tuple[str, int]:
    dtype: Any = expr.data_type
    return ("nan" if dtype is None else f"cast({np.dtype(dtype).name}, nan)"), _ATOM


_RENDERERS: Final[dict[type, Callable[[Any], tuple[str, int]]]] = {
    p.Variable: lambda e: (e.name, _ATOM),
    p.NaN: _nan,
    p.Subscript: lambda e: (f"{e.aggregate.name}[{_list(e.index_tuple)}]", _ATOM),
    p.Call: lambda e: (f"{e.function.name}({_list(e.parameters)})", _ATOM),
    p.Min: _extreme,
    p.Max: _extreme,
    p.If: lambda e: (f"if({_list((e.condition, e.then, e.else_))})", _ATOM),
    Targets: lambda e: (_list(e.elements) or "()", _LOWEST),
    CText: lambda e: (f"C({' '.join(e.code.split())!r})", _ATOM),
    Shared: lambda e: (f"cse({_list((e.child,))}{f', {e.name}' if e.name else ''})", _ATOM),
    TypeCast: lambda e: (f"cast({e.dtype}, {_show(e.child, _LOWEST)})", _ATOM),
    Lookup: lambda e: (f"{_show(e.aggregate, _ATOM)}.{e.field}", _ATOM),
    Record: lambda e: (f"make_{record_name(e.dtype)}({_list(e.values)})", _ATOM),
    Reduction: _reduction,
    Terms: lambda e: (_list(e.children), _ATOM),
    p.Sum: _sum,
    p.Product: _product,
    p.Power: lambda e: (f"{_show(e.base, _ATOM)}**{_show(e.exponent, _POWER)}", _POWER),
    p.Comparison: lambda e: (
        f"{_show(e.left, _COMPARE + 1)} {e.operator} {_show(e.right, _COMPARE + 1)}",
        _COMPARE,
    ),
    p.LogicalNot: lambda e: (f"not {_show(e.child, _NOT)}", _NOT),
    p.BitwiseNot: lambda e: (f"~{_show(e.child, _POWER)}", _UNARY),
    **dict.fromkeys(_CHAINED, _chained),
    **dict.fromkeys(_JOINED, _joined),
}


def _render(expr: Expression) -> tuple[str, int]:
    renderer = _RENDERERS.get(type(expr))
    if renderer is not None:
        return renderer(expr)
    assert _is_number(expr), f"unexpected node {type(expr).__name__}"
    return _number(expr)


Node.show = staticmethod(show)
