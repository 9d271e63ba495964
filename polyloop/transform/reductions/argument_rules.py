"""``reduction_arg_to_subst_rule``: the terms of reductions as substitution rules."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pymbolic.primitives as p

from polyloop.errors import Diagnostic
from polyloop.expr.names import check_identifier
from polyloop.expr.nodes import Expression, Reduction, Terms
from polyloop.expr.rewrite import map_nodes
from polyloop.expr.rules import expand_rules
from polyloop.frozen import replace
from polyloop.kernel.instruction import Instruction, SubstitutionRule
from polyloop.kernel.kernel import LoopKernel
from polyloop.transform.base import Transform, iname_violations, new_name_violations
from polyloop.transform.instructions.selection import selected, selection_violations
from polyloop.transform.parameters import Inames, InsnMatch, NewName

__all__ = ["ReductionArgToSubstRule"]


@dataclass(frozen=True)
class ReductionArgToSubstRule(Transform):
    """Make a substitution rule of what reductions over some inames combine.

    >>> knl = pl.make_kernel("{[i, k]: 0 <= i, k < 8}", "s[i] = sum(k, a[i, k]*x[k])")
    >>> print(knl.reduction_arg_to_subst_rule("k"))
    kernel loop_kernel
    ...
    rules:
        red_k_arg(k_arg) := a[i, k_arg]*x[k_arg]
    instructions:
        [i]  s[i] = sum(k, red_k_arg(k))    {id=insn}

    The terms can then be computed ahead: ``precompute("red_k_arg", "k")``.

    Parameters
    ----------
    inames
        The inames of the reductions, all of each.
    subst_rule_name
        Name of the rule, by default ``red_{inames}_arg``; with a number for terms that differ from the first ones.
    within
        The instructions concerned; all by default.

    Raises
    ------
    TransformError
        ``unknown-iname``, ``name-taken``, ``bad-identifier``, ``not-used``, ``unknown-instruction``.

    Notes
    -----
    Rules are text: the program stays the same, to the letter.  Source: Loopy's transform of the same name.
    """

    inames: Inames
    subst_rule_name: NewName | None = None
    within: InsnMatch | None = None

    def violations(self, kernel: LoopKernel) -> Iterator[Diagnostic]:
        if found := [finding for iname in self.inames for finding in iname_violations(kernel, iname)]:
            yield from found
            return
        if self.subst_rule_name is not None:
            problem = check_identifier(self.subst_rule_name, "substitution rule")
            yield from [] if problem is None else [problem]
            yield from new_name_violations(kernel, [self.subst_rule_name])
        if found := [*selection_violations(kernel, self.within, self.name)]:
            yield from found
        elif not self._rewritten(kernel)[1]:
            message = f"no reduction over {', '.join(self.inames)} combines single values"
            yield Diagnostic("not-used", message, hints=("name all inames of a reduction, in any order",))

    def rewrite(self, kernel: LoopKernel) -> LoopKernel:
        expressions, new = self._rewritten(kernel)
        rules = {**kernel.substitutions, **new}

        def changed(old: Instruction) -> Instruction:
            expression = expressions.get(old.id, old.expression)
            before, after = expand_rules(old.expression, kernel.substitutions), expand_rules(expression, rules)
            assert before == after, f"a rule for the terms of reductions changed {old.expression}"
            return replace(old, expression=expression)

        return replace(kernel, instructions=tuple(map(changed, kernel.instructions)), substitutions=rules)

    def _rewritten(self, kernel: LoopKernel) -> tuple[dict[str, Expression], dict[str, SubstitutionRule]]:
        """Return the changed expressions by instruction, and the new rules."""
        wish = self.subst_rule_name or f"red_{'_'.join(self.inames)}_arg"
        parameters: list[str] = []
        for iname in self.inames:
            parameters.append(kernel.fresh(f"{iname}_arg", parameters))
        named = dict(zip(self.inames, map(p.Variable, parameters), strict=True))
        rules: dict[str, SubstitutionRule] = {}
        by_value: dict[Expression, str] = {}

        def visit(node: Expression) -> Expression:
            if not isinstance(node, Reduction) or isinstance(node.expr, Terms):
                return node
            if {*node.inames} != {*self.inames} or len(node.inames) != len(self.inames):
                return node
            value = map_nodes(node.expr, lambda part: named.get(part.name, part) if type(part) is p.Variable else part)
            if value not in by_value:
                name = by_value[value] = kernel.fresh(wish, (*rules, *parameters))
                rules[name] = SubstitutionRule.of(name, tuple(parameters), value)
            call = p.Call(p.Variable(by_value[value]), tuple(p.Variable(iname) for iname in self.inames))
            return replace(node, expr=call)

        expressions: dict[str, Expression] = {}
        for name in selected(kernel, self.within, self.name):
            instruction = kernel.instruction(name)
            if not instruction.is_c:
                expressions[name] = map_nodes(instruction.expression, visit)
        return expressions, rules
