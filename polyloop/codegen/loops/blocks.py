"""Blocks that are numbered in an order of their own, or that a block of the launch executes one after the other.

::

    const int bx = blockIdx.x, by = blockIdx.y;  body
    ->
    const int blocks_x = .., blocks_y = .., blocks = blocks_x * blocks_y;
    for (int block = blockIdx.x; block < blocks; block += gridDim.x) {
        const int bx = block % blocks_x, by = block / blocks_x;
        body
    }

The grid then has one axis.  A *panel* is a number of neighbours along one axis, with all indices along another one.
Blocks of a panel have numbers in a row, first along the panel's axis: with ``a`` blocks along it, ``d`` along the other
one and panels of ``g``, block ``t`` is in the panel that begins at ``f = g*floor(t / (min(g, a)*d))``, which has
``w = min(g, a - f)`` indices.  With ``r = t mod (min(g, a)*d)`` its indices are ``f + r mod w`` and ``floor(r / w)``.

Each block has one number: if ``a <= g``, there is one panel, of ``a*d`` blocks.  Otherwise all panels but the last have
``g*d`` blocks, and that begins at a multiple of it; within a panel of ``w`` indices, ``r`` takes the values from 0 to
``w*d - 1``, and ``(r mod w, floor(r / w))`` are its two digits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final

import pymbolic.primitives as p

from polyloop.codegen.device.entries import Threads
from polyloop.codegen.expressions.linear import bound_text
from polyloop.codegen.loops.context import Context
from polyloop.codegen.loops.grid import GridAxis, axis_text
from polyloop.codegen.program import LaunchCheck
from polyloop.codegen.scope import Scope
from polyloop.codegen.tree.c_ast import Block, Numbered
from polyloop.codegen.tree.c_expr import Literal, Name, integer
from polyloop.errors import Diagnostic
from polyloop.expr.nodes import Expression
from polyloop.expr.rewrite import variables
from polyloop.kernel.tags import BlockOrder
from polyloop.poly.axes import BLOCK_AXES
from polyloop.schedule.plan import Launch

__all__ = ["Numbering", "numbering_of"]

_MOST: Final = 2**31 - 1


@dataclass(frozen=True, eq=False)
class Numbering:
    """Numbers of the blocks of a launch, as variables of its function.

    Attributes
    ----------
    axes
        Block axes, that of panels first, then the others.
    counts
        Names of the variables with the number of blocks along each axis; then those of all blocks, and of a panel.
    numbers
        Names of the variables with the number of a block, and with that of the one that the same threads execute next.
    parts
        Names of variables for parts of a number: that in a plane of two axes; the first index of a panel, the number in
        the panel, and the width of it.
    cluster
        Blocks of a cluster; clusters are numbered in place of blocks.
    """

    order: BlockOrder
    axes: tuple[GridAxis, ...]
    scope: Scope
    context: Context
    counts: tuple[str, ...]
    total: str
    panel: str
    numbers: tuple[str, str]
    parts: tuple[str, str, str, str]
    cluster: int = 1

    @property
    def number(self) -> str:
        """Name of the variable with the number of a block."""
        return self.numbers[0]

    @property
    def following(self) -> str:
        """Name of the variable with the number of the next block of the same threads."""
        return self.numbers[1]

    @property
    def grid(self) -> tuple[Expression, Expression, Expression]:
        """The grid of the launch, along x alone."""
        return (p.Min((self.order.most, self._count())) if self.order.persists else self._count()), 1, 1

    @property
    def turns(self) -> Expression:
        """The number of blocks that a block of the launch executes at most."""
        most = self.order.most
        return p.FloorDiv(p.Sum((self._count(), most - 1)), most) if self.order.persists else 1

    def checks(self, bits: int) -> tuple[LaunchCheck, ...]:
        """Return the condition under which numbers of blocks are exact in *bits* bits."""
        most = _MOST - self.order.most
        condition = p.Comparison(self._count(), "<=", most)
        return (LaunchCheck(condition, f"there are more than {most} blocks", "index-overflow"),) if bits == 32 else ()

    def _count(self) -> Expression:
        """Return the number of blocks, 0 if there are none along an axis."""
        counts = [p.Max((0, axis.extent)) for axis in self.axes]
        return counts[0] if len(counts) == 1 else p.Product(tuple(counts))

    @property
    def has_panels(self) -> bool:
        """True if blocks are numbered panel by panel."""
        return bool(self.panel)

    def constants(self) -> list[str]:
        """Return the lines at the beginning of the function: how many blocks there are."""
        ctype, parts = self.scope.index_type, list[str]()
        for name, axis in zip(self.counts, self.axes, strict=True):
            count = str(bound_text(axis.upper, self.scope, self.context, "max", "min"))
            parts.append(f"{name} = {count}" if axis.starts_at_zero else f"{name} = {count} - {self.first(axis)}")
        lines = [f"    const {ctype} {', '.join(parts)};"]
        more = [f"{self.total} = {' * '.join(self.counts)}"] if self.order.persists else []
        if self.has_panels:
            group = self.scope.index_extreme("min", (integer(self.order.group), Name(self.counts[0])))
            more.append(f"{self.panel} = {group} * {self.counts[1]}")
        return [*lines, *([f"    const {ctype} {', '.join(more)};"] if more else [])]

    def indices(self, number: str) -> list[str]:
        """Return the lines that define the axes in use, for the block *number*."""
        found, rest = dict[GridAxis, str](), number
        lines: list[str] = []
        ctype, axes, counts = self.scope.index_type, self.axes, self.counts
        in_plane, first, place, width = self.parts
        if self.has_panels:
            across, down, *others = axes
            if others:
                plane = f"({counts[0]} * {counts[1]})"
                found[others[0]] = f"{number} / {plane}"
                rest = in_plane
                lines.append(f"const {ctype} {rest} = {number} % {plane};")
            group = integer(self.order.group)
            of_panel = self.scope.index_extreme("min", (group, Name(f"{counts[0]} - {first}")))
            lines.append(f"const {ctype} {first} = {rest} / {self.panel} * {group}, {place} = {rest} % {self.panel};")
            lines.append(f"const {ctype} {width} = {of_panel};")
            found |= {across: f"{first} + {place} % {width}", down: f"{place} / {width}"}
        else:
            for position, axis in enumerate(axes):
                is_last = position + 1 == len(axes)
                before = " * ".join(counts[:position])
                own = number if not before else f"{number} / ({before})" if position > 1 else f"{number} / {before}"
                found[axis] = own if is_last else f"{own} % {counts[position]}"
        used = [axis for axis in sorted(axes, key=lambda axis: axis.name) if axis.name in self.scope.used]
        if used:
            texts = [f"{self.scope.values[axis.name]} = {self._shifted(axis, found[axis])}" for axis in used]
            return [*lines, f"const {ctype} {', '.join(texts)};"]
        return []

    def _shifted(self, axis: GridAxis, index: str) -> str:
        return index if axis.starts_at_zero else f"{index} + {self.first(axis)}"

    def first(self, axis: GridAxis) -> str:
        """Return the text of the least index of an axis."""
        found = bound_text(axis.lower, self.scope, self.context, "min", "max")
        return found.text if isinstance(found, Name | Literal) else f"({found})"

    def own(self) -> list[str]:
        """Return the lines that define the number of a block of the launch, and the axes."""
        hardware = self._hardware()
        return [f"const {self.scope.index_type} {self.number} = {hardware};", *self.indices(self.number)]

    def _hardware(self) -> str:
        return axis_text(self.scope.language.need(Threads), BLOCK_AXES[0], self.cluster)

    def _blocks(self) -> str:
        found = self.scope.language.need(Threads).blocks
        if not found:
            message = f"target '{self.scope.language.name}' does not say how many blocks run"
            hint = "give the entry 'Threads' of the language its text 'blocks', or leave out persist_blocks"
            raise self.scope.error(Diagnostic("unsupported-device-function", message, (), (hint,)))
        return found

    def in_turn(self, body: Block) -> Numbered:
        """Return the loop over the blocks that a block of the launch executes."""
        number, step = self.number, self._blocks()
        begin = f"for ({self.scope.index_type} {number} = {self._hardware()}; {number} < {self.total}; "
        return Numbered(f"{begin}{number} += {step})", tuple(self.indices(number)), body)

    def of_first(self, body: Block, *, has_axes: bool = True) -> Numbered:
        """Return *body* for the first block that a block of the launch executes; it may use the axes of that block."""
        condition = f"if (({self.scope.index_type}){self._hardware()} < {self.total})"
        return Numbered(condition, tuple(self.own()) if has_axes else (), body)

    def of_next(self, body: Block, *, has_axes: bool = True) -> Numbered:
        """Return *body* for the block after the present one, if there is one; it may use the axes of that block."""
        ctype = self.scope.index_type
        following = f"{self.number} + ({ctype}){self._blocks()}"
        lines = (f"const {ctype} {self.following} = {following};", *self.indices(self.following))
        return Numbered(f"if ({following} < {self.total})", lines if has_axes else (), body)


def numbering_of(launch: Launch, axes: Sequence[GridAxis], scope: Scope, context: Context) -> Numbering | None:
    """Return the numbering of the blocks of *launch*, None if they are those of the grid, in the order of its axes."""
    order = launch.order
    if order.is_plain or not axes:
        return None
    ordered = sorted(axes, key=lambda axis: (axis.name != order.axis, axis.name))
    has_panels = len(axes) > 1 and ordered[0].name == order.axis
    if not has_panels and not order.persists:
        return None
    if order.persists and launch.cluster > 1:
        message = f"blocks of '{launch.name}' cannot take turns: they are in clusters"
        hint = "leave out persist_blocks, or the tag c.0"
        raise scope.error(Diagnostic("bad-block-order", message, (f"order of blocks: {order}",), (hint,)))
    changing = sorted(frozenset[str]().union(*(variables(axis.extent) for axis in axes)) & set(launch.hosts))
    if changing:
        message = f"blocks of '{launch.name}' have no order of their own: their number depends on a loop of the host"
        note = f"it depends on {', '.join(map(repr, changing))}"
        hint = "leave out order_blocks and persist_blocks, or let the loop be one of the device"
        raise scope.error(Diagnostic("bad-block-order", message, (note,), (hint,)))
    for form in chain.from_iterable(chain.from_iterable((axis.upper, axis.lower) for axis in axes)):
        for part in form:
            scope.findings.magnitudes.record(part)
    fresh = scope.names.fresh
    counts = tuple(fresh(f"blocks_{'xyz'[BLOCK_AXES.index(axis.name)]}") for axis in ordered)
    panel = fresh("panel") if has_panels else ""
    total, number, following = fresh("blocks"), fresh("block"), fresh("next")
    in_plane, first, place, width = map(fresh, ("in_plane", "first", "place", "width"))
    parts = (in_plane, first, place, width)
    names = (number, following)
    return Numbering(order, tuple(ordered), scope, context, counts, total, panel, names, parts, launch.cluster)
