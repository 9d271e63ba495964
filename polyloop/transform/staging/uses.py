"""Uses of a substitution rule or an array, with their conditions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import islpy as isl
import pymbolic.primitives as p

from polyloop.errors import Diagnostic
from polyloop.expr.nodes import Expression, Reduction, array_name, function_name
from polyloop.expr.rewrite import accesses, calls, free_variables, variables
from polyloop.expr.rules import expand_rules, is_parameter
from polyloop.kernel.instruction import Instruction, SubstitutionRule, Term
from polyloop.kernel.kernel import LoopKernel, memoised
from polyloop.poly.affine import Affine, affine_of
from polyloop.poly.sets import single_values
from polyloop.program.conditions import terms_held
from polyloop.program.guards import Guard, exact_parameters, guarded_children, guarded_domain

__all__ = ["Use", "expanded_to", "find_uses", "free_inames", "terms_outside"]


@dataclass(frozen=True, eq=False)
class Use:
    """One use of a staged array or rule: its arguments as affine forms of the enclosing inames.

    ``domain`` are the instances that may evaluate it, which are fewer than those of its instruction or reduction if it
    is ``guarded`` by a condition.  ``terms`` are those of the reductions in the value of a rule, there.
    """

    instruction: Instruction
    arguments: tuple[Affine, ...]
    inames: tuple[str, ...]
    domain: isl.Set
    guarded: bool = False
    terms: tuple[Term, ...] = ()


@memoised
def find_uses(kernel: LoopKernel, source: str, is_rule: bool) -> Sequence[Use | Diagnostic]:
    """Return every occurrence of the rule or array *source* on a right-hand side, or why it cannot be staged."""
    return tuple(_found_uses(kernel, source, is_rule))


def _found_uses(kernel: LoopKernel, source: str, is_rule: bool) -> Iterator[Use | Diagnostic]:
    for instruction in kernel.instructions:
        if instruction.is_c and source in instruction.reads:
            yield Diagnostic(
                "staged-by-c",
                f"the C text of '{instruction.id}' reads '{source}' by its name",
                hints=(f"fetch '{source}' for other instructions under another name: assign it to a temporary",),
                sites=(instruction.site(),),
            )
            continue
        around = tuple((expand_rules(e, kernel.substitutions), True) for e in instruction.predicates)
        collector = _Collector(kernel, instruction, source, is_rule)
        collector.visit(instruction.expression, None, around)
        if collector.found and _is_updated(kernel, instruction, source, is_rule):
            yield Diagnostic(
                "staged-atomic",
                f"the atomic update '{instruction.id}' reads '{instruction.target}' in one step with writing it",
                (f"through a copy of '{source}', made earlier, updates between the two would be lost",),
                ("leave it out: fetch or compute ahead what the update adds, under another name",),
                sites=(instruction.site(),),
            )
            continue
        for (arguments, term, guards), parts in zip(collector.found, collector.parts, strict=True):
            inames = instruction.inames if term is None else instruction.terms[term].inames
            domain = instruction.domain if term is None else instruction.terms[term].domain
            values: dict[str, Affine] = {}
            if term is not None and collector.along[term]:  # the one new term of a scan is none of a loop
                domain, values = single_values(domain, instruction.inames, inames[len(instruction.inames) :])
                inames = instruction.inames if values else inames
            known = {*inames, *kernel.parameters}
            forms = [None if form is None else form.substitute(values) for form in map(affine_of, arguments)]
            if any(form is None or not form.names() <= known for form in forms):
                yield Diagnostic(
                    "not-affine",
                    f"a subscript of '{source}' is not affine, so its footprint is not known",
                    hints=("only affine subscripts can be fetched ahead of their use",),
                    sites=(instruction.site(),),
                )
            else:
                narrowed = guarded_domain(domain, inames, guards, exact_parameters(kernel))
                known_forms = tuple(form for form in forms if form is not None)
                terms = tuple(instruction.terms[number] for number in parts)
                yield Use(instruction, known_forms, inames, narrowed, narrowed is not domain, terms)


def _is_updated(kernel: LoopKernel, instruction: Instruction, source: str, is_rule: bool) -> bool:
    """Return whether *instruction* atomically updates *source*, or an array that the rule *source* reads."""
    if not instruction.atomic:
        return False
    if not is_rule:
        return source in instruction.writes
    read = expand_rules(kernel.substitutions[source].value, kernel.substitutions)
    return not _names(read).isdisjoint(instruction.writes)


def _names(expr: Expression) -> frozenset[str]:
    arrays = {array_name(node) for node in accesses(expr) if isinstance(node, p.Subscript)}
    return variables(expr) | arrays


def expanded_to(kernel: LoopKernel, expr: Expression, source: str) -> Expression:
    """Return *expr* with the rules expanded whose value uses *source*, so that each use is explicit.

    So are rules that subscript a parameter: it may be *source*.
    """
    rules = kernel.substitutions

    def leads(name: str) -> bool:
        value = rules[name].value
        names = variables(value) | {function_name(call) for call in calls(value)}
        if any(is_parameter(array_name(node)) for node in accesses(value) if isinstance(node, p.Subscript)):
            return True
        return source in names or any(leads(other) for other in names & rules.keys())

    return expand_rules(expr, {name: rule for name, rule in rules.items() if name != source and leads(name)})


def terms_outside(kernel: LoopKernel, instruction: Instruction, rule: str, sweep: Iterable[str]) -> tuple[Term, ...]:
    """Return the reductions of *instruction* outside of values of *rule* that are staged over the loops *sweep*."""
    collector = _Collector(kernel, instruction, rule, is_rule=True)
    collector.visit(instruction.expression, None, ())
    terms = instruction.terms

    def is_staged(term: int | None) -> bool:
        return term is not None and {*sweep} <= {*(instruction.inames if term < 0 else terms[term].inames)}

    return tuple(term for term, use in zip(terms, collector.inside, strict=True) if not is_staged(use))


class _Collector:
    """Collects the occurrences of a rule or an array: arguments, number of the reduction around, conditions around.

    Rules are expanded on the way, the staged one too: the terms of an instruction are numbered as in its expansion.
    ``inside`` has an entry for each: None where it is no part of the staged rule's value, otherwise the number of the
    reduction around the use, -1 if there is none.  ``parts`` has the numbers of the reductions in the value of each
    occurrence, ``along`` the loops along which each reduction keeps its accumulator.
    """

    def __init__(self, kernel: LoopKernel, instruction: Instruction, source: str, is_rule: bool) -> None:
        self.rules = kernel.substitutions
        self.held = terms_held(kernel, instruction)
        self.source = source
        self.is_rule = is_rule
        self.found: list[tuple[tuple[Expression, ...], int | None, tuple[Guard, ...]]] = []
        self.inside: list[int | None] = []
        self.parts: list[list[int]] = []
        self.along: list[tuple[str, ...]] = []

    def visit(
        self, expr: Expression, term: int | None, guards: tuple[Guard, ...], use: int | None = None
    ) -> None:
        """Visit *expr* in reduction *term*, part of the *use* of the staged rule."""
        if isinstance(expr, Reduction):
            number = len(self.inside)
            self.inside.append(use)
            if use is not None:
                self.parts[-1].append(number)
            self.along.append(expr.along)
            held = self.held[number]
            self.visit(expr.expr, number, tuple((condition, True) for condition in held), use)
            if expr.start is not None:
                self.visit(expr.start, term, guards, use)
            return
        applied = self._applied(expr)
        if applied is not None:
            rule, arguments = applied
            if self.is_rule and rule.name == self.source and use is None:
                self._add(arguments, term, guards)
                use = -1 if term is None else term
            value = rule.over(arguments)
            self.visit(value, term, guards, use)
            return
        if not self.is_rule:
            if isinstance(expr, p.Subscript) and array_name(expr) == self.source:
                self._add(tuple(expr.index_tuple), term, guards)
            elif isinstance(expr, p.Variable) and expr.name == self.source:
                self._add((), term, guards)
        for child, more in guarded_children(expr):
            self.visit(child, term, (*guards, *more), use)

    def _add(self, arguments: tuple[Expression, ...], term: int | None, guards: tuple[Guard, ...]) -> None:
        self.found.append((arguments, term, guards))
        self.parts.append([])

    def _applied(self, expr: Expression) -> tuple[SubstitutionRule, tuple[Expression, ...]] | None:
        """Return the rule that *expr* applies, with its arguments; None if it applies none."""
        if isinstance(expr, p.Call) and (name := function_name(expr)) in self.rules:
            return self.rules[name], tuple(expr.parameters)
        if isinstance(expr, p.Variable) and expr.name in self.rules:
            return self.rules[expr.name], ()
        return None


def free_inames(kernel: LoopKernel, rule: str) -> frozenset[str]:
    """Return the inames in the value of a substitution rule that are neither its arguments nor bound in it."""
    body = expand_rules(kernel.substitutions[rule].value, kernel.substitutions)
    return free_variables(body) & frozenset(kernel.inames)
