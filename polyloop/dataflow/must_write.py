"""Must-writes by exhaustive branches: several conditional writes of one element, of which one surely happens."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Final

import islpy as isl
import pymbolic.primitives as p

from polyloop.dataflow.times import common_depth, is_between
from polyloop.expr.nodes import Expression
from polyloop.expr.rewrite import variables
from polyloop.mapping.thread_mapping import Placed, Placement, common_loops, storage_map
from polyloop.poly.affine import Affine
from polyloop.poly.axes import loops_among

__all__ = ["alternatives", "dims_of", "into", "is_within", "nests", "of_branches", "writes_under"]


def alternatives(
    placement: Placement,
    array: str,
    writers: Sequence[Placed],
    given: Sequence[Expression] = (),
    bounds: Sequence[str] = (),
) -> dict[str, tuple[Placed, ...]]:
    """Return the last writers of exhaustive branches, each with all of their writers: one of these has written.

    ::

        if a[i] > 0: y[i] = 1
        else:        y[i] = 2       <- this one: y[i] has a value from here on, from one of the two

    The branches must be in one iteration and write one element; no statement from the first to the last of them may
    write a variable of their conditions, nor *array* but for this element in each of these iterations.  One has written
    in the instances of the last one; the others may have fewer.

    Parameters
    ----------
    writers
        The statements that write *array*.
    given
        Conditions that hold: the branches are exhaustive under these, and a single writer under no others is one.
    bounds
        Bound variables that let the reader run: they let a writer run, too, inside of loops around both.
    """
    found: dict[str, tuple[Placed, ...]] = {}
    groups: dict[object, list[Placed]] = {}
    if any(writer.lowered.predicates for writer in writers):
        writers = [writer for writer in writers if not writer.domain.is_empty()]
    for writer in writers:
        lowered = writer.lowered
        writes = lowered.writes_to(array)
        plain = lowered.atomic is None and {*lowered.bounds} <= {*bounds} and len(lowered.writes) == 1
        if plain and lowered.predicates and writes[0].is_affine() and not writes[0].fields:
            groups.setdefault((writer.dims, lowered.inames, writes[0].indices), []).append(writer)
    for group in groups.values():
        for name, members in _ends(placement, group, given).items():
            low, high = (_position(placement, entry) for entry in (members[0], members[-1]))
            own = members[-1].domain
            inside = [entry for entry in writers if low <= _position(placement, entry) <= high]
            inside = [entry for entry in inside if entry not in group or not entry.domain.is_disjoint(own)]
            if all(entry in group for entry in inside):
                found[name] = tuple(inside)
    return found


_MOST_CASES: Final = 64
"""So many sets of branches are looked at; the branches of a longer choice count as conditional."""


def nests(placement: Placement, array: str, writers: Sequence[Placed]) -> list[tuple[Placed, Placed]]:
    """Return the first and the last of the writers in nests of exhaustive branches that write the same elements.

    ::

        if a[i] > 0:
            for j: w[j] = a[i]      <- behind all branches, this or a later write has been done for each w[j]
        elif a[i] > -1:
            for k: w[k] = b[k]
        else:
            for l: w[l] = 0

    So for reads behind the last one, in the iteration of the loops around all, and in later ones, the first one is a
    must-write.
    """
    plain = [writer for writer in writers if writer.lowered.predicates and _is_plain(writer, array)]
    found: dict[tuple[str, str], tuple[Placed, Placed]] = {}
    cases: list[_Nests] = []
    for writer in sorted(plain, key=lambda entry: placement.program.places[entry.name]):
        waiting = [_Nests(writer.lowered.predicates, (writer,))]
        while waiting and len(cases) < _MOST_CASES:
            case = waiting.pop()
            if not case.conditions:
                members = sorted(case.members, key=lambda entry: placement.program.places[entry.name])
                if _are_nests(placement, array, members):
                    found[members[0].name, members[-1].name] = members[0], members[-1]
                continue
            waiting += [case.joined(other) for other in cases if _are_complementary(case.conditions, other.conditions)]
            cases.append(case)
    return list(found.values())


@dataclass(frozen=True)
class _Nests:
    """Writers of which one writes if all conditions hold."""

    conditions: tuple[Expression, ...]
    members: tuple[Placed, ...]

    def joined(self, before: _Nests) -> _Nests:
        """Return the case in which this one or *before* writes."""
        return _Nests(self.conditions[:-1], (*before.members, *self.members))


def _are_complementary(a: tuple[Expression, ...], b: tuple[Expression, ...]) -> bool:
    """Return whether the last conditions are negations of each other, and the others equal."""
    return a[:-1] == b[:-1] and (a[-1] == p.LogicalNot(b[-1]) or b[-1] == p.LogicalNot(a[-1]))


def _is_plain(writer: Placed, array: str) -> bool:
    lowered, (write, *others) = writer.lowered, writer.lowered.writes_to(array)
    always = lowered.atomic is None and not lowered.bounds and not lowered.instruction.may_keep
    return always and not others and write.is_affine() and not write.fields


def _are_nests(placement: Placement, array: str, members: Sequence[Placed]) -> bool:
    """Return whether exhaustive writers, in order, have conditions on loops around all, and the same elements there."""
    places = placement.program.places
    first, last = members[0], members[-1]
    around = places[first.name][: min(common_depth(places[first.name], places[m.name]) for m in members[1:])]
    sides = [[dim for dim in writer.dims if dim not in loops_among(writer.dims) or dim in around] for writer in members]
    conditions = {part for writer in members for part in writer.lowered.predicates}
    if any(side != sides[0] for side in sides) or any(
        not dims_of(writer, part) <= {*sides[0]} for writer in members for part in writer.lowered.predicates
    ):
        return False
    between = [s for s in placement.statements.values() if is_between(placement, first, s, last)]
    read = {name for part in conditions for name in variables(part)}
    if not {access.array for s in between for access in s.lowered.writes}.isdisjoint(read):
        return False
    cells = [_cells(placement, array, writer, sides[0]) for writer in members]
    return all(entry.is_equal(cells[0]) for entry in cells[1:])


def _cells(placement: Placement, array: str, writer: Placed, kept: Sequence[str]) -> isl.Map:
    """Return ``{ [kept dimensions] -> element }``."""
    (write,) = writer.lowered.writes_to(array)
    found = storage_map(placement, writer, write, placement.spaces[array])
    for position in reversed(range(len(writer.dims))):
        if writer.dims[position] not in kept:
            found = found.project_out(isl.dim_type.in_, position, 1)
    return found.reset_tuple_id(isl.dim_type.in_) if found.has_tuple_id(isl.dim_type.in_) else found


def writes_under(writer: Placed, array: str, given: frozenset[Expression]) -> bool:
    """Return whether each instance of *writer* writes its element of *array* where all conditions *given* hold."""
    lowered, write = writer.lowered, writer.lowered.writes_to(array)[0]
    always = lowered.atomic is None and not lowered.bounds and not lowered.instruction.may_keep
    asked = {*write.guards, *((part, True) for part in lowered.predicates)}
    return always and write.is_affine() and asked <= {(part, True) for part in given}


def is_within(reader: Placed, writer: Placed, link: isl.Map, names: Collection[str]) -> bool:
    """Return whether *link* leads to writes with the reader's values of the dimensions *names*."""
    if not {*names} <= {*writer.dims}:
        return False
    same = link
    for name in names:
        same = same.equate(isl.dim_type.in_, reader.dims.index(name), isl.dim_type.out, writer.dims.index(name))
    return bool(link.is_subset(same))


def of_branches(
    links: Sequence[tuple[Placed, isl.Map]], branches: Mapping[str, Sequence[Placed]]
) -> tuple[tuple[Placed, isl.Map], ...]:
    """Return *links* with those to the last of exhaustive branches as links to each of these."""
    found: dict[str, tuple[Placed, isl.Map]] = {}
    for writer, link in links:
        for member in branches.get(writer.name, (writer,)):
            _, known = found.get(member.name, (member, None))
            own = link if member is writer else into(link, member)
            found[member.name] = (member, own if known is None else known.union(own))
    return tuple(found.values())


def into(link: isl.Map, member: Placed) -> isl.Map:
    """Return the pairs of *link* whose writer is an instance of *member*, one of several branches."""
    return link.intersect_range(member.domain)


def dims_of(statement: Placed, condition: Expression) -> frozenset[str]:
    """Return the dimensions of the instances of *statement* that *condition* depends on."""
    forms = [statement.forms.get(name) or Affine.variable(name) for name in variables(condition)]
    return frozenset(name for form in forms for name in form.names() if name in statement.dims)


@dataclass
class _Case:
    """Writers of which one writes in the instances ``domain``, if the conditions hold."""

    conditions: tuple[Expression, ...]
    domain: isl.Set
    members: list[Placed]


def _ends(placement: Placement, group: Sequence[Placed], given: Sequence[Expression]) -> dict[str, list[Placed]]:
    """Return the last writers of exhaustive branches among the writers *group* of one element, with all of these.

    Inner branches by conditions on inames are writers with parts of the instances: together they complete another one.
    """
    ends: dict[str, list[Placed]] = {}
    open_cases: list[_Case] = []
    for writer in sorted(group, key=lambda entry: _position(placement, entry)):
        case = _Case(writer.lowered.predicates, writer.domain, [writer])
        while not set(case.conditions) <= {*given}:
            others = [other for other in open_cases if _complete(placement, other, case)]
            if not others or not case.domain.is_subset(reduce(isl.Set.union, (other.domain for other in others))):
                break
            for other in others:
                other.domain = other.domain.subtract(case.domain)
            open_cases = [other for other in open_cases if not other.domain.is_empty()]
            members = {member.name: member for other in (*others, case) for member in other.members}
            ordered = sorted(members.values(), key=lambda entry: _position(placement, entry))
            case = _Case(case.conditions[:-1], case.domain, ordered)
        if not set(case.conditions) <= {*given}:
            open_cases.append(case)
        else:
            ends[writer.name] = case.members
    return ends


def _position(placement: Placement, statement: Placed) -> tuple[int, ...]:
    return tuple(entry for entry in placement.program.places[statement.name] if isinstance(entry, int))


def _complete(placement: Placement, first: _Case, second: _Case) -> bool:
    """Return True if two cases are complementary: their last conditions are negations, the others are equal."""
    a, b = first.conditions, second.conditions
    if not _are_complementary(a, b):
        return False
    start, end = first.members[0], second.members[-1]
    if first.domain.is_disjoint(second.domain):
        return False
    loops, before = common_loops(placement, start, end)
    if not before or set(loops) != set(loops_among(start.dims)):
        return False
    low, high = _position(placement, start), _position(placement, end)
    between = [s for s in placement.statements.values() if low <= _position(placement, s) < high]
    written = {access.array for statement in between for access in statement.lowered.writes}
    read = {name for part in (*a, *b) for name in variables(part)}
    return written.isdisjoint(read)
