"""Partial results of reductions: each is combined exactly once, where it is and through temporaries.

A transform makes two reductions of one, ``sum(k_outer, sum(k_inner, a[..]))``; the operation of the outer one is
``of_states``.  The inner one has the terms, which :mod:`polyloop.verification.values` counts: each exactly once among
all partial results.  What is shown here is that the outer one combines each of these exactly once for its result, and
nothing else.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import partial

import islpy as isl
import pymbolic.primitives as p

from polyloop.errors import Diagnostic
from polyloop.expr.nodes import Operation, array_name
from polyloop.expr.printer import show
from polyloop.frozen import replace
from polyloop.kernel.instruction import Copy, Partial
from polyloop.mapping.thread_mapping import Placed, Placement
from polyloop.poly.affine import Affine
from polyloop.poly.budget import looking_at
from polyloop.poly.sets import map_from_forms, project_onto
from polyloop.program.lower import Access, Lowered
from polyloop.proof.obligation import Claim, Obligation
from polyloop.verification.accumulators import same_instance
from polyloop.verification.correspondence import Comparison

__all__ = [
    "bare_reduction",
    "bare_updates",
    "combiner",
    "evaluated",
    "identity",
    "outermost",
    "partial_obligations",
    "result_of",
]


def partial_obligations(comparison: Comparison) -> Iterator[Obligation]:
    """Yield what has to hold of each reduction that combines the results of partial ones."""
    for statement in comparison.new.statements.values():
        lowered = statement.lowered
        if isinstance(lowered.instruction.origin, Partial) or lowered.along or comparison.part_of(lowered.rhs):
            continue  # scan_terms finds the terms of each result
        if lowered.role == "update" and lowered.operation is not None and lowered.operation.of_states:
            name = lowered.write.array
            says = f"the reduction of '{lowered.instruction.id}' in '{name}' combines each partial result exactly once"
            by = "instances that combine, against those that begin a partial result"
            yield Obligation(Claim.REDUCTION, f"partial results of '{name}'", says, by,
                             partial(_combined, comparison, statement))  # fmt: skip


def identity(statement: Placed) -> isl.Map:
    """Return ``{ instance -> the same instance }``."""
    forms = [Affine.variable(name) for name in statement.dims]
    return map_from_forms(statement.domain, statement.dims, forms)


def combiner(placement: Placement, part: Lowered) -> Lowered:
    """Return the statement that does for the reduction of partial results what *part* does for a partial one."""
    return next(
        s.lowered
        for s in placement.statements.values()
        if s.lowered.instruction is part.instruction
        and s.lowered.role == part.role
        and s.lowered.number == part.partial_of
    )


def _stages(comparison: Comparison, statement: Placed) -> Iterator[Placed]:
    """Yield what combines the partial results of *statement*, of what that collects, and so on, in one instruction.

    Reductions of partial results that the program has itself are not among them.
    """
    while statement.lowered.partial_of is not None:
        statement = comparison.new.statements[combiner(comparison.new, statement.lowered).name]
        if isinstance(statement.lowered.instruction.origin, Copy) and not comparison.combines(statement):
            return
        yield statement


def outermost(comparison: Comparison, statement: Placed) -> Placed:
    """Return what *statement*, of a reduction of the program, is for the whole one, of which its own is a part."""
    return [statement, *_stages(comparison, statement)][-1]


def result_of(comparison: Comparison, statement: Placed) -> isl.Map:
    """Return ``{ instance that combines a partial result -> result }``: the loops around the stages it is part of."""
    own = {name for stage in (statement, *_stages(comparison, statement)) for name in stage.lowered.own}
    return map_from_forms(statement.domain, statement.dims, forms_besides(statement, own))


def forms_besides(statement: Placed, inames: Collection[str]) -> list[Affine]:
    """Return what an instance is known by apart from *inames*: the other loops, threads, and digits of these."""
    forms = {x: statement.forms.get(x) or Affine.variable(x) for x in statement.lowered.inames}
    spread = {name for x in inames for name in forms[x].names()}
    keep = [Affine.variable(name) for name in statement.dims if name not in spread]
    return keep + [form for x, form in forms.items() if x not in inames and not spread.isdisjoint(form.names())]


def evaluated(whole: Placed, part: Placed) -> isl.Map:
    """Return ``{ instance of an instruction -> instances that the value of its reductions comes from }``.

    Where a reduction is spread over threads, what one of them assigns comes from all of them.
    """
    inside = {x for x in part.lowered.inames if x not in part.lowered.instruction.inames}
    spread = {name for x in inside if x in part.forms for name in part.forms[x].names()}
    if not spread:
        return same_instance(whole, part)
    common = [name for name in whole.dims if name in part.dims and name not in spread]
    shared = [x for x in whole.lowered.inames if x in whole.forms and not spread.isdisjoint(whole.forms[x].names())]
    left = [*map(Affine.variable, common), *(whole.forms[x] for x in shared)]
    right = [*map(Affine.variable, common), *(part.forms[x] for x in shared)]
    there = map_from_forms(whole.domain, whole.dims, left)
    return there.apply_range(map_from_forms(part.domain, part.dims, right).reverse())


def _combined(comparison: Comparison, statement: Placed) -> Iterator[Diagnostic]:
    """Yield that *statement* would not combine each partial result once."""
    new = comparison.new
    operation = statement.lowered.operation
    assert operation is not None, f"{statement.name} belongs to no reduction"
    operand = statement.lowered.rhs
    site = (statement.lowered.instruction.site(),)
    if not _holds_states(comparison, operation, statement.lowered.rhs):
        yield Diagnostic(
            "not-proven",
            f"'{show(operand)}', which '{operation}' combines, is not seen to be a partial result",
            hints=("leave the results of the inner reduction as they are",),
            sites=site,
        )
        return
    name = array_name(operand)
    if name in new.program.accumulators:
        inner = next(
            s for s in new.statements.values() if s.lowered.role == "update" and s.lowered.write.array == name
        )
        looking_at(statement, inner)
        begun = project_onto(inner.exact, inner.dims, statement.dims)
        once = bool(begun.is_subset(statement.exact))
    else:
        access = next(read for read in statement.lowered.reads if read.array == name)
        looking_at(statement, access)
        sources, _ = comparison.flow(name).of(statement, access)
        result = result_of(comparison, statement)
        once = all(link.range_product(result).is_injective() for _, link in sources)
    if not once:
        yield Diagnostic(
            "term-twice",
            f"the reduction in '{statement.lowered.instruction.id}' would not count each of its terms once",
            (f"its partial results '{show(operand)}' would not be combined once each",),
            sites=site,
        )


def _holds_states(comparison: Comparison, operation: Operation, value: object) -> bool:
    """Return whether *value* is what a reduction by *operation* has collected, in an accumulator or a temporary."""
    if not isinstance(value, p.Variable | p.Subscript):
        return False
    name = array_name(value)
    accumulator = comparison.new.program.accumulators.get(name)
    if accumulator is not None:
        return replace(accumulator.reduction.operation, of_states=operation.of_states) == operation
    filler = comparison.kernel.evaluations.get(name)
    if filler is None:
        return False
    written = [s.lowered for s in comparison.new.statements.values() if s.lowered.instruction.id == filler]
    return all(_holds_states(comparison, operation, s.rhs) for s in written if s.role == "plain")


def bare_updates(comparison: Comparison, array: str) -> list[Placed]:
    """Return the statements that collect terms which read no array, for a temporary that a transform made."""
    filler = comparison.kernel.evaluations.get(array)
    return [s for s in comparison.new.statements.values() if s.lowered.instruction.id == filler and _is_bare(s)]


def bare_reduction(comparison: Comparison, statement: Placed, access: Access) -> Placed | None:
    """Return the one reduction of the program, of terms that read no array, whose results *statement* reads.

    Other reads say by themselves what they stand for.  None where there are several reductions, or none.
    """
    origin = statement.lowered.instruction.origin
    if not isinstance(origin, Copy) or len(bare_updates(comparison, access.array)) != 1:
        return None
    old = [s for s in comparison.old.statements.values() if s.lowered.instruction.id == origin.instruction]
    updates = [s for s in old if s.lowered.role == "update"]
    return updates[0] if len(updates) == 1 and _is_bare(updates[0]) else None


def _is_bare(statement: Placed) -> bool:
    reads = (read for read in statement.lowered.reads if not statement.lowered.is_write(read))
    return statement.lowered.role == "update" and not any(read.leaf is not None or read.is_bound for read in reads)
