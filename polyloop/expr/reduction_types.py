"""Types of reductions: of their results, and of the states in which terms are collected."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from polyloop.errors import Diagnostic
from polyloop.expr.dtypes import DType, computed, integer_limits, is_complex, is_integer
from polyloop.expr.indexing import is_index_value
from polyloop.expr.nodes import Expression, Extreme, Operation, Reduction
from polyloop.expr.operator_types import refuse_complex
from polyloop.expr.promotion import DEFAULT_INT, ScalarType, TypeConflictError, kind_name, settle
from polyloop.expr.records import component, is_record, record

__all__ = ["collected", "reduced"]

_BOOL: Final[DType] = np.dtype("bool")
_LONG: Final[DType] = np.dtype("int64")
_ROUNDS: Final = 4


def reduced(expr: Reduction, common: ScalarType | None) -> ScalarType | None:
    """Return the type of a built-in reduction of terms of the type *common*, None while that is unknown."""
    name = expr.operation.name
    if name not in ("sum", "product"):
        hint = "reduce abs(z), real(z) or imag(z)"
        refuse_complex(expr, common, f"complex numbers have no '{name}'", hint)
    if name in ("any", "all"):
        return _BOOL
    if common == _BOOL and name in ("sum", "product"):
        return DEFAULT_INT
    if name in ("sum", "product") and common == DEFAULT_INT and is_index_value(expr.expr, lambda _: True):
        return _LONG  # a sum of numbers that are exact
    return None if common is None else settle(common)


def collected(
    operation: Operation,
    terms: Sequence[DType],
    infer: Callable[[Expression, Callable[[str], DType | None]], DType | None],
) -> DType:
    """Return the type in which *operation*, one with a ``combine``, collects terms of the types *terms*.

    It is what combining two states gives: int32 for the sum of bools. 16-bit floats are collected in float32.

    Raises
    ------
    TypeConflictError
        ``type-conflict``: the terms cannot be combined, or the neutral element is no value of their type.
    """
    found = tuple(computed(dtype) for dtype in terms)
    try:
        for _ in range(_ROUNDS):
            state = _state(operation, found)
            types = {"a": state, "b": state}
            combined = tuple(infer(expr, types.get) for expr in operation.combine)
            if combined in ((state,), found):
                _check_neutral(operation, found)
                return state
            if len(combined) < len(found):
                break
            found = tuple(computed(settle(dtype)) for dtype in combined if dtype is not None)
    except TypeConflictError as conflict:
        raise _no_state(operation, terms, conflict.diagnostic.message) from None
    shown = " and ".join(kind_name(dtype) for dtype in combined if dtype is not None)
    raise _no_state(operation, terms, f"two states combine to {shown}, which is no state")


def _state(operation: Operation, types: Sequence[DType]) -> DType:
    if not operation.fields:
        return types[0]
    return record(operation.record, list(zip(operation.fields, types, strict=True)))


def _check_neutral(operation: Operation, types: Sequence[DType]) -> None:
    for neutral, dtype in zip(operation.neutral, types, strict=True):
        base = component(dtype)
        fits = not is_record(base)
        if isinstance(neutral, Extreme):
            fits = fits and not is_complex(base)
        elif fits and is_integer(base):
            low, high = integer_limits(base)
            fits = low <= neutral <= high and float(neutral).is_integer()
        if not fits:
            shown = neutral.value if isinstance(neutral, Extreme) else neutral
            message = f"the neutral element {shown} is no {kind_name(dtype)}"
            raise TypeConflictError(Diagnostic("type-conflict", message))


def _no_state(operation: Operation, terms: Sequence[DType], why: str) -> TypeConflictError:
    types = " and ".join(map(kind_name, terms))
    message = f"'{operation}' cannot combine terms of {types}: {why}"
    return TypeConflictError(Diagnostic("type-conflict", message, hints=("cast the terms to a type that it takes",)))
