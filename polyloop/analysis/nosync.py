"""Conflicts that the user denies: ``nosync=`` (design, section 3).

Denied is exactly what analysis can only suppose: an access whose subscripts are not affine, or that data decides on.
A conflict between two accesses that are known exactly is a fact, whatever the kernel says.
"""

from __future__ import annotations

import islpy as isl

from polyloop.analysis.lowering import Access
from polyloop.analysis.order import equal_on
from polyloop.analysis.placement import Placed, Placement
from polyloop.kernel.instruction import Copy, Instruction
from polyloop.kernel.match import Glob
from polyloop.kernel.options import SyncScope

__all__ = ["denied_scopes", "not_denied"]


def _reference_id(instruction: Instruction) -> str | None:
    return instruction.origin.instruction if isinstance(instruction.origin, Copy) else None


def denied_scopes(first: Placed, a: Access, second: Placed, b: Access) -> frozenset[SyncScope]:
    """Return where the user says that two accesses do not meet, if they may but are not known to."""
    left, right = first.lowered.instruction, second.lowered.instruction
    if not (left.nosync or right.nosync):
        return frozenset()
    exact = a.is_affine() and b.is_affine() and not first.lowered.is_conditional and not second.lowered.is_conditional
    if exact:
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
    """Return those of *pairs*, which may touch one cell, that the user does not deny.

    Only pairs on different threads are ever denied: what one thread does keeps its order.
    """
    scopes = denied_scopes(first, a, second, b)
    if not scopes:
        return pairs
    same_thread = equal_on(pairs, first, second, placement.axes.all)
    if SyncScope.ANY in scopes or {SyncScope.LOCAL, SyncScope.GLOBAL} <= scopes:
        return same_thread
    same_block = equal_on(pairs, first, second, placement.axes.group)
    return pairs.subtract(same_block).union(same_thread) if SyncScope.LOCAL in scopes else same_block
