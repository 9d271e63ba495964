"""Types of the operations in a transformed program, beside those of its reference program.

Arithmetic on values is carried out in the type of its operands, and wraps there.  So an operation of the transformed
program must have the type that it has in the program, and its operands as well where they are compared, or passed to a
function.  Index values (numbers that are made of inames and sizes alone) are exact: they may have another integer type,
as long as the operation around them has not::

    u[i]*k    ->   u[i]*100      uint8 in place of int32: differs
    v[0]*i    ->   v[0]*j        int64 in place of int32, where j has 64 bits: differs
    x[i] + k  ->   x[i] + 100    float32, as before

In subscripts all integers have the type of indices, and nothing wraps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Final, TypeAlias

import numpy as np
import pymbolic.primitives as p

from polyloop.errors import Diagnostic
from polyloop.expr.chains import side_by_side
from polyloop.expr.dtypes import DType, integer_limits, is_integer, is_signed
from polyloop.expr.fitting import folded_constant
from polyloop.expr.indexing import is_index_value
from polyloop.expr.nodes import CText, Expression, Terms, TypeCast
from polyloop.expr.printer import show
from polyloop.expr.promotion import (
    WEAK_INTEGERS,
    ScalarType,
    TypeConflictError,
    Weak,
    adapted,
    common_type,
    kind_name,
)
from polyloop.expr.rewrite import children
from polyloop.expr.rules import expand_rules
from polyloop.expr.typing import infer, remembering
from polyloop.frozen import replace
from polyloop.kernel.instruction import Instruction
from polyloop.kernel.kernel import LoopKernel, memoised
from polyloop.program.index_types import widened
from polyloop.program.infer_types import dtype_table
from polyloop.program.lower import lower

__all__ = ["TYPE_HINTS", "OperandTypes", "changed_types"]

_Kinds: TypeAlias = Callable[[Expression], ScalarType | None]
_INDEX: Final[DType] = np.dtype(np.int32)
_ARITHMETIC: Final = (p.Sum, p.Product, p.Quotient, p.FloorDiv, p.Remainder, p.Min, p.Max, p.If)
TYPE_HINTS: Final = ("state the type in the program, as in cast(int64, i)*v[0]",)


class OperandTypes:
    """Types of expressions in a reference program (``old``) and a transformed program (``new``)."""

    def __init__(self, old: LoopKernel, new: LoopKernel) -> None:
        self.kernel = old
        self.old, self.new = _valid(_kinds(old)), _kinds(new)
        self.indices = _index_names(old), _index_names(new)

    @cached_property
    def exact(self) -> frozenset[str]:
        """The sizes that may occur in index values."""
        return self.indices[0] & {*self.kernel.parameters}

    def of_operation(self, a: Expression, b: Expression) -> str | None:
        """Return a note if *b*, an operation of the transformed program, is computed in another type than *a*.

        Types that are not known yet are not compared, nor those of a program that is refused for them.

        Raises
        ------
        TypeConflictError
            *b* has no type: a constant in it does not fit.
        """
        if isinstance(a, Terms | CText):
            return None  # several values, or text
        if _is_exact(a, self.old, self.indices[0]) and _is_exact(b, self.new, self.indices[1]):
            return None
        wanted = _computed_in(a, self.old)
        if wanted[0] is None:
            return None
        for one, other in zip(wanted, _computed_in(b, self.new), strict=True):
            if one != other and one is not None and other is not None:
                return f"its type would be {kind_name(other)}, and is {kind_name(one)}"
        return None

    def of_operands(self, a: Expression, want: DType | None) -> DType | None:
        """Return the type in which operands of *a* are wanted, where *a* is wanted as *want*; None for their own."""
        if isinstance(a, p.Comparison):
            kind = _common([self.old(child) for child in children(a)])
            return None if kind is None else adapted(kind, None)
        kind = self.old(a) if isinstance(a, _ARITHMETIC) else None
        return None if kind is None else adapted(kind, want)

    def stored_in(self, assignee: Expression) -> DType | None:
        """Return the type that a value is stored in, where *assignee* of the program is one variable of known type."""
        kind = self.old(assignee) if isinstance(assignee, p.Variable | p.Subscript) else None
        return kind if isinstance(kind, np.dtype) else None

    def of_stored(
        self, a: Expression, b: Expression, where: Instruction, want: DType | None, is_index: bool
    ) -> str | None:
        """Return a note if the temporary *b* has a type in which *a*, a value that is wanted as *want*, differs.

        ``where`` is the instruction of the program that *a* belongs to, ``is_index`` is True in a subscript.
        """
        kind, found = self.old(a), _valid(self.new)(b)
        if kind is None or found is None or (kind == found and not is_index):
            return None
        if is_index:
            if self._is_as_wide_as_indices(a) and (kind == found or _is_inside(self.kernel.index_dtype, found)):
                return None
            index = kind_name(self.kernel.index_dtype)
            return f"'{show(b)}' is {kind_name(found)}, and subscripts are computed in {index}"
        if isinstance(kind, Weak):
            is_kept = adapted(kind, want) == found or _holds(found, a)
        else:
            table = dtype_table(self.kernel)
            wide = infer(widened(self.kernel, where, a, table.get), table.get) if is_integer(kind) else None
            is_exact = is_index_value(a, self.indices[0].__contains__)
            is_kept = found == wide or (is_exact and wide is not None and _is_inside(wide, found))
        return None if is_kept else f"'{show(b)}' is {kind_name(found)}, and '{show(a)}' is {kind_name(kind)}"

    def _is_as_wide_as_indices(self, a: Expression) -> bool:
        """Return True if no operation of *a*, part of a subscript, is narrower as a value than indices are."""
        parts = children(a)
        if isinstance(a, p.Subscript | TypeCast) or not parts:
            return True
        kind = self.old(a)
        is_wide = isinstance(kind, Weak) or (kind is not None and _is_inside(self.kernel.index_dtype, kind))
        return is_wide and all(map(self._is_as_wide_as_indices, parts))


def changed_types(before: LoopKernel, after: LoopKernel) -> Iterator[Diagnostic]:
    """Yield ``type-changed`` for instructions of a program whose types differ where its sizes are known better.

    Expressions of the reference programs are compared as far as they have the same form.
    """
    before, after = (each if each.reference is None else each.reference.kernel for each in (before, after))
    types, present = OperandTypes(before, after), {instruction.id: instruction for instruction in after.instructions}
    for instruction in before.instructions:
        other = present.get(instruction.id)
        if other is None or instruction.is_c:
            continue
        pairs = zip(_values(before, instruction), _values(after, other), strict=False)
        try:
            found = next((found for a, b in pairs for found in _changed(types, a, b)), None)
        except TypeConflictError as conflict:
            yield replace(conflict.diagnostic, sites=(instruction.site(),))
            continue
        if found is not None:
            a, b, note = found
            text = f"'{instruction.id}' would compute '{show(b)}' in another type than '{show(a)}'"
            yield Diagnostic("type-changed", text, (note,), TYPE_HINTS, sites=(instruction.site(),))


def _values(kernel: LoopKernel, instruction: Instruction) -> list[Expression]:
    parts = (instruction.expression, *instruction.predicates)
    return [expand_rules(part, kernel.substitutions) for part in parts]


def _changed(types: OperandTypes, a: Expression, b: Expression) -> Iterator[tuple[Expression, Expression, str]]:
    """Yield the operations of two expressions, inner ones first, that are computed in different types."""
    if isinstance(a, p.Subscript):
        return
    mine, theirs = children(a), children(b)
    if type(a) is not type(b) or len(mine) != len(theirs) or not mine:
        return
    for x, y in side_by_side(type(a), mine, theirs):
        yield from _changed(types, x, y)
    note = types.of_operation(a, b)
    if note is not None:
        yield a, b, note


@memoised
def _kinds(kernel: LoopKernel) -> _Kinds:
    table = dtype_table(kernel)

    def lookup(name: str) -> ScalarType | None:
        if name in table:
            return table[name]
        accumulator = lower(kernel).accumulators.get(name)
        return None if accumulator is None else infer(accumulator.reduction, table.get)

    return remembering(lookup)


def _valid(kinds: _Kinds) -> _Kinds:
    """Return *kinds* with None for an expression without a valid type."""

    def found(expr: Expression) -> ScalarType | None:
        try:
            return kinds(expr)
        except TypeConflictError:
            return None

    return found


@memoised
def _index_names(kernel: LoopKernel) -> frozenset[str]:
    """Return the names that index values are made of: inames, and sizes of signed types of at least 32 bits."""
    table, arrays = dtype_table(kernel), kernel.arrays()
    kinds = {name: kind or _INDEX for name, kind in table.items() if name not in arrays}
    is_number = {*kernel.parameters, *(x for i in kernel.instructions for x in i.inames), *kernel.inames}
    return frozenset(name for name, kind in kinds.items() if name in is_number and _is_inside(_INDEX, kind))


def _is_exact(expr: Expression, kinds: _Kinds, names: frozenset[str]) -> bool:
    """Return True if *expr* is an index value, or a number that consists of integer constants."""
    return is_index_value(expr, names.__contains__) or kinds(expr) in WEAK_INTEGERS


def _common(kinds: list[ScalarType | None]) -> ScalarType | None:
    known = [kind for kind in kinds if kind is not None]
    return common_type(known) if known and len(known) == len(kinds) else None


def _computed_in(expr: Expression, kinds: _Kinds) -> tuple[ScalarType | None, ...]:
    """Return the type of *expr*, and that in which its operands are compared or passed."""
    if not isinstance(expr, p.Comparison | p.Call):
        return (kinds(expr),)
    common = _common([kinds(child) for child in children(expr)])
    if isinstance(expr, p.Comparison) and common is not None and _is_inside(_INDEX, common):
        common = _INDEX  # signed integers compare alike in any width that holds them
    return kinds(expr), common


def _is_inside(dtype: DType, kind: ScalarType) -> bool:
    """Return True if *kind* is a type of signed integers that holds all values of another, *dtype*."""
    return isinstance(kind, np.dtype) and is_integer(kind) and is_signed(kind) and kind.itemsize >= dtype.itemsize


def _holds(kind: ScalarType, expr: Expression) -> bool:
    """Return True if *expr* is a constant that a type holds exactly."""
    value = folded_constant(expr)
    if value is None or isinstance(kind, Weak):
        return False
    if is_integer(kind):
        low, high = integer_limits(kind)
        return low <= value <= high
    return abs(value) <= 2**8
