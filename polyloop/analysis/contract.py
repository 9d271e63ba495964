"""Private temporaries of which every thread uses one element along an axis: that axis is not stored.

A temporary that is subscripted by ``i`` everywhere needs one element for each thread once ``i`` runs on threads, and
private storage is one for each thread already.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pymbolic.primitives as p

from polyloop.analysis.lowering import Access
from polyloop.analysis.placement import Axes, Placed, Placement
from polyloop.expr.nodes import Expression, array_name
from polyloop.expr.rewrite import map_nodes
from polyloop.kernel.arrays import AddressSpace
from polyloop.poly.affine import Affine

__all__ = ["contracted_axes", "one_element_axes", "without_axes"]


def contracted_axes(placement: Placement) -> dict[str, frozenset[int]]:
    """Return, for each private temporary, the axes along which each thread uses one element only."""
    uses: dict[str, list[tuple[Placed, Access]]] = {}
    for statement in placement.statements.values():
        for access in statement.lowered.accesses:
            uses.setdefault(access.array, []).append((statement, access))
    kernel = placement.program.kernel
    found = {}
    in_c = {a.array for s in placement.statements.values() if s.lowered.instruction.is_c for a in s.lowered.accesses}
    for name, temporary in kernel.temporaries.items():
        if name not in in_c and temporary.shape and name in uses and placement.spaces[name] is AddressSpace.PRIVATE:
            axes = one_element_axes(uses[name], placement.axes, kernel.parameters)
            if axes:
                found[name] = axes
    return found


def one_element_axes(
    uses: Sequence[tuple[Placed, Access]], axes: Axes, parameters: Sequence[str]
) -> frozenset[int]:
    """Return the subscripts that are one function of the thread in all *uses* of an array."""
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
