"""Control data of a kernel: values that reach subscripts and loop bounds."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import pymbolic.primitives as p

from polyloop.expr.nodes import Expression
from polyloop.expr.printer import show
from polyloop.expr.rewrite import children, variables
from polyloop.expr.rules import expand_rules
from polyloop.kernel.domains import bound_variables
from polyloop.kernel.instruction import Instruction
from polyloop.kernel.kernel import LoopKernel

__all__ = ["Use", "steered_by", "steering"]

Use = tuple[str, Expression, tuple[str, int] | None]
"""Use that data control, as text; the controlling expression; the array and the axis, if it is a subscript."""


def _expressions(kernel: LoopKernel, instruction: Instruction) -> Iterator[Expression]:
    for part in (instruction.assignee, instruction.expression, *instruction.predicates):
        yield expand_rules(part, kernel.substitutions)


def _subscripts(expr: Expression) -> Iterator[Expression]:
    if type(expr) is p.Subscript:
        yield expr
    for child in children(expr):
        yield from _subscripts(child)


def _uses(kernel: LoopKernel) -> Iterator[Use]:
    """Yield every subscript and bound that data may decide."""
    known = {*kernel.inames, *kernel.parameters}
    for instruction in kernel.instructions:
        known.update(instruction.inames)
        known.update(name for term in instruction.terms for name in term.inames)
    for instruction in kernel.instructions:
        for domain in (instruction.domain, *(term.domain for term in instruction.terms)):
            for name in bound_variables(domain, kernel.parameters):
                yield f"a loop of '{instruction.id}'", p.Variable(name), None
        for expr in _expressions(kernel, instruction):
            for access in _subscripts(expr):
                for axis, index in enumerate(access.index_tuple):
                    if not variables(index) <= known:
                        yield f"the subscript in {show(access)}", index, (access.aggregate.name, axis)


def _written_from(kernel: LoopKernel) -> dict[str, set[str]]:
    """Return variable -> names that its assigned values are computed from."""
    found: dict[str, set[str]] = {}
    for instruction in kernel.instructions:
        names = {name for expr in _expressions(kernel, instruction) for name in variables(expr)}
        for name in instruction.writes:
            found.setdefault(name, set()).update(names)
    return found


def _reached(kernel: LoopKernel, names: Collection[str]) -> set[str]:
    """Return *names* and all names that their values are computed from, transitively."""
    sources = _written_from(kernel)
    found: set[str] = set()
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting.extend(sources.get(name, ()))
    return found


def steered_by(kernel: LoopKernel, names: Collection[str]) -> dict[str, str]:
    """Return the *names* that affect a subscript or a bound, with its text."""
    found: dict[str, str] = {}
    for what, expr, _ in _uses(kernel):
        for name in sorted(_reached(kernel, variables(expr)) & set(names)):
            found.setdefault(name, what)
    return found


def steering(kernel: LoopKernel, name: str) -> list[Use]:
    """Return every subscript and bound that the values of *name* decide."""
    return [use for use in _uses(kernel) if name in _reached(kernel, variables(use[1]))]
