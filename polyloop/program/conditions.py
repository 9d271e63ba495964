"""Conditions that hold back the terms of reductions.

A reduction is computed ahead of the expression around it.  Under a condition that is false the program evaluates no
term, though: a term may fail there.  So the conditions around a reduction become part of each term that may fail::

    y[i] = sum(k, x[k]//b[i])    {if=b[i] != 0}
    ->
    acc = 0
    for k:  acc = acc + if(b[i] != 0, x[k]//b[i], 0)
    if b[i] != 0:  y[i] = acc

Control flow is the same for all threads, and the value of a term that is not evaluated reaches no result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import eq, ge, gt, le, lt, ne
from typing import Final

import pymbolic.primitives as p

from polyloop.errors import Diagnostic, VerificationError
from polyloop.expr.constants import number_of
from polyloop.expr.foreign import ForeignName
from polyloop.expr.nodes import CText, Expression, Neutral, Reduction, Terms, array_name, targets_of
from polyloop.expr.printer import show
from polyloop.expr.rewrite import children, rebuild, reductions, variables
from polyloop.expr.rules import expand_rules, is_parameter
from polyloop.frozen import replace
from polyloop.kernel.domains import bound_variables, data_inames
from polyloop.kernel.instruction import Instruction, Move
from polyloop.kernel.kernel import LoopKernel, memoised
from polyloop.poly.intervals import is_computed
from polyloop.program.guards import Guard, guarded_children, guards_a_reduction

__all__ = [
    "conditions_of_terms",
    "held_back",
    "joined_loops",
    "may_fail",
    "may_fail_in",
    "names_in_terms",
    "terms_held",
    "with_conditions",
]


_AT_ZERO: Final[Mapping[str, Callable[[int, int], bool]]] = {
    "==": eq, "!=": ne, "<": lt, "<=": le, ">": gt, ">=": ge,
}  # fmt: skip
_MIRRORED: Final = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}

# {{{ expressions that may fail


def may_fail(kernel: LoopKernel, expr: Expression, guards: tuple[Guard, ...] = ()) -> bool:
    """Return True if *expr* may stop the program, or leave an array, where the program does not evaluate it.

    That is a division of integers by what may be zero, an element whose subscript data decides, and a function or text
    of the user's.  Terms of reductions are looked at by themselves.  A temporary that a transform fills stands for the
    value.  The *guards* hold wherever it is evaluated.
    """
    match expr:
        case Reduction():
            return False
        case CText() | p.Call(ForeignName()):
            return True
        case p.FloorDiv() | p.Remainder() if not _is_nonzero(expr.denominator, guards):
            return True
        case p.Subscript() if not all(_is_proven(kernel, index) for index in expr.index_tuple):
            return True
        case p.Variable() | p.Subscript() if (name := array_name(expr)) in kernel.evaluations:
            return _is_filled_with_risk(kernel, name)
    return any(may_fail(kernel, child, (*guards, *more)) for child, more in guarded_children(expr))


def _is_nonzero(divisor: Expression, guards: Iterable[Guard]) -> bool:
    """Return True if a divisor is a number other than 0, or a condition compares it so that it cannot be 0."""
    number = number_of(divisor)
    return bool(number) if number is not None else any(_excludes_zero(c, holds, divisor) for c, holds in guards)


def _excludes_zero(condition: Expression, holds: bool, value: Expression) -> bool:
    """Return True if *value* cannot be 0 where a condition holds, or does not hold."""
    match condition:
        case p.LogicalNot():
            return _excludes_zero(condition.child, not holds, value)
        case p.LogicalAnd() | p.LogicalOr() if isinstance(condition, p.LogicalAnd) == holds:
            return any(_excludes_zero(child, holds, value) for child in condition.children)
        case p.LogicalAnd() | p.LogicalOr():
            return all(_excludes_zero(child, holds, value) for child in condition.children)
        case p.Comparison():
            operator = str(getattr(condition.operator, "value", condition.operator))
            for one, other, compare in (
                (condition.left, condition.right, _AT_ZERO[operator]),
                (condition.right, condition.left, _AT_ZERO[_MIRRORED.get(operator, operator)]),
            ):
                limit = number_of(other)
                if limit is not None and one == value:
                    return compare(0, limit) is not holds
    return False


def _is_proven(kernel: LoopKernel, index: Expression) -> bool:
    """Return True if a subscript is of inames and sizes alone: it is proven to stay inside, or checked at launch.

    Parameters of a rule that is staged stand for affine forms of them.
    """
    return all(name in _known(kernel) or is_parameter(name) for name in variables(index)) and is_computed(index)


@memoised
def _known(kernel: LoopKernel) -> frozenset[str]:
    """Return the inames whose bounds do not depend on data, and the sizes."""
    return (frozenset(kernel.inames) - data_inames(kernel)) | {*kernel.parameters}


@memoised
def _is_filled_with_risk(kernel: LoopKernel, name: str) -> bool:
    """Return True if the value that a transform stores in the temporary *name* may fail, without its reductions."""
    filler = kernel.evaluations[name]
    fills = [i for i in kernel.instructions if i.id == filler]
    return any(may_fail(kernel, expand_rules(i.expression, kernel.substitutions)) for i in fills)


def may_fail_in(kernel: LoopKernel, expr: Expression) -> bool:
    """Return True if *expr*, rules expanded, or a term of a reduction in it, may fail (:func:`may_fail`)."""
    value = expand_rules(expr, kernel.substitutions)
    return any(may_fail(kernel, part) for part in (value, *(reduction.expr for reduction in reductions(value))))


# }}}
# {{{ conditions around terms


@memoised
def conditions_of_terms(kernel: LoopKernel, instruction: Instruction) -> tuple[tuple[Expression, ...], ...]:
    """Return, for each reduction of *instruction*, the conditions under which the program evaluates its terms.

    A reduction whose terms are collected in a loop around has none: there each iteration evaluates one.
    """
    value = expand_rules(instruction.expression, kernel.substitutions)
    if not (instruction.predicates or guards_a_reduction(value)):
        return ((),) * len(instruction.terms)
    found: list[tuple[Expression, ...]] = []

    def visit(expr: Expression, guards: tuple[Guard, ...]) -> None:
        if isinstance(expr, Reduction):
            if joined_loops(kernel, expr.inames, sorted(names_in_terms(kernel, instruction, expr, len(found)))):
                guards = ()
            found.append(tuple(c if holds else p.LogicalNot(c) for c, holds in dict.fromkeys(guards)))
        for child, more in guarded_children(expr):
            visit(child, (*guards, *more))

    visit(value, tuple((expand_rules(each, kernel.substitutions), True) for each in instruction.predicates))
    return tuple(found)


def held_back(
    kernel: LoopKernel, instruction: Instruction, reduction: Reduction, conditions: Sequence[Expression]
) -> Expression:
    """Return the term of *reduction*, evaluated under *conditions* alone where it may fail.

    States are results of other reductions, whose terms have the conditions.

    Raises
    ------
    VerificationError
        ``condition-of-terms``: one of the conditions has a reduction in it.
    """
    if not conditions or reduction.operation.of_states:
        return reduction.expr
    is_record = isinstance(reduction.expr, Terms)
    parts = children(reduction.expr) if is_record else (reduction.expr,)
    held: list[Expression] = []
    for part, neutral in zip(parts, reduction.operation.neutral, strict=True):
        known = _all_of(part.condition) if isinstance(part, p.If) else ()
        left = [condition for condition in conditions if condition not in known]
        if not left or not may_fail(kernel, part):
            held.append(part)
            continue
        if any(map(reductions, left)):
            raise _has_reduction(kernel, instruction, reduction, next(c for c in left if reductions(c)))
        held.append(p.If(left[0] if len(left) == 1 else p.LogicalAnd(tuple(left)), part, _unused(neutral)))
    return Terms(tuple(held)) if is_record else held[0]


def terms_held(kernel: LoopKernel, instruction: Instruction) -> tuple[tuple[Expression, ...], ...]:
    """Return, for each reduction of *instruction*, the conditions that become part of its term, as it may fail."""
    value = expand_rules(instruction.expression, kernel.substitutions)
    return tuple(
        conditions if conditions and may_fail(kernel, reduction.expr) else ()
        for reduction, conditions in zip(reductions(value), conditions_of_terms(kernel, instruction), strict=True)
    )


def with_conditions(kernel: LoopKernel, instruction: Instruction) -> Expression:
    """Return the value of *instruction*, rules expanded, with the conditions of its terms written out."""
    conditions = iter(conditions_of_terms(kernel, instruction))

    def visit(expr: Expression) -> Expression:
        own = next(conditions) if isinstance(expr, Reduction) else ()
        old = children(expr)
        new = tuple(map(visit, old))
        result = expr if all(a is b for a, b in zip(old, new, strict=True)) else rebuild(expr, new)
        return replace(result, expr=held_back(kernel, instruction, result, own)) if own else result

    return visit(expand_rules(instruction.expression, kernel.substitutions))


def _all_of(condition: Expression) -> tuple[Expression, ...]:
    return (condition, *condition.children) if isinstance(condition, p.LogicalAnd) else (condition,)


def _unused(neutral: Neutral) -> bool | int:
    """Return a value in place of a term that is not evaluated: any one, of a type that fits every other."""
    return neutral if isinstance(neutral, bool | int) else 0


def _has_reduction(
    kernel: LoopKernel, instruction: Instruction, reduction: Reduction, condition: Expression
) -> VerificationError:
    problem = Diagnostic(
        "condition-of-terms",
        f"the terms of '{show(reduction)}' may fail where a condition with a reduction in it does not hold",
        (f"the condition is {show(condition)}", "each term would have to compute it"),
        (f"compute it ahead, into a temporary: <> t = {show(condition)}",),
        sites=(instruction.site(),),
    )
    return VerificationError("schedule", kernel.name, [problem])


# }}}
# {{{ terms that are collected in loops around


def names_in_terms(kernel: LoopKernel, instruction: Instruction, reduction: Reduction, number: int) -> frozenset[str]:
    """Return the names in the terms of a reduction, and in the bounds of its loops and of those inside."""
    inside = instruction.terms[number : number + 1 + len(reductions(reduction.expr))]
    bounds = (name for term in inside for name in bound_variables(term.domain, kernel.parameters))
    return variables(reduction.expr).union(bounds)


def joined_loops(kernel: LoopKernel, own: tuple[str, ...], names: Iterable[str]) -> dict[str, int | None]:
    """Return the inames of *own* whose loops also set a temporary in *names*, each with its ``for`` block."""
    found: dict[str, int | None] = {}
    for name in dict.fromkeys(names):
        meant = kernel.buffers.get(name, name)
        if meant not in kernel.temporaries or name in kernel.evaluations:
            continue
        for writer in kernel.instructions:
            if name in writer.writes and not isinstance(writer.origin, Move):
                around = set(writer.inames).difference(*map(variables, targets_of(writer.assignee, name)))
                blocks = dict(writer.blocks)
                found.update((iname, blocks.get(iname)) for iname in own if iname in around)
    return found


# }}}
