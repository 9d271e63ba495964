"""Asynchronous operations of a thread: each has a start, and an arrival at which the thread waits for it.

What it reads may be read at any time in between.  Operations that a thread starts in one iteration of the innermost
loop around both start and arrival are one *group*; groups complete in the order of their starts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce

import islpy as isl

from polyloop.dataflow.times import earlier
from polyloop.dataflow.value_flow import Flow, writes_of
from polyloop.mapping.thread_mapping import Placed, Placement, common_loops, storage_map
from polyloop.poly.affine import Affine
from polyloop.poly.budget import looking_at
from polyloop.poly.relations import meetings
from polyloop.poly.sets import constant_bounds, lex_relation, map_from_forms, project_onto
from polyloop.program.lower import Access

__all__ = ["changed_reads", "is_untouched", "pending_groups", "step_of"]

_IN = isl.dim_type.in_
_OUT = isl.dim_type.out


def changed_reads(
    flow: Flow, early: tuple[Placed, Access], late: tuple[Placed, Access], link: isl.Map
) -> Iterator[isl.Set]:
    """Yield arrivals whose read sees another value than that of their start, which *link* maps them to.

    *early* and *late* are the read of one element by the start and by the arrival.
    """
    found, late_initial = flow.of(*late)
    seen, early_initial = flow.of(*early)
    yield link.intersect_range(early_initial).domain().subtract(late_initial)
    for writer, sees in found:
        others = [link.apply_range(other) for source, other in seen if source is writer]
        yield reduce(isl.Map.subtract, others, sees).domain()


def is_untouched(
    placement: Placement, early: tuple[Placed, Access], late: tuple[Placed, Access], link: isl.Map
) -> bool:
    """Return True if a quick test proves that :func:`changed_reads` finds nothing: no write of the element in between.

    A read sees writes that are strictly earlier, so one at the time of the start counts.
    """
    (start, first), (arrival, last) = early, late
    space = placement.spaces[last.array]
    cells = storage_map(placement, arrival, last, space)
    if not cells.is_subset(link.apply_range(storage_map(placement, start, first, space))):
        return False
    for writer, write in writes_of(placement, last.array):
        before, after = earlier(placement, writer, arrival), earlier(placement, start, writer, or_equal=True)
        if before.plain_is_empty() or after.plain_is_empty():
            continue  # by their places in the loop tree
        looking_at(arrival, last, writer, write)
        pairs = meetings(cells, storage_map(placement, writer, write, space))
        if not pairs.intersect(before.reverse()).intersect(link.apply_range(after)).is_empty():
            return False
    return True


def pending_groups(placement: Placement, start: Placed, arrival: Placed, link: isl.Map) -> int:
    """Return the number of groups, started after the one waited for, that may still be under way.

    Each iteration of the innermost loop that both share ends one group.
    """
    loops, arrival_first = common_loops(placement, arrival, start)
    if not loops:
        return 0
    *outer, inner = loops
    around = [(arrival.dims.index(loop), start.dims.index(loop)) for loop in outer]
    same = lex_relation(link.get_space(), around, None)
    if not link.is_subset(same):
        return 0
    distances = [
        map_from_forms(statement.domain, statement.dims, [Affine.variable(inner)]) for statement in (arrival, start)
    ]
    apart = link.apply_domain(distances[0]).apply_range(distances[1]).reverse().deltas()
    least, _ = constant_bounds(apart, 0)
    if least is None:
        return 0
    step = max(step_of(placement, statement, loops) for statement in (arrival, start))
    return max(0, least // step - 1 if arrival_first else least // step)


def step_of(placement: Placement, statement: Placed, loops: Sequence[str]) -> int:
    """Return the most that the last of *loops* can advance from one iteration to the next, as its domain has gaps."""
    names = [name for name in statement.dims if name in loops or name in placement.axes.all]
    flat = project_onto(statement.domain, statement.dims, names)
    step: int = flat.get_stride_info(names.index(loops[-1])).get_stride().to_python()
    return max(1, step)
