"""Expressions in C, with the semantics of ``expr/typing.py``: promotion, division and remainder as in NumPy.

An expression becomes a C tree by the rule for its node in the tables below, which prints the parts of the node by their
rules (:class:`~polyloop.codegen.expressions.renderer.Renderer`).  Precedence is the printer's alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import pymbolic.primitives as p

from polyloop.codegen.expressions.arithmetic import ARITHMETIC
from polyloop.codegen.expressions.calls import CALLS
from polyloop.codegen.expressions.conditions import CONDITIONS
from polyloop.codegen.expressions.elements import ELEMENTS, element, target, unswizzled
from polyloop.codegen.expressions.operands import argument
from polyloop.codegen.expressions.renderer import Renderer, Rule
from polyloop.codegen.expressions.stores import RECORDS, stored
from polyloop.codegen.expressions.vectors import VECTORS
from polyloop.codegen.loops.context import Context
from polyloop.codegen.scope import Scope
from polyloop.codegen.tree.c_expr import Code
from polyloop.expr.dtypes import DType, computed
from polyloop.expr.nodes import Expression

__all__ = ["Expressions"]

_RULES: Final[Mapping[type, Rule]] = {**ELEMENTS, **ARITHMETIC, **CALLS, **CONDITIONS, **RECORDS}


class Expressions:
    """Expressions of one function in C.

    Attributes
    ----------
    renderer
        State that the rules share.
    """

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self.renderer = Renderer(scope, _RULES, VECTORS)

    def at(self, context: Context) -> Renderer:
        """Return the renderer, in *context*."""
        self.renderer.context = context
        return self.renderer

    def value(self, expr: Expression, context: Context, want: DType | None = None) -> Code:
        """Return *expr* in C; *want* is the type for constants that adapt."""
        return self.at(context).render(expr, None if want is None else computed(want))

    def converted(self, expr: Expression, dtype: DType, context: Context) -> Code:
        """Return *expr* as a value of *dtype*."""
        return argument(self.at(context), expr, dtype)

    def stored(self, expr: Expression, context: Context, dtype: DType) -> Code:
        """Return *expr* converted for an assignment to a variable of *dtype*."""
        return stored(self.at(context), expr, dtype)

    def element(self, expr: p.Variable | p.Subscript, context: Context) -> Code:
        """Return a variable or an element as an lvalue, without conversion."""
        return element(self.at(context), expr)

    def unswizzled(self, expr: p.Subscript, context: Context) -> Code:
        """Return the place that an element of a swizzled array would have without the swizzle."""
        return unswizzled(self.at(context), expr)

    def target(self, lhs: Expression, context: Context) -> tuple[Code, str, DType]:
        """Return code, name and type of the left-hand side of an assignment."""
        return target(self.at(context), lhs)

    def hold(self, held: Mapping[tuple[str, tuple[Expression, ...]], Code], made: Code | None = None) -> None:
        """Set the variables that hold elements, and the one that replaces the target of an assignment."""
        self.renderer.held, self.renderer.made = held, made
