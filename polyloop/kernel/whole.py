"""Checks of a kernel that was read from its form: its parts have to fit each other, as those of every kernel do."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import islpy as isl
import pymbolic.primitives as p

from polyloop.errors import Diagnostic
from polyloop.expr.foreign import ForeignName
from polyloop.expr.names import check_identifier, is_identifier
from polyloop.expr.nodes import Expression, array_name
from polyloop.expr.rewrite import accesses, calls, variables
from polyloop.kernel.arrays import TemporaryVariable
from polyloop.kernel.instruction import Instruction, SubstitutionRule
from polyloop.kernel.kernel import LoopKernel
from polyloop.kernel.tree import runs
from polyloop.kernel.well_formed import array_faults, expression_faults, origin_faults, table_faults

__all__ = ["faults"]


def faults(kernel: LoopKernel) -> Iterator[str]:
    """Yield the faults of a kernel that was not made by ``make_kernel`` and transforms in this process."""
    yield from _names(kernel)
    yield from array_faults(kernel)
    yield from table_faults(kernel)
    if kernel.assumptions.dim(isl.dim_type.set) or not _is_over(kernel.assumptions, (), kernel):
        yield "its assumptions are not about its parameters"
    for domain in kernel.domains:
        if not _is_over(domain.set, domain.inames, kernel, also=kernel.names()):
            yield f"a domain is not over {', '.join(domain.inames)}"
    seen: set[str] = set()
    for instruction in kernel.instructions:
        if instruction.id in seen:
            yield f"two instructions are called '{instruction.id}'"
        seen.add(instruction.id)
        yield from (f"instruction '{instruction.id}': {why}" for why in _instruction(kernel, instruction))
    for unknown in sorted({name for i in kernel.instructions for name in i.depends_on} - seen):
        yield f"there is no instruction '{unknown}' to come first"
    yield from _trees(kernel)


def _names(kernel: LoopKernel) -> Iterator[str]:
    for name in (*kernel.names(), *(i.id for i in kernel.instructions)):
        if not _is_name(name):
            yield f"{name!r} is no name"
    problem: Diagnostic | None = check_identifier(kernel.name, "kernel name")
    if problem is not None:
        yield problem.message
    listed = (*kernel.inames, *kernel.parameters)
    if len(set(listed)) < len(listed):
        yield "an iname or a parameter is there twice"
    named: Iterable[tuple[str, TemporaryVariable | SubstitutionRule]]
    named = (*kernel.temporaries.items(), *kernel.substitutions.items())
    for name, entry in named:
        if entry.name != name:
            yield f"'{name}' is called '{entry.name}'"
    for iname in kernel.iname_tags:
        if iname not in kernel.inames:
            yield f"there is no iname '{iname}' to have a tag"


def _is_name(name: object) -> bool:
    """Return whether *name* is spelt as a name: foreign functions may be in a namespace of C++."""
    if not isinstance(name, str):
        return False
    return all(is_identifier(part) or part.strip("_").isidentifier() for part in name.split("::"))


def _is_over(found: isl.Set, inames: Iterable[str], kernel: LoopKernel, also: Iterable[str] = ()) -> bool:
    """Return whether the dimensions of a set are *inames*, and its parameters the kernel's or among *also*."""
    dims = [found.get_dim_name(isl.dim_type.set, k) for k in range(found.dim(isl.dim_type.set))]
    params = {found.get_dim_name(isl.dim_type.param, k) for k in range(found.dim(isl.dim_type.param))}
    return dims == [*inames] and params <= {*kernel.parameters, *also}


def _instruction(kernel: LoopKernel, instruction: Instruction) -> Iterator[str]:
    if not {*instruction.inames} <= {*kernel.inames}:
        yield "it has inames that the kernel has not"
    if not _is_over(instruction.domain, instruction.inames, kernel, also=kernel.names()):
        yield "its domain is not over its inames"
    count = len(instruction.inames)
    for term in instruction.terms:
        fits = _is_over(term.domain, term.inames, kernel, also=kernel.names())
        if not fits or term.inames[:count] != instruction.inames:
            yield "the domain of a reduction is not over its inames"
    if not instruction.reads <= kernel.names():
        yield f"it reads {', '.join(sorted(instruction.reads - kernel.names()))}, which the kernel has not"
    for expr in (*instruction.assignees, instruction.expression, *instruction.predicates):
        yield from _expression(kernel, expr)
    yield from expression_faults(kernel, instruction)
    for name in instruction.writes:
        if name not in kernel.arrays():
            yield f"it assigns '{name}', which is no array of the kernel"


def _expression(kernel: LoopKernel, expr: Expression) -> Iterator[str]:
    unknown = variables(expr) - kernel.names()
    if unknown and not isinstance(expr, p.Variable):
        yield f"it mentions {', '.join(sorted(unknown))}, which the kernel has not"
    arrays = kernel.arrays()
    for access in accesses(expr):
        array = arrays.get(array_name(access))
        count = len(access.index_tuple) if isinstance(access, p.Subscript) else 0
        if array is not None and array.shape is not None and count and count != len(array.shape):
            yield f"'{array_name(access)}' has {count} subscripts, and {len(array.shape)} axes"
    for call in calls(expr):
        found = call.function
        if isinstance(found, ForeignName) and not {*found.overloads} <= {*kernel.foreign}:
            yield f"it calls '{found.name}', which is no function of the kernel"


def _trees(kernel: LoopKernel) -> Iterator[str]:
    reference = kernel.reference
    if reference is None:
        return
    known = {i.id for i in reference.kernel.instructions}
    for name in runs(reference.tree):
        if name not in known and name not in reference.steps:
            yield f"its program runs '{name}', which is none of its instructions"
    yield from origin_faults(kernel, {i.id: i for i in reference.kernel.instructions}, reference.kernel)
