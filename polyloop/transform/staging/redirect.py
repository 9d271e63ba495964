"""Redirected uses: instructions and rules that read a temporary in place of what it holds."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pymbolic.primitives as p

from polyloop.expr.nodes import Expression, Reduction, array_name, function_name
from polyloop.expr.rewrite import accesses, calls, children, rebuild
from polyloop.expr.rules import expand_rules, is_parameter
from polyloop.frozen import replace
from polyloop.kernel.instruction import Instruction, SubstitutionRule
from polyloop.kernel.kernel import LoopKernel
from polyloop.kernel.reads import reads_of
from polyloop.poly.affine import affine_of
from polyloop.transform.staging.plan import Plan
from polyloop.transform.staging.uses import find_uses, terms_outside

__all__ = ["redirected", "redirected_rules", "replace_uses"]


def redirected_rules(
    kernel: LoopKernel, plan: Plan, staged: Callable[[Sequence[Expression]], Expression | None], count: int
) -> dict[str, SubstitutionRule] | None:
    """Return the rules with their uses of the source redirected; None if the rules have to be expanded for that.

    That is not so where all uses in the kernel are among the *count* that are redirected, each to the same element of
    the temporary for the same element of the source.
    """
    if plan.temporary.axes is not None or count < len([*find_uses(kernel, plan.source, plan.is_rule)]):
        return None
    others = [rule for name, rule in kernel.substitutions.items() if name != plan.source]
    for node in (node for rule in others for node in (*accesses(rule.value), *calls(rule.value))):
        name = function_name(node) if isinstance(node, p.Call) else array_name(node)
        inside = node.parameters if isinstance(node, p.Call) else getattr(node, "index_tuple", ())
        is_unclear = isinstance(node, p.Subscript) and is_parameter(name)
        if is_unclear or (name == plan.source and any(affine_of(entry) is None for entry in inside)):
            return None
    found = [rule.mapped(lambda value: replace_uses(value, plan, frozenset(plan.sweep), staged)) for rule in others]
    return {**kernel.substitutions, **{rule.name: rule for rule in found}}


def redirected(
    kernel: LoopKernel,
    old: Instruction,
    plan: Plan,
    staged: Callable[[Sequence[Expression]], Expression | None],
    after: LoopKernel,
) -> Instruction:
    """Return an instruction with its uses redirected; *after* has the rules that it is to use."""
    new = replace_uses(old.expression, plan, frozenset(old.inames), staged)
    terms = old.terms
    if _count_reductions(expand_rules(new, after.substitutions)) != len(terms):
        terms = terms_outside(kernel, old, plan.source, plan.sweep)
    result = replace(old, expression=new, terms=terms)
    return replace(result, reads=reads_of(after, result))


def _count_reductions(expr: Expression) -> int:
    return isinstance(expr, Reduction) + sum(_count_reductions(child) for child in children(expr))


def replace_uses(
    expr: Expression, plan: Plan, inames: frozenset[str], staged: Callable[[Sequence[Expression]], Expression | None]
) -> Expression:
    """Return *expr*, which is inside the loops *inames*, with the uses that are inside all swept loops redirected.

    *staged* returns what takes the place of a use, None where it stays.
    """
    if isinstance(expr, Reduction):
        inames = inames.union(expr.inames)
    old = children(expr)
    new = tuple(replace_uses(child, plan, inames, staged) for child in old)
    if inames.issuperset(plan.sweep):
        named = expr.function if isinstance(expr, p.Call) else expr.aggregate if isinstance(expr, p.Subscript) else None
        found = None
        if named == p.Variable(plan.source) and isinstance(expr, p.Call) == plan.is_rule:
            found = staged(new)
        elif isinstance(expr, p.Variable) and expr.name == plan.source:
            found = staged(())
        if found is not None:
            return found
    return expr if all(a is b for a, b in zip(old, new, strict=True)) else rebuild(expr, new)
