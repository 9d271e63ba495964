"""Conditions that the host decides, as text and as data beside the launches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import pymbolic.primitives as p

from polyloop.codegen.checks import row_conditions
from polyloop.codegen.expressions.expressions import Expressions
from polyloop.codegen.expressions.linear import condition_text
from polyloop.codegen.loops.context import Context
from polyloop.codegen.loops.grid import unmultiplied
from polyloop.codegen.program import AskedElement, HostCondition
from polyloop.codegen.scope import Scope
from polyloop.codegen.tree import c_expr as c
from polyloop.codegen.tree.c_expr import Code
from polyloop.codegen.tree.indices import Indices
from polyloop.expr.nodes import Expression, array_name
from polyloop.expr.printer import show
from polyloop.expr.rewrite import children, rebuild, variables
from polyloop.frozen import replace
from polyloop.kernel.arrays import ArrayArg
from polyloop.poly.affine import Affine
from polyloop.schedule.asked import is_element, place_of

__all__ = ["condition_code", "host_condition"]


def condition_code(conditions: Sequence[Expression], scope: Scope, context: Context) -> Code:
    """Return the code of *conditions*, at least one, all of which must hold."""
    expressions = Expressions(scope)
    return c.conjunction([expressions.value(condition, context) for condition in conditions])


def host_condition(
    conditions: Sequence[Expression], rows: Sequence[Affine], scope: Scope, context: Context
) -> HostCondition | None:
    """Return *conditions* and *rows* as one, in names of *scope*, the function of a launch; None if there are none.

    *context* does not imply the rows.
    """
    if not conditions and not rows:
        return None
    scope = replace(scope, used=set(), indices=Indices())  # its text is not in the function
    arrays, types = scope.memory.arrays, scope.types
    codes = [condition_text(rows, scope, context)] if rows else []
    codes += [condition_code(conditions, scope, context)] if conditions else []
    text = c.conjunction(codes).text
    plain = [unmultiplied(row, scope.divisibility) for row in rows]
    conditions = (*row_conditions({row.terms: row.const for row in plain}), *conditions)
    elements = {e.name: e for condition in conditions for e in _elements(condition, arrays)}
    named = [_with_names(condition, arrays) for condition in conditions]
    whole = named[0] if len(named) == 1 else p.LogicalAnd(tuple(named))
    names = variables(whole) - elements.keys()
    known = {name: types.as_values.get(name) or types.of_names.get(name) for name in sorted(names)}
    known |= {name: element.dtype for name, element in elements.items()}
    found = tuple((name, dtype) for name, dtype in known.items() if dtype is not None)
    assert len(found) == len(known), f"types of {sorted(known)}"
    return HostCondition(whole, text, found, tuple(elements.values()))


def _with_names(expr: Expression, arrays: Mapping[str, ArrayArg]) -> Expression:
    """Return *expr* with variables in the places of elements."""
    if is_element(expr, arrays):
        return p.Variable(show(expr))
    parts = children(expr) if isinstance(expr, p.ExpressionNode) else ()
    return rebuild(expr, tuple(_with_names(part, arrays) for part in parts)) if parts else expr


def _elements(expr: Expression, arrays: Mapping[str, ArrayArg]) -> Iterator[AskedElement]:
    if is_element(expr, arrays):
        name = array_name(expr)
        place, dtype = place_of(expr, arrays), arrays[name].dtype
        assert place is not None, f"the place of '{show(expr)}' does not depend on the call"
        assert dtype is not None, f"'{name}' has no type"
        yield AskedElement(show(expr), name, place, dtype)
    elif isinstance(expr, p.ExpressionNode):
        for part in children(expr):
            yield from _elements(part, arrays)
