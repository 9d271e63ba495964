"""Conflicts between two accesses, by the loop that orders them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import islpy as isl

from polyloop.frozen import quick
from polyloop.mapping.thread_mapping import Placed, Placement, common_loops, storage_map
from polyloop.poly.budget import looking_at
from polyloop.poly.sets import lex_relation
from polyloop.program.lower import Access

__all__ = ["Conflict", "conflict_pairs", "conflicts", "crossing", "crossing_conflicts", "equal_on", "never_meet"]

_IN = isl.dim_type.in_
_OUT = isl.dim_type.out


@quick
@dataclass(frozen=True, eq=False)
class Conflict:
    """Instances of ``first`` that run before instances of ``second`` and access the same cell.

    Attributes
    ----------
    loop
        The common loop that carries the conflict, None if the order of the text decides (loop-independent).
    simultaneous
        True if nothing orders the instances: they run at the same time, on different threads.
    adjacent
        False if no pair is in neighbouring iterations of ``loop``.
    every
        All pairs, if ``relation`` has only some of them.
    """

    first: Placed
    second: Placed
    relation: isl.Map
    loop: str | None = None
    simultaneous: bool = False
    adjacent: bool = True
    every: isl.Map | None = None


def equal_on(relation: isl.Map, first: Placed, second: Placed, axes: tuple[str, ...]) -> isl.Map:
    """Return the pairs of *relation* that agree on *axes*."""
    for axis in axes:
        relation = relation.equate(_IN, first.dims.index(axis), _OUT, second.dims.index(axis))
    return relation


def crossing(relation: isl.Map, first: Placed, second: Placed, axes: tuple[str, ...]) -> isl.Map | None:
    """Return some pairs of *relation* that differ on one of *axes*, None if there are none.

    They are the pairs that ascend, or else those that descend, on the first axis on which there are any.
    """
    for axis in axes:
        i, j = first.dims.index(axis), second.dims.index(axis)
        for part in (relation.order_lt(_IN, i, _OUT, j), relation.order_gt(_IN, i, _OUT, j)):
            if not part.is_empty():
                return part
    return None


def never_meet(a: Access, b: Access) -> bool:
    """Return True if two accesses to one array have different constants as some subscript, so they never conflict."""
    return any(
        x is not None and y is not None and not x.terms and not y.terms and x.const != y.const
        for x, y in zip(a.indices, b.indices, strict=True)
    )


def conflict_pairs(
    placement: Placement, first: Placed, a: Access, second: Placed, b: Access
) -> isl.Map:
    """Return every pair of instances that access the same cell, in any order."""
    looking_at(first, a, second, b)
    space = placement.spaces[a.array]
    left = storage_map(placement, first, a, space)
    right = storage_map(placement, second, b, space)
    return left.apply_range(right.reverse())


def conflicts(placement: Placement, first: Placed, second: Placed, pairs: isl.Map) -> Iterator[Conflict]:
    """Yield the *pairs* in which *first* runs before *second*: those that each common loop carries, then the others.

    The last entry has the pairs in one iteration of all common loops: ordered by the text, or ``simultaneous`` for two
    instances of one statement.  An instance is not in conflict with itself.
    """
    for conflict in _ordered(placement, first, second, pairs):
        if not conflict.relation.is_empty():
            yield conflict


def _ordered(placement: Placement, first: Placed, second: Placed, pairs: isl.Map) -> Iterator[Conflict]:
    loops, earlier = common_loops(placement, first, second)
    rest = pairs
    for loop in loops:
        i, j = first.dims.index(loop), second.dims.index(loop)
        yield Conflict(first, second, rest.order_lt(_IN, i, _OUT, j), loop)
        rest = rest.equate(_IN, i, _OUT, j)
    if earlier:
        yield Conflict(first, second, rest)
    elif first is second:
        same = lex_relation(rest.get_space(), [(i, i) for i in range(len(first.dims))], None)
        yield Conflict(first, second, rest.subtract(same), simultaneous=True)


def crossing_conflicts(
    placement: Placement, first: Placed, second: Placed, pairs: isl.Map, axes: tuple[str, ...]
) -> Iterator[Conflict]:
    """Yield the conflicts of :func:`conflicts` whose two sides can differ on *axes*, with some such pairs.

    *axes* must hold every axis on which the two sides of a pair can differ at all.
    """
    loops, earlier = common_loops(placement, first, second)
    rest = pairs
    for loop in loops:
        i, j = first.dims.index(loop), second.dims.index(loop)
        carried = rest.order_lt(_IN, i, _OUT, j)
        part = crossing(carried, first, second, axes)
        if part is not None:
            around = [(first.dims.index(x), second.dims.index(x)) for x in loops[: loops.index(loop)]]
            adjacent = _adjacent(placement, carried, (first, second), [*around, (i, j)], axes)
            yield Conflict(first, second, part, loop, adjacent=adjacent, every=carried)
        rest = rest.equate(_IN, i, _OUT, j)
    if earlier or first is second:
        part = crossing(rest, first, second, axes)
        if part is not None:
            yield Conflict(first, second, part, simultaneous=first is second, every=rest)


def _adjacent(
    placement: Placement,
    carried: isl.Map,
    sides: tuple[Placed, Placed],
    loops: Sequence[tuple[int, int]],
    axes: tuple[str, ...],
) -> bool:
    """Return True if some crossing pair may be in neighbouring iterations of the last of *loops*.

    Neighbours are one apart, or further if the loop skips values.  So False needs an iteration of the first statement
    that surely runs between the two of each pair.
    """
    first, second = sides
    *around, loop = loops
    space = carried.get_space()
    constraint = isl.Constraint.equality_alloc(isl.LocalSpace.from_space(space))
    constraint = constraint.set_coefficient_val(_IN, loop[0], 1).set_coefficient_val(_OUT, loop[1], -1)
    one = isl.BasicMap.universe(space).add_constraint(constraint.set_constant_val(1)).to_map()
    if first.lowered.bounds or crossing(carried.intersect(one), first, second, axes) is not None:
        return True
    blocks = [first.dims.index(axis) for axis in placement.axes.group]
    same = [(i, i) for i in (*blocks, *(i for i, _ in around))]
    between = lex_relation(first.domain.get_space().map_from_set(), same, (loop[0], loop[0]))
    passed = between.intersect_range(first.domain).apply_range(lex_relation(space, around, loop))
    return crossing(carried.subtract(passed), first, second, axes) is not None
