"""Shapes of arguments that accesses do not say: open extents become sizes, which a call finds in the arrays passed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pymbolic.primitives as p

from polyloop.creation.lint import name_clashes
from polyloop.errors import Diagnostic
from polyloop.expr.nodes import Expression
from polyloop.kernel.arrays import ArrayArg
from polyloop.kernel.kernel import LoopKernel
from polyloop.kernel.text.specs import GlobalArg
from polyloop.verification.bounds import footprint_extents, unbounded_inames

__all__ = ["open_shapes"]


def open_shapes(
    kernel: LoopKernel, kernel_data: Sequence[object] | None = None
) -> Mapping[str, tuple[Expression, ...]]:  # fmt: skip
    """Return the shapes of array arguments with an extent that their accesses do not say.

    Arrays that are listed with ``shape=None``, and read before they are written, have the extents of the array passed,
    all of them.

    ::

        y[i] = a[map[i], j]    with 0 <= j < 3    =>    a: [a_shape0, 3]

    Empty for a kernel that is refused for another reason.
    """
    arrays = [entry.name for entry in kernel.arguments if isinstance(entry, ArrayArg) and entry.shape is None]
    if not arrays or any(True for _ in name_clashes(kernel)) or any(True for _ in unbounded_inames(kernel)):
        return {}
    of_calls = {part.strip() for entry in kernel_data or () if isinstance(entry, GlobalArg) and entry.shape is None
                for part in entry.name.split(",")}  # fmt: skip
    read: set[str] = set()
    for instruction in kernel.instructions:
        read |= instruction.reads
        of_calls -= {*instruction.writes} - read  # a call need not pass it
    found: dict[str, tuple[Expression, ...]] = {}
    taken: list[str] = []
    for name in arrays:
        extents = footprint_extents(kernel, name)
        if isinstance(extents, Diagnostic):
            continue
        if name not in of_calls and not any(isinstance(extent, Diagnostic) for extent in extents):
            continue
        shape: list[Expression] = []
        for axis, extent in enumerate(extents):
            if isinstance(extent, Diagnostic) or name in of_calls:
                taken.append(kernel.fresh(f"{name}_shape{axis}", taken))
                shape.append(p.Variable(taken[-1]))
            else:
                shape.append(extent)
        found[name] = tuple(shape)
    return found
