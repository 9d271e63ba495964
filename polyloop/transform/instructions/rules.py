"""``extract_subst``, ``expand_subst``, ``find_rules_matching``: substitution rules, which are expanded inline."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

import pymbolic.primitives as p

from polyloop.errors import Diagnostic, KernelError
from polyloop.expr.names import check_identifier
from polyloop.expr.nodes import Expression
from polyloop.expr.parser import parse_expression
from polyloop.expr.rewrite import children, rebuild, reductions, variables
from polyloop.expr.rules import expand_rules
from polyloop.kernel.instruction import Instruction, SubstitutionRule
from polyloop.kernel.kernel import LoopKernel
from polyloop.transform.base import Transform, new_name_violations
from polyloop.transform.instructions.instructions import find_instructions
from polyloop.transform.instructions.matching import match_violations
from polyloop.transform.loops.split import with_parts
from polyloop.transform.parameters import InsnMatch, NewName, NewNames

__all__ = ["ExpandSubst", "ExtractSubst", "find_rules_matching", "used_rules"]


def find_rules_matching(kernel: LoopKernel, pattern: str) -> tuple[str, ...]:
    """Return the names of the substitution rules that match a glob such as ``"f_*"``, in the kernel's order."""
    return tuple(name for name in kernel.substitutions if fnmatchcase(name, pattern))


@dataclass(frozen=True)
class ExtractSubst(Transform):
    """Make a substitution rule of every expression that looks like a template.

    >>> knl = pl.make_kernel("{[i]: 0 <= i < 8}", "b[i] = a[i]*a[i + 1]")
    >>> print(knl.extract_subst("f", "a[x]", "x"))
    kernel loop_kernel
    ...
    rules:
        f(x) := a[x]
    instructions:
        [i]  b[i] = f(i)*f(i + 1)    {id=insn}

    Parameters
    ----------
    subst_name
        Name of the new rule.
    template
        An expression.  What it has besides the parameters must stand in the kernel as it is written here; the order
        of terms and factors counts.  An iname that was split means its parts.
    parameters
        Names in the template that stand for any expression; the arguments of the rule.
    within
        Match expression for the instructions to look at; by default all.

    Raises
    ------
    TransformError
        ``syntax``, ``name-taken``, ``bad-rule-argument``, ``not-used``, ``unknown-instruction``.

    Notes
    -----
    Rules are text: the program stays the same, to the letter.  Source: Loopy's transform of the same name.
    """

    subst_name: NewName
    template: str
    parameters: NewNames = ()
    within: InsnMatch | None = None

    def violations(self, kernel: LoopKernel) -> Iterator[Diagnostic]:
        problem = check_identifier(self.subst_name, "substitution rule")
        found = [] if problem is None else [problem]
        found += new_name_violations(kernel, (self.subst_name,))
        if self.within is not None:
            found += match_violations(kernel, (self.within,), self.name)
        try:
            template = self._parsed(kernel)
        except KernelError as error:
            yield from (*found, *error.found)
            return
        found += self._parameter_violations(kernel, template)
        yield from found
        if not found and not any(True for _ in self._found(kernel, template)):
            where = f" in instructions that match '{self.within}'" if self.within else ""
            yield Diagnostic(
                "not-used",
                f"no expression looks like '{self.template}'{where}",
                hints=("the order of the terms of sums and products counts; parameters stand for any expression",),
            )

    def _parsed(self, kernel: LoopKernel) -> Expression:
        """Return the template, in terms of the inames that there are now."""
        return with_parts(kernel, parse_expression(self.template), self.parameters)

    def _parameter_violations(self, kernel: LoopKernel, template: Expression) -> Iterator[Diagnostic]:
        for name in self.parameters:
            if name not in variables(template):
                yield Diagnostic(
                    "bad-rule-argument",
                    f"parameter '{name}' does not occur in the template '{self.template}'",
                    hints=("every parameter stands for a part of the template",),
                )
            if name in kernel.names() or self.parameters.count(name) > 1:
                yield Diagnostic("name-taken", f"the name '{name}' is already in use", hints=("choose another name",))

    def _found(self, kernel: LoopKernel, template: Expression) -> Iterator[Expression]:
        for instruction in _chosen(kernel, self.within):
            if self._extracted(instruction.expression, template) is not instruction.expression:
                yield instruction.expression

    def _extracted(self, expr: Expression, template: Expression) -> Expression:
        bound: dict[str, Expression] = {}
        if _fits(template, expr, self.parameters, bound) and not _captures(template, bound):
            arguments = tuple(self._extracted(bound[name], template) for name in self.parameters)
            return p.Call(p.Variable(self.subst_name), arguments)
        old = children(expr)
        new = tuple(self._extracted(child, template) for child in old)
        return expr if all(a is b for a, b in zip(old, new, strict=True)) else rebuild(expr, new)

    def rewrite(self, kernel: LoopKernel) -> LoopKernel:
        template = self._parsed(kernel)
        rule = SubstitutionRule.of(self.subst_name, self.parameters, template)
        rules = {**kernel.substitutions, self.subst_name: rule}
        chosen = {instruction.id for instruction in _chosen(kernel, self.within)}

        def changed(old: Instruction) -> Instruction:
            expression = self._extracted(old.expression, template)
            before, after = (expand_rules(old.expression, kernel.substitutions), expand_rules(expression, rules))
            assert before == after, f"extracting a rule changed {old.expression}"
            return replace(old, expression=expression)

        instructions = tuple(changed(i) if i.id in chosen else i for i in kernel.instructions)
        return replace(kernel, instructions=instructions, substitutions=rules)


def _chosen(kernel: LoopKernel, within: str | None) -> tuple[Instruction, ...]:
    """Return the instructions meant, but for C text."""
    return tuple(instruction for instruction in find_instructions(kernel, within) if not instruction.is_c)


def _fits(template: Expression, expr: Expression, parameters: Sequence[str], bound: dict[str, Expression]) -> bool:
    """Return whether *expr* is *template* with expressions in place of the parameters, which are noted in *bound*."""
    if isinstance(template, p.Variable) and template.name in parameters:
        return bool(bound.setdefault(template.name, expr) == expr)
    if type(template) is not type(expr):
        return False
    inner, own = children(template), children(expr)
    if not inner or len(inner) != len(own):
        return bool(template == expr)
    if rebuild(template, own) != expr:  # the same node but for its children
        return False
    return all(_fits(a, b, parameters, bound) for a, b in zip(inner, own, strict=True))


def _captures(template: Expression, bound: dict[str, Expression]) -> bool:
    """Return whether an expression for a parameter uses an iname over which the template reduces."""
    own = {iname for reduction in reductions(template) for iname in reduction.inames}
    return any(not own.isdisjoint(variables(value)) for value in bound.values())


@dataclass(frozen=True)
class ExpandSubst(Transform):
    """Put the values of substitution rules in the place of their uses.

    >>> knl = pl.make_kernel("{[i]: 0 <= i < 8}", ["f(x) := 2*a[x]", "b[i] = f(i) + 1"])
    >>> print(*knl.expand_subst().instructions)
    b[i] = 2*a[i] + 1

    Parameters
    ----------
    within
        Match expression for the instructions; by default all.  Rules that nothing uses any more are dropped.

    Raises
    ------
    TransformError
        ``syntax``, ``unknown-instruction``.

    Notes
    -----
    Always legal.  Source: Loopy's transform of the same name.
    """

    within: InsnMatch | None = None

    def violations(self, kernel: LoopKernel) -> Iterator[Diagnostic]:
        if self.within is not None:
            yield from match_violations(kernel, (self.within,), self.name)

    def rewrite(self, kernel: LoopKernel) -> LoopKernel:
        chosen = {instruction.id for instruction in _chosen(kernel, self.within)}

        def expanded(old: Instruction) -> Instruction:
            return replace(
                old,
                expression=expand_rules(old.expression, kernel.substitutions),
                predicates=tuple(expand_rules(predicate, kernel.substitutions) for predicate in old.predicates),
            )

        instructions = tuple(expanded(i) if i.id in chosen else i for i in kernel.instructions)
        return used_rules(replace(kernel, instructions=instructions))


def used_rules(kernel: LoopKernel) -> LoopKernel:
    """Return *kernel* without the rules that nothing uses."""
    rules = kernel.substitutions
    wanted: set[str] = set()
    waiting = {name for i in kernel.instructions for e in (i.expression, *i.predicates) for name in _names(e)}
    while found := (waiting & rules.keys()) - wanted:
        wanted |= found
        waiting = {name for rule in found for name in _names(rules[rule].value)}
    if wanted == rules.keys():
        return kernel
    return replace(kernel, substitutions={name: rule for name, rule in rules.items() if name in wanted})


def _names(expr: Expression) -> set[str]:
    """Return the names of variables and functions in an expression."""
    found = set(variables(expr))
    if isinstance(expr, p.Call) and isinstance(expr.function, p.Variable):
        found.add(expr.function.name)
    for child in children(expr):
        found |= _names(child)
    return found
