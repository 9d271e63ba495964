"""Records and vectors in expressions: fields, constructors, arithmetic by component."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import pymbolic.primitives as p

from polyloop.codegen.expressions import records
from polyloop.codegen.expressions.conversions import cast
from polyloop.codegen.loops.context import Context
from polyloop.codegen.scope import Scope
from polyloop.codegen.tree import c_expr as c
from polyloop.codegen.tree.c_expr import Code
from polyloop.expr.dtypes import is_unsigned
from polyloop.expr.nodes import Expression, Lookup, Record, function_name, sign_first
from polyloop.expr.promotion import Weak
from polyloop.expr.records import component, field_dtype, field_names, is_record, is_vector

__all__ = ["Vectors"]

DType = np.dtype[np.generic]


class Vectors(ABC):
    """The part of :class:`polyloop.codegen.expressions.expressions.Expressions` that prints records and vectors."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self.context = Context()

    @abstractmethod
    def _render(self, expr: Expression, want: DType | None) -> Code:
        """Return any expression in C; *want* is the type for constants that adapt."""

    @abstractmethod
    def _type(self, expr: Expression) -> DType | Weak:
        """Return the type of an expression."""

    @abstractmethod
    def _extreme(self, operation: str, dtype: DType, left: Code, right: Code) -> Code:
        """Return the ``min`` or ``max`` of two scalars."""

    @abstractmethod
    def _call_function(self, name: str, dtype: DType, arguments: Sequence[Code]) -> Code:
        """Return a call of a function of scalars."""

    def stored(self, expr: Expression, context: Context, dtype: DType) -> Code:
        """Return *expr* converted for an assignment to a variable of type *dtype*."""
        self.context = context
        return self._as_vector(expr, dtype) if is_vector(dtype) else self._render(expr, dtype)

    def added(self, operation: str, target: Code, dtype: DType, expr: Expression, context: Context) -> Code:
        """Return a vector plus, or times, an expression."""
        self.context = context
        other = (self._component(expr, dtype), is_vector(self._type(expr)))
        return records.operator_text(self.scope, dtype, "+" if operation == "sum" else "*", [(target, True), other])

    def lookup(self, expr: Lookup, want: DType | None) -> Code:
        """Return a field of a record."""
        return c.Member(self._render(expr.aggregate, None), self.scope.definitions.spelling_of.field(expr.field))

    def record(self, expr: Record, want: DType | None) -> Code:
        """Return a record made of its fields."""
        types = [field_dtype(expr.dtype, name) for name in field_names(expr.dtype)]
        values = [self.stored(value, self.context, kind) for value, kind in zip(expr.values, types, strict=True)]
        return records.make_record(self.scope, expr.dtype, values)

    def _component(self, expr: Expression, dtype: DType) -> Code:
        """Return a printed operand of vectors of type *dtype*: a vector, or a scalar of the component type."""
        kind, base = self._type(expr), component(dtype)
        text = self._render(expr, base)
        return text if is_vector(kind) or isinstance(kind, Weak) or kind == base else cast(self.scope, base, text)

    def _as_vector(self, expr: Expression, dtype: DType) -> Code:
        text = self._component(expr, dtype)
        if is_record(self._type(expr)):
            return text
        if not isinstance(expr, p.ExpressionNode):
            return records.make_record(self.scope, dtype, [text] * len(field_names(dtype)))
        return records.splat(self.scope, dtype, text)

    def _vector_chain(self, dtype: DType, symbol: str, exprs: Sequence[Expression]) -> Code:
        """Return vectors and scalars combined from left to right."""
        total: tuple[Code, bool] | None = None
        for expr in exprs:
            factors = sign_first(expr) if type(expr) is p.Product else ()
            minus = symbol == "+" and len(factors) == 2 and type(factors[0]) is int and total is not None
            minus = minus and factors[0] == -1
            part = factors[1] if minus else expr
            operand = (self._component(part, dtype), is_vector(self._type(part)))
            if total is None:
                total = operand
                continue
            if not total[1] and not operand[1]:
                total = (c.binary(c.OPERATORS["-" if minus else symbol], total[0], operand[0]), False)
                continue
            total = (records.operator_text(self.scope, dtype, "-" if minus else symbol, [total, operand]), True)
        assert total is not None, "nothing to combine"
        return total[0]

    def _vector_sum(self, expr: p.Sum, dtype: DType) -> Code:
        return self._vector_chain(dtype, "+", expr.children)

    def _vector_product(self, expr: p.Product, dtype: DType) -> Code:
        first, *rest = sign_first(expr)
        if type(first) is int and first == -1 and len(rest) == 1:
            return records.operator_text(self.scope, dtype, "-", [(self._component(rest[0], dtype), True)])
        if type(first) is int and first == -1:
            sign = is_vector(self._type(rest[0]))
            negated = [(self._component(rest[0], dtype), True)]
            if sign:
                total = (records.operator_text(self.scope, dtype, "-", negated), True)
                for child in rest[1:]:
                    operand = (self._component(child, dtype), is_vector(self._type(child)))
                    total = (records.operator_text(self.scope, dtype, "*", [total, operand]), True)
                return total[0]
        return self._vector_chain(dtype, "*", expr.children)

    def _vector_quotient(self, expr: p.Quotient, dtype: DType) -> Code:
        return self._vector_chain(dtype, "/", (expr.numerator, expr.denominator))

    def _vector_extreme(self, operation: str, dtype: DType, arguments: Sequence[Code]) -> Code:
        def apply(parts: Sequence[Code]) -> Code:
            return self._extreme(operation, component(dtype), parts[0], parts[1])

        return records.apply_componentwise(self.scope, dtype, operation, apply, arguments)

    def _vector_min_max(self, expr: p.Min | p.Max, dtype: DType) -> Code:
        first, *rest = [self._as_vector(child, dtype) for child in expr.children]
        for other in rest:
            first = self._vector_extreme("min" if isinstance(expr, p.Min) else "max", dtype, [first, other])
        return first

    def _vector_call(self, expr: p.Call, dtype: DType) -> Code:
        name, base = function_name(expr), component(dtype)
        arguments = [self._as_vector(part, dtype) for part in expr.parameters]
        if name == "abs" and is_unsigned(base):
            return arguments[0]

        def apply(parts: Sequence[Code]) -> Code:
            return self._call_function(name, base, parts)

        title = f"fast_{name}" if self.scope.fast else name
        return records.apply_componentwise(self.scope, dtype, title, apply, arguments)

    def _vector_if(self, expr: p.If, dtype: DType) -> Code:
        then, orelse = self._as_vector(expr.then, dtype), self._as_vector(expr.else_, dtype)
        return c.Choice(self._render(expr.condition, None), then, orelse)

    VECTOR_METHODS: ClassVar[Mapping[type, Callable[[Vectors, Any, DType], Code]]] = {
        p.Sum: _vector_sum,
        p.Product: _vector_product,
        p.Quotient: _vector_quotient,
        p.Min: _vector_min_max,
        p.Max: _vector_min_max,
        p.Call: _vector_call,
        p.If: _vector_if,
    }
