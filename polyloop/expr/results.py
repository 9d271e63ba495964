"""Names of the results of expressions that have several."""

from __future__ import annotations

import pymbolic.primitives as p

from polyloop.expr.functions import FUNCTIONS
from polyloop.expr.nodes import Expression, Reduction, function_name

__all__ = ["result_fields"]


def result_fields(expr: Expression) -> tuple[str, ...]:
    """Return the names of the results of a call or reduction that has several, in order; nothing for all others."""
    if isinstance(expr, Reduction):
        return expr.operation.fields
    function = FUNCTIONS.get(function_name(expr)) if isinstance(expr, p.Call) else None
    return () if function is None else function.fields
