"""Synchronization of a program on its threads: conflicts, collective operations, and ends of launches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from polyloop.errors import Diagnostic, VerificationError, warn
from polyloop.kernel.limits import DeviceLimits
from polyloop.kernel.tree import Scope, Tree
from polyloop.mapping.thread_mapping import Placement
from polyloop.poly.sets import project_onto
from polyloop.schedule.barrier import Meeting, idle_barriers, needs_of, place_barriers, requirements
from polyloop.schedule.collective import Collective, collectives_of, reuse_requirements
from polyloop.schedule.plan import Launch, Statement, Wait
from polyloop.schedule.shapes import Shape, in_shapes, shapes_of
from polyloop.schedule.turns import in_turns
from polyloop.schedule.waits import reuse_waits, waits, with_reasons
from polyloop.sync.host_loops import Block
from polyloop.sync.launches import Cuts, launch_cuts
from polyloop.sync.races import Need
from polyloop.sync.roles import is_by_rings

__all__ = ["Synchronization", "synchronization_of", "with_barriers", "with_waits"]


@dataclass(frozen=True, eq=False)
class Synchronization:
    """Synchronization that a program needs.

    Attributes
    ----------
    needs
        Conflicts between threads over memory, each with the threads that have to wait.
    by_rings
        Those that rings of copies keep in order, whose threads have different roles.
    collectives
        Reductions and scans over threads, by statement.
    cuts
        Positions at which one launch ends and the next begins, and the loops of the host around launches.
    shapes
        The shape of the blocks that execute each statement.
    """

    placement: Placement
    needs: Sequence[Need]
    collectives: Mapping[str, Collective]
    cuts: Cuts
    shapes: Mapping[str, Shape]
    by_rings: Sequence[Need] = ()

    @property
    def users(self) -> dict[str, str]:
        """Collective operations through shared memory, each with the id of its instruction; they meet inside."""
        statements = self.placement.statements
        return {n: statements[n].lowered.instruction.id for n, found in self.collectives.items() if found.scratch}

    @cached_property
    def meetings(self) -> dict[str, Meeting]:
        """The barriers inside of :attr:`users`."""
        found = {n: _passed(self.placement, n) for n in self.users}
        return {n: Meeting(self.collectives[n].scope, passed) for n, passed in found.items()}


def synchronization_of(placement: Placement, limits: DeviceLimits) -> Synchronization:
    """Return the synchronization that a program needs, and warn about barriers of the user that no conflict needs.

    Raises
    ------
    VerificationError
        ``role-meeting``.
    """
    needs, kernel = needs_of(placement, limits), placement.program.kernel
    warn("schedule", kernel.name, idle_barriers(placement, needs), kernel.silenced_warnings)
    cuts = launch_cuts(placement, needs)
    shapes = shapes_of(placement, cuts, limits)
    needs = [*in_shapes(placement, needs, shapes, limits)]
    collectives = collectives_of(placement, limits, shapes)
    if not kernel.roles or not limits.has_threads:
        return Synchronization(placement, needs, collectives, cuts, shapes)
    if met := [*_meetings(placement, collectives)]:
        raise VerificationError("schedule", kernel.name, met)
    by_rings = [need for need in needs if is_by_rings(placement, need)]
    assert all(need.scope is not Scope.CLUSTER for need in by_rings), "copies fill memory of their own block"
    return Synchronization(
        placement, [need for need in needs if need not in by_rings], collectives, cuts, shapes, by_rings
    )


def _meetings(placement: Placement, collectives: Mapping[str, Collective]) -> Iterator[Diagnostic]:
    """Yield a diagnostic for instructions in which all threads of a block, or of a cluster, meet."""
    role = placement.program.kernel.roles[-1].name
    for name, collective in collectives.items():
        if collective.scratch is not None or collective.blocks > 1:
            instruction = placement.statements[name].lowered.instruction
            yield Diagnostic(
                "role-meeting",
                f"all threads of the block would meet in '{instruction.id}', and only those of '{role}' execute it",
                ("the threads that copy execute nothing else",),
                ("let a warp combine its values by itself: tag inames l%32, or leave out pl.assign_roles",),
                sites=(instruction.site(),),
            )
            return


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
    reused = reuse_waits(sync.collectives, sync.users, launches, sync.meetings)
    found = (*waits(sync.needs, launches, sync.meetings), *reused, *between, *dict.fromkeys(_ring_waits(sync)))
    return with_reasons(launches, found, sync.placement.program.kernel), found


def _ring_waits(sync: Synchronization) -> Iterator[Wait]:
    """Yield the waits of one role for another one."""
    names = {tile: role.name for role in sync.placement.program.kernel.roles for tile in role.copies}
    for need in sync.by_rings:
        first, second = need.conflict.first.lowered, need.conflict.second.lowered
        tile = next(x.write.array for x in (first, second) if x.instruction.step is not None)
        by = f"the slots of '{tile}', which '{names[tile]}' fills"
        if need.scope is not None:
            ids = first.instruction.id, second.instruction.id
            yield Wait(need.array, *ids, need.conflict.loop, need.scope, by)


def _passed(placement: Placement, name: str) -> dict[str, Block]:
    """Return the statements of a block, with their places, whose iterations all execute the statement *name* too.

    A sum under ``i < 2`` has no barrier for what two iterations behind do::

        for (int i = 0; i < n; ++i) {
            if (i < 2)
                acc = sum_over_block(acc, partial);
            other = sum_over_block(other, partial_0);  // of i = 2 and i = 3: partial_0 needs a barrier in between
        }

    Two sums of the same iterations have one for each other, also where a third statement, such as a copy that runs
    iterations ahead, is executed in others.
    """
    places, placed = placement.program.places, placement.statements[name]
    if placed.lowered.is_conditional:
        return {}
    block = places[name][:-1]
    keep = [*placement.axes.group, *(entry for entry in block if isinstance(entry, str))]
    passed, assumptions = project_onto(placed.exact, placed.dims, keep), placement.program.kernel.assumptions
    return {
        number: places[number]
        for number, other in placement.statements.items()
        if places[number][: len(block)] == block
        and project_onto(other.exact, other.dims, keep).intersect_params(assumptions).is_subset(passed)
    }
