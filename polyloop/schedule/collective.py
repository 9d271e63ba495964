"""Collective operations of the threads of a block, as a schedule states them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from polyloop.expr.nodes import Operation
from polyloop.kernel.tree import Scope
from polyloop.mapping.collective_shape import Kind
from polyloop.mapping.thread_mapping import Placement
from polyloop.schedule.barrier import Requirement

__all__ = ["Collective", "reuse_requirements"]


@dataclass(frozen=True)
class Collective:
    """Collective operation of all threads ``across`` some axes that have equal coordinates on the others.

    ``scratch`` is the shared array that values are exchanged through, if one warp cannot combine them by itself.  Each
    iteration of the loops ``apart`` has an accumulator and a scratch array of its own.  With ``is_direct`` the group is
    inside of a warp, and all threads of the warp must take part; otherwise all threads of the block must.  If
    ``across`` is the axis of blocks, the blocks pass their totals on through the array ``chain`` in global memory; the
    shared variable ``ticket`` has the number of a block.
    """

    kind: Kind
    operation: Operation
    across: tuple[str, ...]
    scratch: str | None = None
    apart: frozenset[str] = frozenset()
    is_direct: bool = False
    chain: str | None = None
    ticket: str | None = None
    is_stored: bool = False
    """True if a block only stores its total for the others; code generation makes such statements."""


def reuse_requirements(placement: Placement, collectives: Mapping[str, Collective]) -> Iterator[Requirement]:
    """Yield where threads have to wait before shared memory of *collectives* is used in the next iteration of a loop.

    Within a statement the threads write, wait, and read; between two such there must be another barrier.
    """
    places = placement.program.places
    for name, collective in collectives.items():
        loops = [entry for entry in places[name] if isinstance(entry, str) and entry not in collective.apart]
        if collective.scratch is not None and loops:
            yield Requirement.between(places[name], places[name], loops[-1], True, Scope.BLOCK)
