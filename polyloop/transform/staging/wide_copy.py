"""Vectorization of copies: contiguous elements are moved at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from polyloop.errors import Diagnostic
from polyloop.kernel.kernel import LoopKernel
from polyloop.kernel.tags import Vectorize
from polyloop.poly.affine import Affine, to_expression
from polyloop.transform.loops.auto_local import split_off
from polyloop.transform.staging.plan import Plan, Target, contiguous_axis

__all__ = ["vectorized"]


def vectorized(
    kernel: LoopKernel, plan: Plan, target: Target, extents: Sequence[Affine], new: tuple[str, ...]
) -> LoopKernel | Diagnostic:
    """Return *kernel* with a copy that moves neighbours at once."""
    vec = plan.filling.vec
    assert vec is not None, "a length was given"
    source = kernel.arrays().get(plan.source)
    axis = None if source is None else contiguous_axis(source)
    chosen = None
    if axis is not None:
        steps = [(name, target.elements[axis].coefficient(name)) for name in target.names]
        chosen = next((number for number, (_, step) in enumerate(steps) if step == 1), None)
    if chosen is None:
        return Diagnostic(
            "bad-lanes",
            f"no axis of the copy of '{plan.source}' goes from one element to its neighbour in memory",
            hints=("leave out vec",),
        )
    extent, iname = extents[chosen], new[chosen]
    if extent.terms or extent.const % vec:
        return Diagnostic(
            "bad-lanes",
            f"the copy has {to_expression(extent)} elements along '{iname}', which cannot be moved {vec} at once",
            ("vectors begin at multiples of their length",),
            (f"choose a tile with a multiple of {vec} elements along this axis, or leave out vec",),
        )
    if extent.const == vec:
        return replace(kernel, iname_tags={**kernel.iname_tags, iname: Vectorize()})
    tags = dict(kernel.iname_tags)
    own = tags.pop(iname, None)
    kernel = replace(kernel, iname_tags=tags)
    outer, lane, kernel = split_off(kernel, iname, vec, "vec")
    more = {lane: Vectorize()} if own is None else {lane: Vectorize(), outer: own}
    return replace(kernel, iname_tags={**kernel.iname_tags, **more})
