"""Integer types of index expressions as values: int64 where int32 may not hold all of them."""

from __future__ import annotations

from typing import Final

import islpy as isl
import numpy as np
import pymbolic.primitives as p

from polyloop.errors import Diagnostic, warn
from polyloop.expr.dtypes import DType, integer_limits, is_integer, is_signed
from polyloop.expr.indexing import is_index_value
from polyloop.expr.nodes import Expression, TypeCast
from polyloop.expr.printer import show
from polyloop.expr.rewrite import variables
from polyloop.expr.typing import TypeOf
from polyloop.kernel.domains import bound_variables, parameters_of
from polyloop.kernel.instruction import Instruction
from polyloop.kernel.kernel import LoopKernel
from polyloop.poly.affine import Affine, affine_of
from polyloop.poly.budget import NoAnswer, aside
from polyloop.poly.intervals import is_computed, value_range
from polyloop.poly.sets import Row, add_rows, constant_bounds, rows_of

__all__ = ["long_inames", "widened"]

_WORD: Final[DType] = np.dtype("int32")
_LONG: Final = "int64"


def widened(kernel: LoopKernel, instruction: Instruction, expr: Expression, type_of: TypeOf) -> Expression:
    """Return *expr* of *instruction*, with a cast to int64 if it is an index expression that int32 may not hold.

    ::

        i    ->   i                  0 <= i < n, n of type int32
        i    ->   cast(int64, i)     0 <= i < n, n of type int64
        i*i  ->   cast(int64, i*i)   0 <= i < n
        i*i  ->   i*i                0 <= i < 100
    """
    if isinstance(expr, p.If):
        then, orelse = (widened(kernel, instruction, part, type_of) for part in (expr.then, expr.else_))
        return p.If(expr.condition, then, orelse)

    def is_index(name: str) -> bool:
        dtype = type_of(name)
        is_size = name in instruction.inames or name in kernel.parameters
        return is_size and dtype is not None and is_signed(dtype) and dtype.itemsize >= _WORD.itemsize

    if not isinstance(expr, p.ExpressionNode) or not is_index_value(expr, is_index):
        return expr
    if kernel.index_dtype != _WORD or _fits(kernel, instruction, expr, type_of):
        return expr
    return TypeCast(_LONG, expr)


def long_inames(kernel: LoopKernel, type_of: TypeOf) -> frozenset[str]:
    """Return the inames that are int64 if used as values: those bounded by 64-bit sizes, or by such inames.

    A 64-bit size that the assumptions keep within 32 bits does not count.  Transforms that replace inames by others
    keep the type: after a split, the constraint with the size still has one of the new inames.
    """
    found = {name for name in kernel.parameters if _is_long(kernel, name, type_of(name))}
    for domain in kernel.domains:
        found |= {n for n in bound_variables(domain.set, kernel.parameters) if _is_beyond(type_of(n))}
    if not found:
        return frozenset()
    together = [
        names
        for domain in kernel.domains
        for basic in domain.set.compute_divs().get_basic_sets()
        for row in rows_of(basic, domain.inames)
        if (names := row.form.names())
    ]
    inames = {*kernel.inames}
    while more := {name for names in together if not found.isdisjoint(names) for name in inames & names} - found:
        found |= more
    return frozenset(found & inames)


def _is_beyond(dtype: DType | None) -> bool:
    """Return True if a type is an integer type with values greater than int32 holds."""
    return dtype is not None and is_integer(dtype) and integer_limits(dtype)[1] > integer_limits(_WORD)[1]


def _is_long(kernel: LoopKernel, name: str, dtype: DType | None) -> bool:
    if not _is_beyond(dtype):
        return False
    low, high = integer_limits(_WORD)
    beyond = Affine(((name, 1),), -high - 1), Affine(((name, -1),), low - 1)
    return not all(add_rows(kernel.assumptions, (), [Row(side)]).is_empty() for side in beyond)


def _fits(kernel: LoopKernel, instruction: Instruction, expr: Expression, type_of: TypeOf) -> bool:
    """Return True if int32 holds *expr* for all instances of *instruction*, and all sizes that fit their types."""
    try:
        with aside():
            domain, dims = _with_sizes(kernel, instruction, type_of)
            if not variables(expr) <= {*dims}:
                return False
            low, high = integer_limits(_WORD)
            form = affine_of(expr)
            if form is not None:
                beyond = (form.add(Affine((), -high - 1)), form.scale(-1).add(Affine((), low - 1)))
                return all(add_rows(domain, dims, [Row(side)]).is_empty() for side in beyond)
            box = {}
            for name in variables(expr):
                least, most = constant_bounds(domain, dims.index(name))
                if least is None or most is None:
                    return False
                box[name] = (least, most)
    except NoAnswer as error:
        entry = (instruction.id, _left_open(instruction, expr, error))
        warn("make_kernel", kernel.name, [entry], kernel.silenced_warnings)
        return False
    found = value_range(expr, box) if is_computed(expr) else None
    return found is not None and low <= found[0] and found[1] <= high


def _left_open(instruction: Instruction, expr: Expression, error: NoAnswer) -> Diagnostic:
    return Diagnostic(
        "left-open",
        f"not proven that int32 holds '{show(expr)}' in '{instruction.id}': it is int64",
        (f"ISL {error.reason}",),
        ("declare the type of the assigned variable, or bound the sizes by assumptions",),
        sites=(instruction.site(),),
    )


def _with_sizes(kernel: LoopKernel, instruction: Instruction, type_of: TypeOf) -> tuple[isl.Set, tuple[str, ...]]:
    """Return the instances of *instruction* for all sizes that fit their types, and its dimensions, sizes included."""
    domain = instruction.domain.intersect_params(kernel.assumptions)
    names = parameters_of(domain)
    rows = []
    for name in names:
        dtype = type_of(name) or _WORD  # a bound variable may have no type yet
        if is_integer(dtype):
            low, high = integer_limits(dtype)
            rows += [Row(Affine(((name, 1),), -low)), Row(Affine(((name, -1),), high))]
    count = len(instruction.inames)
    domain = add_rows(domain, instruction.inames, rows)
    return domain.move_dims(isl.dim_type.set, count, isl.dim_type.param, 0, len(names)), (*instruction.inames, *names)
