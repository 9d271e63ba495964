"""Warp axes: thread axes padded to whole warps for ``lane`` and ``w``; and the axes along which loop bounds vary."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from polyloop.errors import Diagnostic, VerificationError
from polyloop.kernel.kernel import LoopKernel
from polyloop.kernel.limits import WARP_SIZE
from polyloop.kernel.tags import InameTag, Lane, Warp
from polyloop.poly.axes import THREAD_AXES

__all__ = ["bound_axes", "with_warps"]


def with_warps(kernel: str, local: Mapping[str, int | None], tags: Collection[InameTag]) -> dict[str, int | None]:
    """Return the extents of the thread axes, ``l.0`` padded to a warp (``w``) or to a power of two (``lane`` alone).

    Raises
    ------
    VerificationError
        ``too-many-lanes``.
    """
    has_warps = any(isinstance(tag, Warp) for tag in tags)
    lanes = local.get(THREAD_AXES[0], 1)
    if lanes is None or not (has_warps or any(isinstance(tag, Lane) for tag in tags)):
        return dict(local)
    if lanes > WARP_SIZE:
        problem = Diagnostic(
            "too-many-lanes",
            f"{lanes} threads along 'l.0' are more than a warp",
            (f"lanes are the {WARP_SIZE} threads of a warp, and lie on 'l.0'",),
            (f"split the iname by {WARP_SIZE}, and tag the inner one 'lane'",),
        )
        raise VerificationError("schedule", kernel, [problem])
    padded = WARP_SIZE if has_warps else 1 << (lanes - 1).bit_length()
    return {THREAD_AXES[0]: padded, **{axis: size for axis, size in local.items() if axis != THREAD_AXES[0]}}


def bound_axes(kernel: LoopKernel, bounds: Collection[str]) -> frozenset[str]:
    """Return the axes of the inames of the instructions that compute the bound variables *bounds*."""
    if not bounds:
        return frozenset()
    writers = (i for i in kernel.instructions if not set(i.writes).isdisjoint(bounds))
    found = (kernel.axis(iname) for writer in writers for iname in writer.inames)
    return frozenset(axis for axis in found if axis is not None)
