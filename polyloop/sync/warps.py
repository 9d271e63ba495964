"""Conflicts within one warp, for which a barrier of the warp is enough."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

import islpy as isl

from polyloop.dataflow.conflicts import Conflict, crossing
from polyloop.kernel.tree import Scope
from polyloop.mapping.thread_mapping import Placed, Placement
from polyloop.poly.affine import Affine
from polyloop.poly.sets import map_from_forms
from polyloop.proof.witness import pair

__all__ = ["NO_WARPS", "scope_in_block"]

_IN = isl.dim_type.in_
_OUT = isl.dim_type.out

NO_WARPS = 1
"""Threads of a warp where threads of a block have nothing smaller in common."""


def scope_in_block(
    placement: Placement, conflict: Conflict, warp_size: int, shape: Mapping[str, int | None] | None = None
) -> Scope | None:
    """Return the narrowest scope of a barrier that resolves *conflict* within a block of *shape*, else of the program.

    None: a race.
    """
    if conflict.simultaneous:
        return None
    shape = placement.axes.local if shape is None else shape
    return Scope.WARP if _stays_in_warp(shape, conflict, warp_size) else Scope.BLOCK


def _stays_in_warp(shape: Mapping[str, int | None], conflict: Conflict, warp_size: int) -> bool:
    """Return whether every pair of *conflict* is executed by threads of one warp.

    Threads are numbered with ``l.0`` running fastest, and *warp_size* in a row are a warp.
    """
    extents = {axis: extent for axis, extent in sorted(shape.items()) if extent is not None}
    if warp_size <= NO_WARPS or len(extents) < len(shape):
        return False
    if prod(extents.values()) <= warp_size:
        return True
    if conflict.every is None or _warp_of_sample(conflict, extents, warp_size) is None:
        return False
    first, second, every = conflict.first, conflict.second, conflict.every
    outer, threads = _outside(extents, warp_size)
    if threads > 1 and _are_far_apart(conflict, every, outer, threads):
        return False
    if crossing(every, first, second, tuple(outer)) is None:
        return True
    if threads == 1:
        return False
    number, stride = Affine((), 0), 1
    for axis, extent in outer.items():
        number = number.add(Affine.variable(axis), stride)
        stride *= extent
    left, right = (_of_thread(side, number.floordiv(threads)) for side in (first, second))
    orders = (isl.Map.lex_lt(left.range().get_space()), isl.Map.lex_gt(left.range().get_space()))
    return all(left.apply_range(order).apply_range(right.reverse()).intersect(every).is_empty() for order in orders)


def _are_far_apart(conflict: Conflict, every: isl.Map, outer: Mapping[str, int], threads: int) -> bool:
    """Return whether the numbers of two threads of some pair differ by all *threads* of a warp: that takes two warps.

    To ask so first needs no quotients.
    """
    first, second = conflict.first.dims, conflict.second.dims
    space = every.get_space()
    for sign in (1, -1):
        constraint = isl.Constraint.inequality_alloc(isl.LocalSpace.from_space(space)).set_constant_val(-threads)
        stride = sign
        for axis, extent in outer.items():
            constraint = constraint.set_coefficient_val(_OUT, second.index(axis), stride)
            constraint = constraint.set_coefficient_val(_IN, first.index(axis), -stride)
            stride *= extent
        far = isl.BasicMap.universe(space).add_constraint(constraint).to_map()
        if not every.intersect(far).is_empty():
            return True
    return False


def _warp_of_sample(conflict: Conflict, extents: Mapping[str, int], warp_size: int) -> int | None:
    """Return the warp that runs both sides of one pair of *conflict*, None if they are in two."""
    warps = set()
    for side in pair(conflict.relation, conflict.first, conflict.second, is_first=False):
        number, stride = 0, 1
        for axis, extent in extents.items():
            number += stride * side[axis]
            stride *= extent
        warps.add(number // warp_size)
    return warps.pop() if len(warps) == 1 else None


def _outside(extents: Mapping[str, int], warp_size: int) -> tuple[dict[str, int], int]:
    """Return the axes that tell warps apart, and how many threads in a row along them are in one warp.

    Axes at the beginning that a warp covers in full, and evenly, do not matter.
    """
    left, threads = dict(extents), warp_size
    for axis, extent in extents.items():
        if threads % extent:
            break
        del left[axis]
        threads //= extent
    return left, threads


def _of_thread(statement: Placed, form: Affine) -> isl.Map:
    """Return ``{ instance -> form }``, for a form of its thread axes."""
    return map_from_forms(isl.Set.universe(statement.domain.get_space()), statement.dims, [form])
