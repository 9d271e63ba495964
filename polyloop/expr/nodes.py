"""Expression nodes: pymbolic's, plus the ones that loop programs need.

polyloop expressions are pymbolic trees (``Variable``, ``Subscript``, ``Sum``, ``Product``,
``Quotient``, ``FloorDiv``, ``Remainder``, ``Power``, ``Comparison``, ``LogicalAnd`` / ``Or`` /
``Not``, ``If``, ``Min``, ``Max``, ``Call``, the bitwise nodes) with Python numbers and NumPy
scalars as constants, and the two nodes defined here.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from pymbolic.primitives import ExpressionNode, Product, expr_dataclass

__all__ = ["Expression", "Reduction", "TypeCast", "array_name", "function_name", "negate"]

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


def negate(expr: Expression) -> Expression:
    """Return ``-expr``, as the parser builds it: a negative constant, or a product led by -1."""
    kind = type(expr)
    if kind is int or kind is float:
        return -expr
    if kind is Product:
        first, *rest = expr.children
        if type(first) is int and first == -1 and rest:
            return rest[0] if len(rest) == 1 else Product(tuple(rest))
        if type(first) is int or type(first) is float:
            return Product((-first, *rest))
        return Product((-1, *expr.children))
    return Product((-1, expr))


def array_name(expr: Expression) -> str:
    """Return the name that a variable or a subscript accesses."""
    variable: Expression = getattr(expr, "aggregate", expr)
    name = variable.name
    assert isinstance(name, str), f"{expr} accesses no variable"
    return name


def function_name(expr: Expression) -> str:
    """Return the name of the function that a call calls."""
    name = expr.function.name
    assert isinstance(name, str), f"{expr} calls no named function"
    return name
