"""Update of an accumulator: an operator, or a helper function that combines two states."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
import pymbolic.primitives as p

from polyloop.codegen.expressions.calls import extreme
from polyloop.codegen.expressions.conversions import cast
from polyloop.codegen.expressions.expressions import Expressions
from polyloop.codegen.expressions.operands import argument
from polyloop.codegen.expressions.renderer import Renderer
from polyloop.codegen.expressions.vectors import as_vector, vector_added, vector_extreme
from polyloop.codegen.expressions.wrapping import as_unsigned
from polyloop.codegen.loops.context import Context
from polyloop.codegen.scope import Memory, NameTypes, Scope
from polyloop.codegen.tree import c_expr as c
from polyloop.codegen.tree.c_expr import Code
from polyloop.expr.dtypes import computed, is_floating
from polyloop.expr.nodes import Expression, Operation
from polyloop.expr.printer import show
from polyloop.expr.promotion import adapted, common_type
from polyloop.expr.records import is_vector
from polyloop.frozen import replace

__all__ = ["compound", "function_scope", "updated"]

_ASSIGNMENTS: Final = {"sum": "+=", "product": "*="}
_WORD: Final = 4  # narrower types are computed as int and stored with a cast
_OPERANDS: Final = 2


def updated(
    expressions: Expressions,
    operation: Operation,
    target: tuple[Code, np.dtype[np.generic]],
    term: Expression,
    context: Context,
) -> tuple[str, Code]:
    """Return the assignment operator and the right side that combine *term* into *target*, a variable and its type."""
    left, dtype = target
    if operation.combine:
        function = _function(expressions, operation, dtype)
        return "=", c.Apply(function, (left, expressions.stored(term, context, dtype)))
    match operation.name:
        case "sum" | "product" if is_vector(dtype):
            return "=", vector_added(expressions.at(context), operation.name, left, dtype, term)
        case "sum" | "product":
            operator = _ASSIGNMENTS[operation.name]
            value = as_unsigned(expressions.renderer, term, expressions.stored(term, context, dtype), dtype)
            expressions.scope.operator(operator, dtype, dtype)
            return operator, value
        case "max" | "min":
            return "=", _extreme(expressions.at(context), operation.name, left, dtype, term)
        case "any" | "all":
            other = expressions.value(term, context, np.dtype("bool"))
            return "=", c.binary(c.OR if operation.name == "any" else c.AND, left, other)
    raise AssertionError(f"'{operation}' says not how it combines")


def _extreme(r: Renderer, operation: str, left: Code, left_type: np.dtype[np.generic], term: Expression) -> Code:
    """Return the maximum or minimum of a printed value and *term*."""
    if is_vector(left_type):
        return vector_extreme(r, operation, left_type, [left, as_vector(r, term, left_type)])
    dtype = computed(adapted(common_type((left_type, r.types.of(term))), None))
    if left_type != dtype and not is_floating(dtype):
        left = cast(r.scope, dtype, left)
    return extreme(r.scope, operation, dtype, left, argument(r, term, dtype))


def compound(
    target: Code, value: Code, lhs: Expression, rhs: Expression, dtype: np.dtype[np.generic], unsigned: str = ""
) -> tuple[str, Code]:
    """Return an assignment operator and its right side: ``+= x`` for ``target = target + x``, ``= value`` otherwise.

    Compound assignments are used only for a sum, difference, product or quotient of two operands with the target first,
    because another grouping may round differently.  *unsigned* is the C type in which the target's type wraps.
    """
    is_plain = dtype.names is None and dtype.kind in "iuf" and dtype.itemsize >= _WORD
    operands: tuple[Expression, ...] = rhs.children if isinstance(rhs, p.Sum | p.Product) else ()
    if isinstance(rhs, p.Quotient) and dtype.kind == "f":
        operands = (rhs.numerator, rhs.denominator)
    if is_plain and len(operands) == _OPERANDS and operands[0] == lhs:
        match value:
            case c.Binary(first, ((operator, other),)) if first == target:
                return f"{operator.symbol}=", other
            case c.Binary(c.Cast(kind, first), ((operator, other),)) if kind == unsigned and first == target:
                return f"{operator.symbol}=", c.Cast(unsigned, other)  # both forms compute in the unsigned type
    return "=", value


def _function(expressions: Expressions, operation: Operation, dtype: np.dtype[np.generic]) -> str:
    """Return the name of the function that combines two states of type *dtype*."""
    scope = expressions.scope
    meaning = "; ".join(map(show, operation.combine))
    key = f"combine {operation}: {meaning}, {scope.ctype(dtype)}{', fast' if scope.fast else ''}"
    wish = operation.name if operation.fields else f"{operation.name}_{dtype.name}"
    return scope.own_helper(key, wish, lambda name: _source(expressions, operation, dtype, name))


def _source(expressions: Expressions, operation: Operation, dtype: np.dtype[np.generic], name: str) -> str:
    scope = expressions.scope
    ctype = scope.ctype(dtype)
    inside = function_scope(scope, {"a": dtype, "b": dtype})
    printer = Expressions(inside)
    if len(operation.combine) == 1:
        lines = [f"    return {printer.stored(operation.combine[0], Context(), dtype)};"]
    else:
        assert dtype.fields is not None, f"the state of '{operation}' has fields"
        pairs = zip(operation.fields, operation.combine, strict=True)
        texts = [(field, printer.stored(expr, Context(), dtype.fields[field][0])) for field, expr in pairs]
        spelt = scope.definitions.spelling_of.field
        lines = [f"    {ctype} result;", *(f"    result.{spelt(field)} = {text};" for field, text in texts)]
        lines.append("    return result;")
    return "\n".join([f"{scope.language.syntax.helper} {ctype} {name}({ctype} a, {ctype} b)", "{", *lines, "}"])


def function_scope(scope: Scope, dtypes: Mapping[str, np.dtype[np.generic]]) -> Scope:
    """Return the scope of a helper function of variables with these *dtypes*; it shares the program's definitions."""
    types = NameTypes(dtypes, {}, scope.types.index_bits)
    return replace(scope, divisibility={}, values={}, types=types, memory=Memory(), used=set())
