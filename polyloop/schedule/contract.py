"""Private temporaries of which every thread uses one element along an axis: that axis is not stored.

A temporary that is subscripted by ``i`` everywhere needs one element for each thread once ``i`` runs on threads, and
private storage is one for each thread already.
"""

from __future__ import annotations

from collections.abc import Mapping

import pymbolic.primitives as p

from polyloop.analysis.lowering import Access
from polyloop.analysis.placement import Placed, Placement
from polyloop.expr.nodes import Expression, array_name
from polyloop.expr.rewrite import map_nodes
from polyloop.kernel.arrays import AddressSpace
from polyloop.poly.affine import Affine

__all__ = ["contracted_axes", "without_axes"]


def contracted_axes(placement: Placement) -> dict[str, frozenset[int]]:
    """Return, for each private temporary, the axes along which each thread uses one element only."""
    uses: dict[str, list[tuple[Placed, Access]]] = {}
    for statement in placement.statements.values():
        for access in (statement.lowered.write, *statement.lowered.reads):
            uses.setdefault(access.array, []).append((statement, access))
    found = {}
    for name, temporary in placement.program.kernel.temporaries.items():
        if temporary.shape and name in uses and placement.spaces[name] is AddressSpace.PRIVATE:
            forms = [statement.indices(access) for statement, access in uses[name]]
            axes = frozenset(k for k in range(len(temporary.shape)) if _is_one({f[k] for f in forms}, placement))
            if axes:
                found[name] = axes
    return found


def _is_one(forms: set[Affine | None], placement: Placement) -> bool:
    """Return whether *forms*, the subscripts along one axis, are one function of the thread."""
    (form, *others) = forms
    if others or form is None:
        return False
    names = form.names()
    hardware = frozenset(placement.axes.all)
    return not names.isdisjoint(hardware) and names <= hardware.union(placement.program.kernel.parameters)


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
