"""Launches of a schedule: the loop tree, cut where blocks depend on each other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from polyloop.errors import Diagnostic
from polyloop.kernel.tree import Barrier, Loop, Node, Scope, Tree, runs
from polyloop.mapping.thread_mapping import Axes, Placement
from polyloop.schedule.collective import local_size
from polyloop.schedule.plan import Launch
from polyloop.schedule.storage import Storage
from polyloop.schedule.synchronization import Synchronization
from polyloop.sync.launches import launch_of, passages
from polyloop.sync.races import Need

__all__ = ["crossing_violations", "launches_of"]


def launches_of(sync: Synchronization, tree: Tree, storages: Mapping[str, Storage]) -> tuple[Launch, ...]:
    """Return the launches of *tree*, which has the barriers of *sync*, each with the storage that it uses."""
    return tuple(_launches(sync, tree, storages))


def _launches(sync: Synchronization, tree: Tree, storages: Mapping[str, Storage]) -> Iterator[Launch]:
    """Yield the launches: the parts of *tree* between cuts, where the derived barriers have no effect.

    Cuts are positions in the tree without its derived barriers.
    """
    placement, cuts, collectives = sync.placement, sync.cuts, sync.collectives
    title = placement.program.kernel.name
    exchanged = frozenset(need.array for need in sync.needs if _is_inside_a_launch(placement, need, cuts))
    segments: list[list[Node]] = [[] for _ in range(len(cuts) + 1)]
    position = 0
    for node in tree:
        derived = isinstance(node, Barrier) and node.name is None
        at_cut = isinstance(node, Barrier) and (position == 0 or position in cuts)
        if not (derived and at_cut):
            segments[sum(position >= cut for cut in cuts)].append(node)
        position += not derived
    segments = [[*_with_threads(nodes, placement.axes)] for nodes in segments]
    size = local_size(placement.axes.extents)
    for number, nodes in enumerate(segments):
        part: Tree = tuple(nodes)
        names = set(runs(part))
        used = {
            access.array
            for name in names
            for access in placement.statements[name].lowered.accesses
        }
        meetings = [collectives[name] for name in names & collectives.keys()]
        used |= {own for entry in meetings for own in (entry.scratch, entry.ticket) if own}
        temporaries = tuple(storage for name, storage in storages.items() if name in used)
        name = title if len(segments) == 1 else f"{title}_{number}"
        order = placement.program.kernel.blocks
        yield Launch(name, part, size, placement.axes.group, temporaries, exchanged & used, order=order)


def _with_threads(tree: Sequence[Node], axes: Axes) -> Iterator[Node]:
    """Yield *tree* without the user's barriers that have no effect: of the grid, or in a block of one thread."""
    for node in tree:
        if isinstance(node, Loop):
            yield Loop(node.iname, tuple(_with_threads(node.body, axes)))
        elif not isinstance(node, Barrier) or node.name is None or (axes.local and node.scope is Scope.BLOCK):
            yield node


def crossing_violations(sync: Synchronization) -> Iterator[Diagnostic]:
    """Yield a diagnostic for each private or shared variable that is live from one launch to the next."""
    placement = sync.placement
    for name in passages(placement, sync.cuts):
        yield Diagnostic(
            "private-across-launches",
            f"'{name}' is {placement.spaces[name]} and would have to live from one launch to the next",
            ("one launch ends where blocks depend on each other, or at a global barrier, and the next begins",),
            (f"let it be saved and reloaded: pl.save_and_reload_temporaries(knl), or compute '{name}' anew",),
        )


def _is_inside_a_launch(placement: Placement, need: Need, cuts: Sequence[int]) -> bool:
    """Return True if *need* is between threads of a block within one launch."""
    launches = {launch_of(placement, statement, cuts) for statement in (need.conflict.first, need.conflict.second)}
    return need.scope in {Scope.WARP, Scope.BLOCK} and len(launches) == 1
