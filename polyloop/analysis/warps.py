"""Conflicts between threads of one warp, which a warp can settle by itself."""

from __future__ import annotations

from math import prod

import islpy as isl

from polyloop.analysis.order import Conflict
from polyloop.analysis.placement import Placed, Placement
from polyloop.kernel.tree import Scope
from polyloop.poly.affine import Affine
from polyloop.poly.sets import map_from_forms

__all__ = ["NO_WARPS", "scope_in_block"]

NO_WARPS = 1
"""Threads of a warp where threads of a block have nothing smaller in common."""


def scope_in_block(placement: Placement, conflict: Conflict, warp_size: int) -> Scope | None:
    """Return the fewest threads that have to wait for each other over *conflict*, whose sides share a block.

    None stands for a race.
    """
    if conflict.simultaneous:
        return None
    return Scope.WARP if _stays_in_warp(placement, conflict, warp_size) else Scope.BLOCK


def _stays_in_warp(placement: Placement, conflict: Conflict, warp_size: int) -> bool:
    """Return whether every pair of *conflict* is executed by threads of one warp.

    Threads are numbered with ``l.0`` running fastest, and *warp_size* in a row are a warp.
    """
    extents = placement.axes.local
    if warp_size <= NO_WARPS or any(extent is None for extent in extents.values()):
        return False
    if prod(extent or 1 for extent in extents.values()) <= warp_size:
        return True
    if conflict.every is None:
        return False
    number, stride = Affine((), 0), 1
    for axis in sorted(extents):
        number = number.add(Affine.variable(axis), stride)
        stride *= extents[axis] or 1
    warp = number.floordiv(warp_size)
    left, right = (_warp_of(side, warp) for side in (conflict.first, conflict.second))
    orders = (isl.Map.lex_lt(left.range().get_space()), isl.Map.lex_gt(left.range().get_space()))
    return all(
        left.apply_range(order).apply_range(right.reverse()).intersect(conflict.every).is_empty() for order in orders
    )


def _warp_of(statement: Placed, warp: Affine) -> isl.Map:
    """Return ``{ instance -> the number of its warp }``."""
    return map_from_forms(statement.domain, statement.dims, [warp])
