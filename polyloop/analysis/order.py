"""Conflicts between two accesses, by the loop that orders them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import islpy as isl

from polyloop.analysis.lowering import Access
from polyloop.analysis.placement import Placed, Placement, common_loops, storage_map
from polyloop.poly.sets import lex_relation

__all__ = ["Conflict", "conflict_pairs", "conflicts", "equal_on"]


@dataclass(frozen=True, eq=False)
class Conflict:
    """Instances of ``first`` that run before instances of ``second`` and touch the same cell.

    ``loop`` is the common loop that orders them, None where the order of the text does;
    ``simultaneous`` says that nothing orders them: they run at one time, on different threads.
    """

    first: Placed
    second: Placed
    relation: isl.Map
    loop: str | None = None
    simultaneous: bool = False


def equal_on(relation: isl.Map, first: Placed, second: Placed, axes: tuple[str, ...]) -> isl.Map:
    """Return the pairs of *relation* that agree on *axes*."""
    pairs = [(first.dims.index(axis), second.dims.index(axis)) for axis in axes]
    return relation.intersect(lex_relation(relation.get_space(), pairs, None))


def conflict_pairs(
    placement: Placement, first: Placed, a: Access, second: Placed, b: Access
) -> isl.Map:
    """Return every pair of instances that touch the same cell, in any order."""
    space = placement.spaces[a.array]
    left = storage_map(first, a, space, placement.axes)
    right = storage_map(second, b, space, placement.axes)
    return left.apply_range(right.reverse())


def conflicts(
    placement: Placement, first: Placed, a: Access, second: Placed, b: Access, pairs: isl.Map
) -> Iterator[Conflict]:
    """Yield *pairs* in which *first* runs before *second*, one entry for each way of being ordered.

    Pairs that nothing orders come last, as ``simultaneous``; a statement is not in conflict with its own instance.
    """
    loops, earlier = common_loops(placement, first, second)
    space = pairs.get_space()
    rest = pairs
    for loop in loops:
        i, j = first.dims.index(loop), second.dims.index(loop)
        carried = rest.intersect(lex_relation(space, (), (i, j)))
        if not carried.is_empty():
            yield Conflict(first, second, carried, loop)
        rest = rest.intersect(lex_relation(space, [(i, j)], None))
    if earlier:
        if not rest.is_empty():
            yield Conflict(first, second, rest)
    elif first is second:
        same = lex_relation(space, [(i, i) for i in range(len(first.dims))], None)
        rest = rest.subtract(same)
        if not rest.is_empty():
            yield Conflict(first, second, rest, simultaneous=True)
