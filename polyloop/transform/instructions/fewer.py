"""``add_predicate_to_insn`` and its like: instructions that run more often, or less."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

from polyloop.creation.create import complete_kernel
from polyloop.errors import Diagnostic, KernelError, TransformError, unknown_name
from polyloop.expr.nodes import Expression
from polyloop.expr.parser import parse_expression
from polyloop.expr.rewrite import substitute, variables
from polyloop.expr.rules import expand_rules
from polyloop.frozen import replace
from polyloop.kernel.build.instructions import term_domains
from polyloop.kernel.domains import condition_set, domain_for
from polyloop.kernel.instruction import Copy, Instruction, Term
from polyloop.kernel.kernel import LoopKernel
from polyloop.poly.affine import to_expression
from polyloop.poly.sets import parameter_space, project_onto
from polyloop.program.reference import in_loops_of
from polyloop.transform.base import Transform, iname_violations
from polyloop.transform.instructions.matching import match_violations, reference_id
from polyloop.transform.instructions.selection import selected
from polyloop.transform.parameters import Inames, InsnMatch, Word
from polyloop.verification.order import order_violations
from polyloop.verification.values import value_violations

__all__ = ["AddPredicateToInsn", "RemoveInamesFromInsn", "RemovePredicatesFromInsn"]

_Change: TypeAlias = Callable[[LoopKernel, Instruction], Instruction]


@dataclass(frozen=True)
class AddPredicateToInsn(Transform):
    """Leave out instances of an instruction that change nothing, on the word of the user.

    A step of Floyd and Warshall reads the row and the column that it may write; without negative cycles it leaves them
    as they are, and the rest of the matrix is updated by all threads at one time:

    >>> data = [pl.GlobalArg("d", np.float32, shape="n, n")]
    >>> knl = pl.make_kernel(
    ...     "{[k, i, j]: 0 <= k, i, j < n}", "d[i, j] = min(d[i, j], d[i, k] + d[k, j]) {id=relax}", data
    ... ).prioritize_loops("k, i, j")
    >>> knl = knl.add_predicate_to_insn("id:relax", "i != k and j != k", "no negative cycles")
    >>> knl = knl.tag_inames("i:g.0")
    >>> print(*pl.verify(knl).rewrites)
    add_predicate_to_insn(insn_match='id:relax', predicate='i != k and j != k', reason='no negative cycles')

    Parameters
    ----------
    insn_match
        The instructions concerned.
    predicate
        A condition on inames of the program and on parameters, affine in them.
    reason
        Why the other instances change nothing: for the trace and the certificate.

    Raises
    ------
    TransformError
        ``no-reason``; ``syntax``, ``unknown-iname``, ``not-affine``, of the condition; ``unknown-instruction``,
        ``bad-instructions``, and the errors of :func:`polyloop.make_kernel` for the new program.

    Notes
    -----
    Changes the meaning on purpose: the reference program has the condition, too, and the certificate lists the step
    with its reason.  Source: Warshall, "A theorem on Boolean matrices", Journal of the ACM 9(1), 1962.
    """

    changes_meaning: ClassVar[bool] = True
    insn_match: InsnMatch
    predicate: Word
    reason: Word

    def violations(self, kernel: LoopKernel) -> Iterator[Diagnostic]:
        if not self.reason.strip():
            hint = "say why the other instances change nothing: 'no negative cycles: d[k, k] >= 0'"
            yield Diagnostic("no-reason", "instances can be left out only for a reason", hints=(hint,))
            return
        try:
            condition = parse_expression(self.predicate)
        except KernelError as error:
            yield from error.found
            return
        if found := [*_match_violations(kernel, self.insn_match, self.name)]:
            yield from found
            return
        assert kernel.reference is not None, "a kernel has its reference program"
        for name in selected(kernel, self.insn_match, self.name):
            written = kernel.reference.kernel.instruction(reference_id(kernel.instruction(name)))
            known = {*written.inames, *kernel.parameters}
            if unknown := sorted(variables(condition) - known):
                yield unknown_name("iname", unknown[0], known)
            elif condition_set(condition, written.domain, written.inames) is None:
                message = f"'{self.predicate}' is not affine in inames and parameters"
                yield Diagnostic("not-affine", message, hints=("compare sums and integer multiples of them",))

    def rewrite(self, kernel: LoopKernel) -> LoopKernel:
        condition = parse_expression(self.predicate)
        return _restated(kernel, self.insn_match, self.name, lambda now, old: _narrowed(now, old, condition))

    def consequences(self, before: LoopKernel, after: LoopKernel) -> Iterator[Diagnostic]:
        yield from value_violations(after)
        yield from order_violations(after)


@dataclass(frozen=True)
class RemovePredicatesFromInsn(Transform):
    """Take the conditions off instructions, which then always run.

    >>> knl = pl.make_kernel("{[i]: 0 <= i < 8}", "b[i] = a[i] {if=i > 2, id=copy}")
    >>> print(body(knl.remove_predicates_from_insn("id:copy")))
    for (int i = 0; i < 8; ++i)
        b[i] = a[i];

    Parameters
    ----------
    insn_match
        The instructions concerned.

    Raises
    ------
    TransformError
        ``syntax``, ``unknown-instruction``, ``bad-instructions``, and the errors of :func:`polyloop.make_kernel` for
        the new program, such as ``out-of-bounds``.

    Notes
    -----
    Changes the meaning on purpose: the reference program loses the conditions.  Source: Loopy's transform of the same
    name.
    """

    changes_meaning: ClassVar[bool] = True
    insn_match: InsnMatch

    def violations(self, kernel: LoopKernel) -> Iterator[Diagnostic]:
        yield from _match_violations(kernel, self.insn_match, self.name)

    def rewrite(self, kernel: LoopKernel) -> LoopKernel:
        return _restated(kernel, self.insn_match, self.name, _without_predicates)


@dataclass(frozen=True)
class RemoveInamesFromInsn(Transform):
    """Take loops from around instructions that do not mention their inames: the instructions run once, not each time.

    >>> knl = pl.make_kernel("{[i, j]: 0 <= i, j < 8}", ["t[i] = 2*x[i] {id=set, inames=+j}", "y[i, j] = t[i]"])
    >>> print(knl.remove_inames_from_insn("j", "id:set"))
    kernel loop_kernel
    ...
    instructions:
        [i]  t[i] = 2*x[i]    {id=set}
        [i, j]  y[i, j] = t[i]    {id=insn}

    Parameters
    ----------
    inames
        The inames to take away.
    insn_match
        The instructions concerned.

    Raises
    ------
    TransformError
        ``unknown-iname``, ``syntax``, ``unknown-instruction``, ``bad-instructions``; ``iname-in-use`` for an
        instruction that mentions one of the inames; and the errors of :func:`polyloop.make_kernel` for the new program.

    Notes
    -----
    Changes the meaning on purpose: the reference program loses the loops too.  Source: Loopy's transform of the same
    name.
    """

    changes_meaning: ClassVar[bool] = True
    inames: Inames
    insn_match: InsnMatch

    def violations(self, kernel: LoopKernel) -> Iterator[Diagnostic]:
        if found := [finding for iname in self.inames for finding in iname_violations(kernel, iname)]:
            yield from found
            return
        if found := [*_match_violations(kernel, self.insn_match, self.name)]:
            yield from found
            return
        assert kernel.reference is not None, "a kernel has its reference program"
        for name in selected(kernel, self.insn_match, self.name):
            instruction = kernel.instruction(name)
            parts = (instruction.assignee, instruction.expression, *instruction.predicates)
            used = {x for part in parts for x in variables(expand_rules(part, kernel.substitutions))}
            written = kernel.reference.kernel.instruction(reference_id(instruction))
            for iname in self.inames:
                if iname in used:
                    message = f"'{name}' mentions iname '{iname}'"
                    hint = "only loops that repeat the same work can go"
                    yield Diagnostic("iname-in-use", message, hints=(hint,), sites=(instruction.site(),))
                elif (iname in instruction.inames) != (iname in written.inames):
                    message = f"the loop '{iname}' around '{name}' was made by a transform"
                    hint = "remove inames before they are split or renamed"
                    yield Diagnostic("bad-instructions", message, hints=(hint,), sites=(instruction.site(),))

    def rewrite(self, kernel: LoopKernel) -> LoopKernel:
        return _restated(kernel, self.insn_match, self.name, lambda _, old: _without(old, frozenset(self.inames)))


def _without_predicates(kernel: LoopKernel, old: Instruction) -> Instruction:
    """Return an instruction without its conditions, over all values that its inames have."""
    space = parameter_space(kernel.parameters)
    domain = domain_for(kernel.domains, old.inames, space)
    terms = term_domains(kernel.domains, old.inames, domain, expand_rules(old.expression, kernel.substitutions), space)
    return replace(old, predicates=(), domain=domain, terms=terms)


def _narrowed(kernel: LoopKernel, old: Instruction, condition: Expression) -> Instruction:
    """Return an instruction with *condition*, on the inames of the program, in its domain."""
    assert isinstance(old.origin, Copy), "what a transform made is no instruction of the program"
    here = substitute(condition, {name: to_expression(form) for name, form in old.origin.forms.items()})
    domain = condition_set(here, old.domain, old.inames)
    assert domain is not None, "violations come first"
    space = parameter_space(kernel.parameters)
    terms = term_domains(kernel.domains, old.inames, domain, expand_rules(old.expression, kernel.substitutions), space)
    return replace(old, domain=domain, terms=terms)


def _without(old: Instruction, gone: frozenset[str]) -> Instruction:
    """Return an instruction without the loops over the inames *gone*."""
    nest = tuple(x for x in old.inames if x not in gone)
    if nest == old.inames:
        return old
    terms = []
    for term in old.terms:
        inames = (*nest, *term.inames[len(old.inames) :])
        terms.append(Term(inames, project_onto(term.domain, term.inames, inames)))
    domain = project_onto(old.domain, old.inames, nest)
    blocks = tuple(entry for entry in old.blocks if entry[0] not in gone)
    return replace(old, inames=nest, domain=domain, terms=tuple(terms), blocks=blocks)


def _match_violations(kernel: LoopKernel, insn_match: str, operation: str) -> Iterator[Diagnostic]:
    if found := [*match_violations(kernel, [insn_match], operation)]:
        yield from found
        return
    chosen = {*selected(kernel, insn_match, operation)}
    concerned = {reference_id(kernel.instruction(name)) for name in chosen}
    for instruction in kernel.instructions:
        is_concerned = instruction.id in chosen
        if is_concerned and not isinstance(instruction.origin, Copy):
            message = f"'{instruction.id}' was made by a transform, for other instructions that need it"
            hint = "change instructions of the program, before it is transformed"
            yield Diagnostic("bad-instructions", message, hints=(hint,), sites=(instruction.site(),))
        elif not is_concerned and isinstance(instruction.origin, Copy) and reference_id(instruction) in concerned:
            message = f"'{instruction.id}' runs other instances of an instruction that is to be changed"
            hint = f"let the match expression mean '{instruction.id}' as well"
            yield Diagnostic("bad-instructions", message, hints=(hint,), sites=(instruction.site(),))


def _restated(
    kernel: LoopKernel, insn_match: str, operation: str, change: _Change
) -> LoopKernel:  # fmt: skip
    """Return *kernel* with some instructions changed, and its reference program with the same change."""
    assert kernel.reference is not None, "a kernel has its reference program"
    chosen = {*selected(kernel, insn_match, operation)}
    concerned = {reference_id(kernel.instruction(name)) for name in chosen}
    written = kernel.reference.kernel
    base = in_loops_of(_changed(written, concerned, change), written)
    try:
        base = complete_kernel(base, None)
    except KernelError as error:
        raise TransformError(operation, kernel.name, error.found) from error
    result = in_loops_of(_changed(kernel, chosen, change), kernel)
    return replace(result, arguments=base.arguments, conditions=base.conditions, reference=base.reference)


def _changed(kernel: LoopKernel, chosen: set[str], change: _Change) -> LoopKernel:
    instructions = tuple(change(kernel, old) if old.id in chosen else old for old in kernel.instructions)
    return replace(kernel, instructions=instructions)
