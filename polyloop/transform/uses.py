"""Where a substitution rule or an array is used, and under which conditions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import islpy as isl
import pymbolic.primitives as p

from polyloop.analysis.guards import Guard, exact_parameters, guarded_children, guarded_domain
from polyloop.errors import Diagnostic
from polyloop.expr.nodes import Expression, Reduction, array_name, function_name
from polyloop.expr.rewrite import expand_rules, reductions, variables
from polyloop.kernel.instruction import Instruction
from polyloop.kernel.kernel import LoopKernel
from polyloop.poly.affine import Affine, affine_of

__all__ = ["Use", "expanded_but", "find_uses", "free_inames"]


@dataclass(frozen=True, eq=False)
class Use:
    """One occurrence of what is staged: its arguments as forms of the inames around it.

    ``domain`` are the instances that may evaluate it, which are fewer than those of its instruction or reduction if it
    is ``guarded`` by a condition.
    """

    instruction: Instruction
    arguments: tuple[Affine, ...]
    inames: tuple[str, ...]
    domain: isl.Set
    guarded: bool = False


def find_uses(kernel: LoopKernel, source: str, is_rule: bool) -> Iterator[Use | Diagnostic]:
    """Yield every occurrence of the rule or array *source* on a right-hand side, or why it cannot be staged."""
    for instruction in kernel.instructions:
        if instruction.is_c and source in instruction.reads:
            yield Diagnostic(
                "staged-by-c",
                f"the C text of '{instruction.id}' reads '{source}' by its name",
                hints=(f"fetch '{source}' for other instructions under another name: assign it to a temporary",),
                sites=(instruction.site(),),
            )
            continue
        expression = expanded_but(kernel, instruction.expression, source)
        around = tuple((expand_rules(e, kernel.substitutions), True) for e in instruction.predicates)
        collector = _Collector(source, is_rule, iter(range(len(instruction.terms))))
        collector.visit(expression, None, around)
        for arguments, term, guards in collector.found:
            inames = instruction.inames if term is None else instruction.terms[term].inames
            domain = instruction.domain if term is None else instruction.terms[term].domain
            known = {*inames, *kernel.parameters}
            forms = [affine_of(argument) for argument in arguments]
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
                yield Use(instruction, known_forms, inames, narrowed, narrowed is not domain)


def expanded_but(kernel: LoopKernel, expr: Expression, source: str) -> Expression:
    """Return *expr* with every rule but *source* expanded, so that each use of *source* can be seen."""
    return expand_rules(expr, {name: rule for name, rule in kernel.substitutions.items() if name != source})


class _Collector:
    """Collects the occurrences of a rule or an array: arguments, number of the reduction around, conditions around."""

    def __init__(self, source: str, is_rule: bool, terms: Iterator[int]) -> None:
        self.source = source
        self.is_rule = is_rule
        self.terms = terms
        self.found: list[tuple[tuple[Expression, ...], int | None, tuple[Guard, ...]]] = []

    def visit(self, expr: Expression, term: int | None, guards: tuple[Guard, ...]) -> None:
        if isinstance(expr, Reduction):
            self.visit(expr.expr, next(self.terms), ())
            return
        if self.is_rule and isinstance(expr, p.Call) and function_name(expr) == self.source:
            self.found.append((tuple(expr.parameters), term, guards))
        elif not self.is_rule and isinstance(expr, p.Subscript) and array_name(expr) == self.source:
            self.found.append((tuple(expr.index_tuple), term, guards))
        elif not self.is_rule and isinstance(expr, p.Variable) and expr.name == self.source:
            self.found.append(((), term, guards))
        for child, more in guarded_children(expr):
            self.visit(child, term, (*guards, *more))


def free_inames(kernel: LoopKernel, rule: str) -> frozenset[str]:
    """Return the inames in the value of a substitution rule that are neither its arguments nor bound in it."""
    body = expand_rules(kernel.substitutions[rule].expression, kernel.substitutions)
    bound = {iname for reduction in reductions(body) for iname in reduction.inames}
    return (variables(body) & frozenset(kernel.inames)) - bound - frozenset(kernel.substitutions[rule].arguments)
