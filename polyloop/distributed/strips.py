"""The inner part of a box, which needs nothing of other ranks, and the strips around it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import islpy as isl

from polyloop.distributed.plan import Run
from polyloop.distributed.regions import Box, Coordinates, Regions, hull_of

__all__ = ["Strips", "strips_of"]

_IN = isl.dim_type.in_
_SET = isl.dim_type.set


@dataclass(frozen=True)
class Strips:
    """Disjoint boxes of coordinates that make up one.

    Attributes
    ----------
    inner
        Coordinates whose instances read no element that is received.
    outer
        The others.
    """

    inner: Box
    outer: tuple[Box, ...]


def strips_of(
    regions: Regions, run: Run, position: Coordinates, box: Box, hosts: Mapping[str, int]
) -> Strips | None:
    """Return the parts of *box* for a run with exchanges under way; None if the inner part is empty.

    That no instance of the inner part reads what is received is decided by the relations, not by the widths of halos.
    """
    waiting: isl.Set | None = None
    for exchange in run.during:
        needed = exchange.needed
        missing = len(run.phase.hosts) - len(exchange.hosts)
        place = len(regions.mesh) + len(exchange.hosts)
        needed = needed.insert_dims(_IN, place, missing) if missing else needed
        found = regions.coordinates(run.phase, exchange.field, needed)
        for place, value in enumerate((*position, *(hosts[name] for name in run.phase.hosts))):
            found = found.fix_val(_IN, place, value)
        own = found.range()
        waiting = own if waiting is None else waiting.union(own)
    if waiting is None or waiting.is_empty():
        return Strips(box, ())
    inner = _inner(waiting, box)
    if inner is None:
        return None
    outer: list[Box] = []
    left = list(box)
    for axis, (low, high) in enumerate(inner):
        sides = ((left[axis][0], low), (high, left[axis][1]))
        outer += [(*left[:axis], part, *left[axis + 1 :]) for part in sides if part[0] < part[1]]
        left[axis] = (low, high)
    return Strips(inner, tuple(outer))


def _inner(waiting: isl.Set, box: Box) -> Box | None:
    """Return a large box inside of *box* without points of *waiting*: faces go inward as long as they have some."""
    inner = list(box)
    while True:
        hull = hull_of(_within(waiting, tuple(inner)))
        if hull is None:
            return tuple(inner)
        best: tuple[int, int, tuple[int, int]] | None = None
        for axis, (low, high) in enumerate(inner):
            for face, part in ((low, (low + 1, high)), (high - 1, (low, high - 1))):
                layer = tuple((face, face + 1) if other == axis else edge for other, edge in enumerate(inner))
                count = _within(waiting, layer).count_val().to_python()
                size = _size(layer)
                if part[0] < part[1] and count and (best is None or count * best[1] > best[0] * size):
                    best = count, size, (axis, 0)
                    chosen = axis, part
        if best is None:
            return None
        inner[chosen[0]] = chosen[1]


def _within(points: isl.Set, box: Box) -> isl.Set:
    for place, (low, high) in enumerate(box):
        points = points.lower_bound_val(_SET, place, low).upper_bound_val(_SET, place, high - 1)
    return points


def _size(box: Box) -> int:
    total = 1
    for low, high in box:
        total *= high - low
    return total
