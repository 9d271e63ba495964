"""Names that an instruction reads, found from its parts.

Each step of a transform ends with :func:`with_reads`, so that no step has to keep account of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from polyloop.expr.nodes import element_of, targets_of
from polyloop.expr.rewrite import reductions, variables
from polyloop.expr.rules import expand_rules
from polyloop.kernel.domains import bound_variables
from polyloop.kernel.instruction import Instruction, SubstitutionRule
from polyloop.kernel.kernel import LoopKernel
from polyloop.memo import Same, memoised

__all__ = ["reads_of", "with_reads"]


def with_reads(kernel: LoopKernel) -> LoopKernel:
    """Return *kernel* with instructions that know what they read."""
    rules = Same(kernel.substitutions)
    found = [_reads(instruction, rules, kernel.parameters) for instruction in kernel.instructions]
    if all(reads == old.reads for reads, old in zip(found, kernel.instructions, strict=True)):
        return kernel
    instructions = tuple(
        old if reads == old.reads else replace(old, reads=reads)
        for reads, old in zip(found, kernel.instructions, strict=True)
    )
    return replace(kernel, instructions=instructions)


def reads_of(kernel: LoopKernel, instruction: Instruction) -> frozenset[str]:
    """Return the names of arrays, temporaries and parameters that *instruction* reads in *kernel*.

    They stand in its value (rules expanded), in the subscripts of what it assigns, in its conditions, and in the bounds
    of its loops and of its reductions, where names other than parameters are temporaries.
    """
    return _reads(instruction, Same(kernel.substitutions), kernel.parameters)


@memoised
def _reads(
    instruction: Instruction, rules: Same[Mapping[str, SubstitutionRule]], parameters: tuple[str, ...]
) -> frozenset[str]:
    expanded = expand_rules(instruction.expression, rules.value)
    bound = {iname for reduction in reductions(expanded) for iname in reduction.inames}
    names = variables(expanded) - bound
    for element in map(element_of, targets_of(instruction.assignee)):
        names = names.union(*map(variables, getattr(element, "index_tuple", ())))
    for predicate in instruction.predicates:
        names |= variables(predicate)
    for domain in (instruction.domain, *(term.domain for term in instruction.terms)):
        names |= {*bound_variables(domain, parameters)}
    return names - frozenset(instruction.inames)
