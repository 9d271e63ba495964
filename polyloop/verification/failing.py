"""Evaluations that may fail: they run only for instances for which the program evaluates them.

A transform may compute a value ahead of its use, and for more instances than use it.  For most expressions that costs
time alone.  A division by zero stops the program, and so may an element whose subscript data decides
(:func:`polyloop.program.conditions.may_fail`).  For these,

* each value that is stored ahead is read by an instance of the program, under no condition on data;
* each term of a scan or of a partial sum is a term of a result.

Conditions inside of an expression are part of its text, which is compared with the program's.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import islpy as isl

from polyloop.dataflow.copy_links import copy_link, copy_pairs
from polyloop.dataflow.value_flow import readers_of, writers_of
from polyloop.errors import Diagnostic
from polyloop.expr.nodes import Expression
from polyloop.expr.printer import show
from polyloop.expr.rules import expand_rules
from polyloop.kernel.instruction import Carry, Copy, Partial
from polyloop.mapping.thread_mapping import Placed, free_inames, reference_map
from polyloop.poly.budget import looking_at
from polyloop.program.conditions import may_fail, may_fail_in
from polyloop.program.ir import Update
from polyloop.proof.obligation import Claim, Obligation
from polyloop.proof.witness import instance, pair
from polyloop.verification.correspondence import Comparison

__all__ = ["failure_obligations", "may_fail_elsewhere"]

_SET = isl.dim_type.set


def failure_obligations(comparison: Comparison) -> Iterator[Obligation]:
    """Yield the obligations that what may fail runs only where the program evaluates it."""
    kernel = comparison.kernel
    fillers = {i.id: i for i in kernel.instructions if i.id in {*kernel.evaluations.values()}}
    for name, filler in kernel.evaluations.items():
        if filler in fillers and may_fail_in(kernel, fillers[filler].expression):
            says = f"each value of '{name}' that may fail is one that the program computes"
            by = "instances that store it, against reads under no condition on data"
            yield Obligation(Claim.VALUES, f"'{name}' where it may fail", says, by, partial(_unused, comparison, name))
    for statement in comparison.new.statements.values():
        if _is_shared(comparison, statement) and may_fail(kernel, statement.lowered.rhs):
            says = f"each term of '{statement.name}' that may fail is one of the program's"
            find = partial(_of_no_result, comparison, statement)
            subject = f"'{statement.name}' where it may fail"
            yield Obligation(Claim.COVERAGE, subject, says, "terms of results of the program", find)


def _unused(comparison: Comparison, array: str) -> Iterator[Diagnostic]:
    """Yield a diagnostic for a writer of *array* with instances whose value the program may not compute."""
    reads = readers_of(comparison.new, array)
    for writer in writers_of(comparison.new, array):
        if isinstance(writer.lowered.instruction.origin, Carry):
            continue
        missing = _once(writer.domain, writer).subtract(_once(_used(comparison, writer, array), writer))
        if not missing.is_empty():
            held = next((r for r, a in reads if a.guards or r.lowered.is_conditional), None)
            yield _ahead(comparison, writer, missing, held)


def _used(comparison: Comparison, writer: Placed, array: str) -> isl.Set:
    """Return the instances of a writer whose value some read sees, or is on its way to a use, under no condition."""
    found = writer.domain.subtract(writer.domain)
    for arrival, starts in copy_pairs(comparison.new):
        if writer in starts:
            link, _ = copy_link(comparison.new, writer, arrival)
            found = found.union(link.intersect_domain(_used(comparison, arrival, array)).range())
    for reader, access in readers_of(comparison.new, array):
        looking_at(reader, access, writer)
        if access.guards or reader.lowered.is_conditional:
            continue
        for source, link in comparison.flow(array).of(reader, access)[0]:
            if source is writer:
                found = found.union(link.intersect_domain(reader.domain_of(access)).range())
    return found


def _once(instances: isl.Set, statement: Placed) -> isl.Set:
    """Return *instances* of a statement on all threads that repeat one of them."""
    for position, dim in enumerate(statement.dims):
        if dim in statement.repeated:
            instances = instances.project_out(_SET, position, 1).insert_dims(_SET, position, 1)
    return instances


def _is_shared(comparison: Comparison, statement: Placed) -> bool:
    """Return True if *statement* collects terms that several results share."""
    lowered = statement.lowered
    if not isinstance(lowered.part, Update) or not isinstance(lowered.instruction.origin, Copy | Partial):
        return False
    return not comparison.combines(statement) and bool(free_inames(statement, comparison.counterpart(statement)))


def _of_no_result(comparison: Comparison, statement: Placed) -> Iterator[Diagnostic]:
    """Yield a diagnostic if an instance of *statement* is a term of no result."""
    counterpart = comparison.counterpart(statement)
    looking_at(statement, counterpart)
    missing = statement.domain.subtract(reference_map(statement, counterpart).domain())
    if not missing.is_empty():
        why = f"one instance is {_example(statement, missing)}: it is a term of no result"
        yield may_fail_elsewhere(statement, statement.lowered.rhs, why)


def _ahead(comparison: Comparison, writer: Placed, missing: isl.Set, held: Placed | None) -> Diagnostic:
    value = expand_rules(writer.lowered.instruction.expression, comparison.kernel.substitutions)
    why = "no instance of the program uses it"
    if held is not None:
        why = f"'{held.lowered.instruction.id}' uses it where a condition on data holds"
    return may_fail_elsewhere(writer, value, f"one instance is {_example(writer, missing)}: {why}")


def _example(statement: Placed, instances: isl.Set) -> str:
    return instance(statement, pair(instances.identity(), statement, statement)[0])


def may_fail_elsewhere(statement: Placed, value: Expression, why: str) -> Diagnostic:
    """Return ``may-fail``: *statement* would compute *value* for instances for which the program does not."""
    instruction = statement.lowered.instruction
    return Diagnostic(
        "may-fail",
        f"'{instruction.id}' would compute '{show(value)}', which may fail, where the program does not",
        (why,),
        (
            "write the condition into the rule or the term, if(b[j] != 0, a[j]//b[j], 0), and use it under none; or "
            "leave it where it is",
        ),
        sites=(instruction.site(),),
    )
