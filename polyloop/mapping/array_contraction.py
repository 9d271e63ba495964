"""Array contraction: temporaries lose axes along which each thread uses a single element.

::

    t[l.0] = a[l.0]; b[l.0] = t[l.0]   ->   t = a[l.0]; b[l.0] = t      t in private memory

Private storage exists once for each thread, so a subscript that is a function of the thread needs no axis.  Temporaries
that transforms made also lose axes of length 1, in shared memory too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pymbolic.primitives as p

from polyloop.expr.nodes import Expression, array_name
from polyloop.expr.rewrite import map_nodes
from polyloop.kernel.arrays import AddressSpace, TemporaryVariable
from polyloop.mapping.thread_mapping import Axes, Placed, Placement
from polyloop.poly.affine import Affine
from polyloop.program.lower import Access

__all__ = ["contracted_axes", "one_element_axes", "without_axes"]


def contracted_axes(placement: Placement) -> dict[str, frozenset[int]]:
    """Return, for each temporary that has any, the axes along which each thread uses one element only."""
    uses: dict[str, list[tuple[Placed, Access]]] = {}
    for statement in placement.statements.values():
        for access in statement.lowered.accesses:
            uses.setdefault(access.array, []).append((statement, access))
    kernel = placement.program.kernel
    found = {}
    in_c = {a.array for s in placement.statements.values() if s.lowered.instruction.is_c for a in s.lowered.accesses}
    for name, temporary in kernel.temporaries.items():
        if name in in_c or not temporary.shape or name not in uses:
            continue
        axes: frozenset[int] = frozenset()
        space = placement.spaces[name]
        if space is AddressSpace.PRIVATE:
            axes = one_element_axes(uses[name], placement.axes, kernel.parameters)
        if name in kernel.evaluations and space not in (AddressSpace.GLOBAL, AddressSpace.CLUSTER):
            axes |= _axes_of_length_1(temporary)
        if axes:
            found[name] = axes
    return found


def _axes_of_length_1(temporary: TemporaryVariable) -> frozenset[int]:
    if temporary.dim_tags is not None or temporary.padding or temporary.swizzle is not None:
        return frozenset()
    return frozenset(axis for axis, extent in enumerate(temporary.shape or ()) if extent == 1)


def one_element_axes(
    uses: Sequence[tuple[Placed, Access]], axes: Axes, parameters: Sequence[str]
) -> frozenset[int]:
    """Return the axes of an array whose subscript is one affine form of thread and block indices in all *uses*."""
    columns = zip(*(statement.indices(access) for statement, access in uses), strict=True)
    return frozenset(k for k, forms in enumerate(columns) if _is_one({*forms}, axes, parameters))


def _is_one(forms: set[Affine | None], axes: Axes, parameters: Sequence[str]) -> bool:
    (form, *others) = forms
    if others or form is None:
        return False
    names = form.names()
    return not names.isdisjoint(axes.all) and names <= {*axes.all, *parameters}


def without_axes(expr: Expression, axes: Mapping[str, frozenset[int]]) -> Expression:
    """Return *expr* in which the subscripts along *axes* are left out."""
    if not axes:
        return expr

    def visit(node: Expression) -> Expression:
        if not isinstance(node, p.Subscript) or array_name(node) not in axes:
            return node
        gone = axes[array_name(node)]
        kept = tuple(index for k, index in enumerate(node.index_tuple) if k not in gone)
        if not kept:
            return node.aggregate
        return p.Subscript(node.aggregate, kept[0] if len(kept) == 1 else kept)

    return map_nodes(expr, visit)
