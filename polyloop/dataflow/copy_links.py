"""The two statements of an asynchronous copy: which start each arrival waits for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import islpy as isl

from polyloop.dataflow.value_flow import flow_of
from polyloop.kernel.instruction import CopyStep
from polyloop.kernel.kernel import memoised
from polyloop.mapping.thread_mapping import Placed, Placement

__all__ = ["copy_link", "copy_pairs"]


def copy_pairs(placement: Placement) -> Iterator[tuple[Placed, Sequence[Placed]]]:
    """Yield each arrival, with the starts of copies into its array."""
    steps = [(s, s.lowered.instruction.step) for s in placement.statements.values()]
    for arrival, step in steps:
        if step is CopyStep.ARRIVAL:
            array = arrival.lowered.write.array
            yield arrival, [s for s, at in steps if at is CopyStep.START and s.lowered.write.array == array]


@memoised
def copy_link(placement: Placement, start: Placed, arrival: Placed) -> tuple[isl.Map, isl.Set]:
    """Return ``{ arrival -> last start of a copy into its element }``, and arrivals without one."""
    write = arrival.lowered.write
    flow = flow_of(placement, write.array, [(arrival, write)], [start])
    sources, initial = flow.of(arrival, write)
    if not sources:
        space = arrival.domain.get_space().map_from_domain_and_range(start.domain.get_space())
        return isl.Map.empty(space), initial
    ((_, link),) = sources
    return link, initial
