"""Random expressions in the form that the parser builds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pymbolic.primitives as p
from hypothesis import strategies as st

from polyloop.expr.constants import ConstantError, folded
from polyloop.expr.nodes import Expression, Reduction, TypeCast
from polyloop.expr.operations import OPERATIONS
from polyloop.expr.rewrite import children

__all__ = ["INAMES", "expressions"]

INAMES = frozenset({"i", "j", "k"})
_NAMES = st.sampled_from(["x", "y", "alpha", "i", "j"]).map(p.Variable)
_ARRAYS = st.sampled_from(["a", "b"]).map(p.Variable)
_NUMBERS = st.one_of(
    st.integers(-(2**62), 2**62),
    st.integers(-3, 3),
    st.floats(allow_nan=False, allow_infinity=False),
    st.booleans(),
    st.floats(0, 1e30).map(lambda value: complex(0.0, value)),
    st.floats(width=32, allow_nan=False, allow_infinity=False).map(np.float32),
    st.floats(allow_nan=False, allow_infinity=False).map(np.float64),
    st.integers(0, 2**32 - 1).map(np.uint32),
    st.integers(0, 2**64 - 1).map(np.uint64),
    st.integers(-(2**63) + 1, 2**63 - 1).map(np.int64),
)


def _joined(
    kind: Callable[[tuple[Expression, ...]], Expression], operands: st.SearchStrategy[Expression]
) -> st.SearchStrategy[Expression]:
    """Return *kind* over two to four operands, of which the first (for and / or: none) is of that kind."""
    rest = operands
    if kind in (p.LogicalAnd, p.LogicalOr):
        rest = operands.filter(lambda e: type(e) is not kind)
    first = operands.filter(lambda e: type(e) is not kind)
    return st.builds(lambda a, b: kind((a, *b)), first, st.lists(rest, min_size=1, max_size=3))


def _subscript(array: Expression, index: list[Expression]) -> Expression:
    return p.Subscript(array, index[0] if len(index) == 1 else tuple(index))


def _extend(e: st.SearchStrategy[Expression]) -> st.SearchStrategy[Expression]:
    nary = [p.Sum, p.Product, p.LogicalAnd, p.LogicalOr, p.BitwiseAnd, p.BitwiseOr, p.BitwiseXor]
    some = st.lists(e, min_size=1, max_size=3)
    several = st.lists(e, min_size=2, max_size=3).map(tuple)
    inames = st.lists(st.sampled_from(sorted(INAMES)), min_size=1, max_size=3, unique=True).map(tuple)
    binary: list[Any] = [p.Quotient, p.FloorDiv, p.Remainder, p.Power, p.LeftShift, p.RightShift]
    return st.one_of(
        *(_joined(kind, e) for kind in nary),
        *(st.builds(kind, e, e) for kind in binary),
        st.builds(p.Comparison, e, st.sampled_from(["<", "<=", "==", "!=", ">", ">="]), e),
        st.builds(p.If, e, e, e),
        st.builds(p.LogicalNot, e),
        st.builds(p.BitwiseNot, e),
        st.builds(_subscript, _ARRAYS, some),
        st.builds(p.Call, st.sampled_from(["f", "sqrt"]).map(p.Variable), some.map(tuple)),
        several.map(p.Min).filter(_is_no_reduction),
        several.map(p.Max).filter(_is_no_reduction),
        st.builds(TypeCast, st.sampled_from(["float32", "int8", "bool"]), e),
        st.builds(Reduction, st.sampled_from([x for x in OPERATIONS.values() if not x.fields]), inames, e),
    )


def _is_no_reduction(extremum: Expression) -> bool:
    first = extremum.children[0]
    return not (len(extremum.children) == 2 and type(first) is p.Variable and first.name in INAMES)


def _has_values(expr: Expression) -> bool:
    """Return whether the constants in *expr* can be computed: the parser refuses ``1 // 0`` and ``2**10**9``."""
    try:
        folded(expr)
    except ConstantError:
        return False
    return all(map(_has_values, children(expr)))


expressions = st.recursive(st.one_of(_NAMES, _NUMBERS), _extend, max_leaves=12).filter(_has_values)
"""Expressions that ``parse_expression(show(e), inames=INAMES)`` gives back."""
