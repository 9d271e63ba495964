"""Modular counterparts of kernels: floating-point numbers replaced by integers modulo 2^32, and nothing else.

Only expressions and types change: domains, loops, tags, temporaries, rules of placement stay, so that the code
generated for the result has the barriers, guards and addresses of the code that is to be tried.  Where a kernel has no
such counterpart, :class:`NoIntegersError` says why.
"""

from __future__ import annotations

from dataclasses import replace

from polyloop.expr.dtypes import DType
from polyloop.expr.foreign import ForeignName, foreign_calls
from polyloop.expr.functions import FUNCTIONS
from polyloop.expr.promotion import settle
from polyloop.expr.rewrite import reductions
from polyloop.expr.rules import expand_rules
from polyloop.kernel.arrays import Table, TemporaryVariable
from polyloop.kernel.instruction import Instruction
from polyloop.kernel.kernel import LoopKernel
from polyloop.program.infer_types import dtype_table, require_dtypes
from polyloop.testing.drawing.words import Mapper, NoIntegersError, holds_real
from polyloop.testing.integers import (
    hash_function,
    integer_dtype,
    integers_of,
)
from polyloop.testing.sources import steered_by

__all__ = ["has_real_numbers", "with_integers"]

def has_real_numbers(kernel: LoopKernel) -> bool:
    """Return whether *kernel* computes with floating-point numbers; otherwise it is its own counterpart."""
    typed = require_dtypes(kernel)
    known = {**typed.values(), **typed.arrays()}
    return any(holds_real(value.dtype) for value in known.values())


def with_integers(kernel: LoopKernel) -> LoopKernel:
    """Return *kernel* with integers modulo 2^32 for its floating-point numbers, its reference program included.

    Raises
    ------
    NoIntegersError
        With the reason.
    """
    typed = require_dtypes(kernel)
    reference = typed.reference
    assert reference is not None, "the kernel has no reference program"
    base = require_dtypes(reference.kernel)
    name = next(
        wish for number in range(1_000_000)
        if (wish := f"hashed{number or ''}") not in typed.names() | base.names() | FUNCTIONS.keys()
    )
    function = hash_function(name)
    changed = _changed_kernel(typed, function)
    return replace(changed, made=None, reference=replace(reference, kernel=_changed_kernel(base, function)))


# {{{ kernels


def _changed_kernel(kernel: LoopKernel, function: ForeignName) -> LoopKernel:
    table = dtype_table(kernel)
    mapper = Mapper(table, function)
    instructions = tuple(_changed_instruction(kernel, old, mapper) for old in kernel.instructions)
    changed = {name for name, dtype in table.items() if holds_real(dtype)}
    for old, new in zip(kernel.instructions, instructions, strict=True):
        if (new.expression, new.predicates) != (old.expression, old.predicates):
            changed.update(old.writes)
    for name, what in steered_by(kernel, changed).items():
        raise NoIntegersError(f"{what} depends on '{name}', whose values come from floating-point numbers")
    expressions = [part for new in instructions for part in (new.assignee, new.expression, *new.predicates)]
    foreign = dict.fromkeys(f for expr in expressions for name in foreign_calls(expr) for f in name.overloads)
    return replace(
        kernel,
        instructions=instructions,
        arguments=tuple(replace(old, dtype=_changed_dtype(old.dtype)) for old in kernel.arguments),
        temporaries={name: _changed_temporary(old) for name, old in kernel.temporaries.items()},
        substitutions={},
        foreign=tuple(foreign),
    )


def _changed_dtype(dtype: DType | None) -> DType | None:
    return None if dtype is None else integer_dtype(dtype)


def _changed_temporary(old: TemporaryVariable) -> TemporaryVariable:
    table = None if old.initializer is None else Table.of(integers_of(old.initializer.array))
    return replace(old, dtype=_changed_dtype(old.dtype), initializer=table)


def _changed_instruction(kernel: LoopKernel, old: Instruction, mapper: Mapper) -> Instruction:
    if old.is_c:
        raise NoIntegersError(f"'{old.id}' is C text, which computes with floating-point numbers as it likes")
    expression = expand_rules(old.expression, kernel.substitutions)
    predicates = [expand_rules(part, kernel.substitutions) for part in old.predicates]
    kind = mapper.kind(old.assignee)
    new = mapper.stored(expression, settle(kind))
    if len(reductions(new)) != len(reductions(expression)):
        raise NoIntegersError(f"'{old.id}' takes apart the results of a function of a reduction")
    assignee = mapper.same(old.assignee)
    return replace(old, assignee=assignee, expression=new, predicates=tuple(map(mapper.same, predicates)))


# }}}
