"""Data races, and the synchronization that removes them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import islpy as isl

from polyloop.dataflow.conflicts import Conflict, crossing, crossing_conflicts, equal_on, never_meet
from polyloop.dataflow.nosync import not_denied
from polyloop.errors import Diagnostic, VerificationError, WitnessKind
from polyloop.frozen import quick, replace
from polyloop.kernel.arrays import AddressSpace
from polyloop.kernel.tree import Scope
from polyloop.mapping.thread_mapping import (
    Axes,
    Placed,
    Placement,
    common_loops,
    joint_extent,
    owner_axes,
    storage_map,
)
from polyloop.memo import known, memoised
from polyloop.poly.affine import Affine
from polyloop.poly.budget import looking_at
from polyloop.poly.radix import separates
from polyloop.poly.relations import meetings
from polyloop.program.lower import Access
from polyloop.proof.obligation import Claim, Obligation, prove, within_budget
from polyloop.proof.witness import element, instance, pair, threads, witness
from polyloop.sync.host_loops import is_ordered_by_launches, loop_prefixes, obstacle
from polyloop.sync.warps import NO_WARPS, scope_in_block
from polyloop.verification.matrix_instructions import by_whole_warps, lane_axes

__all__ = ["Need", "accesses_to", "needs", "not_on_the_host", "race_obligations", "races", "shared_arrays"]


@quick
@dataclass(frozen=True, eq=False)
class Need:
    """Two accesses to one cell from different threads, one of them a write.

    ``scope`` is None where nothing can order them: a race.  The conflict's relation holds some of
    the pairs on different threads.
    """

    array: str
    first: Access
    second: Access
    conflict: Conflict
    scope: Scope | None


def shared_arrays(placement: Placement) -> list[str]:
    """Return the written arrays that several threads see."""
    written = dict.fromkeys(write.array for s in placement.statements.values() for write in s.lowered.writes)
    return [name for name in written if placement.spaces[name] is not AddressSpace.PRIVATE]


def needs(placement: Placement, array: str, warp_size: int = NO_WARPS) -> tuple[Need, ...]:
    """Return the synchronization needs of *array*, unsatisfiable ones too, for warps of *warp_size* threads.

    Raises
    ------
    VerificationError
        ``not-proven``, if ISL gave up: then the waits that threads need are not known.
    """
    kernel = placement.program.kernel
    proof = prove(kernel, _obligation(placement, array))
    if not proof.by:
        raise VerificationError("schedule", kernel.name, proof.found)
    with within_budget(kernel, f"which threads have to wait for each other, on '{array}'"):
        return tuple(
            replace(need, scope=scope_in_block(placement, need.conflict, warp_size))
            if need.scope is Scope.BLOCK
            else need
            for need in _all_needs(placement, array)
        )


def races(placement: Placement, array: str) -> Iterator[Need]:
    """Yield the needs of *array* that no barrier satisfies (data races), in the order of :func:`needs`.

    Other needs are not computed.

    Raises
    ------
    VerificationError
        ``not-proven``, if ISL gave up.
    """
    found = known(_all_needs, placement).get((array,))
    if found is not None:
        yield from (need for need in found if need.scope is None)
        return
    needs = _needs(placement, array, unordered=True)
    while True:
        with within_budget(placement.program.kernel, _says(array)):
            need = next(needs, None)
        if need is None:
            return
        yield need  # what the caller asks about it is no part of the question


def race_obligations(placement: Placement) -> Iterator[Obligation]:
    """Yield, for each shared array, the obligation that barriers can order all conflicting accesses."""
    for array in shared_arrays(placement):
        yield _obligation(placement, array)


def _obligation(placement: Placement, array: str) -> Obligation:
    by = "pairs of accesses to one element on different threads, by loop and scope"
    find = partial(_races, placement, array)
    given = (placement.phantoms, placement.attempt, placement.completions)
    return Obligation(Claim.RACES, f"'{array}'", _says(array), by, find, given)


def _says(array: str) -> str:
    return f"where two threads use one element of '{array}', a barrier or a launch can stand in between"


def _races(placement: Placement, array: str) -> Iterator[Diagnostic]:
    for need in _all_needs(placement, array):
        if need.scope is None:
            yield _race(placement, need)
            return


def _race(placement: Placement, need: Need) -> Diagnostic:
    first, second = need.conflict.first, need.conflict.second
    left, right = pair(need.conflict.relation, first, second)
    accesses = ((need.first, first), (need.second, second))
    verbs = tuple("writes" if s.lowered.is_write(access) else "reads" for access, s in accesses)
    return Diagnostic(
        "race",
        f"two threads access '{need.array}' at the same time",
        (
            f"instance {instance(first, left)} on thread ({threads(first, left)}) {verbs[0]} "
            f"{element(first, need.first, left)}",
            f"instance {instance(second, right)} on thread ({threads(second, right)}) {verbs[1]} it",
            *not_on_the_host(placement, need),
        ),
        ("keep one of the loops on these threads sequential, or let the temporary be private",),
        sites=(first.lowered.instruction.site(),),
        witness=witness(WitnessKind.RACE, (first, need.first, left), (first, left), (second, right)),
    )


def not_on_the_host(placement: Placement, need: Need) -> Iterator[str]:
    """Yield the reason why no loop of the host orders two instances, if there is a loop around that might."""
    conflict = need.conflict
    if conflict.simultaneous or placement.spaces[need.array] is not AddressSpace.GLOBAL:
        return
    loops, _ = common_loops(placement, conflict.first, conflict.second)
    for block in loop_prefixes(placement.program.places[conflict.first.name])[: len(loops)]:
        if why := obstacle(placement, block):
            yield f"the host cannot run the loop '{block[-1]}' around launches: {why}"
            return


@memoised
def _all_needs(placement: Placement, array: str) -> tuple[Need, ...]:
    """Return the synchronization needs of *array* among all threads, unsatisfiable ones too."""
    return tuple(_needs(placement, array))


def _needs(placement: Placement, array: str, *, unordered: bool = False) -> Iterator[Need]:
    """Yield the synchronization needs within blocks and between blocks, unsatisfiable ones too.

    A completion is the second of no pair: what is before it is before its issue, or comes from its own thread.
    With *unordered*, only needs that no barrier can satisfy.
    """
    axes = placement.axes
    if not axes.all:
        return
    accesses = accesses_to(placement, array)
    for number, (first, a, first_writes) in enumerate(accesses):
        for other, (second, b, second_writes) in enumerate(accesses):
            if not (first_writes or second_writes):
                continue
            if first_writes and second_writes and first.lowered.commutes_with(second.lowered):
                continue
            if never_meet(a, b) or second.name in placement.completions:
                continue
            if unordered and not _may_be_unordered(placement, array, first, second):
                continue
            yield from _pair(placement, array, (first, a), (second, b), once=other >= number, unordered=unordered)


def accesses_to(placement: Placement, array: str) -> list[tuple[Placed, Access, bool]]:
    """Return the accesses to *array*, and whether they write."""
    return _by_array(placement).get(array, [])


@memoised
def _by_array(placement: Placement) -> dict[str, list[tuple[Placed, Access, bool]]]:
    """Return the accesses to each array, and whether they write, in the order of the statements, writes first."""
    found: dict[str, list[tuple[Placed, Access, bool]]] = {}
    for statement in placement.statements.values():
        for access in statement.lowered.writes:
            found.setdefault(access.array, []).append((statement, access, True))
        for access in statement.lowered.reads:
            found.setdefault(access.array, []).append((statement, access, False))
    return found


def _may_be_unordered(placement: Placement, array: str, first: Placed, second: Placed) -> bool:
    """Return whether no barrier and no end of a launch can separate two accesses.

    Inside of a block, two statements have an order; between blocks, two launches have, and loops that a host runs.
    """
    if first is second:
        return True
    return placement.spaces[array] is AddressSpace.GLOBAL and not is_ordered_by_launches(placement, first, second, None)


def _pair(
    placement: Placement,
    array: str,
    left: tuple[Placed, Access],
    right: tuple[Placed, Access],
    *,
    once: bool,
    unordered: bool,
) -> Iterator[Need]:
    (first, a), (second, b) = left, right
    axes = placement.axes
    agreeing = agreeing_axes(placement, first, a, second, b)
    differing = tuple(axis for axis in axes.all if axis not in agreeing)
    if not differing:
        return
    looking_at(first, a, second, b)
    pairs = meetings(_by_warps(placement, *left), _by_warps(placement, *right))
    pairs = not_denied(placement, first, a, second, b, pairs)
    blocks = tuple(axis for axis in axes.group if axis in differing)
    if blocks and placement.spaces[array] is AddressSpace.GLOBAL:
        across = crossing(pairs, first, second, blocks)
        if across is not None:
            if once:
                found = _across_blocks(placement, array, left, right, (pairs, blocks))
                yield from (need for need in found if need.scope is None or not unordered)
            pairs = equal_on(pairs, first, second, blocks)
            differing = tuple(axis for axis in differing if axis not in blocks)
    if unordered:
        same = equal_on(pairs, first, second, common_loops(placement, first, second)[0])
        part = crossing(same, first, second, differing) if first is second else None
        if part is not None:
            yield Need(array, a, b, Conflict(first, second, part, simultaneous=True, every=same), None)
        return
    yield from _within_clusters(placement, array, left, right, (pairs, differing))


def _within_clusters(
    placement: Placement, array: str, left: tuple[Placed, Access], right: tuple[Placed, Access],
    apart: tuple[isl.Map, tuple[str, ...]],
) -> Iterator[Need]:  # fmt: skip
    """Yield the needs of pairs on different threads of a cluster: first those between blocks, then within one."""
    (first, a), (second, b), (pairs, differing) = left, right, apart
    far = tuple(axis for axis in placement.axes.in_cluster if axis in differing)
    near = tuple(axis for axis in differing if axis not in far)
    parts = [(Scope.CLUSTER, far, pairs), (Scope.BLOCK, near, equal_on(pairs, first, second, far) if far else pairs)]
    for scope, axes, relation in parts:
        for conflict in crossing_conflicts(placement, first, second, relation, axes) if axes else ():
            yield Need(array, a, b, conflict, None if conflict.simultaneous else scope)


def _by_warps(placement: Placement, placed: Placed, access: Access) -> isl.Map:
    """Return the cells of *access*, those of all lanes of a warp where each of them may make it."""
    cells = storage_map(placement, placed, access, placement.spaces[access.array])
    warp = by_whole_warps(placement, placed, access)
    return cells if warp is None else _widened(cells, warp)


@memoised
def _widened(cells: isl.Map, warp: isl.Map) -> isl.Map:
    return cells.apply_domain(warp)


def _across_blocks(
    placement: Placement, array: str, left: tuple[Placed, Access], right: tuple[Placed, Access],
    across: tuple[isl.Map, tuple[str, ...]],
) -> Iterator[Need]:  # fmt: skip
    """Yield the needs of pairs that differ on some axes of the grid, in both directions.

    Launches order them: two parts of the program, or iterations of a loop that the host runs.
    """
    pairs, blocks = across
    sides = [(left, right, pairs)]
    if left[1] is not right[1]:
        sides.append((right, left, pairs.reverse()))
    for (first, a), (second, b), relation in sides:
        for conflict in crossing_conflicts(placement, first, second, relation, blocks):
            ordered = not conflict.simultaneous and is_ordered_by_launches(placement, first, second, conflict.loop)
            yield Need(array, a, b, conflict, Scope.GRID if ordered else None)


def agreeing_axes(placement: Placement, first: Placed, a: Access, second: Placed, b: Access) -> frozenset[str]:
    """Return axes on which two accesses to one cell must have the same index, as the forms show at once.

    That is so for an axis that both use alone as a subscript, for all axes of a subscript that is a sum of digits, such
    as ``16*g.0 + l.0`` with ``l.0 < 16``, and for an axis on which one index executes both.
    """
    space = placement.spaces[a.array]
    found = {axis for axis in placement.axes.all if joint_extent(axis, first, second) == 1}
    if space in (AddressSpace.LOCAL, AddressSpace.CLUSTER):
        found.update(owner_axes(placement, space))
    for x, y in zip(first.indices(a), second.indices(b), strict=True):
        if x is not None and x == y:
            found |= _determined(x, first, second, placement.axes)
    for placed, access in ((first, a), (second, b)):
        if by_whole_warps(placement, placed, access) is not None:
            found -= lane_axes(placement, placed).keys()
    return frozenset(found)


def _determined(form: Affine, first: Placed, second: Placed, axes: Axes) -> frozenset[str]:
    """Return the axes in *form* if its value determines all of its variables, in both statements alike."""

    def extent(dim: str) -> int | None:
        return axes.local.get(dim) or joint_extent(dim, first, second)

    names = form.names()
    return names.intersection(axes.all) if separates([form], names, extent) else frozenset()
