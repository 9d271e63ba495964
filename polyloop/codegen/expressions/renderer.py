"""Printing of expressions by rules: one function for each kind of node, which prints the parts by their rules."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np
import pymbolic.primitives as p

from polyloop.codegen.expressions.conversions import cast
from polyloop.codegen.expressions.literals import literal, typed_literal
from polyloop.codegen.expressions.magnitude import Sum
from polyloop.codegen.expressions.types import Types, types_of_indices, types_of_values
from polyloop.codegen.loops.context import Context
from polyloop.codegen.loops.rows import rewrite
from polyloop.codegen.scope import Scope
from polyloop.codegen.tree import c_expr as c
from polyloop.codegen.tree.c_expr import Code
from polyloop.errors import Diagnostic
from polyloop.expr.constants import constant_of
from polyloop.expr.dtypes import DType, as_real, computed, is_inexact, is_integer, is_unsigned
from polyloop.expr.indexing import without_conditions
from polyloop.expr.nodes import Expression
from polyloop.expr.operator_types import BITWISE
from polyloop.expr.promotion import Weak, adapted, constant_type
from polyloop.expr.records import is_vector
from polyloop.poly.affine import Affine

__all__ = ["Renderer", "Rule", "VectorRule"]

Rule: TypeAlias = Callable[["Renderer", Any, DType | None], Code]
"""Function from a node of one kind to its C expression; the type is for constants that adapt."""

VectorRule: TypeAlias = Callable[["Renderer", Any, DType], Code]
"""Function from a node of one kind, of a vector type, to its C expression."""


class Renderer:
    """State of the printing of expressions in one :class:`Scope`, which all rules share.

    Attributes
    ----------
    values, indices
        Types of the parts of values, and of those of indices.
    types
        Types for the present part: one of the two, or the types inside of an index value.
    context
        Rows that hold at the present place of the code.
    used_context
        True if the result depends on the context; the caller resets it.
    held
        Variables that hold elements, by array and subscripts.
    made
        Variable that replaces the target of an assignment, if there is one.
    wrapped
        Casts to signed types: for each, the unsigned number and the type.
    """

    def __init__(self, scope: Scope, rules: Mapping[type, Rule], vector_rules: Mapping[type, VectorRule]) -> None:
        self.scope = scope
        self.values, self.indices = types_of_values(scope), types_of_indices(scope)
        self.types = self.values
        self.context = Context()
        self.used_context = False
        self.held: Mapping[tuple[str, tuple[Expression, ...]], Code] = {}
        self.made: Code | None = None
        self.wrapped: dict[Code, tuple[Code, DType]] = {}
        self._rules = rules
        self._vector_rules = vector_rules

    def render(self, expr: Expression, want: DType | None) -> Code:
        """Return *expr* in C; *want* is the type for constants that adapt."""
        kind = type(expr)
        if kind in self._vector_rules and is_vector(own := self.types.of(expr)):
            return self._vector_rules[kind](self, expr, own)
        if kind is not p.Variable and (number := self.types.of_number(expr, want)) is not None:
            return self._number(expr, number, want)
        rule = self._rules.get(kind)
        if rule is None:
            return self._literal(expr, want)
        value = constant_of(expr)
        if value is not None:
            return self._constant(expr, value, want)
        if want is not None and is_inexact(want) and kind in BITWISE and isinstance(self.types.of(expr), Weak):
            return cast(self.scope, as_real(want), rule(self, expr, None))
        return rule(self, expr, want)

    def render_as(self, types: Types, expr: Expression, want: DType | None) -> Code:
        """Return *expr* in C, with *types* for its parts."""
        outer, self.types = self.types, types
        code = self.render(expr, want)
        self.types = outer
        return code

    def is_natural(self, form: Affine | None) -> bool:
        """Return True if *form* is known not to be negative."""
        self.used_context = True
        return form is not None and self.context.implies(rewrite(form, self.scope.divisibility))

    def _number(self, expr: Expression, dtype: DType, want: DType | None) -> Code:
        """Return an index value, computed in *dtype* and wanted as *want*."""
        types = self.types.inside(expr, dtype, want)
        if not types.may_wrap:
            amounts = Sum(((without_conditions(expr), 1),), 0, is_wide=types.is_heavy(expr))
            self.scope.findings.magnitudes.record(amounts, self.scope.types_of_names)
        return self.render_as(types, expr, dtype)

    def _literal(self, expr: Expression, want: DType | None) -> Code:
        """Return a constant of Python or NumPy."""
        if isinstance(expr, np.generic):
            return typed_literal(self.scope, expr.item(), computed(expr.dtype))
        if isinstance(expr, int | float | complex):
            if want is not None and is_unsigned(want) and type(expr) is int and expr < 0:  # a term that is subtracted
                return literal(self.scope, expr, want)
            return literal(self.scope, expr, self.types.computed(expr, want))
        raise self.scope.error(
            Diagnostic(
                "unsupported-expression",
                f"cannot express '{expr}' ({type(expr).__name__}) in target '{self.scope.language.name}'",
                hints=("rewrite the instruction without it",),
            )
        )

    def _constant(self, expr: Expression, value: int, want: DType | None) -> Code:
        """Return an expression of constants as a literal of its *value*; in an unsigned type, modulo its range."""
        dtype = computed(adapted(constant_type(value), want))
        if type(expr) is p.BitwiseNot and value < 0 and is_integer(dtype) and dtype.itemsize >= 4:
            write = typed_literal if is_unsigned(dtype) else literal
            return c.Unary(c.COMPLEMENT, write(self.scope, ~value, dtype))
        if is_unsigned(dtype):
            value %= 1 << (8 * dtype.itemsize)
        return typed_literal(self.scope, value, dtype)
