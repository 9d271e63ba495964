"""Assignments: statements in C, without the loops and conditions around them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import assert_never

import numpy as np

from polyloop.codegen.device.async_copy import start_text
from polyloop.codegen.device.atomics import atomic_update
from polyloop.codegen.device.block_scan import prefix_call
from polyloop.codegen.device.decoupled_lookback import passing_call
from polyloop.codegen.device.warp_reduce import collective_call
from polyloop.codegen.expressions.combine import compound, updated
from polyloop.codegen.expressions.expressions import Expressions
from polyloop.codegen.expressions.linear import union_text
from polyloop.codegen.expressions.literals import literal
from polyloop.codegen.expressions.magnitude import Recorded
from polyloop.codegen.loops.context import Context
from polyloop.codegen.loops.zero_fill import copied_rows
from polyloop.codegen.tree import c_expr as c
from polyloop.codegen.tree.c_ast import Assign, Call, Verbatim
from polyloop.codegen.tree.c_expr import Code
from polyloop.codegen.verbatim import verbatim
from polyloop.expr.dtypes import is_narrow
from polyloop.expr.nodes import CText, array_name
from polyloop.mapping.collective_shape import Kind
from polyloop.schedule import plan
from polyloop.schedule.collective import Collective
from polyloop.schedule.copy_engine import AwaitBox, AwaitStores, FreeSlot, OpenRings, StartBox, StoreBox
from polyloop.schedule.plan import Statement

__all__ = ["Assignments"]


class Assignments:
    """Statements of one function as nodes of C.

    Parameters
    ----------
    expressions
        Printer of both sides.
    block
        Threads of a block along ``l.0``, ``l.1``, ..
    """

    def __init__(self, expressions: Expressions, block: Sequence[int]) -> None:
        self.expressions = expressions
        self.scope = expressions.scope
        self.block = block
        self._made: dict[tuple[str | int | None, ...], tuple[Assign | Call | Verbatim, Recorded]] = {}

    def once(self, statement: Statement, context: Context) -> Assign | Call | Verbatim:
        """Return the memoised assignment of a statement: full and partial tiles often have the same one."""
        values = self.scope.values
        key = (statement.name, *(values.get(dim) for dim in statement.dims))
        known, magnitudes = self._made.get(key), self.scope.findings.magnitudes
        if known is not None:
            magnitudes.again(known[1])
            return known[0]
        self.expressions.renderer.used_context = False
        mark = magnitudes.mark()
        found = self.new(statement, context)
        if not self.expressions.renderer.used_context:
            self._made[key] = found, magnitudes.since(mark)
        return found

    def filled(self, statement: Statement, context: Context) -> Assign | Call | Verbatim:
        """Return a copy with zero fill: a condition chooses between the source and zero."""
        cases = copied_rows(self.scope, statement, context)
        if not all(cases):
            return self.new(statement, context)
        condition = union_text(cases, self.scope, context)
        start = self._start(statement, context, condition) if isinstance(statement.action, plan.StartCopy) else None
        if start is not None:
            return start
        copy = self._stored(statement, context)
        assert isinstance(copy, Assign), "a copy is an assignment"
        _, _, dtype = self.expressions.target(statement.lhs, context)
        zero = c.Raw(f"{self.scope.ctype(dtype)}{{}}") if is_narrow(dtype) else literal(self.scope, 0, dtype)
        return replace(copy, value=c.Choice(condition, copy.value, zero))

    def new(self, statement: Statement, context: Context) -> Assign | Call | Verbatim:
        """Return the assignment of a statement."""
        match statement.action:
            case plan.StartCopy():
                start = self._start(statement, context)
                return self._stored(statement, context) if start is None else start
            case plan.Assign() | plan.AwaitCopy():
                return self._stored(statement, context)
            case plan.Update(operation):
                target, _, dtype = self.expressions.target(statement.lhs, context)
                operator, value = updated(self.expressions, operation, (target, dtype), statement.rhs, context)
                return Assign(target, operator, value, statement.instruction)
            case plan.Atomic(operation):
                return atomic_update(self.expressions, statement, operation, context)
            case Collective() as collective:
                if collective.chain is not None:
                    return passing_call(self.expressions, statement, collective, context, self.block)
                call = collective_call if collective.kind is Kind.COMBINE else prefix_call
                return call(self.expressions, statement, collective, context, self.block)
            case plan.Tensor() | plan.AwaitProducts():
                raise AssertionError(f"'{statement.name}' is no single assignment")
            case StartBox() | AwaitBox() | StoreBox() | AwaitStores() | OpenRings() | FreeSlot():
                raise AssertionError(f"'{statement.name}' is of a copy engine")
            case _:
                assert_never(statement.action)

    def _stored(self, statement: Statement, context: Context) -> Assign | Verbatim:
        """Return the assignment of a value to the target of a statement."""
        if isinstance(statement.rhs, CText):
            return verbatim(self.expressions, statement, context)
        target, _, dtype = self.expressions.target(statement.lhs, context)
        value = self.expressions.stored(statement.rhs, context, dtype)
        unsigned = self.scope.ctype(np.dtype(f"uint{8 * dtype.itemsize}")) if dtype.kind == "i" else ""
        operator, value = compound(target, value, statement.lhs, statement.rhs, dtype, unsigned)
        is_constant = isinstance(statement.rhs, int | float | np.generic)
        return Assign(target, operator, value, statement.instruction, "", is_constant)

    def _start(self, statement: Statement, context: Context, condition: Code | None = None) -> Call | None:
        """Return the start of an asynchronous copy of one element, None if none of its size exists."""
        source = self.expressions.element(statement.rhs, context)
        target, _, dtype = self.expressions.target(statement.lhs, context)
        call = start_text(self.scope, target, source, dtype.itemsize, condition)
        if call is None or self.scope.types.of_names.get(array_name(statement.rhs)) != dtype:
            return None
        return Call(call, statement.instruction)
