"""Reduction operations: the built-in ones, and those derived from another one."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final

import pymbolic.primitives as p

from polyloop.expr.dtypes import DType, is_inexact, lowest_and_highest
from polyloop.expr.nodes import Expression, Extreme, Lookup, Neutral, Operation, Record
from polyloop.expr.records import component, field_dtype, field_names, is_vector
from polyloop.expr.rewrite import substitute

__all__ = [
    "MODIFIERS",
    "OPERATIONS",
    "combining",
    "find_operation",
    "neutral_element",
    "neutral_value",
    "ordered",
    "segmented",
]

_A: Final = p.Variable("a")
_B: Final = p.Variable("b")


def _extremal(name: str, compare: str, neutral: Extreme) -> Operation:
    """Return the operation for an extreme value and the least index at which it occurs."""
    better = p.Comparison(Lookup(_B, "value"), compare, Lookup(_A, "value"))
    equal = p.Comparison(Lookup(_B, "value"), "==", Lookup(_A, "value"))
    earlier = p.Comparison(Lookup(_B, "index"), "<", Lookup(_A, "index"))
    choice = p.If(p.LogicalOr((better, p.LogicalAnd((equal, earlier)))), _B, _A)
    return Operation(name, (choice,), (neutral, Extreme.GREATEST), ("value", "index"), "value_index")


OPERATIONS: Final[Mapping[str, Operation]] = MappingProxyType(
    {
        "sum": Operation("sum", (), (0,)),
        "product": Operation("product", (), (1,)),
        "max": Operation("max", (), (Extreme.LEAST,)),
        "min": Operation("min", (), (Extreme.GREATEST,)),
        "any": Operation("any", (), (False,)),
        "all": Operation("all", (), (True,)),
        "argmax": _extremal("argmax", ">", Extreme.LEAST),
        "argmin": _extremal("argmin", "<", Extreme.GREATEST),
    }
)
"""By name."""

_NODES: Final[Mapping[str, Any]] = {
    "sum": p.Sum,
    "product": p.Product,
    "max": p.Max,
    "min": p.Min,
    "any": p.LogicalOr,
    "all": p.LogicalAnd,
}


def ordered(operation: Operation) -> Operation:
    """Return *operation*, which combines its terms in their order: ``ordered(sum)``."""
    if not operation.reassociable:
        return operation
    return replace(operation, ordered=True, text=f"ordered({operation})", reassociable=False)


def combining(operation: Operation) -> Operation:
    """Return *operation* on the results of partial reductions: it combines states, not terms."""
    return operation if operation.of_states else replace(operation, of_states=True)


def segmented(operation: Operation) -> Operation:
    """Return the segmented form of *operation*, on pairs of a value and a flag that starts a new segment.

    The state holds the combination of the terms since the last flag, and whether any flag was set.
    """
    assert not operation.fields, "only operations on single values are segmented"
    values = (Lookup(_A, "value"), Lookup(_B, "value"))
    flags = (Lookup(_A, "flag"), Lookup(_B, "flag"))
    if operation.combine:
        together = substitute(operation.combine[0], dict(zip("ab", values, strict=True)))
    else:
        together = _NODES[operation.name](values)
    combine = (p.If(flags[1], values[1], together), p.LogicalOr(flags))
    neutral = (*operation.neutral, False)
    text = f"segmented({operation})"
    name, fields = f"segmented_{operation.name}", ("value", "flag")
    whole = Operation(name, combine, neutral, fields, "value_flag", True, text)
    return replace(whole, reassociable=operation.reassociable)


MODIFIERS: Final = MappingProxyType({"ordered": ordered, "segmented": segmented})
"""Modifiers, which derive an operation from another one, by name."""


def find_operation(text: str) -> Operation | None:
    """Return the built-in operation that *text* spells, such as ``ordered(sum)``, or None."""
    match = re.fullmatch(r"\s*(\w+)\s*\((.*)\)\s*", text)
    if match is None or match.group(1) not in MODIFIERS:
        return OPERATIONS.get(text.strip())
    inner = find_operation(match.group(2))
    if inner is None or (inner.fields and match.group(1) == "segmented"):
        return None
    return MODIFIERS[match.group(1)](inner)


def neutral_value(neutral: Neutral, dtype: DType) -> Any:  # noqa: ANN401 - a number of any type
    """Return the number of type *dtype* that *neutral* stands for."""
    if isinstance(neutral, Extreme):
        lowest, highest = lowest_and_highest(dtype)
        return lowest if neutral is Extreme.LEAST else highest
    if dtype.kind == "b":
        return bool(neutral)
    return float(neutral) if is_inexact(dtype) else int(neutral)


def neutral_element(operation: Operation, dtype: DType) -> Expression:
    """Return the state of no terms, where the state has type *dtype*."""
    if operation.fields:
        names = zip(operation.neutral, field_names(dtype), strict=True)
        return Record(dtype, tuple(_neutral_field(neutral, field_dtype(dtype, name)) for neutral, name in names))
    return _neutral_field(operation.neutral[0], dtype)


def has_terms(operation: Operation, dtype: DType, state: Expression) -> Expression | None:
    """Return a condition that is false only for states without effect, None for built-in operations.

    The combination of two states of no terms may be none: ``0*exp(inf - inf)`` is no number.  So it is never computed.
    """
    ours = find_operation(str(operation))
    if ours is not None and ours.combine == operation.combine:
        return None
    names = field_names(dtype) if operation.fields else ()
    pairs = zip(operation.neutral, names, strict=True) if names else [(operation.neutral[0], None)]
    parts: list[Expression] = []
    for neutral, name in pairs:
        value, kind = (state, dtype) if name is None else (Lookup(state, name), field_dtype(dtype, name))
        inner = [Lookup(value, x) for x in field_names(kind)] if is_vector(kind) else [value]
        parts += [p.Comparison(x, "!=", neutral_value(neutral, component(kind))) for x in inner]
    return parts[0] if len(parts) == 1 else p.LogicalOr(tuple(parts))


def _neutral_field(neutral: Neutral, dtype: DType) -> Expression:
    if is_vector(dtype):
        return Record(dtype, (neutral_value(neutral, component(dtype)),) * len(field_names(dtype)))
    return neutral_value(neutral, dtype)
