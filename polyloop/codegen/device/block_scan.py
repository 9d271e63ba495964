"""Scans over the threads of a block, as device functions: the combined value of all preceding threads.

Within a warp, shuffles upward combine values in a logarithmic number of steps.  The last thread of each warp stores the
total of its warp, and every thread combines the totals of the preceding warps.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from polyloop.codegen.device.entries import Threads
from polyloop.codegen.device.warp_reduce import Exchange, indented, mixed, partial, times
from polyloop.codegen.expressions.expressions import Expressions
from polyloop.codegen.loops.context import Context
from polyloop.codegen.tree import c_expr as c
from polyloop.codegen.tree.c_ast import Assign
from polyloop.codegen.tree.c_expr import Code
from polyloop.expr.nodes import Operation
from polyloop.expr.operations import neutral_element
from polyloop.mapping.collective_shape import Kind, Meeting, meeting_of
from polyloop.poly.axes import letter_of
from polyloop.schedule.collective import Collective
from polyloop.schedule.plan import Statement

__all__ = ["ThreadScan", "prefix_call"]

_DType = np.dtype[np.generic]
_BEFORE: Final = c.Name("before")
"""Combined value of the preceding warps."""
_X: Final = c.Name("x")
_Y: Final = c.Name("y")


def prefix_call(
    expressions: Expressions, statement: Statement, collective: Collective, context: Context, sizes: Sequence[int]
) -> Assign:
    """Return the assignment by which every thread gets the scan of the values of threads before it, or up to it."""
    scope = expressions.scope
    target, _, dtype = expressions.target(statement.lhs, context)
    meeting = meeting_of(sizes, collective.across, scope.language.warp_size)
    exclusive = collective.kind is Kind.EXCLUSIVE
    if not meeting.across:  # one thread, which has nothing before it
        neutral = expressions.stored(neutral_element(collective.operation, dtype), context, dtype)
        return Assign(target, "=", neutral if exclusive else target, statement.instruction)
    function = _function(expressions, collective.operation, dtype, meeting, (tuple(sizes), exclusive))
    arguments = [target]
    if collective.scratch is not None:
        arguments.append(c.Name(collective.scratch, collective.scratch))
    return Assign(target, "=", c.Apply(function, tuple(arguments)), statement.instruction)


def _function(
    expressions: Expressions, operation: Operation, dtype: _DType, meeting: Meeting,
    how: tuple[tuple[int, ...], bool],
) -> str:  # fmt: skip
    """Return the name of the function that scans over one value of each thread."""
    sizes, exclusive = how
    scope = expressions.scope
    (span,) = meeting.across
    letter = letter_of(span.axis)
    ctype = scope.ctype(dtype)
    key = f"scan {operation} {exclusive} over {letter} of {sizes}, {ctype}{', fast' if scope.fast else ''}"
    what = operation.name if operation.fields else f"{operation.name}_{dtype.name}"
    kind = "exclusive" if exclusive else "inclusive"
    whole = "warp" if meeting.parts == 1 else "block"
    where = whole if meeting.is_whole_block else letter

    def define(name: str) -> str:
        body = ThreadScan(expressions, operation, dtype, meeting, sizes)
        space = scope.language.need(Threads).shared_space
        parameters = f"{ctype} x, {space}{ctype} *partial" if meeting.parts > 1 else f"{ctype} x"
        which = "before this one" if exclusive else "up to this one"
        along = scope.language.need(Threads).axes[span.axis]
        who = f"of the block {which}" if meeting.is_whole_block else f"{which} along {along}"
        comment = f"// The {operation} of x over the threads {who}; the whole block calls it."
        head = f"{scope.language.syntax.helper} {ctype} {name}({parameters})"
        lines = (f"    {line}" for line in body.scan_lines(exclusive=exclusive))
        return "\n".join([comment, head, "{", *lines, "}"])

    return scope.own_helper(key, f"{where}_{kind}_{what}", define)


class ThreadScan(Exchange):
    """The body of a function that scans over the values ``x`` of threads along one axis."""

    def scan_lines(self, *, exclusive: bool) -> Iterator[str]:
        """Yield the statements."""
        meeting, ctype = self.meeting, self.scope.ctype(self.dtype)
        (span,) = meeting.across
        index = self.thread(span.axis)
        place = index if meeting.parts == 1 else c.binary(c.MODULO, index, c.integer(span.direct))
        if span.direct > 1:
            yield from self.within_warps(place)
        if meeting.parts > 1:
            yield from self.parts_before(place, self.part_of(span))
        if not exclusive:
            yield f"return {self.expression(_BEFORE, _X)};" if meeting.parts > 1 else "return x;"
        elif span.direct == 1:
            yield "return before;"
        else:
            yield f"const {ctype} y = {self.above(_X, c.integer(span.stride))};"
            nothing = _BEFORE if meeting.parts > 1 else self.neutral()
            something = self.expression(_BEFORE, _Y) if meeting.parts > 1 else _Y
            yield f"return {place} == 0 ? {nothing} : {something};"

    def within_warps(self, place: Code) -> Iterator[str]:
        """Yield the statements that set ``x`` to the combination of the values in the warp up to it."""
        (span,) = self.meeting.across
        distance = times(c.Name("step"), span.stride)
        yield from self.unrolled(span.direct.bit_length() - 1)
        yield f"for (int step = 1; step < {span.direct}; step *= 2) {{"
        yield f"    const {self.scope.ctype(self.dtype)} y = {self.above(_X, distance)};"
        yield f"    if ({place} >= step)"
        yield f"        x = {self.expression(_Y, _X)};"
        yield "}"

    def parts_before(self, place: Code, part: Code) -> Iterator[str]:
        """Yield the statements that set ``before`` to the combined value of the preceding warps."""
        meeting = self.meeting
        (span,) = meeting.across
        group = mixed([(self.thread(other.axis), other.extent) for other in meeting.along])
        base = times(group, meeting.parts)
        store = f"{partial(base, part)} = x;"
        if span.direct > 1:
            yield f"if ({place} == {span.direct - 1})"
            yield f"    {store}"
        else:
            yield store
        yield f"{self.threads.block_barrier}  // the part of each warp is there"
        yield f"{self.scope.ctype(self.dtype)} before = {self.neutral()};"
        yield f"for (int n = 0; n < {part}; ++n)"
        yield from indented(self.combined(_BEFORE, partial(base, c.Name("n"))))

    def neutral(self) -> Code:
        """Return the neutral element."""
        return self.printer.stored(neutral_element(self.operation, self.dtype), Context(), self.dtype)

    def above(self, value: Code, distance: Code) -> Code:
        """Return the value of the thread of the warp that is *distance* before this one."""
        comment = "// The value of the thread of the warp that is so many before this one."
        return self.shuffled(self.shuffles.below, value, ("distance", distance), "above", "above", comment)
