"""Conversions of values for assignments to variables and to fields of records."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeGuard

import numpy as np
import pymbolic.primitives as p

from polyloop.codegen.expressions.conversions import converted, narrowed
from polyloop.codegen.expressions.elements import element
from polyloop.codegen.expressions.literals import literal
from polyloop.codegen.expressions.records import make_record
from polyloop.codegen.expressions.renderer import Renderer, Rule
from polyloop.codegen.expressions.vectors import as_vector
from polyloop.codegen.expressions.wrapping import without_cast
from polyloop.codegen.tree.c_expr import Code
from polyloop.expr.dtypes import DType, computed, is_integer, is_narrow
from polyloop.expr.nodes import Expression, Record, TypeCast
from polyloop.expr.records import field_dtype, field_names, is_record, is_vector

__all__ = ["RECORDS", "stored"]


def stored(r: Renderer, expr: Expression, dtype: DType) -> Code:
    """Return *expr* converted for an assignment to a variable of *dtype*."""
    if is_vector(dtype):
        return as_vector(r, expr, dtype)
    if is_record(dtype):
        return r.render(expr, dtype)
    if is_narrow(dtype) and isinstance(expr, p.Variable | p.Subscript) and r.types.of(expr) == dtype:
        return element(r, expr)
    if is_narrow(dtype) and _is_cast_to(expr, dtype):  # rounded once, and not widened to compute with it
        text = r.render_as(r.values, expr.child, None)
        return narrowed(r.scope, dtype, text, r.values.computed(expr.child, None))
    if type(expr) is int and is_integer(dtype):
        return literal(r.scope, np.asarray(expr).astype(dtype).item(), dtype)
    text = without_cast(r, r.render(expr, computed(dtype)), dtype)
    return converted(r.scope, text, r.types.computed(expr, dtype), dtype)


def _is_cast_to(expr: Expression, dtype: DType) -> TypeGuard[TypeCast]:
    """Return whether *expr* is a value, and no number that is written out, cast to *dtype*."""
    return isinstance(expr, TypeCast) and np.dtype(expr.dtype) == dtype and not isinstance(expr.child, int | float)


def _record(r: Renderer, expr: Record, want: DType | None) -> Code:
    types = [field_dtype(expr.dtype, name) for name in field_names(expr.dtype)]
    values = [stored(r, value, kind) for value, kind in zip(expr.values, types, strict=True)]
    return make_record(r.scope, expr.dtype, values)


RECORDS: Final[Mapping[type, Rule]] = {Record: _record}
