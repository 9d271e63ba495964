"""Must-writes by exhaustive branches: several conditional writes of one element, of which one surely happens."""

from __future__ import annotations

from collections.abc import Sequence

import pymbolic.primitives as p

from polyloop.expr.nodes import Expression
from polyloop.expr.rewrite import variables
from polyloop.mapping.thread_mapping import Placed, Placement, common_loops
from polyloop.poly.axes import loops_among

__all__ = ["alternatives"]


def alternatives(
    placement: Placement, array: str, writers: Sequence[Placed], given: Sequence[Expression] = ()
) -> dict[str, tuple[Placed, ...]]:
    """Return the last writers of exhaustive branches, each with all of their writers: one of these has written.

    ::

        if a[i] > 0: y[i] = 1
        else:        y[i] = 2       <- this one: y[i] has a value from here on, from one of the two

    The branches must be in one iteration and write one element; no statement from the first to the last of them may
    write a variable of their conditions, nor *array* but for this element in each of these iterations.

    Parameters
    ----------
    writers
        The statements that write *array*.
    given
        Conditions that hold: the branches are exhaustive under these, and a single writer under no others is one.
    """
    found: dict[str, tuple[Placed, ...]] = {}
    groups: dict[object, list[Placed]] = {}
    for writer in writers:
        lowered = writer.lowered
        writes = lowered.writes_to(array)
        plain = lowered.atomic is None and not lowered.bounds and len(lowered.writes) == 1
        if plain and lowered.predicates and writes[0].is_affine() and not writes[0].fields:
            groups.setdefault((writer.dims, lowered.inames, writes[0].indices), []).append(writer)
    for group in groups.values():
        for name, members in _ends(placement, group, given).items():
            low, high = (_position(placement, entry) for entry in (members[0], members[-1]))
            inside = [entry for entry in writers if low <= _position(placement, entry) <= high]
            if all(entry in group and entry.domain.is_equal(members[0].domain) for entry in inside):
                found[name] = tuple(inside)
    return found


def _ends(placement: Placement, group: Sequence[Placed], given: Sequence[Expression]) -> dict[str, list[Placed]]:
    """Return the last writers of exhaustive branches among the writers *group* of one element, with all of these."""
    ends: dict[str, list[Placed]] = {}
    open_cases: list[tuple[tuple[Expression, ...], list[Placed]]] = []
    for writer in sorted(group, key=lambda entry: _position(placement, entry)):
        predicates, members = writer.lowered.predicates, [writer]
        while not set(predicates) <= {*given}:
            other = next((case for case in open_cases if _complete(placement, case, (predicates, members))), None)
            if other is None:
                break
            open_cases.remove(other)
            predicates, members = predicates[:-1], [*other[1], *members]
        if not set(predicates) <= {*given}:
            open_cases.append((predicates, members))
        else:
            ends[writer.name] = members
    return ends


def _position(placement: Placement, statement: Placed) -> tuple[int, ...]:
    return tuple(entry for entry in placement.program.places[statement.name] if isinstance(entry, int))


def _complete(
    placement: Placement,
    first: tuple[tuple[Expression, ...], list[Placed]],
    second: tuple[tuple[Expression, ...], list[Placed]],
) -> bool:
    """Return True if two cases are complementary: their last conditions are negations, the others are equal."""
    (a, earlier), (b, later) = first, second
    if a[:-1] != b[:-1] or not (a[-1] == p.LogicalNot(b[-1]) or b[-1] == p.LogicalNot(a[-1])):
        return False
    start, end = earlier[0], later[-1]
    if any(not start.domain.is_equal(member.domain) for member in (*earlier, *later)):
        return False
    loops, before = common_loops(placement, start, end)
    if not before or set(loops) != set(loops_among(start.dims)):
        return False
    low, high = _position(placement, start), _position(placement, end)
    between = [s for s in placement.statements.values() if low <= _position(placement, s) < high]
    written = {access.array for statement in between for access in statement.lowered.writes}
    read = {name for part in (*a, *b) for name in variables(part)}
    return written.isdisjoint(read)
