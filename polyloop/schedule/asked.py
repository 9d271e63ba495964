"""Conditions that a host decides: whether a launch runs, and whether a loop of the host goes on.

A host knows scalar arguments and the inames of its loops.  Where all effects of a launch are under one condition on
these, it leaves out the launch, and threads do not ask::

    for i:  y[i] = y[i] + beta  {if=beta != 0}
    ->
    if beta != 0:  launch

The condition of a loop may also read elements of memory.  Where all effects in the body of a loop are under one
condition, and it does not hold when an iteration begins, nothing in this iteration has an effect: what it reads stays
the same, and it never holds again.  So the loop ends::

    for it:  x[i] = ..  {if=go[0] > 0};  go[0] = ..  {if=go[0] > 0}
    ->
    for it while go[0] > 0:  launches

Effects are writes to memory that outlives a launch.  An iteration may change what its condition reads, so that threads
ask for elements of memory, too.  Conditions are such that the host finds the values that threads find: comparisons of
numbers that are passed, read, or computed exactly or in one rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from math import prod
from typing import Final

import numpy as np
import pymbolic.primitives as p

from polyloop.expr.constants import number_of
from polyloop.expr.dtypes import is_integer
from polyloop.expr.nodes import Expression, array_name, targets_of
from polyloop.expr.promotion import ScalarType
from polyloop.expr.rewrite import children, variables
from polyloop.expr.typing import infer_type
from polyloop.frozen import replace
from polyloop.kernel.arrays import ArrayArg, ValueArg
from polyloop.kernel.layout import Separate, Vectorized
from polyloop.kernel.tree import runs
from polyloop.schedule.conditions import Asked
from polyloop.schedule.plan import Launch, Schedule, Statement

__all__ = ["is_element", "place_of", "with_asked"]

_TYPES: Final = frozenset(
    {"bool", "float32", "float64", *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64))}
)
_MOST_PLACE: Final = 64


def with_asked(schedule: Schedule) -> Schedule:
    """Return *schedule* with the conditions that the host decides, and without those that threads need not ask.

    A program of one launch is left as it is: its threads ask at no cost, and a call would have to look at the scalars.
    """
    if len(schedule.launches) == 1 and not schedule.launches[0].hosts:
        return schedule
    known = _Known(schedule)
    neighbours = zip(schedule.launches, schedule.launches[1:], strict=False)
    in_front = [first for first, second in neighbours if second.turns.joins is not None]
    statements, launches = dict(schedule.statements), list[Launch]()
    for launch in schedule.launches:
        loops = tuple(
            known.common(_members(schedule, launch, depth), launch.hosts[: depth - 1], reads=True)
            for depth in range(1, len(launch.hosts) + 1)
        )
        is_joined = launch.turns.joins is not None or launch in in_front
        own = () if is_joined else known.common(_effects(schedule, launch), launch.hosts)
        above = {part for found in loops for part in found}
        decided = {*own, *(part for part in above if not known.elements(part))}
        for name in runs(launch.whole):
            statements[name] = _without(statements[name], decided)
        launches.append(replace(launch, asked=Asked(tuple(part for part in own if part not in above), loops)))
    if not any(launch.asked.launch or any(launch.asked.loops) for launch in launches):
        return schedule
    return replace(schedule, statements=statements, launches=tuple(launches))


def _members(schedule: Schedule, launch: Launch, depth: int) -> list[Statement]:
    """Return the statements with effects in the loop of the host number *depth* around *launch*, from 1."""
    block = launch.home[: 2 * depth]
    return [s for other in schedule.launches if other.home[: 2 * depth] == block for s in _effects(schedule, other)]


def _effects(schedule: Schedule, launch: Launch) -> list[Statement]:
    """Return the statements of *launch* that change memory which outlives it."""
    own = {storage.name for storage in launch.temporaries}
    found = (schedule.statements[name] for name in runs(launch.whole))
    return [s for s in found if not own.issuperset(map(array_name, targets_of(s.lhs)))]


def _parts(condition: Expression) -> tuple[Expression, ...]:
    """Return the conditions that all hold where *condition* does."""
    if isinstance(condition, p.LogicalAnd):
        return tuple(part for child in condition.children for part in _parts(child))
    return (condition,)


def _without(statement: Statement, decided: Collection[Expression]) -> Statement:
    """Return *statement* without conditions that are *decided*."""
    kept = [tuple(part for part in _parts(c) if part not in decided) for c in statement.predicates]
    predicates = tuple(
        old if len(left) == len(_parts(old)) else left[0] if len(left) == 1 else p.LogicalAnd(left)
        for old, left in zip(statement.predicates, kept, strict=True) if left
    )  # fmt: skip
    return statement if predicates == statement.predicates else replace(statement, predicates=predicates)


class _Known:
    """Judges which conditions a host can decide."""

    def __init__(self, schedule: Schedule) -> None:
        contract = schedule.contract
        self._values = {a.name for a in contract.arguments if isinstance(a, ValueArg)}.union(contract.parameters)
        self._arrays = {a.name: a for a in (*contract.arguments, *contract.workspace) if isinstance(a, ArrayArg)}
        index: np.dtype[np.generic] = schedule.indices.dtype
        self._types: dict[str, np.dtype[np.generic] | None] = {}
        self._types |= {name: array.dtype for name, array in self._arrays.items()}
        self._types |= {a.name: a.dtype for a in contract.arguments if isinstance(a, ValueArg)}
        self._types |= {name: index for name in contract.parameters if self._types.get(name) is None}
        self._types |= {name: index for launch in schedule.launches for name in launch.hosts}

    def common(
        self, statements: Iterable[Statement], inames: Collection[str], *, reads: bool = False
    ) -> tuple[Expression, ...]:
        """Return the conditions that all *statements* have, and that a host decides where it knows *inames*.

        Those that read memory are among them with *reads*.
        """
        each = [[part for c in s.predicates for part in _parts(c)] for s in statements]
        if not each:
            return ()
        found = (part for part in dict.fromkeys(each[0]) if all(part in other for other in each[1:]))
        return tuple(part for part in found if self._is_known(part, inames, reads))

    def elements(self, condition: Expression) -> bool:
        """Return whether *condition* reads memory."""
        return not self._arrays.keys().isdisjoint(variables(condition))

    def _is_known(self, condition: Expression, inames: Collection[str], reads: bool) -> bool:
        names = variables(condition)
        arrays = names & self._arrays.keys()
        if (arrays and not reads) or not names <= {*self._values, *inames, *arrays}:
            return False
        types = [self._types.get(name) for name in names]
        is_whole = not arrays and all(dtype is not None and is_integer(dtype) for dtype in types)
        return all(map(self._type, types)) and self._is_exact(condition, is_whole)

    def _type(self, dtype: np.dtype[np.generic] | None) -> bool:
        return dtype is not None and dtype.name in _TYPES

    def _is_exact(self, expr: Expression, is_whole: bool) -> bool:
        """Return whether a truth value is one that the host finds as threads do; *is_whole* if all names are integers.

        Then it is computed in exact integers, quotients among them.
        """
        match expr:
            case p.Comparison():
                return all(self._is_number(side, is_whole) for side in (expr.left, expr.right))
            case p.LogicalAnd() | p.LogicalOr() | p.LogicalNot():
                return all(self._is_exact(child, is_whole) for child in children(expr))
            case bool() | np.bool_():
                return True
            case _:
                return self._is_leaf(expr)

    def _is_number(self, expr: Expression, is_whole: bool) -> bool:
        """Return whether a number is passed, read, or computed in a way that has one result.

        Products are rounded one by one.  A sum with a product in it may be rounded once or twice.
        """
        if self._is_leaf(expr):
            return True
        if is_whole:
            is_known = isinstance(expr, p.Sum | p.Product | p.FloorDiv | p.Remainder)
            return is_known and all(self._is_number(child, is_whole) for child in children(expr))
        found = infer_type(expr, self._types.get)
        match expr:
            case p.Sum() | p.Product() if isinstance(found, np.dtype) and is_integer(found):
                return all(self._is_number(child, is_whole) for child in expr.children)
            case p.Sum() | p.Product() if self._is_plain(found):
                return len(expr.children) == 2 and all(map(self._is_leaf, expr.children))
            case _:
                return False

    def _is_plain(self, found: ScalarType | None) -> bool:
        return isinstance(found, np.dtype) and found.name in ("float32", "float64")

    def _is_leaf(self, expr: Expression) -> bool:
        if isinstance(expr, int | float | np.integer | np.floating) or number_of(expr) is not None:
            return True
        if isinstance(expr, p.Product) and len(expr.children) == 2 and expr.children[0] == -1:
            return self._is_leaf(expr.children[1])  # the sign is no operation that rounds
        if is_element(expr, self._arrays):
            return place_of(expr, self._arrays) is not None
        return isinstance(expr, p.Variable)


def is_element(expr: Expression, arrays: Mapping[str, ArrayArg]) -> bool:
    """Return whether *expr* is an element of one of *arrays*."""
    return isinstance(expr, p.Variable | p.Subscript) and array_name(expr) in arrays


def place_of(expr: Expression, arrays: Mapping[str, ArrayArg]) -> int | None:
    """Return the distance of an element from the pointer that functions take [elements], None if calls decide it.

    The element exists in each call.
    """
    assert isinstance(expr, p.Variable | p.Subscript), "an element of an array"
    array = arrays[array_name(expr)]
    indices = tuple(map(number_of, expr.index_tuple)) if isinstance(expr, p.Subscript) else ()
    shape, strides = (_numbers(found, number_of) for found in (array.shape, array.strides))
    if shape is None or strides is None or array.offset != 0 or len(indices) != len(shape):
        return None
    is_split = isinstance(array.dim_tags, tuple) and any(isinstance(t, Separate | Vectorized) for t in array.dim_tags)
    if prod(shape) == 0 or is_split or None in indices:
        return None
    numbers = [number for number in indices if number is not None]
    if not all(0 <= number < extent for number, extent in zip(numbers, shape, strict=True)):
        return None
    place = sum(number * stride for number, stride in zip(numbers, strides, strict=True))
    return place if 0 <= place < _MOST_PLACE else None


def _numbers(
    found: Iterable[Expression] | None, number: Callable[[Expression], int | None]
) -> tuple[int, ...] | None:
    """Return extents or strides that are numbers, None if one is none."""
    values = None if found is None else tuple(map(number, found))
    return None if values is None or None in values else tuple(value for value in values if value is not None)
