"""Vectors in expressions: arithmetic by component."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import pymbolic.primitives as p

from polyloop.codegen.expressions import records
from polyloop.codegen.expressions.calls import call_function, extreme
from polyloop.codegen.expressions.conversions import cast
from polyloop.codegen.expressions.renderer import Renderer, VectorRule
from polyloop.codegen.tree import c_expr as c
from polyloop.codegen.tree.c_expr import Code
from polyloop.expr.dtypes import DType, is_unsigned
from polyloop.expr.nodes import Expression, function_name, sign_first
from polyloop.expr.promotion import Weak
from polyloop.expr.records import component, field_names, is_record, is_vector

__all__ = ["VECTORS", "as_vector", "vector_added", "vector_extreme"]


def vector_added(r: Renderer, operation: str, target: Code, dtype: DType, expr: Expression) -> Code:
    """Return a vector plus, or times, an expression."""
    other = (_operand(r, expr, dtype), is_vector(r.types.of(expr)))
    return records.operator_text(r.scope, dtype, "+" if operation == "sum" else "*", [(target, True), other])


def _operand(r: Renderer, expr: Expression, dtype: DType) -> Code:
    """Return a printed operand of vectors of type *dtype*: a vector, or a scalar of the component type."""
    kind, base = r.types.of(expr), component(dtype)
    text = r.render(expr, base)
    return text if is_vector(kind) or isinstance(kind, Weak) or kind == base else cast(r.scope, base, text)


def as_vector(r: Renderer, expr: Expression, dtype: DType) -> Code:
    """Return *expr* as a vector of type *dtype*: a scalar in all of its components."""
    text = _operand(r, expr, dtype)
    if is_record(r.types.of(expr)):
        return text
    if not isinstance(expr, p.ExpressionNode):
        return records.make_record(r.scope, dtype, [text] * len(field_names(dtype)))
    return records.splat(r.scope, dtype, text)


def _chain(r: Renderer, dtype: DType, symbol: str, exprs: Sequence[Expression]) -> Code:
    """Return vectors and scalars combined from left to right."""
    total: tuple[Code, bool] | None = None
    for expr in exprs:
        factors = sign_first(expr) if type(expr) is p.Product else ()
        minus = symbol == "+" and len(factors) == 2 and type(factors[0]) is int and total is not None
        minus = minus and factors[0] == -1
        part = factors[1] if minus else expr
        operand = (_operand(r, part, dtype), is_vector(r.types.of(part)))
        if total is None:
            total = operand
            continue
        if not total[1] and not operand[1]:
            total = (c.binary(c.OPERATORS["-" if minus else symbol], total[0], operand[0]), False)
            continue
        total = (records.operator_text(r.scope, dtype, "-" if minus else symbol, [total, operand]), True)
    assert total is not None, "nothing to combine"
    return total[0]


def _sum(r: Renderer, expr: p.Sum, dtype: DType) -> Code:
    return _chain(r, dtype, "+", expr.children)


def _product(r: Renderer, expr: p.Product, dtype: DType) -> Code:
    first, *rest = sign_first(expr)
    if type(first) is int and first == -1 and len(rest) == 1:
        return records.operator_text(r.scope, dtype, "-", [(_operand(r, rest[0], dtype), True)])
    if type(first) is int and first == -1:
        sign = is_vector(r.types.of(rest[0]))
        negated = [(_operand(r, rest[0], dtype), True)]
        if sign:
            total = (records.operator_text(r.scope, dtype, "-", negated), True)
            for child in rest[1:]:
                operand = (_operand(r, child, dtype), is_vector(r.types.of(child)))
                total = (records.operator_text(r.scope, dtype, "*", [total, operand]), True)
            return total[0]
    return _chain(r, dtype, "*", expr.children)


def _quotient(r: Renderer, expr: p.Quotient, dtype: DType) -> Code:
    return _chain(r, dtype, "/", (expr.numerator, expr.denominator))


def vector_extreme(r: Renderer, operation: str, dtype: DType, arguments: Sequence[Code]) -> Code:
    """Return the ``min`` or ``max`` of two vectors of type *dtype*."""

    def apply(parts: Sequence[Code]) -> Code:
        return extreme(r.scope, operation, component(dtype), parts[0], parts[1])

    return records.apply_componentwise(r.scope, dtype, operation, apply, arguments)


def _min_max(r: Renderer, expr: p.Min | p.Max, dtype: DType) -> Code:
    first, *rest = [as_vector(r, child, dtype) for child in expr.children]
    for other in rest:
        first = vector_extreme(r, "min" if isinstance(expr, p.Min) else "max", dtype, [first, other])
    return first


def _call(r: Renderer, expr: p.Call, dtype: DType) -> Code:
    name, base = function_name(expr), component(dtype)
    arguments = [as_vector(r, part, dtype) for part in expr.parameters]
    if name == "abs" and is_unsigned(base):
        return arguments[0]

    def apply(parts: Sequence[Code]) -> Code:
        return call_function(r.scope, name, base, parts)

    title = f"fast_{name}" if r.scope.fast else name
    return records.apply_componentwise(r.scope, dtype, title, apply, arguments)


def _if(r: Renderer, expr: p.If, dtype: DType) -> Code:
    then, orelse = as_vector(r, expr.then, dtype), as_vector(r, expr.else_, dtype)
    return c.Choice(r.render(expr.condition, None), then, orelse)


VECTORS: Final[Mapping[type, VectorRule]] = {
    p.Sum: _sum,
    p.Product: _product,
    p.Quotient: _quotient,
    p.Min: _min_max,
    p.Max: _min_max,
    p.Call: _call,
    p.If: _if,
}
