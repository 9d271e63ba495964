"""Conflicts that the user denies: ``nosync=`` (design, section 3).

Only a may-conflict is removed: one with an access that has non-affine subscripts, or that runs under a data-dependent
condition.  A conflict between two affine accesses is proven and cannot be denied.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import islpy as isl

from polyloop.dataflow.conflicts import conflict_pairs, equal_on
from polyloop.errors import Diagnostic
from polyloop.kernel.instruction import Copy, Instruction
from polyloop.kernel.text.match import Glob
from polyloop.kernel.text.options import SyncScope
from polyloop.mapping.thread_mapping import Placed, Placement, common_loops
from polyloop.program.lower import Access
from polyloop.proof.witness import element, instance, pair

__all__ = ["denied_scopes", "hidden_conflicts", "idle_denials", "is_known", "meetings", "not_denied", "proven_conflict"]


def _reference_id(instruction: Instruction) -> str | None:
    return instruction.origin.instruction if isinstance(instruction.origin, Copy) else None


def is_known(first: Placed, a: Access, second: Placed, b: Access) -> bool:
    """Return True if the conflicts between two accesses are known exactly."""
    return first.lowered.is_certain(a) and second.lowered.is_certain(b)


def idle_denials(placement: Placement) -> Iterator[tuple[Instruction, str, str]]:
    """Yield each ``nosync`` without effect: the instruction, the one that it names, and the variable.

    The two are in conflict, and all conflicts between them are known exactly.
    """
    for instruction in placement.program.kernel.instructions:
        names = {entry.which.pattern for entry in instruction.nosync if isinstance(entry.which, Glob)}
        for name in sorted(names):
            meet = list(meetings(placement, instruction.id, name))
            if meet and all(is_known(*sides) for sides in meet):
                yield instruction, name, meet[0][1].array


def hidden_conflicts(placement: Placement) -> Iterator[Diagnostic]:
    """Yield a diagnostic for each ``nosync`` that denies a proven conflict between different iterations.

    A denial of conflicts within one iteration is harmless, and only listed by :func:`idle_denials`.
    """
    for instruction, name, _ in idle_denials(placement):
        meet = meetings(placement, instruction.id, name)
        if any(not _of_different_iterations(placement, *sides).is_empty() for sides in meet):
            found = proven_conflict(placement, name, instruction.id, f"drop nosync={name}")
            assert found is not None, "a denial without effect is of conflicts that are known"
            yield found


def proven_conflict(placement: Placement, source: str, sink: str, what_to_do: str) -> Diagnostic | None:
    """Return a diagnostic if two instructions are in conflict, and all of their conflicts are known exactly."""
    found = list(meetings(placement, source, sink))
    if not found or not all(is_known(*sides) for sides in found):
        return None
    apart = ((sides, _of_different_iterations(placement, *sides)) for sides in found)
    first_of_all = (found[0], _met_by(placement, *found[0]))
    (first, a, second, _), relation = next((entry for entry in apart if not entry[1].is_empty()), first_of_all)
    left, right = pair(relation, first, second)
    sites = dict.fromkeys((first.lowered.instruction.site(), second.lowered.instruction.site()))
    return Diagnostic(
        "proven-conflict",
        f"the conflict on '{a.array}' between '{source}' and '{sink}' is proven, and "
        "nosync can only deny a possible one",
        (
            f"instance {instance(first, left)} of '{source}' and instance {instance(second, right)} of '{sink}' "
            f"touch {element(first, a, left)}",
        ),
        (f"{what_to_do}: where threads have to wait for each other, barriers are placed",),
        sites=tuple(sites),
    )


def _of_different_iterations(placement: Placement, first: Placed, a: Access, second: Placed, b: Access) -> isl.Map:
    """Return the pairs of instances that access one cell, without those of one iteration of the loops that both share.

    One thread executes these, as long as loops further inside are sequential.
    """
    pairs = _met_by(placement, first, a, second, b)
    loops, _ = common_loops(placement, first, second)
    if not loops and (first.lowered.inames or second.lowered.inames):
        return pairs
    return pairs.subtract(equal_on(pairs, first, second, loops))


def meetings(placement: Placement, one: str, other: str) -> Iterator[tuple[Placed, Access, Placed, Access]]:
    """Yield the pairs of conflicting accesses of two instructions: to one cell, at least one of them a write."""
    sides = [[s for s in placement.statements.values() if s.lowered.instruction.id == name] for name in (one, other)]
    for first, second in product(*sides):
        for a, b in product(first.lowered.accesses, second.lowered.accesses):
            is_write = first.lowered.is_write(a) or second.lowered.is_write(b)
            if a.array == b.array and is_write and not _met_by(placement, first, a, second, b).is_empty():
                yield first, a, second, b


def _met_by(placement: Placement, first: Placed, a: Access, second: Placed, b: Access) -> isl.Map:
    """Return the pairs of different instances that may access one cell."""
    pairs = conflict_pairs(placement, first, a, second, b)
    return pairs.subtract(isl.Map.identity(pairs.get_space())) if first is second else pairs


def denied_scopes(first: Placed, a: Access, second: Placed, b: Access) -> frozenset[SyncScope]:
    """Return the scopes in which ``nosync=`` denies conflicts of two accesses; none if these are known exactly."""
    left, right = first.lowered.instruction, second.lowered.instruction
    if not (left.nosync or right.nosync):
        return frozenset()
    if is_known(first, a, second, b):
        return frozenset()
    return _named(left, right) | _named(right, left)


def _named(instruction: Instruction, other: Instruction) -> frozenset[SyncScope]:
    name = _reference_id(other)
    return frozenset(
        entry.scope for entry in instruction.nosync if isinstance(entry.which, Glob) and entry.which.pattern == name
    )


def not_denied(
    placement: Placement, first: Placed, a: Access, second: Placed, b: Access, pairs: isl.Map
) -> isl.Map:
    """Return those of *pairs*, which may access one cell, that the user does not deny.

    Only pairs on different threads can be denied: the accesses of one thread keep their order.
    """
    scopes = denied_scopes(first, a, second, b)
    if not scopes:
        return pairs
    same_thread = equal_on(pairs, first, second, placement.axes.all)
    if SyncScope.ANY in scopes or {SyncScope.LOCAL, SyncScope.GLOBAL} <= scopes:
        return same_thread
    same_block = equal_on(pairs, first, second, placement.axes.group)
    return pairs.subtract(same_block).union(same_thread) if SyncScope.LOCAL in scopes else same_block
