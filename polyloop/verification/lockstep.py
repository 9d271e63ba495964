"""Lockstep execution of lanes: all reads of a statement precede all of its writes."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import islpy as isl

from polyloop.dataflow.address_spaces import place
from polyloop.dataflow.conflicts import conflict_pairs
from polyloop.dataflow.nosync import not_denied
from polyloop.errors import Diagnostic, WitnessKind
from polyloop.kernel.tags import is_lane
from polyloop.mapping.thread_mapping import Placed, Placement
from polyloop.poly.axes import is_axis
from polyloop.program.lower import Access
from polyloop.proof.obligation import Claim, Obligation
from polyloop.proof.witness import element, instance, pair, witness
from polyloop.verification.correspondence import Comparison

__all__ = ["lockstep_obligations"]

_IN = isl.dim_type.in_
_OUT = isl.dim_type.out


def lockstep_obligations(comparison: Comparison) -> Iterator[Obligation]:
    """Yield the obligations of the lanes of a transformed program, if it has any."""
    if any(map(is_lane, comparison.kernel.iname_tags.values())):
        says = "no lane of a statement reads what a lane before it writes"
        by = "conflicts in one iteration of the loops around the lanes"
        yield Obligation(Claim.ORDER, "lanes", says, by, partial(_lockstep_violations, comparison))


def _lockstep_violations(comparison: Comparison) -> Iterator[Diagnostic]:
    """Yield a diagnostic for the first statement in which a lane reads an element that an earlier lane writes.

    Updates of accumulators are exempt: the terms of a reduction are added lane after lane.  A buffer counts as storage
    of its own here, not as the array whose elements it holds.
    """
    placement = place(comparison.kernel)
    kernel = placement.program.kernel
    for statement in placement.statements.values():
        lanes = [x for x in statement.dims if is_lane(kernel.tag(x))]
        if not lanes:
            continue
        for write in statement.lowered.writes:
            if write.array in placement.program.accumulators:
                continue
            for read in statement.lowered.reads:
                if read.array == write.array:
                    found = _passed_on(placement, statement, (write, read), lanes)
                    if found is not None:
                        yield found
                        return


def _passed_on(
    placement: Placement, statement: Placed, accesses: tuple[Access, Access], lanes: list[str]
) -> Diagnostic | None:
    """Return a diagnostic, with two instances, if a lane writes an element that a later lane reads, else None."""
    write, read = accesses
    pairs = conflict_pairs(placement, statement, write, statement, read)
    pairs = not_denied(placement, statement, write, statement, read, pairs)
    for position, name in enumerate(statement.dims):
        if not is_axis(name) and name not in lanes:
            pairs = pairs.equate(_IN, position, _OUT, position)
    for lane in lanes:
        position = statement.dims.index(lane)
        found = pairs.order_lt(_IN, position, _OUT, position)
        if not found.is_empty():
            before, after = pair(found, statement, statement)
            tag = placement.program.kernel.tag(lane)
            return Diagnostic(
                "illegal-parallel",
                f"iname '{lane}' cannot be '{tag}'",
                (
                    f"instance {instance(statement, before)} writes {element(statement, write, before)}; "
                    f"instance {instance(statement, after)} reads it",
                    "the lanes of a statement run together: all read before any of them writes",
                ),
                ("keep the loop sequential, or let it be unrolled: 'unr'",),
                witness=witness(WitnessKind.LANES, (statement, write, before), (statement, before), (statement, after)),
                sites=(statement.lowered.instruction.site(),),
            )
        pairs = pairs.equate(_IN, position, _OUT, position)
    return None
