"""Asynchronous copies: every wait has a start, and the number of later groups in flight at each wait.

An asynchronous copy is two statements.  From its start on, the elements that it writes may have any value; after its
wait they have that of the source.  To the rest of the analysis both are writes.  So every use of the elements is
ordered against the start and against the wait alike, and a read must see the value of the wait.  Groups of copies are
those of :mod:`polyloop.sync.async_operations`.

A copy of a box (tag ``box``) is started by one thread, and all threads wait for it.  The wait counts phases of the
place that the box fills: each start has exactly one arrival.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import islpy as isl
import pymbolic.primitives as p

from polyloop.dataflow.copy_links import copy_link, copy_pairs
from polyloop.dataflow.value_flow import flow_of, is_exact, writers_of
from polyloop.errors import Diagnostic
from polyloop.kernel.arrays import AddressSpace
from polyloop.kernel.tags import Box
from polyloop.mapping.thread_mapping import Placed, Placement
from polyloop.poly.budget import looking_at
from polyloop.poly.sets import lex_relation, map_from_forms, project_onto
from polyloop.program.lower import Access
from polyloop.proof.obligation import Claim, Obligation
from polyloop.proof.witness import element, instance, pair
from polyloop.sync.async_operations import changed_reads, is_untouched, pending_groups

__all__ = ["Arrival", "arrivals", "copy_link", "copy_obligations", "copy_pairs", "copy_violations"]

_IN = isl.dim_type.in_
_OUT = isl.dim_type.out


@dataclass(frozen=True, eq=False)
class Arrival:
    """An asynchronous copy: its two statements, and the groups after its own that need not have arrived with it."""

    start: Placed
    arrival: Placed
    pending: int


def arrivals(placement: Placement) -> list[Arrival]:
    """Return the asynchronous copies of a kernel of which :func:`copy_obligations` hold."""
    found = []
    for arrival, starts in copy_pairs(placement):
        (start,) = starts
        link, _ = copy_link(placement, start, arrival)
        found.append(Arrival(start, arrival, pending_groups(placement, start, arrival, link)))
    return found


def copy_obligations(placement: Placement) -> Iterator[Obligation]:
    """Yield the obligations of asynchronous copies."""
    for arrival, starts in copy_pairs(placement):
        name = arrival.lowered.write.array
        says = f"what is waited for in '{arrival.lowered.instruction.id}' was started before, by the same thread"
        by = "dataflow from starts to arrivals"
        find = partial(copy_violations, placement, arrival, starts)
        yield Obligation(Claim.VALUES, f"'{name}' on its way", says, by, find, is_strict=True)


def copy_violations(placement: Placement, arrival: Placed, starts: Sequence[Placed]) -> Iterator[Diagnostic]:
    """Yield the violations of an asynchronous copy."""
    array = arrival.lowered.write.array
    site = (arrival.lowered.instruction.site(),)
    if placement.spaces[array] is not AddressSpace.LOCAL:
        yield Diagnostic(
            "copy-not-shared",
            f"asynchronous copies go to shared memory, and '{array}' is {placement.spaces[array]}",
            hints=("fetch by via='registers', or let threads of the block share what they fetch",),
            sites=site,
        )
        return
    if len(starts) != 1:
        yield Diagnostic(
            "copy-not-started",
            f"'{arrival.lowered.instruction.id}' waits for one copy, and {len(starts)} are started into '{array}'",
            hints=("let one instruction start the copy, and one wait for it",),
            sites=site,
        )
        return
    (start,) = starts
    if _decided(start) is None or _decided(start) != _decided(arrival):
        yield Diagnostic(
            "not-proven",
            f"'{arrival.lowered.instruction.id}' copies elements that data decides on",
            ("it is not shown that what is started is what is waited for",),
            ("let a scalar be the subscript that data decides, or fetch by via='registers'",),
            sites=site,
        )
        return
    link, initial = copy_link(placement, start, arrival)
    looking_at(arrival, start)
    if not initial.is_empty():
        at, _ = pair(initial.identity(), arrival, arrival)
        yield _not_started(arrival, at)
        return
    axes = [(arrival.dims.index(axis), start.dims.index(axis)) for axis in placement.axes.all]
    same_thread = lex_relation(link.get_space(), axes, None)
    reads = [*zip(_reads(start), _reads(arrival), strict=True)]
    is_copied = all(link.apply_range(_element(start, one)).is_subset(_element(arrival, two)) for one, two in reads)
    if not link.is_subset(same_thread) or not is_copied:
        wrong = link.subtract(same_thread)
        wrong = _other_elements(start, arrival, reads, link) if wrong.is_empty() else wrong
        at, before = pair(wrong, arrival, start)
        yield Diagnostic(
            "copy-not-started",
            f"'{arrival.lowered.instruction.id}' waits for another copy than the one that was started",
            (
                f"instance {instance(arrival, at)} waits for {element(arrival, arrival.lowered.write, at)}",
                f"instance {instance(start, before)} of '{start.lowered.instruction.id}' started a copy of "
                f"{element(start, _reads(start)[-1], before)} into it",
            ),
            ("apply the same transforms to both halves of the copy, or pipeline the loop after them",),
            sites=site,
        )
        return
    yield from _box_violations(placement, start, arrival, link)
    for one, two in reads:
        yield from _changed_source(placement, (start, one), (arrival, two), link)


def _other_elements(
    start: Placed, arrival: Placed, reads: Sequence[tuple[Access, Access]], link: isl.Map
) -> isl.Map:
    """Return the pairs of an arrival that copies another element than what was started for it."""
    found = isl.Map.empty(link.get_space())
    for one, two in reads:
        apart = link.apply_range(_element(start, one)).subtract(_element(arrival, two))
        found = found.union(link.intersect_domain(apart.domain()))
    return found


def _box_violations(placement: Placement, start: Placed, arrival: Placed, link: isl.Map) -> Iterator[Diagnostic]:
    """Yield a diagnostic unless each box that is started is waited for once."""
    boxes = [_box(placement, statement) for statement in (start, arrival)]
    if not any(boxes):
        return
    events = link
    for kind, statement, own in ((_OUT, start, boxes[0]), (_IN, arrival, boxes[1])):
        for position in reversed([statement.dims.index(x) for x in own]):
            events = events.project_out(kind, position, 1)
    started = project_onto(start.domain, start.dims, [x for x in start.dims if x not in boxes[0]])
    left = started.subtract(events.range().reset_tuple_id())
    array = arrival.lowered.write.array
    alone = sum(other.lowered.write.array == array for other, _ in copy_pairs(placement)) == 1
    if all(boxes) and alone and events.is_bijective() and left.is_empty():
        return
    yield Diagnostic(
        "copy-not-started",
        f"'{arrival.lowered.instruction.id}' waits for boxes more or less often than they are started",
        ("each start of a copy of a box has one arrival, by which threads know its phase",),
        ("apply the same transforms to both halves of the copy, or pipeline the loop after them",),
        sites=(arrival.lowered.instruction.site(),),
    )


def _box(placement: Placement, statement: Placed) -> list[str]:
    """Return the dimensions of the box that a statement copies."""
    return [x for x in statement.dims if isinstance(placement.program.kernel.tag(x), Box)]


def _changed_source(
    placement: Placement, begin: tuple[Placed, Access], end: tuple[Placed, Access], link: isl.Map
) -> Iterator[Diagnostic]:
    """Yield writes to what a copy reads, its source or a subscript, between its start and its arrival."""
    (start, read), array = begin, begin[1].array
    if not writers_of(placement, array):
        return
    site = (start.lowered.instruction.site(),)
    if not is_exact(placement, array):
        message = f"'{array}' is written and copied asynchronously, and not all accesses are exact"
        yield Diagnostic("not-proven", message, hints=("fetch it by via='registers'",), sites=site)
        return
    if is_untouched(placement, begin, end, link):
        return
    flow = flow_of(placement, array)
    for missing in changed_reads(flow, begin, end, link):
        if not missing.is_empty():
            _, before = pair(link.intersect_domain(missing), end[0], start)
            yield Diagnostic(
                "illegal-order",
                f"'{array}' would be copied before it is written",
                (
                    f"instance {instance(start, before)} of '{start.lowered.instruction.id}' starts to copy "
                    f"{element(start, read, before)}, which is written before the copy arrives",
                ),
                ("let the copy start later: with fewer stages, or not ahead of the loop's own writes",),
                sites=site,
            )
            return


def _not_started(arrival: Placed, at: Mapping[str, int]) -> Diagnostic:
    return Diagnostic(
        "copy-not-started",
        f"'{arrival.lowered.instruction.id}' waits for a copy that was not started",
        (f"instance {instance(arrival, at)} waits for {element(arrival, arrival.lowered.write, at)}",),
        ("apply the same transforms to both halves of the copy, or pipeline the loop after them",),
        sites=(arrival.lowered.instruction.site(),),
    )


def _reads(statement: Placed) -> list[Access]:
    """Return the reads of a copy: of scalars that are subscripts, if there are any, and last of what is copied."""
    return [access for access in statement.lowered.reads if access.leaf is not None]


def _decided(statement: Placed) -> tuple[str | None, ...] | None:
    """Return, for each subscript of what is copied, the scalar that it is if data decides it; None for other forms.

    Loops decide all other subscripts.
    """
    value, forms = statement.lowered.rhs, _reads(statement)[-1].indices
    indices = value.index_tuple if isinstance(value, p.Subscript) else ()
    names = [None if form is not None else index.name if isinstance(index, p.Variable) else "" for form, index in
             zip(forms, indices, strict=True)]  # fmt: skip
    return None if "" in names else tuple(names)


def _element(statement: Placed, read: Access) -> isl.Map:
    """Return ``{ instance -> element that is read }``."""
    return map_from_forms(statement.domain, statement.dims, statement.indices(read), read.array)
