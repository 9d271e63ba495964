"""Instances that compute or fetch what nobody uses: the corners of a bounding box, elements ahead of the last step."""

from __future__ import annotations

import islpy as isl

from polyloop.analysis.dataflow import flow_of, is_exact
from polyloop.analysis.placement import Placed, Placement
from polyloop.kernel.instruction import Copy

__all__ = ["phantoms"]


def phantoms(placement: Placement, placed: Placed) -> isl.Set | None:
    """Return the instances of *placed*, made by a transform, whose value no read sees; None if there are none.

    Where data decides what is read there may be more of them.
    """
    lowered = placed.lowered
    kernel = placement.program.kernel
    if isinstance(lowered.instruction.origin, Copy) or lowered.role != "plain" or len(lowered.writes) != 1:
        return None
    array = lowered.write.array
    if array not in kernel.evaluations and array not in kernel.buffers:
        return None
    if lowered.bounds or lowered.instruction.step is not None or not is_exact(placement, array):
        return None
    used = isl.Set.empty(placed.domain.get_space())
    for sources in flow_of(placement, array).sources:
        for writer, link in sources:
            if writer is placed:
                used = used.union(link.range())
    if placed.domain.is_subset(used):
        return None
    left = placed.domain.subtract(used.coalesce()).coalesce()
    return None if left.is_empty() else left
