"""Shapes of blocks: each launch has the threads that its own statements are on.

A launch that numbers the threads of a block in another way than by their axes, as digits of the thread number, matrix
instructions and shuffles between named lanes do, has the shape of the whole program, which they were placed for.  So
have all launches that are one cooperative launch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import prod
from typing import TypeAlias

from polyloop.errors import Diagnostic
from polyloop.frozen import replace
from polyloop.kernel.limits import DeviceLimits
from polyloop.kernel.tree import Scope
from polyloop.mapping.thread_mapping import Placed, Placement
from polyloop.schedule.barrier import shuffled_arrays
from polyloop.sync.launches import Cuts, numbers_of
from polyloop.sync.races import Need
from polyloop.sync.warps import scope_in_block

__all__ = ["Shape", "in_shapes", "shape_violations", "shapes_of"]

Shape: TypeAlias = Mapping[str, int | None]
"""Threads along each local axis."""


def shapes_of(placement: Placement, cuts: Cuts, limits: DeviceLimits) -> dict[str, Shape]:
    """Return the shape of the blocks that execute each statement, by its name."""
    numbers, local = numbers_of(placement, cuts), placement.axes.local
    if placement.program.kernel.blocks.counted is not None:  # blocks of one launch go on to the next one
        return dict.fromkeys(numbers, local)
    if limits.has_one_shape or placement.axes.has_digits or None in local.values() or len({*numbers.values()}) < 2:
        return dict.fromkeys(numbers, local)
    members: dict[int, list[Placed]] = {}
    for name, number in numbers.items():
        members.setdefault(number, []).append(placement.statements[name])
    shuffled = shuffled_arrays(placement, limits)
    shapes = {number: _shape(placement, found, shuffled) for number, found in members.items()}
    return {name: shapes[number] for name, number in numbers.items()}


def _shape(placement: Placement, members: Sequence[Placed], shuffled: frozenset[str]) -> Shape:
    """Return the shape of the blocks of one launch: threads without an instance of their own are left out."""
    local, extents = placement.axes.local, dict.fromkeys(placement.axes.local, 1)
    for placed in members:
        lowered = placed.lowered
        if lowered.instruction.matrix is not None or lowered.bounds \
                or any(access.array in shuffled for access in lowered.accesses):
            return local
        if placed.domain.is_empty():
            continue
        for axis in local.keys() - placed.repeated:
            _, high = placed.interval(axis)
            if high is None:
                return local
            extents[axis] = max(extents[axis], high + 1)
    return {axis: min(extent, local[axis] or extent) for axis, extent in extents.items()}


def in_shapes(
    placement: Placement, needs: Iterable[Need], shapes: Mapping[str, Shape], limits: DeviceLimits
) -> Iterator[Need]:
    """Yield *needs* with the scopes that they have in blocks of their launch, whose threads have other numbers."""
    for need in needs:
        shape = shapes.get(need.conflict.first.name, placement.axes.local)
        is_other = need.scope in {Scope.WARP, Scope.BLOCK} and shape != placement.axes.local
        if is_other:
            yield replace(need, scope=scope_in_block(placement, need.conflict, limits.warp_size, shape))
        else:
            yield need


def shape_violations(sizes: Iterable[tuple[int, ...]], limits: DeviceLimits) -> Iterator[Diagnostic]:
    """Yield a diagnostic for blocks of more threads than the device allows."""
    for size in dict.fromkeys(sizes):
        if prod(size) > limits.max_threads_per_block:
            shape = " x ".join(map(str, size))
            shown = f"{shape} = {prod(size)}" if len(size) > 1 else shape
            yield Diagnostic(
                "block-too-large",
                f"a block has {shown} threads; the device allows {limits.max_threads_per_block}",
                hints=("split the inames tagged l.N by smaller factors",),
            )
