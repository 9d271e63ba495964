"""Calls of functions, minimum and maximum, and explicit casts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
import pymbolic.primitives as p

from polyloop.codegen.expressions import records
from polyloop.codegen.expressions.conversions import cast, converted, narrowed, widened
from polyloop.codegen.expressions.literals import typed_literal
from polyloop.codegen.expressions.operands import argument, fitted
from polyloop.codegen.expressions.renderer import Renderer, Rule
from polyloop.codegen.expressions.types import INT32
from polyloop.codegen.scope import Scope
from polyloop.codegen.tree import c_expr as c
from polyloop.codegen.tree.c_expr import Code
from polyloop.expr.dtypes import (
    DType,
    computed,
    is_bool,
    is_complex,
    is_floating,
    is_inexact,
    is_narrow,
    is_unsigned,
    rounded,
)
from polyloop.expr.foreign import ForeignName, choose
from polyloop.expr.functions import FUNCTIONS
from polyloop.expr.nodes import Expression, TypeCast
from polyloop.expr.promotion import adapted, argument_type, common_type
from polyloop.expr.records import is_record

__all__ = ["CALLS", "call_function", "extreme"]


def _min_max(r: Renderer, expr: p.Min | p.Max, want: DType | None) -> Code:
    operation = "min" if isinstance(expr, p.Min) else "max"
    dtype = r.types.common(expr.children, want)
    texts = [argument(r, child, dtype) for child in expr.children]
    result = texts[0]
    for text in texts[1:]:
        result = extreme(r.scope, operation, dtype, result, text)
    return result


def extreme(scope: Scope, operation: str, dtype: DType, left: Code, right: Code) -> Code:
    """Return the minimum or maximum of two printed values of *dtype*."""
    if is_floating(dtype):
        return call_function(scope, "f" + operation, dtype, [left, right])
    return scope.call(operation, dtype, left, right)


def call_function(scope: Scope, name: str, dtype: DType, arguments: Sequence[Code]) -> Code:
    """Return a call of the language's function *name* on arguments of type *dtype*."""
    spelling = scope.spelling(name, dtype)
    if "{" not in spelling:
        return c.Apply(spelling, tuple(arguments))
    if spelling.startswith("{0}."):
        return c.Member(arguments[0], spelling.removeprefix("{0}."))
    is_call = spelling.partition("(")[0].isidentifier() and spelling.endswith(")")
    return c.Template(spelling if is_call else f"({spelling})", tuple(arguments))


def _call(r: Renderer, expr: p.Call, want: DType | None) -> Code:
    assert isinstance(expr.function, p.Variable), f"call of '{expr.function}'"
    if isinstance(expr.function, ForeignName):
        return _foreign_call(r, expr.function, expr.parameters)
    name = expr.function.name
    if name in ("min", "max"):
        return _min_max(r, (p.Min if name == "min" else p.Max)(expr.parameters), want)
    function = FUNCTIONS[name]
    parts = expr.parameters[:-1] if function.integer_last else expr.parameters
    kind = argument_type(function, common_type([r.types.of(part) for part in parts]))
    dtype = computed(adapted(kind, want))
    if name in ("abs", "sign", "gcd"):
        dtype = r.types.here(dtype)
    texts = [argument(r, part, dtype) for part in parts]
    if function.integer_last:
        texts.append(argument(r, expr.parameters[-1], INT32))
    if is_record(result := r.types.of(expr)):
        return records.results_function(
            r.scope, name, result, lambda field, parts: call_function(r.scope, field, dtype, parts), texts[0]
        )
    if not is_complex(dtype) and name in ("real", "conj"):
        return texts[0]
    if not is_complex(dtype) and name == "imag":
        return typed_literal(r.scope, 0, dtype)
    if (name in ("abs", "sign") and is_bool(dtype)) or (name == "abs" and is_unsigned(dtype)):
        return texts[0]
    if name in ("sign", "gcd") or (name == "abs" and r.types.wraps(dtype)):
        return fitted(r.scope, dtype, r.scope.call(name, dtype, *texts))
    return fitted(r.scope, dtype if name == "abs" else INT32, call_function(r.scope, name, dtype, texts))


def _foreign_call(r: Renderer, function: ForeignName, parts: Sequence[Expression]) -> Code:
    chosen = choose(function, [r.types.of(part) for part in parts])
    assert chosen is not None, f"'{function.name}' is called with arguments of unknown types"
    given = [argument(r, part, dtype) for part, dtype in zip(parts, chosen.arguments, strict=True)]
    return c.Apply(r.scope.foreign(chosen), tuple(given))


def _type_cast(r: Renderer, expr: TypeCast, want: DType | None) -> Code:
    dtype = np.dtype(expr.dtype)
    child = expr.child
    if isinstance(child, int | float | complex) and (type(child) is int or is_inexact(dtype)):
        return typed_literal(r.scope, rounded(child, dtype).item(), computed(dtype))
    text, have = r.render_as(r.values, child, None), r.values.computed(child, None)  # a value, in a subscript too
    if is_narrow(dtype):
        return widened(r.scope, dtype, narrowed(r.scope, dtype, text, have))
    if is_complex(dtype) and r.scope.language.functions.operators:
        return converted(r.scope, text, have, dtype)
    if have == dtype and is_floating(dtype):
        return text
    return cast(r.scope, dtype, text)


CALLS: Final[Mapping[type, Rule]] = {p.Min: _min_max, p.Max: _min_max, p.Call: _call, TypeCast: _type_cast}
