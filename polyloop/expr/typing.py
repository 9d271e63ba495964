"""Type inference of expression trees by the rules of :mod:`polyloop.expr.promotion`, and errors for ill-typed ones.

This is the walk; the rules are in ``operator_types``, ``call_types`` and ``reduction_types``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache, lru_cache
from typing import Any, ClassVar, Final, TypeAlias

import pymbolic.primitives as p

from polyloop.expr.call_types import call_type
from polyloop.expr.chains import CHAINS, operands, paired
from polyloop.expr.dtypes import DType, is_floating, is_integer
from polyloop.expr.fitting import check_constants, check_fields, folded_constant
from polyloop.expr.nodes import Expression, Lookup, Operation, Record, Reduction, Terms, TypeCast
from polyloop.expr.operator_types import (
    LOGIC,
    cast_type,
    check_condition,
    check_index,
    check_operands,
    common_of,
    field_type,
    operator_type,
)
from polyloop.expr.promotion import DEFAULT_INT, ScalarType, TypeConflictError, Weak, common_type, constant_type, settle
from polyloop.expr.reduction_types import collected, reduced
from polyloop.memo import memoised

__all__ = ["KindOf", "TypeInference", "TypeOf", "infer", "infer_type", "remembering", "state_dtype"]

TypeOf: TypeAlias = Callable[[str], DType | None]
"""Gives the type of a name, or None while it is unknown."""

KindOf: TypeAlias = Callable[[str], ScalarType | None]
"""Gives the type of a name as :data:`TypeOf` does; weak while nothing but constants is assigned to it."""


def infer(expr: Expression, lookup: KindOf) -> DType | None:
    """Return the type of *expr*; weak types settle to int32, int64, float64 or complex128.

    Parameters
    ----------
    lookup
        The type of a variable, or of the elements of an array; None where it is unknown.

    Returns
    -------
    np.dtype or None
        None if the type depends on one that *lookup* does not know.

    Raises
    ------
    TypeConflictError
        ``unknown-function``, ``wrong-argument-count``, ``type-conflict`` (an operation on values that it is not
        defined for), ``bad-constant`` (one that does not fit the type that it takes, a shift by a negative number).
    """
    found = infer_type(expr, lookup)
    return None if found is None else settle(found)


def infer_type(expr: Expression, lookup: KindOf) -> ScalarType | None:
    """Return the type of *expr* as :func:`infer` does, but leave weak values weak."""
    return TypeInference(lookup).visit(expr)


def remembering(lookup: KindOf) -> Callable[[Expression], ScalarType | None]:
    """Return :func:`infer_type` for one *lookup* with constant answers, memoised by node.

    Nodes are told apart by identity, and kept.
    """
    return _Remembering(lookup).visit


@cache
def state_dtype(operation: Operation, terms: tuple[DType, ...]) -> DType:
    """Return the type in which *operation*, one with a ``combine``, collects terms of the types *terms*.

    It is what combining two states gives: int32 for the sum of bools. 16-bit floats are collected in float32.

    Raises
    ------
    TypeConflictError
        ``type-conflict``: the terms cannot be combined, or the neutral element is no value of their type.
    """
    return collected(operation, terms, infer)


_INT_MAX: Final = 2**31 - 1
_NO_INT: Final = -(2**31)
"""The largest number that cannot be subtracted as an int32."""


def _as_subtracted(expr: Expression, found: ScalarType | None) -> ScalarType | None:
    """Return the type of a term of a sum: ``u - 4294967295`` subtracts a number of 32 bits."""
    return Weak.WORD if type(expr) is int and -(2**32) < expr <= _NO_INT else found


@lru_cache(maxsize=1024)
def _sum_of_floats(types: tuple[ScalarType | None, ...]) -> ScalarType | None:
    """Return the type of a sum or product of values of *types*, None where that takes a closer look.

    It does but for floating-point types: integers have to hold the constants, and records are refused.
    """
    for kind in types:
        if kind is None or kind is Weak.COMPLEX:
            return None
        if not isinstance(kind, Weak) and not is_floating(kind) and not is_integer(kind):
            return None
    try:
        found = common_type([kind for kind in types if kind is not None])
    except TypeConflictError:
        return None
    return None if isinstance(found, Weak) or not is_floating(found) else found


class TypeInference:
    """One walk, with the types of variables."""

    def __init__(self, lookup: KindOf) -> None:
        self.lookup = lookup

    def visit(self, expr: Expression) -> ScalarType | None:
        """Return the type of *expr*, None while it is unknown."""
        kind = type(expr)
        if kind is p.Variable:
            return self.lookup(expr.name)
        if kind is p.Subscript:
            return self.subscript(expr)
        if kind is int:
            return constant_type(expr)
        special = self._SPECIAL.get(kind)
        if special is not None:
            return special(self, expr)
        if not isinstance(expr, p.ExpressionNode):
            return constant_type(expr)
        value = folded_constant(expr)
        if value is not None:
            return constant_type(value)
        parts = operands(expr)
        types = [self.visit(child) for child in parts]
        if kind in CHAINS and (inner := paired(expr, types)) is not expr:
            return self.visit(inner)
        if kind is p.Sum and any(type(part) is int and part <= _NO_INT for part in parts):
            types = list(map(_as_subtracted, parts, types))
        if (kind is p.Sum or kind is p.Product) and (found := self.quick_sum(types)) is not None:
            return found
        check_operands(expr, parts, types)
        return operator_type(expr, None if kind in LOGIC else self.common(expr, parts, types))

    def quick_sum(self, types: Sequence[ScalarType | None]) -> ScalarType | None:
        """Return the type of a sum or product where its operands need no closer look."""
        return _sum_of_floats(tuple(types))

    def common(
        self, expr: Expression, parts: Sequence[Expression], types: Sequence[ScalarType | None]
    ) -> ScalarType | None:
        """Return the common type, after a look at the constants that are to take it."""
        known = [kind for kind in types if kind is not None]
        if len(known) < len(types) or not known:
            return None
        found = common_of(expr, known)
        if not isinstance(found, Weak) and is_integer(found):
            check_constants(expr, parts, types, found, self.visit)
        return found

    def subscript(self, expr: Expression) -> ScalarType | None:
        """Return the type of an element, after a look at the subscripts."""
        for index in expr.index_tuple:
            if self._is_plain(index):
                continue
            found = self.visit(index)
            if found is not Weak.INT and found is not DEFAULT_INT:
                check_index(expr, index, found)
        return self.lookup(expr.aggregate.name)

    def _is_plain(self, index: Expression) -> bool:
        """Return whether *index* is sums and products of 32-bit integers, and of constants that these hold."""
        kind = type(index)
        if kind is p.Variable:
            return self.lookup(index.name) is DEFAULT_INT
        if kind is int:
            return bool(-_INT_MAX <= index <= _INT_MAX)
        if kind is p.Sum or kind is p.Product:
            return all(map(self._is_plain, index.children))
        return False

    def _choice(self, expr: p.If) -> ScalarType | None:
        check_condition(expr.condition, self.visit(expr.condition))
        parts = (expr.then, expr.else_)
        return self.common(expr, parts, [self.visit(part) for part in parts])

    def _call(self, expr: p.Call) -> ScalarType | None:
        return call_type(expr, self.visit, self.common)

    def _cast(self, expr: TypeCast) -> DType:
        return cast_type(expr, self.visit(expr.child))

    def _field(self, expr: Lookup) -> ScalarType | None:
        return field_type(expr, self.visit(expr.aggregate))

    def _constructor(self, expr: Record) -> DType:
        check_fields(expr, self.visit)
        return expr.dtype

    def _reduction(self, expr: Reduction) -> ScalarType | None:
        if expr.operation.of_states:
            state = self.visit(expr.expr)
            return None if state is None else settle(state)
        if not expr.operation.combine:
            parts = operands(expr)
            types = [self.visit(part) for part in parts]
            check_operands(expr, parts, types)
            return reduced(expr, self.common(expr, parts, types))
        terms = operands(expr.expr) if type(expr.expr) is Terms else (expr.expr,)
        types = [self.visit(term) for term in terms]
        known = tuple(settle(kind) for kind in types if kind is not None)
        return state_dtype(expr.operation, known) if len(known) == len(types) else None

    _SPECIAL: ClassVar[Mapping[type, Callable[[TypeInference, Any], ScalarType | None]]] = {
        p.If: _choice,
        p.Call: _call,
        TypeCast: _cast,
        Lookup: _field,
        Record: _constructor,
        Reduction: _reduction,
    }


class _Remembering(TypeInference):
    """An inference that remembers the types of nodes."""

    def visit(self, expr: Expression) -> ScalarType | None:
        return self.lookup(expr.name) if type(expr) is p.Variable else self._visit(expr)

    @memoised
    def _visit(self, expr: Expression) -> ScalarType | None:
        return super().visit(expr)
