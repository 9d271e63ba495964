"""The blocks of a grid that execute statements: as many along an axis as statements with inames on it need."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import reduce

import islpy as isl

from polyloop.frozen import replace
from polyloop.mapping.hardware_axes import Axes
from polyloop.mapping.thread_mapping import Placed
from polyloop.memo import memoised

__all__ = ["blocks_of", "within_grid"]

_SET = isl.dim_type.set


def blocks_of(statements: Iterable[Placed], axis: str) -> isl.Set | None:
    """Return the block indices along *axis* at which statements that are not repeated along it have instances.

    The result is a one-dimensional set, or None if there are no such statements.
    """
    found: dict[isl.Set, None] = {}
    for placed in statements:
        if axis in placed.dims and axis not in placed.repeated:
            found[_onto(placed.domain, placed.dims.index(axis))] = None
    return reduce(isl.Set.union, found).coalesce() if found else None


@memoised
def _onto(domain: isl.Set, position: int) -> isl.Set:
    count = domain.dim(_SET)
    domain = domain.project_out(_SET, position + 1, count - position - 1)
    return domain.project_out(_SET, 0, position).coalesce()


def within_grid(axes: Axes, statements: Mapping[str, Placed]) -> dict[str, Placed]:
    """Return *statements*, with those that every block repeats restricted to the blocks of the grid.

    The grid is as large as the statements with inames on its axes need; a launch without such statements has one block.
    """
    found = dict(statements)
    for axis in axes.grid:
        if not any(axis in placed.repeated for placed in statements.values()):
            continue
        blocks = blocks_of(statements.values(), axis)
        if blocks is None:
            continue
        for name, placed in found.items():
            if axis in placed.repeated:
                domain = _on_blocks(placed.domain, placed.dims.index(axis), blocks)
                exact = _on_blocks(placed.exact, placed.dims.index(axis), blocks) if placed.lowered.bounds else domain
                found[name] = replace(placed, domain=domain, exact=exact)
    return found


@memoised
def _on_blocks(domain: isl.Set, position: int, blocks: isl.Set) -> isl.Set:
    """Return *domain*, restricted along one dimension to indices up to the last of *blocks*."""
    after = domain.dim(_SET) - position - 1
    there = _up_to(blocks, _sizes(domain))
    return domain.intersect(there.insert_dims(_SET, 1, after).insert_dims(_SET, 0, position))


@memoised
def _sizes(domain: isl.Set) -> isl.Set:
    """Return the parameters for which *domain* is not empty."""
    return domain.params().coalesce()


@memoised
def _up_to(blocks: isl.Set, sizes: isl.Set) -> isl.Set:
    """Return block 0 and all blocks up to the last of *blocks*, for the parameters *sizes*: mostly one convex set."""
    space = blocks.get_space()
    first = isl.Set.universe(space).fix_val(_SET, 0, 0)
    others = blocks.apply(isl.Map.lex_ge(space)).lower_bound_val(_SET, 0, 0)
    return others.intersect_params(sizes).union(first.intersect_params(sizes)).coalesce()
