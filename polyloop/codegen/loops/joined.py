"""Grids of launches whose blocks go on to the blocks of the next launch (:mod:`polyloop.sync.arrivals`).

The grid is a box that has the blocks of both.  Each of its blocks counts its arrival, and along the axis that is
counted there is at least one.  So each block of the launch behind begins once.
"""

from __future__ import annotations

from collections.abc import Sequence

import pymbolic.primitives as p

from polyloop.codegen.loops.context import Context
from polyloop.codegen.loops.grid import GridAxis, grid_axes
from polyloop.codegen.loops.rows import Divisibility
from polyloop.expr.nodes import Expression
from polyloop.kernel.tree import runs
from polyloop.schedule.joined import launch_behind, launch_in_front
from polyloop.schedule.plan import Launch, Schedule, Statement

__all__ = ["groups_of", "launch_axes"]


def launch_axes(
    launch: Launch, schedule: Schedule, context: Context, divisibility: Divisibility
) -> Sequence[GridAxis]:  # fmt: skip
    """Return the axes of the grid of *launch*, over the statements of the launch that shares its blocks, too."""
    own = _statements(launch, schedule)
    alone = grid_axes(launch.grid_axes, launch.hosts, own, context, divisibility)
    front, behind = launch_in_front(schedule.launches, launch), launch_behind(schedule.launches, launch)
    other, counts = (front, launch) if front is not None else (behind, behind)
    if other is None or counts is None:
        return alone
    both = grid_axes(launch.grid_axes, launch.hosts, [*own, *_statements(other, schedule)], context, divisibility)
    return [first if first.name == counts.turns.joins else second for first, second in zip(alone, both, strict=True)]


def groups_of(axes: Sequence[GridAxis], counted: str) -> Expression:
    """Return the number of groups of blocks that differ along *counted* alone."""
    extents = [axis.extent for axis in axes if axis.name != counted]
    return extents[0] if len(extents) == 1 else p.Product(tuple(extents)) if extents else 1


def _statements(launch: Launch, schedule: Schedule) -> list[Statement]:
    return [schedule.statements[name] for name in runs(launch.whole)]
