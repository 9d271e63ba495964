"""Instructions from drafts: inames in loop order, iteration domains, reads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cache

import islpy as isl
import pymbolic.primitives as p

from polyloop.errors import KernelError
from polyloop.expr.nodes import Expression, array_name, element_of, targets_of
from polyloop.expr.rewrite import reductions, variables
from polyloop.kernel.build.domains.data_bounds import BoundVariables
from polyloop.kernel.build.domains.ranges import outermost
from polyloop.kernel.build.draft import Draft, fail, site_of
from polyloop.kernel.build.text_order import nest_order
from polyloop.kernel.domains import bound_variables, condition_set, domain_for, outer_inames
from polyloop.kernel.instruction import Copy, Instruction, Term
from polyloop.kernel.kernel import Domain, LoopKernel
from polyloop.poly.affine import Affine
from polyloop.poly.sets import parameter_space

__all__ = ["instructions_of", "term_domains"]

_SET = isl.dim_type.set


def instructions_of(kernel: LoopKernel, drafts: Sequence[Draft], bounds: BoundVariables) -> dict[str, Instruction]:
    """Return the instructions by id, with inames in loop order, iteration domains and reads.

    Raises
    ------
    KernelError
        ``bad-bound``.
    """
    space = parameter_space(kernel.parameters)
    outside = _outside(kernel, drafts, bounds)
    position = {iname: i for i, iname in enumerate(kernel.inames)}
    uses = Counter(iname for draft in drafts for iname in draft.inames)
    built = {}
    over = cache(lambda nest: domain_for(kernel.domains, nest, space))
    nested = cache(lambda own, written: nest_order(own, written, kernel.loop_priority, uses, position, outside))
    forms = cache(lambda inames: {x: Affine.variable(x) for x in inames})
    bounded = cache(lambda nest: frozenset(bound_variables(over(nest), kernel.parameters)))
    for draft in drafts:
        parsed = draft.parsed
        nest = nested(draft.inames, parsed.loops.written)
        domain = over(nest)
        predicates = []
        for predicate in parsed.predicates:
            narrowed = None
            if bounds.names.isdisjoint(variables(predicate)):
                narrowed = condition_set(predicate, domain, nest)
            if narrowed is None:
                predicates.append(predicate)
            else:
                domain = narrowed
        terms = term_domains(kernel.domains, nest, domain, draft.expanded, space)
        bound = {iname for reduction in reductions(draft.expanded) for iname in reduction.inames}
        reads = variables(draft.expanded).difference(bound, nest)
        for element in map(element_of, targets_of(parsed.assignee)):
            if isinstance(element, p.Subscript):
                reads = reads.union(*map(variables, element.index_tuple))
        for predicate in predicates:
            reads |= variables(predicate)
        reads |= bounded(nest) if domain is over(nest) else {*bound_variables(domain, kernel.parameters)}
        for term in terms:
            reads |= {*bound_variables(term.domain, kernel.parameters)}
        if predicates and any(targets_of(parsed.assignee, name) for name in bounds.names):
            raise _conditional_bound(draft)
        built[draft.id] = Instruction(
            id=draft.id,
            inames=nest,
            domain=domain,
            assignee=parsed.assignee,
            expression=parsed.expression,
            origin=Copy(draft.id, forms((*nest, *sorted(bound)))),
            terms=terms,
            predicates=tuple(predicates),
            tags=frozenset(parsed.options.tags),
            groups=frozenset(parsed.options.order.groups),
            conflicts=frozenset(parsed.options.order.conflicts),
            blocks=parsed.loops.blocks(),
            place=parsed.place,
            reads=reads - frozenset(nest),
            atomic=parsed.options.atomic,
            fast=parsed.options.fast,
        )
    return built


def _outside(
    kernel: LoopKernel, drafts: Sequence[Draft], bounds: BoundVariables
) -> dict[str, frozenset[str]]:
    """Return iname -> inames outside of it: those in its bounds, and those of instructions that set its bounds."""
    writers = {name: draft.inames for draft in drafts for name in map(array_name, targets_of(draft.parsed.assignee))}
    found = outer_inames(kernel.domains)
    return {
        iname: outer.union(*(writers.get(name, ()) for name in bounds.of.get(iname, ())))
        for iname, outer in found.items()
    }


def _conditional_bound(draft: Draft) -> KernelError:
    return fail(
        "bad-bound",
        f"'{array_name(draft.parsed.assignee)}' bounds a loop and is assigned only under a condition",
        hints=("give it a value in every case: <> t = if(condition, a, b)",),
        site=site_of(draft.parsed, draft.id),
    )


def term_domains(
    domains: Sequence[Domain], inames: tuple[str, ...], domain: isl.Set, expanded: Expression, space: isl.Set
) -> tuple[Term, ...]:
    """Return the iteration domain of each reduction in *expanded*, inside an instruction over *inames*."""
    if not reductions(expanded):
        return ()
    terms: list[Term] = []

    def visit(expr: Expression, dims: tuple[str, ...], around: isl.Set) -> None:
        for reduction in outermost(expr):
            inside = (*dims, *reduction.inames)
            whole = domain_for(domains, inside, space)
            wider = isl.Set.universe(whole.get_space())
            narrowed = whole.intersect(_widen(around, wider, len(dims)))
            terms.append(Term(inside, narrowed))
            visit(reduction.expr, inside, narrowed)

    visit(expanded, inames, domain)
    return tuple(terms)


def _widen(domain: isl.Set, universe: isl.Set, count: int) -> isl.Set:
    extra = universe.dim(_SET) - count
    result = domain.insert_dims(_SET, count, extra)
    for position in range(count, count + extra):
        result = result.set_dim_name(_SET, position, universe.get_dim_name(_SET, position) or "")
    return result
