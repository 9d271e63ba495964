"""Conflicts between two accesses, by the loop that orders them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import islpy as isl

from polyloop.frozen import once, quick
from polyloop.mapping.thread_mapping import Placed, Placement, common_loops, storage_map
from polyloop.memo import memoised
from polyloop.poly.budget import looking_at
from polyloop.poly.relations import ascending, equated, meetings
from polyloop.poly.sets import lex_relation
from polyloop.program.lower import Access
from polyloop.proof.obligation import within_budget

__all__ = [
    "Conflict", "conflict_pairs", "conflicts", "crossing", "crossing_conflicts", "equal_on", "never_meet",
]  # fmt: skip

_IN = isl.dim_type.in_
_OUT = isl.dim_type.out


def _always() -> bool:
    return True


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
    every
        All pairs, if ``relation`` has only some of them.
    are_adjacent
        Finds :attr:`adjacent`.
    """

    first: Placed
    second: Placed
    relation: isl.Map
    loop: str | None = None
    simultaneous: bool = False
    every: isl.Map | None = None
    are_adjacent: Callable[[], bool] = _always

    @once
    def adjacent(self) -> bool:
        """False if no pair is in neighbouring iterations of ``loop``; barriers ask it, and proofs do not."""
        return self.are_adjacent()


def equal_on(relation: isl.Map, first: Placed, second: Placed, axes: tuple[str, ...]) -> isl.Map:
    """Return the pairs of *relation* that agree on *axes*."""
    for axis in axes:
        relation = relation.equate(_IN, first.dims.index(axis), _OUT, second.dims.index(axis))
    return relation


def crossing(relation: isl.Map, first: Placed, second: Placed, axes: tuple[str, ...]) -> isl.Map | None:
    """Return some pairs of *relation* that differ on one of *axes*, None if there are none.

    They are the pairs that ascend, or else those that descend, on the first axis on which there are any.
    """
    return _across(relation, [(first.dims.index(axis), second.dims.index(axis)) for axis in axes])


def _across(relation: isl.Map, axes: Sequence[tuple[int, int]]) -> isl.Map | None:
    for i, j in axes:
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
    return meetings(left, right)


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
        yield Conflict(first, second, ascending(rest, i, j), loop)
        rest = equated(rest, i, j)
    if earlier:
        yield Conflict(first, second, rest)
    elif first is second:
        yield Conflict(first, second, _apart(rest), simultaneous=True)


@memoised
def _apart(pairs: isl.Map) -> isl.Map:
    """Return *pairs* without those of an instance and itself."""
    return pairs.subtract(lex_relation(pairs.get_space(), [(i, i) for i in range(pairs.dim(_IN))], None))


def crossing_conflicts(
    placement: Placement, first: Placed, second: Placed, pairs: isl.Map, axes: tuple[str, ...]
) -> Iterator[Conflict]:
    """Yield the conflicts of :func:`conflicts` whose two sides can differ on *axes*, with some such pairs.

    *axes* must hold every axis on which the two sides of a pair can differ at all.
    """
    loops, earlier = common_loops(placement, first, second)
    around = tuple([(first.dims.index(x), second.dims.index(x)) for x in loops])
    across = tuple([(first.dims.index(x), second.dims.index(x)) for x in axes])
    for depth, part, every in _crossings(pairs, around, across, earlier or first is second):
        if depth < len(loops):
            adjacent = partial(_are_adjacent, placement, every, (first, second), around[: depth + 1], axes)
            yield Conflict(first, second, part, loops[depth], every=every, are_adjacent=adjacent)
        else:
            yield Conflict(first, second, part, simultaneous=first is second, every=every)


@memoised
def _crossings(
    pairs: isl.Map, loops: tuple[tuple[int, int], ...], axes: tuple[tuple[int, int], ...], in_one: bool
) -> tuple[tuple[int, isl.Map, isl.Map], ...]:
    """Return, for each of *loops* that carries some of *pairs* across *axes*, its number, some of them, and all.

    The number behind the last loop is for pairs in one iteration of all loops, which count where *in_one*.  Loops and
    axes are positions in the two sides.
    """
    found, rest = [], pairs
    for depth, (i, j) in enumerate(loops):
        carried = rest.order_lt(_IN, i, _OUT, j)
        part = _across(carried, axes)
        if part is not None:
            found.append((depth, part, carried))
        rest = rest.equate(_IN, i, _OUT, j)
    part = _across(rest, axes) if in_one else None
    if part is not None:
        found.append((len(loops), part, rest))
    return tuple(found)


def _are_adjacent(
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
    names = f"'{first.lowered.instruction.id}' and '{second.lowered.instruction.id}'"
    with within_budget(placement.program.kernel, f"whether whole iterations are between conflicts of {names}"):
        return _meet_in_neighbours(placement, carried, first, second, loops, axes)


def _meet_in_neighbours(
    placement: Placement, carried: isl.Map, first: Placed, second: Placed, loops: Sequence[tuple[int, int]],
    axes: tuple[str, ...],
) -> bool:  # fmt: skip
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
