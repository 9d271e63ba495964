"""Type inference of variables by a fixpoint over the assignments."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from functools import partial
from types import MappingProxyType
from typing import Final

import numpy as np
import pymbolic.primitives as p

from polyloop.errors import Diagnostic, VerificationError
from polyloop.expr.dtypes import computed, dtype_name, is_complex, is_integer
from polyloop.expr.fitting import check_stored
from polyloop.expr.nodes import Expression, array_name, field_path
from polyloop.expr.printer import show
from polyloop.expr.promotion import TypeConflictError, Weak, settle
from polyloop.expr.records import is_record
from polyloop.expr.rewrite import variables
from polyloop.expr.rules import expand_rules
from polyloop.expr.typing import infer, infer_type
from polyloop.frozen import replace
from polyloop.kernel.arrays import Argument, ValueArg
from polyloop.kernel.instruction import Instruction
from polyloop.kernel.kernel import LoopKernel, memoised
from polyloop.kernel.updates import EXCHANGE, Update, update_of
from polyloop.program.index_types import long_inames
from polyloop.program.lower import lower
from polyloop.program.open_types import settled_types

__all__ = [
    "accumulator_dtypes",
    "bound_violations",
    "dtype_table",
    "infer_dtypes",
    "open_names",
    "record_violations",
    "require_dtypes",
    "type_violations",
    "unknown_dtype",
    "untyped_operand",
]


_LONG: Final = np.dtype(np.int64)
_COMPARING: Final = frozenset({"min", "max"})


@memoised
def dtype_table(kernel: LoopKernel) -> Mapping[str, np.dtype[np.generic] | None]:
    """Return the type of every name: arrays, scalars, parameters, inames."""
    index = kernel.index_dtype
    table: dict[str, np.dtype[np.generic] | None] = dict.fromkeys(kernel.inames, index)
    for instruction in kernel.instructions:
        table.update(dict.fromkeys(instruction.inames, index))
        for term in instruction.terms:
            table.update(dict.fromkeys(term.inames, index))
    table.update((argument.name, argument.dtype) for argument in kernel.arguments)
    table.update((name, temporary.dtype) for name, temporary in kernel.temporaries.items())
    for name in kernel.parameters:
        table[name] = table.get(name) or index
    if index.itemsize < _LONG.itemsize:
        table.update(dict.fromkeys(long_inames(kernel, table.get), _LONG))
    return MappingProxyType(table)


def open_names(kernel: LoopKernel) -> frozenset[str]:
    """Return the names whose types are not known."""
    return frozenset(name for name, dtype in dtype_table(kernel).items() if dtype is None)


def infer_dtypes(
    kernel: LoopKernel, settle_all: bool = False, weak: Mapping[str, Weak] | None = None
) -> LoopKernel:
    """Return *kernel* with every type filled in that follows from the known ones.

    A variable takes the common type of everything assigned to it, in which constants adapt: a variable that starts as
    0.0 and has float32 numbers added is float32.  If only constants are assigned, the variable takes the type of the
    operands that it is combined with, or int32 or float64 if there are none (:mod:`polyloop.program.open_types`).  As
    long as such an operand has no type yet, the variable has none, unless *settle_all*.  Arguments in *weak* stand for
    constants of these kinds, and have the type of what they are combined with.  Types that stay open need
    :func:`polyloop.add_dtypes`.
    """
    unknown = open_names(kernel)
    if not unknown:
        return _with_dtypes(kernel, dtype_table(kernel))
    known = dtype_table(kernel)
    while True:
        found = _with_dtypes(kernel, settled_types(kernel, known, settle_all, weak))
        longer = {name: dtype_table(found)[name] for name in kernel.inames if dtype_table(found)[name] != known[name]}
        if not longer:
            return found
        known = {**known, **longer}  # bound variables have types now, and may make inames int64


def type_violations(kernel: LoopKernel) -> Iterator[Diagnostic]:
    """Yield diagnostics for expressions without a valid type, or of a type that the assignee cannot store.

    Examples are bit operations on floats, and a complex number stored in a real variable.  Unknown types are not
    checked; :func:`record_violations` checks those that inference finds.
    """
    table = dtype_table(kernel)
    for instruction in kernel.instructions:
        if instruction.is_c:
            continue
        expression = expand_rules(instruction.expression, kernel.substitutions)
        try:
            for part in instruction.predicates:
                infer(p.LogicalNot(part), table.get)  # a condition: neither a record nor a complex number
            target, kind = infer(instruction.assignee, table.get), infer_type(expression, table.get)
            if target is not None:
                check_stored(kind, target, expression, partial(infer_type, lookup=table.get))
        except TypeConflictError as conflict:
            yield replace(conflict.diagnostic, sites=(instruction.site(),))
            continue
        dtype = None if kind is None else settle(kind)
        if dtype is not None and target is not None and is_complex(dtype) and not is_complex(target):
            name = show(instruction.assignee) if field_path(instruction.assignee) else instruction.target
            message = f"a complex number is stored in '{name}', which is {dtype_name(target)}"
            hint = f"store real(...) or imag(...), or let '{name}' be {dtype_name(dtype)}"
            yield Diagnostic("type-conflict", message, hints=(hint,), sites=(instruction.site(),))
        elif instruction.atomic:
            yield from _atomic_violations(instruction, expression, dtype, table)


def _atomic_violations(
    instruction: Instruction,
    expression: Expression,
    found: np.dtype[np.generic] | None,
    table: Mapping[str, np.dtype[np.generic] | None],
) -> Iterator[Diagnostic]:
    """Yield a diagnostic if an atomic update, to *expression*, computes the value in *found*, not the element's type.

    Another integer type is accepted except for min and max: the low bits of sums, products and bit operations do not
    depend on the higher ones.  A value that is stored whatever the element held is converted, as by any assignment.
    """
    element = table.get(instruction.target)
    update = update_of(instruction.assignee, expression)
    if update is not None and update.operation == EXCHANGE:
        return
    if element is not None and update is not None and (narrow := _narrow_operand(update, element, table)) is not None:
        yield Diagnostic(
            "type-conflict",
            f"'{show(narrow)}' is no {dtype_name(element)} as '{instruction.target}' is, with which it is combined",
            ("an atomic update computes what it combines with the element before, and not in the element's type",),
            (f"convert each operand: cast({dtype_name(element)}, ...)",),
            sites=(instruction.site(),),
        )
    elif element is not None and found is not None and found != element:
        if is_integer(element) and is_integer(found) and update is not None and update.operation not in _COMPARING:
            return
        yield Diagnostic(
            "type-conflict",
            f"an atomic update of '{instruction.target}', which is {dtype_name(element)}, "
            f"would be computed in {dtype_name(found)}",
            hints=(f"convert the value that is combined with it: cast({dtype_name(element)}, ...)",),
            sites=(instruction.site(),),
        )


def _narrow_operand(
    update: Update, element: np.dtype[np.generic], table: Mapping[str, np.dtype[np.generic] | None]
) -> Expression | None:
    """Return an operand that is computed in another type than that of the *element* with which it is combined.

    One operand may have another type, as its value is converted.  Of several, or of a negative one, the value would be
    computed in their own type first, and wrap or be rounded there.
    """
    if update.operation not in {"sum", "product"}:
        return None
    parts: tuple[Expression, ...] = (update.operand,)
    if isinstance(update.operand, p.Sum if update.operation == "sum" else p.Product):
        parts = update.operand.children
    several = len(parts) > 1 and parts[0] != -1
    for part in parts if several else (update.operand,):
        try:
            kind = infer_type(part, table.get)
        except TypeConflictError:  # such as -2 beside an unsigned number
            return part
        if kind is None or isinstance(kind, Weak):
            continue
        first = part.children[0] if isinstance(part, p.Product) else 0
        is_negative = isinstance(first, int) and first < 0
        if is_integer(kind) and is_integer(element) and kind.itemsize >= element.itemsize:
            continue  # the low bits are right
        if kind != element and (several or (is_negative and is_integer(kind))):
            return part
    return None


def record_violations(kernel: LoopKernel, before: LoopKernel) -> Iterator[Diagnostic]:
    """Yield diagnostics for instructions with types found by inference: unknown fields, values that cannot be stored.

    Instructions whose types were all known in *before*, the kernel before inference, are left to
    :func:`type_violations`.
    """
    table, new = dtype_table(kernel), open_names(before)
    for instruction in kernel.instructions if new else ():
        if instruction.is_c:
            continue
        expression = expand_rules(instruction.expression, kernel.substitutions)
        if instruction.target not in new and new.isdisjoint(variables(expression)):
            continue
        try:
            target, kind = infer(instruction.assignee, table.get), infer_type(expression, table.get)
            if target is not None:
                check_stored(kind, target, expression, partial(infer_type, lookup=table.get))
            elif kind is not None and is_record(kind):
                yield _mixed(instruction)
        except TypeConflictError as conflict:
            yield replace(conflict.diagnostic, sites=(instruction.site(),))


def _mixed(instruction: Instruction) -> Diagnostic:
    name = array_name(instruction.assignee)
    return Diagnostic(
        "type-conflict",
        f"'{name}' is assigned a record, and something else",
        hints=(f"declare the type of '{name}'",),
        sites=(instruction.site(),),
    )


def bound_violations(kernel: LoopKernel) -> Iterator[Diagnostic]:
    """Yield a diagnostic for each bound variable that is no integer, or does not fit into 64-bit index arithmetic."""
    table = dtype_table(kernel)
    seen: set[str] = set()
    for statement in lower(kernel).statements.values():
        for name in statement.bounds:
            dtype = table.get(name)
            if dtype is None or name in seen or (dtype.kind in "iu" and dtype != np.dtype(np.uint64)):
                continue
            seen.add(name)
            yield Diagnostic(
                "type-conflict",
                f"'{name}' bounds a loop and is {dtype.name}",
                hints=(f"make it an integer of at most 63 bits: <int32> {name} = ...",),
                sites=(statement.instruction.site(),),
            )


def _with_dtypes(kernel: LoopKernel, table: Mapping[str, np.dtype[np.generic] | None]) -> LoopKernel:
    """Return *kernel* with types from *table* where it has none; the same object if nothing is added."""
    added = {name: dtype for name, dtype in table.items() if dtype is not None}
    arguments = {a.name: replace(a, dtype=added[a.name]) for a in kernel.arguments
                 if a.dtype is None and a.name in added}
    temporaries = {name: replace(entry, dtype=added[name]) for name, entry in kernel.temporaries.items()
                   if entry.dtype is None and name in added}
    if not arguments and not temporaries:
        return kernel
    listed = tuple(arguments.get(argument.name, argument) for argument in kernel.arguments)
    return replace(kernel, arguments=listed, temporaries={**kernel.temporaries, **temporaries})


def require_dtypes(kernel: LoopKernel) -> LoopKernel:
    """Return *kernel* with all types known.

    Raises
    ------
    VerificationError
        ``unknown-dtype`` for names without a type, and the diagnostics of :func:`type_violations`,
        :func:`record_violations` and :func:`bound_violations`.
    """
    if found := tuple(type_violations(kernel)):
        raise VerificationError("generate_code", kernel.name, found)
    before, kernel = kernel, infer_dtypes(kernel, settle_all=True)
    if found := (*record_violations(kernel, before), *bound_violations(kernel)):
        raise VerificationError("generate_code", kernel.name, found)
    unknown = [argument.name for argument in kernel.arguments if argument.dtype is None and not _is_layout(argument)]
    unknown += [name for name, temporary in kernel.temporaries.items() if temporary.dtype is None]
    if unknown:
        others = (*(argument.name for argument in kernel.arguments), *kernel.temporaries)
        raise VerificationError("generate_code", kernel.name, [unknown_dtype(unknown, others)])
    return kernel


def unknown_dtype(names: Sequence[str], others: Iterable[str] = ()) -> Diagnostic:
    """Return the diagnostic that the types of *names* are not known; one may be meant for one of the *others*."""
    typed = sorted(set(others).difference(names))
    near = [(name, found) for name in names for found in get_close_matches(name, typed, n=1, cutoff=0.75)]
    listed = ", ".join(f'"{name}": np.float32' for name in names)
    return Diagnostic(
        "unknown-dtype",
        f"the type of {', '.join(map(repr, names))} is not known",
        hints=(
            f"state it: knl = pl.add_dtypes(knl, {{{listed}}})",
            *(f"or did you mean '{found}' where the kernel says '{name}'?" for name, found in near),
        ),
    )


def untyped_operand(kernel: LoopKernel, operand: Expression) -> Diagnostic | None:
    """Return a diagnostic if the type of *operand*, which a rewrite needs, is not known, else None."""
    table = dtype_table(kernel)
    if infer(operand, table.get) is not None:
        return None
    return unknown_dtype(sorted(name for name in variables(operand) if name in table and table[name] is None))


def _is_layout(argument: Argument) -> bool:
    """Return True if *argument* is a stride or an offset, which have the type of index arithmetic."""
    return isinstance(argument, ValueArg) and argument.layout_of is not None


@memoised
def accumulator_dtypes(kernel: LoopKernel) -> Mapping[str, np.dtype[np.generic]]:
    """Return the type in which each reduction of *kernel* accumulates: that of its terms, float32 for 16-bit floats."""
    table = dtype_table(kernel)
    found: dict[str, np.dtype[np.generic]] = {}
    for name, accumulator in lower(kernel).accumulators.items():
        dtype = infer(accumulator.reduction, table.get)
        assert dtype is not None, f"accumulator {name} has an untyped term"
        found[name] = computed(dtype)
    return found
