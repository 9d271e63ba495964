"""Expression nodes: pymbolic's, plus the ones that loop programs need.

polyloop expressions are pymbolic trees (``Variable``, ``Subscript``, ``Sum``, ``Product``,
``Quotient``, ``FloorDiv``, ``Remainder``, ``Power``, ``Comparison``, ``LogicalAnd`` / ``Or`` /
``Not``, ``If``, ``Min``, ``Max``, ``Call``, the bitwise nodes) with Python numbers and NumPy
scalars as constants, and the nodes defined here.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from pymbolic.primitives import ExpressionNode, Product, expr_dataclass

__all__ = [
    "Expression",
    "Lookup",
    "Record",
    "Reduction",
    "TypeCast",
    "array_name",
    "element_of",
    "field_path",
    "function_name",
    "negate",
]

Expression: TypeAlias = Any
"""A pymbolic node, a Python number or a NumPy scalar."""


@expr_dataclass()
class Reduction(ExpressionNode):
    """``operation`` over all values of ``inames`` of ``expr``: ``sum(k, a[k])``.

    ``operation`` is one of ``sum``, ``product``, ``max``, ``min``, ``any``, ``all``.
    The order of the terms is free.
    """

    operation: str
    inames: tuple[str, ...]
    expr: Expression


@expr_dataclass()
class TypeCast(ExpressionNode):
    """``cast(float32, e)``: the value of ``child`` converted to the NumPy type named ``dtype``."""

    dtype: str
    child: Expression


@expr_dataclass()
class Lookup(ExpressionNode):
    """``a[i].re``: the field ``field`` of the record ``aggregate``."""

    aggregate: Expression
    field: str


@expr_dataclass()
class Record(ExpressionNode):
    """``make_float4(a, b, c, d)``: a record of type ``dtype``, whose fields have ``values``, in order."""

    dtype: np.dtype[Any]
    values: tuple[Expression, ...]


def negate(expr: Expression) -> Expression:
    """Return ``-expr``, as the parser builds it: a negative constant, or a product led by -1."""
    kind = type(expr)
    if _is_signed_number(expr):
        return complex(0.0, -expr.imag) if kind is complex and not expr.real else -expr
    if kind is Product:
        first, *rest = expr.children
        if type(first) is int and first == -1 and rest:
            return rest[0] if len(rest) == 1 else Product(tuple(rest))
        if _is_signed_number(first):
            return Product((negate(first), *rest))
        return Product((-1, *expr.children))
    return Product((-1, expr))


def _is_signed_number(expr: Expression) -> bool:
    return type(expr) in (int, float, complex) or isinstance(expr, np.inexact | np.signedinteger)


def array_name(expr: Expression) -> str:
    """Return the name that a variable or a subscript accesses, or a field of one."""
    element: Expression = element_of(expr)
    variable: Expression = getattr(element, "aggregate", element)
    name = variable.name
    assert isinstance(name, str), f"{expr} accesses no variable"
    return name


def function_name(expr: Expression) -> str:
    """Return the name of the function that a call calls."""
    name = expr.function.name
    assert isinstance(name, str), f"{expr} calls no named function"
    return name


def element_of(expr: Expression) -> Expression:
    """Return the variable or the subscript whose field, or field of a field, *expr* is; *expr* itself if it is none."""
    element: Expression = expr
    while type(element) is Lookup:
        element = element.aggregate
    return element


def field_path(expr: Expression) -> tuple[str, ...]:
    """Return the names of the fields that lead from :func:`element_of` to *expr*: ``("pos", "x")``."""
    path: list[str] = []
    while type(expr) is Lookup:
        path.insert(0, expr.field)
        expr = expr.aggregate
    return tuple(path)
