"""``tag_instructions``, ``remove_instructions``, ``find_instructions``: instructions, selected by match expressions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

from polyloop.creation.create import complete_kernel
from polyloop.errors import Diagnostic, KernelError, TransformError, unknown_name
from polyloop.expr.names import check_identifier
from polyloop.kernel.arrays import ArrayArg
from polyloop.kernel.build.text_order import stable_order
from polyloop.kernel.instruction import Copy, Instruction
from polyloop.kernel.kernel import LoopKernel
from polyloop.kernel.text.match import matches, parse_match
from polyloop.program.reference import in_loops_of
from polyloop.transform.base import Transform
from polyloop.transform.instructions.dependencies import must_precede
from polyloop.transform.instructions.matching import match_violations, reference_id
from polyloop.transform.parameters import InsnIds, InsnMatch, Word
from polyloop.verification.order import order_violations
from polyloop.verification.values import value_violations

__all__ = ["RemoveInstructions", "SetInstructionPriority", "TagInstructions", "find_instructions"]


def find_instructions(kernel: LoopKernel, insn_match: str | None = None) -> tuple[Instruction, ...]:
    """Return the instructions that a match expression means; all of them without one.

    Parameters
    ----------
    insn_match
        ``id:``, ``tag:``, ``writes:``, ``reads:``, ``iname:`` with globs, joined by ``and``, ``or``, ``not``; a pattern
        by itself is an id.

    Raises
    ------
    KernelError
        ``syntax``, if it is no match expression.
    """
    if insn_match is None:
        return kernel.instructions
    wanted = parse_match(insn_match, "find_instructions")
    return tuple(instruction for instruction in kernel.instructions if matches(wanted, instruction))


@dataclass(frozen=True)
class TagInstructions(Transform):
    """Give instructions a tag, by which match expressions find them: ``tag:name``.

    >>> knl = pl.make_kernel("{[i]: 0 <= i < 8}", ["b[i] = 2*a[i] {id=one}", "d[i] = 3*c[i] {id=two}"])
    >>> print(*pl.find_instructions(knl.tag_instructions("scales", "id:two"), "tag:scales"))
    d[i] = 3*c[i]

    Parameters
    ----------
    new_tag
        An identifier.
    within
        Match expression of the instructions; by default all.

    Raises
    ------
    TransformError
        ``bad-identifier``, ``reserved-name``, ``syntax``, ``unknown-instruction``.

    Notes
    -----
    Source: Loopy's transform of the same name.
    """

    new_tag: Word
    within: InsnMatch | None = None

    def violations(self, kernel: LoopKernel) -> Iterator[Diagnostic]:
        problem = check_identifier(self.new_tag, "tag")
        if problem is not None:
            yield problem
        if self.within is not None:
            yield from match_violations(kernel, (self.within,), self.name)

    def rewrite(self, kernel: LoopKernel) -> LoopKernel:
        chosen = {instruction.id for instruction in find_instructions(kernel, self.within)}
        return replace(
            kernel,
            instructions=tuple(
                replace(i, tags=i.tags | {self.new_tag}) if i.id in chosen else i for i in kernel.instructions
            ),
        )


@dataclass(frozen=True)
class SetInstructionPriority(Transform):
    """Set the scheduling priority of instructions: of those that may run next, the highest priority runs first.

    >>> knl = pl.make_kernel("{[i]: 0 <= i < 8}", ["b[i] = 2*a[i] {id=one}", "d[i] = 3*c[i] {id=two}"])
    >>> print(body(knl.set_instruction_priority("id:two", 1)))
    for (int i = 0; i < 8; ++i) {
        d[i] = 3.0f * c[i];  // two
        b[i] = 2.0f * a[i];  // one
    }

    Parameters
    ----------
    insn_match
        Match expression of the instructions.
    priority
        Of two instructions that could be next, the one with the higher priority is; the others have 0.

    Raises
    ------
    TransformError
        ``syntax``, ``unknown-instruction``, ``bad-value``, ``illegal-order``.

    Notes
    -----
    Instructions keep their order where both access a variable and one writes it, and where ``dep=`` or a barrier says
    so.  Source: Loopy's transform of the same name.
    """

    insn_match: InsnMatch
    priority: int

    def violations(self, kernel: LoopKernel) -> Iterator[Diagnostic]:
        yield from match_violations(kernel, (self.insn_match,), self.name)
        priority: object = self.priority
        if type(priority) is not int:
            yield Diagnostic("bad-value", f"a priority cannot be {priority!r}", hints=("give an integer",))

    def rewrite(self, kernel: LoopKernel) -> LoopKernel:
        by_id = {instruction.id: instruction for instruction in kernel.instructions}
        before = must_precede(kernel, {})
        priority = {instruction.id: self.priority for instruction in find_instructions(kernel, self.insn_match)}
        order = stable_order([*by_id], before, priority, lambda earlier, later: earlier in before[later])
        assert isinstance(order, list), "the instructions have an order"
        return replace(kernel, instructions=tuple(by_id[name] for name in order))

    def consequences(self, before: LoopKernel, after: LoopKernel) -> Iterable[Diagnostic]:
        yield from value_violations(after)
        yield from order_violations(after)


@dataclass(frozen=True)
class RemoveInstructions(Transform):
    """Take instructions out of the program.

    >>> knl = pl.make_kernel("{[i]: 0 <= i < 8}", ["a[i] = 1 {id=one}", "b[i] = 2 {id=two}"])
    >>> print(*knl.remove_instructions("one").instructions)
    b[i] = 2

    Parameters
    ----------
    insn_ids
        ``"one, two"`` or a sequence.  Their dependencies pass on to their dependents.

    Raises
    ------
    TransformError
        ``unknown-instruction``, ``bad-instructions``, ``no-instructions``, and the errors of
        :func:`polyloop.make_kernel` for the remaining program: ``read-before-write``, ``output-not-written``.

    Notes
    -----
    Changes the meaning on purpose: the reference program loses the instructions.  Source: Loopy's transform of the same
    name.
    """

    changes_meaning: ClassVar[bool] = True
    insn_ids: InsnIds

    def violations(self, kernel: LoopKernel) -> Iterator[Diagnostic]:
        by_id = {instruction.id: instruction for instruction in kernel.instructions}
        for name in self.insn_ids:
            if name not in by_id:
                yield unknown_name("instruction", name, by_id)
                return
            if not isinstance(by_id[name].origin, Copy):
                yield Diagnostic(
                    "bad-instructions",
                    f"'{name}' was made by a transform, for other instructions that need it",
                    hints=("remove instructions of the program, before it is transformed",),
                    sites=(by_id[name].site(),),
                )
                return
        gone = {reference_id(by_id[name]) for name in self.insn_ids}
        for instruction in kernel.instructions:
            if reference_id(instruction) in gone and instruction.id not in self.insn_ids:
                yield Diagnostic(
                    "bad-instructions",
                    f"'{instruction.id}' runs other instances of an instruction that is to be removed",
                    hints=(f"remove '{instruction.id}' as well",),
                    sites=(instruction.site(),),
                )
                return
        if len(self.insn_ids) == len(kernel.instructions):
            yield Diagnostic("no-instructions", "no instruction would be left", hints=("keep one",))

    def rewrite(self, kernel: LoopKernel) -> LoopKernel:
        assert kernel.reference is not None, "a kernel has its reference program"
        gone = {reference_id(i) for i in kernel.instructions if i.id in self.insn_ids}
        written = kernel.reference.kernel
        base = in_loops_of(_without(written, gone), written)
        open_ended = [replace(a, is_output=False) if isinstance(a, ArrayArg) else a for a in base.arguments]
        base = replace(base, arguments=tuple(open_ended))
        try:
            base = complete_kernel(base, None)
        except KernelError as error:
            raise TransformError(self.name, kernel.name, error.found) from error
        left = in_loops_of(_without(kernel, {*self.insn_ids}), kernel)
        return replace(left, arguments=base.arguments, conditions=base.conditions, reference=base.reference)


def _without(kernel: LoopKernel, gone: set[str]) -> LoopKernel:
    """Return *kernel* without the instructions *gone*, whose dependencies pass on to their dependents."""
    by_id = {instruction.id: instruction for instruction in kernel.instructions}

    def behind(names: frozenset[str], seen: frozenset[str] = frozenset()) -> frozenset[str]:
        passed = (names & gone) - seen
        more = (behind(by_id[name].depends_on, seen | passed) for name in passed if name in by_id)
        return (names - gone).union(*more)

    left = [
        replace(instruction, depends_on=behind(instruction.depends_on))
        for instruction in kernel.instructions
        if instruction.id not in gone
    ]
    barriers = tuple(replace(barrier, before=barrier.before - gone) for barrier in kernel.barriers)
    return replace(kernel, instructions=tuple(left), barriers=barriers)
