"""Inames that are numbers in what is evaluated ahead of its use: they must have the values that they have at the use.

Which element of an array is read ahead shows in its subscripts.  That ``i`` in ``x[k]*i`` is the same ``i`` does not,
where the value goes through a temporary that has no axis for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeAlias

import islpy as isl
import pymbolic.primitives as p

from polyloop.errors import Diagnostic
from polyloop.expr.nodes import Expression
from polyloop.expr.rewrite import children, variables
from polyloop.expr.rules import expand_rules
from polyloop.kernel.domains import parameters_of
from polyloop.kernel.instruction import Copy, Evaluation, Instruction, Partial
from polyloop.kernel.kernel import LoopKernel
from polyloop.mapping.thread_mapping import Placed
from polyloop.poly.affine import Affine, affine_of
from polyloop.poly.budget import looking_at
from polyloop.poly.sets import map_from_forms
from polyloop.program.lower import Access
from polyloop.proof.witness import instance, pair
from polyloop.verification.accumulators import evaluated, identity
from polyloop.verification.correspondence import Comparison

__all__ = ["number_violations"]


def number_violations(comparison: Comparison, statement: Placed, access: Access) -> Iterator[Diagnostic]:
    """Yield that a read of a temporary that a transform made sees a value for other values of the inames around it."""
    yield from _violations(comparison, ((statement, identity(statement)),), (statement, access))


_Steps: TypeAlias = tuple[tuple[Placed, isl.Map], ...]
"""What a value goes through on its way back from the user, the first of them: each with the relation to the last."""


def _violations(comparison: Comparison, steps: _Steps, read: tuple[Placed, Access]) -> Iterator[Diagnostic]:
    """Yield as :func:`number_violations` for the first of *steps*, whose value comes through *read* in the last."""
    statement, access = read
    filler = comparison.kernel.evaluations.get(access.array)
    if filler is None or not _has_numbers(comparison, access.array):
        return
    looking_at(statement, access)
    sources, _ = comparison.flow(access.array).of(statement, access)
    names = _numbers(comparison.kernel, comparison.kernel.instruction(filler))
    for source, link in sources:
        if names:
            yield from _compared(_onward(steps, link), source, names)
    for lowered, inner in comparison.new.program.leaves(filler):
        if inner.array in comparison.kernel.evaluations:
            inside = comparison.new.statements[lowered.name]
            for source, link in sources:
                step = link if source is inside else link.apply_range(evaluated(source, inside))
                further = (*_onward(steps, step), (inside, identity(inside)))
                yield from _violations(comparison, further, (inside, inner))


def _onward(steps: _Steps, link: isl.Map) -> _Steps:
    return tuple((step, relation.apply_range(link)) for step, relation in steps)


def _has_numbers(comparison: Comparison, array: str) -> bool:
    """Return whether inames are numbers in what fills a temporary, or in what that reads."""
    filler = comparison.kernel.evaluations.get(array)
    if filler is None:
        return False
    if _numbers(comparison.kernel, comparison.kernel.instruction(filler)):
        return True
    return any(_has_numbers(comparison, inner.array) for _, inner in comparison.new.program.leaves(filler))


def _numbers(kernel: LoopKernel, instruction: Instruction) -> frozenset[str]:
    """Return the inames of an instruction that its value depends on other than by the elements that it reads."""
    found: set[str] = set()

    def visit(expr: Expression) -> None:
        if isinstance(expr, p.Variable):
            found.add(expr.name)
        elif isinstance(expr, p.Subscript):
            for index in expr.index_tuple:
                if affine_of(index) is None or not variables(index) <= inames:
                    visit(index)
        else:
            for child in children(expr):
                visit(child)

    inames = frozenset((*kernel.inames, *kernel.parameters))
    for expr in (instruction.expression, *instruction.predicates):
        visit(expand_rules(expr, kernel.substitutions))
    return frozenset(found) & {*instruction.inames}


def _compared(steps: _Steps, source: Placed, names: frozenset[str]) -> Iterator[Diagnostic]:
    """Yield that *source* has a value for other inames than the user has, the first of the *steps* to it.

    The value is a function of *names* beside the elements that are read.  An iname that the user does not have is the
    right one where it selects the element that is written, at the source or at a step that has the same.
    """
    user, pairs = steps[0]
    mine, its = user.lowered.instruction.origin, source.lowered.instruction.origin
    if not isinstance(its, Evaluation) or not isinstance(mine, Copy | Partial):
        return
    here, there = _forms(user, mine.forms), _forms(source, its.forms)
    covered: set[str] = set()
    equal: list[tuple[str, Placed, isl.Map, Affine, Affine]] = []
    for name in here.keys() & there.keys():
        used = its.forms[name].names()
        if used & names:
            covered |= used
            equal.append((min(used & names), user, pairs, here[name], there[name]))
    for x in sorted(names - covered - _selecting(source)):
        known = (user, pairs) if x in user.lowered.inames else None
        known = known or next((one for one in steps[1:] if x in _selecting(one[0])), None)
        if known is None:
            yield _other_number(user, source, x, ())
            return
        equal.append((x, *known, _form(known[0], x), _form(source, x)))
    for iname, step, relation, left, right in equal:
        same = map_from_forms(step.domain, step.dims, [left])
        same = same.apply_range(map_from_forms(source.domain, source.dims, [right]).reverse())
        wrong = relation.subtract(same)
        if not wrong.is_empty():
            at, other = pair(wrong, step, source)
            note = f"instance {instance(step, at)} would have what instance {instance(source, other)} computes"
            yield _other_number(user, source, iname, (note,))
            return


def _selecting(placed: Placed) -> frozenset[str]:
    """Return the inames in the subscripts of what an instance writes."""
    indices = placed.lowered.write.indices
    return frozenset(x for form in indices if form is not None for x in form.names())


def _forms(placed: Placed, forms: Mapping[str, Affine]) -> dict[str, Affine]:
    """Return those of *forms* of inames that an instance of *placed* decides about, as forms of its dimensions."""
    own = frozenset((*placed.lowered.inames, *parameters_of(placed.domain)))
    return {name: form.substitute(placed.forms) for name, form in forms.items() if form.names() <= own}


def _form(placed: Placed, iname: str) -> Affine:
    return placed.forms.get(iname) or Affine.variable(iname)


def _other_number(user: Placed, source: Placed, iname: str, notes: tuple[str, ...]) -> Diagnostic:
    return Diagnostic(
        "copy-wrong-element",
        f"'{user.lowered.instruction.id}' would use a value that '{source.lowered.instruction.id}' computes for "
        f"another iteration: it depends on '{iname}'",
        notes,
        ("let what is computed ahead run inside all the loops that it depends on, or sweep these",),
        sites=(user.lowered.instruction.site(),),
    )
