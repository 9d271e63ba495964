"""Times of execution, and the order of two statements in the loop tree as a relation between their instances."""

from __future__ import annotations

from collections.abc import Sequence

import islpy as isl

from polyloop.mapping.thread_mapping import Placed, Placement
from polyloop.memo import memoised
from polyloop.poly.affine import Affine
from polyloop.poly.sets import Row, add_rows

__all__ = ["common_depth", "earlier", "end_of_step", "forms_of_time", "is_between", "ranked", "time_forms"]


def time_forms(placement: Placement, statement: Placed, depth: int) -> list[Affine]:
    """Return the execution time of *statement*'s instances: positions and loop inames, padded to *depth*."""
    return forms_of_time(statement, placement.program.places[statement.name], depth)


def forms_of_time(statement: Placed, place: Sequence[int | str], depth: int) -> list[Affine]:
    """Return the execution time of *statement*'s instances at a *place* in the loop tree (:func:`time_forms`)."""
    forms = [
        Affine((), entry) if isinstance(entry, int) else statement.forms.get(entry) or Affine.variable(entry)
        for entry in place
    ]
    return forms + [Affine((), 0)] * (depth - len(forms))


def earlier(placement: Placement, first: Placed, second: Placed, *, or_equal: bool = False) -> isl.Map:
    """Return ``{ x -> y }`` where instance x of *first* is earlier in the loop tree than y of *second*, or equal.

    The instances themselves are not constrained.  Positions in the tree are constants, so most statements are ordered
    by few of the loops around them.
    """
    return _earlier(placement, first, second, or_equal)


@memoised
def _earlier(placement: Placement, first: Placed, second: Placed, or_equal: bool) -> isl.Map:
    depth = max(len(placement.program.places[statement.name]) for statement in (first, second))
    there = [f"{name}~" for name in second.dims]  # a name that is no parameter's
    renamed = {name: Affine.variable(other) for name, other in zip(second.dims, there, strict=True)}
    forms = time_forms(placement, first, depth), time_forms(placement, second, depth)
    later: list[Affine] = []
    for one, other in zip(*forms, strict=True):
        later.append(other.substitute(renamed).add(one, -1))
        if later[-1].const and not later[-1].terms:
            later[-1] = Affine((), 1 if later[-1].const > 0 else -1)
            break
    return _in_sequence(first.domain, second.domain, (*first.dims, *there), tuple(later), or_equal)


@memoised
def _in_sequence(
    first: isl.Set, second: isl.Set, names: tuple[str, ...], later: tuple[Affine, ...], or_equal: bool
) -> isl.Map:
    """Return ``{ x -> y }`` where the first form that is not 0 is positive, or all are 0 and *or_equal*."""
    space = first.get_space().map_from_domain_and_range(second.get_space())
    equal = isl.Set.universe(space.wrap())
    found = isl.Set.empty(space.wrap())
    for form in later:
        if form.terms or form.const > 0:
            found = found.union(add_rows(equal, names, [Row(form.add(Affine((), -1)))]))
        if not form.terms and form.const:
            return found.unwrap()
        equal = add_rows(equal, names, [Row(form, is_equality=True)])
    return (found.union(equal) if or_equal else found).unwrap()


def ranked(places: Sequence[tuple[int | str, ...]]) -> list[tuple[int | str, ...]]:
    """Return *places* in the loop tree with positions 0, 1, .. in each sequence, as if there were no other statements.

    ::

        (2, "i", 0), (2, "i", 3), (7,)    ->    (0, "i", 0), (0, "i", 1), (1,)
    """
    steps: dict[tuple[int | str, ...], set[int]] = {}
    for place in places:
        for depth, entry in enumerate(place):
            if type(entry) is int:
                steps.setdefault(place[:depth], set()).add(entry)
    ranks = {prefix: {step: rank for rank, step in enumerate(sorted(found))} for prefix, found in steps.items()}
    return [
        tuple([ranks[place[:depth]][entry] if type(entry) is int else entry for depth, entry in enumerate(place)])
        for place in places
    ]


def is_between(placement: Placement, writer: Placed, other: Placed, reader: Placed) -> bool:
    """Return True if *other* is between *writer* and *reader* in the loop tree.

    Statements that run in between, in one iteration of the loops that both share, are inside of all of these loops, at
    positions from the writer's to the reader's.
    """
    places = placement.program.places
    first, last, place = places[writer.name], places[reader.name], places[other.name]
    depth = common_depth(first, last)
    if place[:depth] != first[:depth]:
        return False
    begin, step, end = first[depth], place[depth], last[depth]
    assert isinstance(begin, int), f"{writer.name} and {reader.name} diverge at a loop"
    assert isinstance(step, int), f"{writer.name} and {other.name} diverge at a loop"
    assert isinstance(end, int), f"{writer.name} and {reader.name} diverge at a loop"
    return begin <= step <= end


def end_of_step(first: tuple[int | str, ...], last: tuple[int | str, ...]) -> tuple[int | str, ...]:
    """Return a place behind all that are between *first* and *last* as :func:`is_between` has it."""
    depth = common_depth(first, last)
    end = last[depth]
    assert isinstance(end, int), f"{first} and {last} diverge at a loop"
    return (*last[:depth], end + 1)


def common_depth(first: Sequence[object], last: Sequence[object]) -> int:
    """Return the length of the longest common prefix of two places."""
    depth = 0
    while first[depth : depth + 1] == last[depth : depth + 1] and depth < len(first):
        depth += 1
    return depth
