"""The operations of a statement, by kind and type, each with the instances that execute it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, assert_never

import numpy as np
import pymbolic.primitives as p

from polyloop.expr.dtypes import DType
from polyloop.expr.nodes import Expression, function_name, subtrahend
from polyloop.expr.nodes import Operation as ReductionOperation
from polyloop.expr.records import component, field_dtype, field_names, is_record, is_vector
from polyloop.expr.typing import infer
from polyloop.kernel.instruction import CopyStep
from polyloop.kernel.kernel import LoopKernel
from polyloop.kernel.updates import EXCHANGE
from polyloop.program.guards import Guard, guarded_children
from polyloop.program.infer_types import accumulator_dtypes, dtype_table
from polyloop.program.ir import Assign, Combine, Init, Lowered, Update

__all__ = ["Operation", "operations"]

_NARY: Final[dict[Any, str]] = {
    p.Product: "mul",
    p.Min: "maxmin",
    p.Max: "maxmin",
    p.BitwiseAnd: "bw",
    p.BitwiseOr: "bw",
    p.BitwiseXor: "bw",
}
_BINARY: Final[dict[Any, str]] = {
    p.Quotient: "div",
    p.FloorDiv: "div",
    p.Remainder: "div",
    p.Power: "pow",
    p.LeftShift: "shift",
    p.RightShift: "shift",
    p.BitwiseNot: "bw",
}
_COMBINED: Final = {"sum": "add", "product": "mul", "max": "maxmin", "min": "maxmin"}


@dataclass(frozen=True)
class Operation:
    """Operations of one kind in each instance of a statement: ``times`` of them, under ``guards``.

    ``power`` is the exponent, where that is a whole number.
    """

    name: str
    dtype: DType
    guards: tuple[Guard, ...] = ()
    times: int = 1
    power: int | None = None


def operations(kernel: LoopKernel, statement: Lowered, *, within_subscripts: bool = True) -> Iterator[Operation]:
    """Yield the operations of *statement*; comparisons, logic, conversions and negations are none.

    For a combination across threads it is that of two values.

    Parameters
    ----------
    within_subscripts
        Whether index arithmetic that the text spells out counts.
    """
    if statement.instruction.step is CopyStep.ARRIVAL:  # the other half of an asynchronous copy
        return
    types: Mapping[str, DType | None] = {**dtype_table(kernel), **accumulator_dtypes(kernel)}
    walk = _Walk(types, within_subscripts)
    parts = [statement.rhs] if isinstance(statement.part, Assign | Update) else []
    for expr in (*parts, statement.lhs, *statement.predicates):
        yield from walk.visit(expr, ())
    match statement.part:
        case Update(reduction) | Combine(reduction):
            yield from _combination(reduction.operation, types[statement.write.array])
        case Assign(atomic=str() as atomic) if atomic != EXCHANGE:
            dtype = types[statement.write.array]
            if dtype is not None:
                yield Operation({"sum": "add", "min": "maxmin", "max": "maxmin"}.get(atomic, "bw"), dtype)
        case Assign() | Init():
            pass
        case _:
            assert_never(statement.part)


def _combination(operation: ReductionOperation, dtype: DType | None) -> Iterator[Operation]:
    """Yield the operations that combine a term with the accumulator, or two partial results."""
    assert dtype is not None, "accumulators have types"
    if operation.name in _COMBINED and not operation.combine:
        yield _operation(_COMBINED[operation.name], dtype)
    walk = _Walk({"a": dtype, "b": dtype}, within_subscripts=True)
    for expr in operation.combine:
        yield from walk.visit(expr, ())


def _operation(
    name: str, dtype: DType, guards: tuple[Guard, ...] = (), times: int = 1, power: int | None = None
) -> Operation:
    """Return an operation; one on vectors is one for each component."""
    if is_vector(dtype):
        return Operation(name, component(dtype), guards, times * len(field_names(dtype)), power)
    return Operation(name, dtype, guards, times, power)


@dataclass(frozen=True)
class _Walk:
    types: Mapping[str, DType | None]
    within_subscripts: bool

    def dtype(self, expr: Expression) -> DType:
        found = infer(expr, self.types.get)
        assert found is not None, f"{expr} has no type"
        return found

    def visit(self, expr: Expression, guards: tuple[Guard, ...]) -> Iterator[Operation]:
        kind: Any = type(expr)
        if kind is p.Sum:
            yield from self.sum(expr, guards)
            return
        if kind is p.Subscript and not self.within_subscripts:
            return
        if kind in _BINARY:
            power = int(expr.exponent) if kind is p.Power and isinstance(expr.exponent, int | np.integer) else None
            yield _operation(_BINARY[kind], self.dtype(expr), guards, power=power)
        elif kind in _NARY:
            signs = sum(type(part) is int and part == -1 for part in expr.children) if kind is p.Product else 0
            if (times := len(expr.children) - 1 - signs) > 0:
                yield _operation(_NARY[kind], self.dtype(expr), guards, times)
        elif kind is p.Call:
            yield _operation(f"func:{function_name(expr)}", self.argument_dtype(expr), guards)
        for child, own in guarded_children(expr):
            yield from self.visit(child, (*guards, *own))

    def sum(self, expr: Expression, guards: tuple[Guard, ...]) -> Iterator[Operation]:
        """Yield the operations of a sum, in which a negative term is subtracted."""
        yield _operation("add", self.dtype(expr), guards, len(expr.children) - 1)
        for number, part in enumerate(expr.children):
            taken = subtrahend(part) if number else None
            yield from self.visit(part if taken is None else taken, guards)

    def argument_dtype(self, expr: Expression) -> DType:
        """Return the type that a function computes in: its result type, or that of its first field."""
        found = self.dtype(expr)
        return field_dtype(found, field_names(found)[0]) if is_record(found) and not is_vector(found) else found


