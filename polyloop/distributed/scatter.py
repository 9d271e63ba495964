"""Results of reductions over the mesh of which each rank needs its block alone.

::

    y_sum[i] = sum(k, a[i, k]*x[k])     k divided: each rank has its own terms, for all i
    y[i] = y_sum[i]                     y in blocks along the same axis of the mesh

    h[cell[p]] = h[cell[p]] + w[p]      p divided, and h in blocks along the same axis of the mesh

Ranks combine the shares, and each gets the elements at its own coordinates: half of what an all-reduce sends.
"""

from __future__ import annotations

from collections.abc import Iterator

from polyloop.distributed.division import Axes
from polyloop.distributed.fields import distances, reading_home
from polyloop.distributed.homes import Homes
from polyloop.distributed.separate import Combined

__all__ = ["scattered"]


def scattered(homes: Homes, combined: Combined) -> Axes:
    """Return the axis of the mesh by which ranks need each axis of a result; none if ranks need what others need.

    Every read has to be at home where it reads, along all axes of the mesh over which the shares are combined.
    """
    if combined.is_update:
        return homes.division.axes(combined.array) if homes.division.is_divided(combined.array) else ()
    found: set[Axes] = {*_reads(homes, combined)}
    if len(found) != 1:
        return ()
    axes = found.pop()
    if {*axes} - {None} != {*combined.axes}:
        return ()
    owned = homes.division.axes(combined.array) or (None,) * len(axes)  # divided over other axes of the mesh
    return tuple(new if axis is None else axis for new, axis in zip(axes, owned, strict=True))


def _reads(homes: Homes, combined: Combined) -> Iterator[Axes]:
    """Yield, for each read of a result, the axis of the mesh whose coordinate each subscript is."""
    for instruction in homes.kernel.instructions:
        for statement, access in homes.accesses(instruction.id):
            if access.array != combined.array or statement.is_write(access) or instruction.id == combined.instruction:
                continue
            home = reading_home(homes, instruction.id)
            axes: list[int | None] = []
            for form in access.indices:
                near = [axis for axis in combined.axes
                        if axis not in axes and distances((form,), (axis,), home) == (0,)]
                axes.append(near[0] if near else None)
            yield tuple(axes)
