"""Reductions in two stages: the inner one gives partial results, which the outer one combines."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

import islpy as isl

from polyloop.expr.nodes import Expression, Reduction
from polyloop.expr.operations import combining
from polyloop.expr.rewrite import children, rebuild, reductions
from polyloop.expr.rules import expand_rules
from polyloop.frozen import replace
from polyloop.kernel.instruction import Instruction, SubstitutionRule, Term
from polyloop.poly.sets import project_onto, reorder

__all__ = ["Stages", "in_stages"]

Stages: TypeAlias = Callable[[Reduction], tuple[str, ...]]
"""Function of a reduction: its inames in the outer stage; none, or all, if it stays one reduction."""


def in_stages(instruction: Instruction, rules: Mapping[str, SubstitutionRule], outer: Stages) -> Instruction:
    """Return *instruction* with its reductions in two stages, as *outer* says; the same one if all stay."""
    expanded = expand_rules(instruction.expression, rules)
    if all(len(_parts(reduction, outer)) == 1 for reduction in reductions(expanded)):
        return instruction
    terms: list[Term] = []
    left = iter(instruction.terms)

    def visit(expr: Expression, around: tuple[str, ...]) -> None:
        """Collect the terms inside *expr*, which is inside the loops *around*, in their new order."""
        if not isinstance(expr, Reduction):
            for child in children(expr):
                visit(child, around)
            return
        term = next(left)
        inames = around
        for part in _parts(expr, outer):
            inames = (*inames, *part)
            terms.append(Term(inames, _onto(term.domain, term.inames, inames)))
        visit(expr.expr, inames)

    visit(expanded, instruction.inames)
    expression = _divided(instruction.expression, outer)
    if expand_rules(expression, rules) != _divided(expanded, outer):
        expression = _divided(expanded, outer)
    return replace(instruction, expression=expression, terms=tuple(terms))


def _parts(reduction: Reduction, outer: Stages) -> list[tuple[str, ...]]:
    """Return the inames of each stage, the outer one first."""
    first = outer(reduction)
    rest = tuple(name for name in reduction.inames if name not in first)
    return [first, rest] if first and rest else [reduction.inames]


def _divided(expr: Expression, outer: Stages) -> Expression:
    old = children(expr)
    new = tuple(_divided(child, outer) for child in old)
    result = expr if all(a is b for a, b in zip(old, new, strict=True)) else rebuild(expr, new)
    if not isinstance(result, Reduction):
        return result
    parts = _parts(result, outer)
    if len(parts) == 1:
        return result
    return Reduction(combining(result.operation), parts[0], Reduction(result.operation, parts[1], result.expr))


def _onto(domain: isl.Set, old: tuple[str, ...], new: tuple[str, ...]) -> isl.Set:
    return reorder(domain, old, new) if len(old) == len(new) else project_onto(domain, old, new).coalesce()
