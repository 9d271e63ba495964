"""Collective operations of a schedule: reductions and scans across threads, and scans across blocks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, count
from math import prod
from typing import Final

from polyloop.expr.nodes import Operation
from polyloop.kernel.limits import DeviceLimits
from polyloop.kernel.tree import Scope
from polyloop.mapping.collective_shape import Kind, meeting_of
from polyloop.mapping.thread_mapping import Placement
from polyloop.poly.axes import CLUSTER_AXIS, number_of, thread_axis
from polyloop.program.ir import Combine
from polyloop.schedule.barrier import Requirement
from polyloop.sync.lookback_progress import is_over_blocks

__all__ = ["Collective", "blocks_across", "collectives_of", "local_size", "reuse_requirements"]

_LANES: Final = 16
"""Limit on the accumulators of a thread that get shared memory of their own for combining."""


@dataclass(frozen=True)
class Collective:
    """Collective operation of all threads ``across`` some axes that have equal coordinates on the others.

    Attributes
    ----------
    scratch
        The shared array through which parts of a group exchange values; None if none is needed, as within a warp.
    apart
        Loops of which each iteration has an accumulator and a scratch array of its own.
    is_direct
        True if each group is inside of a warp: then all threads of the warp must take part, otherwise all of the block.
    chain
        For a scan over blocks, the array in global memory through which blocks pass their totals on.
    ticket
        For a scan over blocks, the shared variable with the number of the block.
    """

    kind: Kind
    operation: Operation
    across: tuple[str, ...]
    scratch: str | None = None
    apart: frozenset[str] = frozenset()
    is_direct: bool = False
    chain: str | None = None
    ticket: str | None = None
    blocks: int = 1
    """Blocks of a cluster that combine their values."""
    is_stored: bool = False
    """True for a statement of code generation in which a block only stores its total for the others."""

    @property
    def scope(self) -> Scope:
        """The threads that meet in it."""
        return Scope.BLOCK if self.blocks == 1 else Scope.CLUSTER


def blocks_across(placement: Placement, across: Sequence[str]) -> int:
    """Return the blocks of a cluster that combine values *across* some axes: 1 if each block has its own."""
    return placement.axes.cluster if CLUSTER_AXIS in across else 1


def reuse_requirements(placement: Placement, collectives: Mapping[str, Collective]) -> Iterator[Requirement]:
    """Yield the requirements of barriers before the next iteration of a loop reuses shared memory of *collectives*.

    Within a statement the threads write, wait, and read.  So a barrier is needed between the reads and the next writes.
    """
    places = placement.program.places
    for name, collective in collectives.items():
        loops = [entry for entry in places[name] if isinstance(entry, str) and entry not in collective.apart]
        if collective.scratch is not None and loops:
            yield Requirement.between(places[name], places[name], loops[-1], True, collective.scope)


def collectives_of(
    placement: Placement, limits: DeviceLimits, shapes: Mapping[str, Mapping[str, int | None]]
) -> dict[str, Collective]:
    """Return the collective operations by statement; there is none for a group of one thread.

    *shapes* has the threads of the blocks that execute each statement.
    """
    taken = {*placement.program.kernel.names(), *placement.program.accumulators}
    found: dict[str, Collective] = {}
    ticket = None
    for name, placed in placement.statements.items():
        lowered, part = placed.lowered, placed.lowered.part
        if not isinstance(part, Combine) or placed.domain.is_empty():
            continue
        scratch = passed = number = None
        kind = Kind.COMBINE
        if part.reduction.along:
            kind = Kind.EXCLUSIVE if part.after else Kind.INCLUSIVE
        blocks = blocks_across(placement, part.across)
        sizes = local_size(placement.axes.extents if placement.axes.has_digits else shapes[name])
        meeting = meeting_of(sizes, part.across, limits.warp_size, blocks)
        if kind is Kind.COMBINE and not meeting.across and blocks == 1:
            continue
        if is_over_blocks(placed):
            scratch, passed = _fresh("before", taken), _fresh("totals", taken)
            while f"{passed}_known" in taken:
                passed = _fresh("totals", taken)
            number = ticket = ticket or _fresh("ticket", taken)
        elif meeting.scratch(kind, part.reduction.operation):
            scratch = _fresh("partial", taken)
        lanes = placement.program.accumulators[lowered.write.array].shape
        inside = [form.names() for form in lowered.write.indices if form is not None]
        apart = frozenset[str]().union(*inside) if scratch and kind is Kind.COMBINE and prod(lanes) <= _LANES else None
        is_direct = meeting.parts == 1 and passed is None and blocks == 1
        loops = apart or frozenset()
        found[name] = Collective(
            kind, part.reduction.operation, part.across, scratch, loops, is_direct, passed, number, blocks
        )
    return found


def _fresh(wish: str, taken: set[str]) -> str:
    """Return a name that is not in *taken*, and add it there."""
    name = next(name for name in chain([wish], (f"{wish}_{number}" for number in count())) if name not in taken)
    taken.add(name)
    return name


def local_size(local: Mapping[str, int | None]) -> tuple[int, ...]:
    """Return the threads along l.0, l.1, .. up to the last axis in use."""
    if not local:
        return ()
    last = max(map(number_of, local))
    return tuple(local.get(thread_axis(number)) or 1 for number in range(last + 1))
