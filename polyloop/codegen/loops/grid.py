"""Grids of launches: extents of the group axes, and the facts that they imply for a kernel."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

import islpy as isl
import pymbolic.primitives as p

from polyloop.codegen.device.entries import Threads
from polyloop.codegen.expressions.linear import bound_text
from polyloop.codegen.loops.bounds import Bound, bounds_of
from polyloop.codegen.loops.context import Context, known_of
from polyloop.codegen.loops.rows import Divisibility, Piece, pieces_of
from polyloop.codegen.scope import Scope
from polyloop.codegen.tree import c_expr as c
from polyloop.expr.nodes import Expression
from polyloop.frozen import replace
from polyloop.poly.affine import Affine, Floor, Var, to_expression
from polyloop.poly.axes import BLOCK_AXES, CLUSTER_AXIS, is_axis
from polyloop.schedule.plan import Launch, Statement

__all__ = [
    "GridAxis", "axis_text", "bound_expression", "grid_axes", "hardware_axes", "host_expression",
    "plain_grid", "shifted_text", "unmultiplied",
]


@dataclass(frozen=True)
class GridAxis:
    """A group axis with values ``[lower, lower + extent)``; ``rows`` hold for each of them."""

    name: str
    lower: Bound
    upper: Bound
    extent: Expression
    rows: tuple[Affine, ...]

    @property
    def starts_at_zero(self) -> bool:
        """True if values are the hardware's indices, without an offset."""
        return self.lower == ((Affine((), 0),),)


def hardware_axes(used: Collection[str]) -> dict[str, str]:
    """Return the grid axis of each group axis; the *used* axes have more than one block.

    Each group axis is its own grid axis if the first one is used.  Otherwise the first used axis changes places with
    the first one, because a grid can have 2^31 - 1 blocks along that axis, and 65,535 along the others.
    """
    found = {axis: axis for axis in BLOCK_AXES}
    first = min(used, default=BLOCK_AXES[0])
    found[BLOCK_AXES[0]], found[first] = found[first], found[BLOCK_AXES[0]]
    return found


def axis_text(threads: Threads, axis: str, cluster: int) -> str:
    """Return the expression for the index along an axis of the hardware, in clusters of so many blocks.

    Blocks of a cluster are neighbours along the first axis of the grid.
    """
    first = threads.axes[BLOCK_AXES[0]]
    if axis == CLUSTER_AXIS:
        return "0" if cluster == 1 else f"{first} % {cluster}"
    return f"{first} / {cluster}" if axis == BLOCK_AXES[0] and cluster > 1 else threads.axes[axis]


def unmultiplied(form: Affine, divisibility: Divisibility) -> Affine:
    """Return *form* with every ``n#`` written as ``floor(n / m)`` or ``n``."""
    total = Affine((), form.const)
    for var, coefficient in form.terms:
        total = total.add(_without_multiple(var, divisibility), coefficient)
    return total


def _without_multiple(var: Var, divisibility: Divisibility) -> Affine:
    if isinstance(var, Floor):
        return unmultiplied(Affine(var.terms, var.const), divisibility).floordiv(var.den)
    if var.endswith("#"):
        return Affine.variable(var[:-1]).floordiv(divisibility[var[:-1]][0])
    return Affine.variable(var)


def host_expression(form: Affine, divisibility: Divisibility) -> Expression:
    """Return *form* as an expression in the parameters, for use on the host."""
    return to_expression(unmultiplied(form, divisibility))


def bound_expression(bound: Bound, divisibility: Divisibility, *, is_lower: bool) -> Expression:
    """Return a bound as an expression in the parameters and inames of the host, for use on the host."""
    inner, outer = (p.Max, p.Min) if is_lower else (p.Min, p.Max)
    alternatives = [
        _extreme(inner, [host_expression(form, divisibility) for form in forms]) for forms in bound
    ]
    return _extreme(outer, alternatives)


def _extreme(kind: type[p.Min | p.Max], parts: Sequence[Expression]) -> Expression:
    distinct = tuple(dict.fromkeys(parts))
    return distinct[0] if len(distinct) == 1 else kind(distinct)


def grid_axes(
    axes: Collection[str],
    hosts: Collection[str],
    statements: Sequence[Statement],
    context: Context,
    divisibility: Divisibility,
) -> list[GridAxis]:
    """Return the extent of each group axis, over all statements that have it.

    Only rows in the parameters, the inames *hosts* of loops of the host, and that one axis count, because a grid is a
    box.
    """
    known = frozenset(hosts).union(axes)
    found = []
    for axis in sorted(axes):
        pieces: list[Piece] = []
        seen: list[tuple[Piece, ...]] = []
        for statement in statements:
            if axis in statement.dims and (together := pieces_of(statement, known, divisibility)) not in seen:
                seen.append(together)
                pieces += _pieces_on({axis, *hosts}, together, statement, divisibility)
        assert pieces, f"no statement runs over '{axis}'"
        bounds = bounds_of(axis, pieces, context, None)
        assert bounds is not None, f"'{axis}' is unbounded"
        extent = bound_expression(bounds.upper, divisibility, is_lower=False)
        axis_range = GridAxis(axis, bounds.lower, bounds.upper, extent, bounds.facts)
        if not axis_range.starts_at_zero:
            axis_range = replace(axis_range, extent=_extent(bounds.lower, bounds.upper, divisibility))
        found.append(axis_range)
    return found


def plain_grid(launch: Launch, statements: Sequence[Statement], assumptions: isl.Set) -> tuple[Expression, ...] | None:
    """Return the blocks along x, y and z of a launch whose *statements* are these, None if the host counts them.

    The host does where blocks have an order of their own, or a loop of the host is around the launch.
    """
    used = [s for s in statements if not s.domain.intersect_params(assumptions).is_empty()]
    if launch.home or not launch.order.is_plain or not used:
        return None
    known, hardware = known_of(assumptions), hardware_axes(launch.grid_axes)
    axes = [axis for axis in launch.grid_axes if any(axis in s.dims for s in used)]
    found = grid_axes(axes, (), used, known.context, known.divisibility)
    extents: dict[str, Expression] = {hardware[axis.name]: axis.extent for axis in found}
    x, y, z = (extents.get(axis, 1) for axis in BLOCK_AXES)
    return (x if launch.cluster == 1 else p.Product((launch.cluster, x)), y, z)


def _extent(lower: Bound, upper: Bound, divisibility: Divisibility) -> Expression:
    """Return *upper* less *lower*; as forms, which cancel, where the lower bound is one."""
    if len(lower) == 1 and len(lower[0]) == 1:
        rest = tuple(tuple(form.add(lower[0][0], -1) for form in forms) for forms in upper)
        return bound_expression(rest, divisibility, is_lower=False)
    first = bound_expression(lower, divisibility, is_lower=True)
    return p.Sum((bound_expression(upper, divisibility, is_lower=False), p.Product((-1, first))))


def shifted_text(own: str, axis: GridAxis, scope: Scope, context: Context) -> str:
    """Return the index along an axis that does not begin at 0, where *own* is the hardware's index."""
    first, text = axis.lower[0][0], c.Raw(f"({scope.index_type}){own}")
    if axis.lower == ((first,),) and not first.terms and first.const < 0:
        return c.binary(c.MINUS, text, c.integer(-first.const)).text
    return c.binary(c.PLUS, text, bound_text(axis.lower, scope, context, "min", "max")).text


def _pieces_on(
    kept: Collection[str], together: tuple[Piece, ...], statement: Statement, divisibility: Divisibility
) -> Iterable[Piece]:
    """Return the projection onto one axis and the host's loops; it is *together* if axes are independent."""
    if any(len(_axes_in(terms)) > 1 for piece in together for terms in piece):
        return pieces_of(statement, frozenset(kept), divisibility)
    return together


def _axes_in(terms: tuple[tuple[Var, int], ...]) -> frozenset[str]:
    return frozenset(name for name in Affine(terms, 0).names() if is_axis(name))
