"""The order in which reductions combine their terms, where it matters: ``ordered(sum)``, ``segmented(sum)``."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import islpy as isl

from polyloop.dataflow.conflicts import conflicts, equal_on
from polyloop.errors import Diagnostic, WitnessKind
from polyloop.mapping.thread_mapping import Placed, reference_map
from polyloop.poly.sets import lex_relation
from polyloop.proof.obligation import Claim, Obligation
from polyloop.proof.witness import instance, pair, witness
from polyloop.verification.correspondence import Comparison, copies
from polyloop.verification.scan_terms import reduction_of, reductions_in_parts

__all__ = ["term_order_obligations"]


def term_order_obligations(comparison: Comparison) -> Iterator[Obligation]:
    """Yield the reductions with an ordered operation, whose terms must be combined in the order of the program."""
    in_parts = reductions_in_parts(comparison)
    for reference in comparison.old.statements.values():
        operation = reference.lowered.operation
        if reference.lowered.role != "update" or operation is None or not operation.ordered:
            continue
        if reduction_of(reference) not in in_parts:
            says = f"the terms of '{operation}' in '{reference.lowered.instruction.id}' are combined in their order"
            by = "pairs of terms of one result, against the program's"
            yield Obligation(Claim.TERMS, f"'{reference.name}'", says, by, partial(_reordered, comparison, reference))


def _reordered(comparison: Comparison, reference: Placed) -> tuple[Diagnostic, ...]:
    wanted = _order(comparison, reference)
    new = comparison.new
    statements = list(copies(comparison, reference))
    for first in statements:
        for second in statements:
            back, there = reference_map(first, reference), reference_map(second, reference)
            pairs = back.apply_range(wanted).apply_range(there.reverse())
            pairs = equal_on(pairs, first, second, tuple(first.repeated & second.repeated))
            for backward in conflicts(new, second, first, pairs.reverse()):
                late, early = pair(backward.relation, second, first)
                what = "at the same time" if backward.simultaneous else "in another order"
                before, after = instance(first, early), instance(second, late)
                finding = Diagnostic(
                    "illegal-order",
                    f"terms of '{reference.lowered.operation}' would be combined {what}",
                    (f"the term of instance {before} comes before that of instance {after} in the program",),
                    ("keep the order of the reduction's loops, or reduce without 'ordered' if any order will do",),
                    sites=(first.lowered.instruction.site(),),
                    witness=witness(WitnessKind.REORDERED, (first, first.lowered.write, early), (first, early),
                                    (second, late)),
                )
                return (finding,)
    return ()


def _order(comparison: Comparison, reference: Placed) -> isl.Map:
    """Return the pairs of instances whose terms belong to one result, the earlier term first."""
    lowered = reference.lowered
    around = [n for n, name in enumerate(reference.dims) if name not in lowered.own]
    own = [reference.dims.index(name) for name in lowered.own]
    space = reference.domain.get_space().map_from_set()
    together = [(n, n) for n in around]
    result = isl.Map.empty(space)
    if lowered.joined:
        for conflict in conflicts(comparison.old, reference, reference, lex_relation(space, together, None)):
            result = result.union(conflict.relation)
    else:
        for position, dim in enumerate(own):
            equal = [*together, *((n, n) for n in own[:position])]
            result = result.union(lex_relation(space, equal, (dim, dim)))
    return result.intersect_domain(reference.domain).intersect_range(reference.domain)
