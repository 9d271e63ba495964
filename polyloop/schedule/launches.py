"""Launches of a schedule: the loop tree, cut where blocks depend on each other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from math import prod
from typing import Final

from polyloop.errors import Diagnostic
from polyloop.kernel.arrays import AddressSpace
from polyloop.kernel.kernel import LoopKernel
from polyloop.kernel.limits import DeviceLimits
from polyloop.kernel.tree import Barrier, Loop, Node, Scope, Tree, runs
from polyloop.mapping.thread_mapping import Axes, Placement
from polyloop.poly.affine import Affine
from polyloop.poly.axes import CLUSTER_AXIS
from polyloop.program.ir import Lowered
from polyloop.schedule.collective import local_size
from polyloop.schedule.copy_engine import Crew, Watch
from polyloop.schedule.plan import Launch, Turns
from polyloop.schedule.shapes import shape_violations
from polyloop.schedule.storage import Storage
from polyloop.schedule.synchronization import Synchronization
from polyloop.sync.arrivals import joined_launches
from polyloop.sync.launches import Cuts, Part, hosts_around, numbers_of, parts_of, passages
from polyloop.sync.races import Need
from polyloop.sync.roles import WARP, threads_of_roles

__all__ = ["crossing_violations", "launches_of", "size_violations"]


_BEGUN: Final = "all blocks of the cluster have begun"
_READ: Final = "no block ends before others have used its memory"


def launches_of(sync: Synchronization, tree: Tree, storages: Mapping[str, Storage]) -> tuple[Launch, ...]:
    """Return the launches of *tree*, which has the barriers of *sync*, each with the storage that it uses."""
    return tuple(_launches(sync, tree, storages))


def _launches(sync: Synchronization, tree: Tree, storages: Mapping[str, Storage]) -> Iterator[Launch]:
    """Yield the launches: the parts of *tree* between cuts, where the derived barriers have no effect."""
    placement, cuts, collectives = sync.placement, sync.cuts, sync.collectives
    title, numbers = placement.program.kernel.name, numbers_of(placement, cuts)
    joined, counted = joined_launches(placement, cuts), placement.program.kernel.blocks.counted
    exchanged = frozenset(
        need.array for need in sync.needs
        if _is_inside_a_launch(need, cuts, numbers, placement) or _is_counted(need, numbers, joined)
    )  # fmt: skip
    whole = local_size(placement.axes.extents)
    parts = [*parts_of(tree, cuts)] or [Part((), tree)]
    for number, found in enumerate(parts):
        part: Tree = tuple(_with_threads(found.nodes, placement.axes))
        names = set(runs(part))
        used = {
            access.array
            for name in names
            for access in placement.statements[name].lowered.accesses
        }
        meetings = [collectives[name] for name in names & collectives.keys()]
        used |= {own for entry in meetings for own in (entry.scratch, entry.ticket) if own}
        temporaries = tuple(storage for name, storage in storages.items() if name in used)
        name = title if len(parts) == 1 else f"{title}_{number}"
        shape = next((sync.shapes[name] for name in runs(part)), placement.axes.local)
        size = whole if shape == placement.axes.local else local_size(shape)
        cluster = placement.axes.cluster if any(_is_on_cluster(placement, name) for name in names) else 1
        crew = _crew(placement.program.kernel, [placement.statements[name].lowered for name in sorted(names)], size)
        home, joins = found.block, counted if number in joined else None
        turns = Turns(placement.program.kernel.blocks, cluster=cluster, crew=crew, joins=joins)
        meet = {name for name in names & collectives.keys() if collectives[name].blocks > 1}
        spread = {name for name in names if _uses_cluster(placement, name)}
        part = _opened(part, meet | spread) if meet or spread else part
        part = _closed(part, {name for name in spread if _leaves_block(placement, name)})
        yield Launch(name, part, size, placement.axes.group, temporaries, exchanged & used, home=home, turns=turns)


def _crew(kernel: LoopKernel, members: Sequence[Lowered], size: tuple[int, ...]) -> Crew | None:
    """Return the roles of the threads of a launch; None if none of its statements starts copies for a role."""
    filled = {lowered.write.array for lowered in members if lowered.instruction.step is not None}
    if filled.isdisjoint(tile for role in kernel.roles for tile in role.copies):
        return None
    threads = prod(size)
    watches = tuple(Watch(role, threads + WARP * number) for number, role in enumerate(kernel.roles[:-1]))
    return Crew(watches, kernel.roles[-1], threads, threads_of_roles(kernel, threads))


def _is_on_cluster(placement: Placement, name: str) -> bool:
    """Return True if several blocks of a cluster have instances of a statement of their own, or meet in it."""
    placed = placement.statements[name]
    return CLUSTER_AXIS in placed.own or CLUSTER_AXIS in placed.lowered.across or _uses_cluster(placement, name)


def _opened(tree: Tree, far: AbstractSet[str]) -> Tree:
    """Return *tree* with the wait until all blocks of a cluster have begun, before the statements *far*.

    These store in the shared memory of other blocks, which has to be there.
    """
    place = next(n for n, node in enumerate(tree) if not far.isdisjoint(runs((node,))))
    return (*tree[:place], Barrier(Scope.CLUSTER, opens=True, why=_BEGUN), *tree[place:])


def _closed(tree: Tree, far: AbstractSet[str]) -> Tree:
    """Return *tree* with a barrier of the cluster at its end, unless one stands behind all statements *far*.

    These use the shared memory of other blocks, which must not end before.
    """
    return tree if _is_closed(tree, far) else (*tree, Barrier(Scope.CLUSTER, why=_READ))


def _is_closed(tree: Tree, far: AbstractSet[str]) -> bool:
    """Return True if a barrier of the cluster stands behind all statements *far* of *tree*."""
    for node in reversed(tree):
        if isinstance(node, Barrier) and node.scope is Scope.CLUSTER and not node.opens:
            return True
        if not far.isdisjoint(runs((node,))):
            return isinstance(node, Loop) and _is_closed(node.body, far)
    return True


def _uses_cluster(placement: Placement, name: str) -> bool:
    """Return True if a statement uses memory that all blocks of a cluster see."""
    accesses = placement.statements[name].lowered.accesses
    return any(placement.spaces[access.array] is AddressSpace.CLUSTER for access in accesses)


def _leaves_block(placement: Placement, name: str) -> bool:
    """Return True if a block may execute an access of a statement to the shared memory of another block."""
    placed = placement.statements[name]
    own = Affine.variable(CLUSTER_AXIS)
    return any(
        placement.spaces[access.array] is AddressSpace.CLUSTER and placed.indices(access)[0] != own
        for access in placed.lowered.accesses
    )


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


def size_violations(launches: Iterable[Launch], limits: DeviceLimits) -> Iterator[Diagnostic]:
    """Yield a diagnostic for each launch whose blocks have more threads than the device allows."""
    yield from shape_violations((launch.block for launch in launches), limits)


def _is_counted(need: Need, numbers: Mapping[str, int], joined: AbstractSet[int]) -> bool:
    """Return True if a launch passes *need* on to one that its own blocks execute."""
    first, second = numbers[need.conflict.first.name], numbers[need.conflict.second.name]
    return second in joined and first == second - 1


def _is_inside_a_launch(need: Need, cuts: Cuts, numbers: Mapping[str, int], placement: Placement) -> bool:
    """Return True if *need* is between threads of a block, or of a cluster, within one launch."""
    first, loop = need.conflict.first, need.conflict.loop
    is_inside = need.scope in {Scope.WARP, Scope.BLOCK, Scope.CLUSTER}
    if not is_inside or numbers[first.name] != numbers[need.conflict.second.name]:
        return False
    return loop is None or loop not in hosts_around(placement, first, cuts)
