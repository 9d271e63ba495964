"""Synchronization of a program on its threads: conflicts, collective operations, and ends of launches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from polyloop.errors import warn
from polyloop.kernel.limits import DeviceLimits
from polyloop.kernel.tree import Tree
from polyloop.mapping.thread_mapping import Placement
from polyloop.schedule.barrier import idle_barriers, needs_of, place_barriers, requirements
from polyloop.schedule.collective import Collective, collectives_of, reuse_requirements
from polyloop.schedule.plan import Launch, Statement, Wait
from polyloop.schedule.turns import in_turns
from polyloop.schedule.waits import reuse_waits, waits
from polyloop.sync.launches import Cuts, launch_cuts
from polyloop.sync.races import Need

__all__ = ["Synchronization", "synchronization_of", "with_barriers", "with_waits"]


@dataclass(frozen=True, eq=False)
class Synchronization:
    """Synchronization that a program needs.

    Attributes
    ----------
    needs
        Conflicts between threads over memory, each with the threads that have to wait.
    collectives
        Reductions and scans over threads, by statement.
    cuts
        Positions at which one launch ends and the next begins, and the loops of the host around launches.
    """

    placement: Placement
    needs: Sequence[Need]
    collectives: Mapping[str, Collective]
    cuts: Cuts

    @property
    def meetings(self) -> tuple[str, ...]:
        """Statements with a barrier of the block inside: collective operations through shared memory."""
        return tuple(name for name, collective in self.collectives.items() if collective.scratch)


def synchronization_of(placement: Placement, limits: DeviceLimits) -> Synchronization:
    """Return the synchronization that a program needs, and warn about barriers of the user that no conflict needs."""
    needs, kernel = needs_of(placement, limits), placement.program.kernel
    warn("schedule", kernel.name, idle_barriers(placement, needs), kernel.silenced_warnings)
    return Synchronization(placement, needs, collectives_of(placement, limits), launch_cuts(placement, needs))


def with_barriers(sync: Synchronization) -> Tree:
    """Return the loop tree of the program with barriers."""
    placement = sync.placement
    wanted = [*requirements(placement, sync.needs), *reuse_requirements(placement, sync.collectives)]
    return place_barriers(placement.program.tree, wanted, sync.cuts.blocks, sync.meetings)


def with_waits(
    sync: Synchronization, launches: tuple[Launch, ...], statements: Mapping[str, Statement]
) -> tuple[tuple[Launch, ...], tuple[Wait, ...]]:
    """Return the finished launches and their waits: for each conflict, the barrier or the end of a launch in between.

    Raises
    ------
    VerificationError
        ``not-ahead``.
    """
    launches, between = in_turns(sync.placement, launches, statements, sync.collectives)
    users = {name: sync.placement.statements[name].lowered.instruction.id for name in sync.meetings}
    found = (*waits(sync.needs, launches, sync.meetings), *reuse_waits(sync.collectives, users, launches))
    return launches, (*found, *between)
