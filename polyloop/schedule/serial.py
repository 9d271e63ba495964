"""Loops that one block executes, although their iterations might be shared."""

from __future__ import annotations

import islpy as isl

from polyloop.kernel.tree import runs
from polyloop.poly.axes import is_axis, is_grid_axis
from polyloop.schedule.plan import Launch, Schedule, Statement

__all__ = ["is_shared", "serial_statements"]


def serial_statements(schedule: Schedule, launch: Launch) -> list[Statement]:
    """Return the statements of a launch that one block executes, in loops that are not of constant length."""
    statements = [schedule.statements[name] for name in runs(launch.whole) if name in schedule.statements]
    return [s for s in statements if _is_long(s, launch) and not is_shared(s)]


def is_shared(statement: Statement) -> bool:
    """Return whether more than one block executes a statement."""
    axes = [n for n, dim in enumerate(statement.dims) if is_grid_axis(dim)]
    return any(not _values(statement.domain, axis).is_singleton() for axis in axes)


def _is_long(statement: Statement, launch: Launch) -> bool:
    """Return whether a statement is in a loop of a launch that is not of constant length."""
    others = {*launch.hosts, *statement.bounds}
    own = [n for n, dim in enumerate(statement.dims) if not is_axis(dim) and dim not in others]
    return any(not _values(statement.domain, n).is_bounded() for n in own)


def _values(domain: isl.Set, dim: int) -> isl.Set:
    """Return the values that one dimension has for any sizes."""
    count = domain.dim(isl.dim_type.set)
    one = domain.project_out(isl.dim_type.set, dim + 1, count - dim - 1).project_out(isl.dim_type.set, 0, dim)
    return one.project_out(isl.dim_type.param, 0, one.dim(isl.dim_type.param))
