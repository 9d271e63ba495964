"""``replace_instruction_ids``, ``map_instructions``: other ids of instructions, and other right-hand sides."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Annotated, Any, ClassVar, TypeAlias

import pymbolic.primitives as p

from polyloop.creation.create import complete_kernel
from polyloop.edge.callbacks import asked
from polyloop.errors import Diagnostic, KernelError, Place, TransformError, unknown_name
from polyloop.expr.foreign import ForeignName
from polyloop.expr.names import check_identifier
from polyloop.expr.nodes import Expression, Operation, function_name
from polyloop.expr.operations import OPERATIONS
from polyloop.expr.printer import show
from polyloop.expr.rewrite import calls, map_nodes, reductions, substitute, variables
from polyloop.expr.rules import expand_rules
from polyloop.expr.source import Source
from polyloop.kernel.arrays import ArrayArg
from polyloop.kernel.instruction import Copy, Instruction
from polyloop.kernel.kernel import LoopKernel
from polyloop.kernel.objects import Assignment
from polyloop.kernel.reads import reads_of
from polyloop.kernel.text.statements import RuleText, parse_assignment
from polyloop.poly.affine import affine_of, to_expression
from polyloop.program.reference import in_loops_of
from polyloop.transform.base import Transform
from polyloop.transform.declare import Keyed, Names, Takes
from polyloop.transform.instructions.matching import match_violations, meant, reference_id
from polyloop.transform.parameters import Pairs, pairs, words_of
from polyloop.verification.bounds import bounds_violations
from polyloop.verification.order import order_violations
from polyloop.verification.values import value_violations

__all__ = ["MapInstructions", "ReplaceInstructionIds"]

# {{{ names


@dataclass(frozen=True)
class ReplaceInstructionIds(Transform):
    """Give instructions other ids, in the dependencies on them too.

    >>> knl = pl.make_kernel("{[i]: 0 <= i < 8}", ["<> t = 2*a[i]", "b[i] = t {dep=insn}"])
    >>> print(knl.replace_instruction_ids({"insn": "load"}))
    kernel loop_kernel
    ...
    instructions:
        [i]  t = 2*a[i]    {id=load}
        [i]  b[i] = t    {id=insn_1}

    Parameters
    ----------
    replacements
        Old id -> new id, all at once: two instructions can swap theirs.

    Raises
    ------
    TransformError
        ``unknown-instruction``, ``bad-identifier``, ``reserved-name``, ``name-taken``; ``bad-value`` where an
        instruction is to have several ids.

    Notes
    -----
    ``print(knl.reference)`` shows the program under the ids that it was written with.  Source: Loopy's transform of the
    same name, which redirects dependences only.
    """

    replacements: Annotated[
        Pairs, Takes(Mapping[str, str | Sequence[str]], pairs), Names.INSTRUCTION, Keyed(Names.NEW)
    ]

    def resolved(self, kernel: LoopKernel) -> ReplaceInstructionIds:
        ids = {old: words_of(new) for old, new in self.replacements}
        for old, given in ids.items():
            if len(given) != 1:
                hints = ("give it one id; add_dependency lets what waits for it wait for others, too",)
                problem = Diagnostic("bad-value", f"'{old}' cannot have {len(given)} ids", hints=hints)
                raise TransformError(self.name, kernel.name, [problem])
        return ReplaceInstructionIds(tuple((str(old), str(new)) for old, (new,) in ids.items()))

    def violations(self, kernel: LoopKernel) -> Iterator[Diagnostic]:
        known = [instruction.id for instruction in kernel.instructions]
        kept = {*known} - {old for old, _ in self.replacements} | {barrier.id for barrier in kernel.barriers}
        for old, new in self.replacements:
            if old not in known:
                yield unknown_name("instruction", old, known)
                continue
            problem = check_identifier(new, "id")
            if problem is not None:
                yield problem
            elif new in kept:
                hint = "one id for each; add_dependency lets what waits for an instruction wait for others, too"
                yield Diagnostic("name-taken", f"there is an instruction with the id '{new}' already", hints=(hint,))
            kept.add(new)

    def rewrite(self, kernel: LoopKernel) -> LoopKernel:
        names = dict(self.replacements)

        def renamed(ids: Iterable[str]) -> frozenset[str]:
            return frozenset(names.get(name, name) for name in ids)

        return replace(
            kernel,
            instructions=tuple(
                replace(i, id=names.get(i.id, i.id), depends_on=renamed(i.depends_on)) for i in kernel.instructions
            ),
            evaluations={name: names.get(filler, filler) for name, filler in kernel.evaluations.items()},
        )


# }}}

# {{{ instructions

Answer: TypeAlias = Instruction | Assignment | str


@dataclass(frozen=True)
class MapInstructions(Transform):
    """Let instructions assign something else.

    >>> knl = pl.make_kernel("{[i]: 0 <= i < 8}", "b[i] = a[i] {id=copy}")
    >>> print(*knl.map_instructions("id:copy", lambda insn: "b[i] = 2*a[i]").instructions)
    b[i] = 2*a[i]

    Parameters
    ----------
    insn_match
        Match expression of the instructions; by default all.
    f
        Is given each of them as it was written, with the inames that it had before any transform, and returns what it
        becomes: text such as ``"b[i] = 2*a[i]"``, a :class:`polyloop.Assignment`, or the instruction with another
        ``assignee`` or ``expression`` (``insn.copy(expression=..)``).
    instructions
        Id -> new instruction, in place of *insn_match* and *f*.  So the trace records it: it holds no function.

    Raises
    ------
    TransformError
        ``unknown-instruction``, ``syntax`` and the other codes of the parser, ``undeclared-name``, ``staged-by-c``;
        ``bad-instructions`` where other parts than the assignment change, reductions come or go, or an earlier
        transform rewrote the instruction; what :func:`polyloop.make_kernel` raises for the program that results.

    Notes
    -----
    Changes the meaning on purpose.  Source: Loopy's transform of the same name.
    """

    changes_meaning: ClassVar[bool] = True
    instructions: Annotated[Pairs, Names.INSTRUCTION, Keyed()]

    def violations(self, kernel: LoopKernel) -> Iterator[Diagnostic]:
        assert kernel.reference is not None, "a kernel has its reference program"
        written = {instruction.id: instruction for instruction in kernel.reference.kernel.instructions}
        for name, text in self.instructions:
            if name not in written:
                yield unknown_name("instruction", name, written)
                continue
            try:
                assignee, expression = _parsed(kernel.reference.kernel, text)
            except KernelError as error:
                yield from error.found
                continue
            yield from _statement_violations(kernel.reference.kernel, written[name], assignee, expression)
            for instruction in kernel.instructions:
                if isinstance(instruction.origin, Copy) and instruction.origin.instruction == name:
                    yield from _rewritten_violations(written[name], instruction)

    def rewrite(self, kernel: LoopKernel) -> LoopKernel:
        assert kernel.reference is not None, "a kernel has its reference program"
        base = kernel.reference.kernel
        new = {name: _parsed(base, text) for name, text in self.instructions}

        def written(old: Instruction) -> Instruction:
            return _assigning(base, old, *new[old.id]) if old.id in new else old

        open_ended = [replace(a, is_output=False) if isinstance(a, ArrayArg) else a for a in base.arguments]
        changed = replace(base, arguments=tuple(open_ended), instructions=tuple(map(written, base.instructions)))
        changed = in_loops_of(changed, base)
        try:
            changed = complete_kernel(changed, None)
        except KernelError as error:
            raise TransformError(self.name, kernel.name, error.found) from error

        def present(old: Instruction) -> Instruction:
            if not (isinstance(old.origin, Copy) and old.origin.instruction in new):
                return old
            source = base.instruction(old.origin.instruction)
            assignee, expression = new[source.id]
            return _assigning(kernel, old, _moved(assignee, source, old), _moved(expression, source, old))

        result = replace(kernel, instructions=tuple(map(present, kernel.instructions)), arguments=changed.arguments)
        result = in_loops_of(result, kernel)
        return replace(result, conditions=changed.conditions, reference=changed.reference)

    def consequences(self, before: LoopKernel, after: LoopKernel) -> Iterable[Diagnostic]:
        yield from bounds_violations(after)
        yield from value_violations(after)
        yield from order_violations(after)

    @staticmethod
    def call(
        kernel: LoopKernel,
        insn_match: str | None = None,
        f: Callable[[Instruction], Answer] | None = None,
        *,
        instructions: Mapping[str, str] | None = None,
    ) -> LoopKernel:
        if instructions is None:
            instructions = _answers(kernel, "*" if insn_match is None else insn_match, f)
        return MapInstructions(tuple((str(name), str(text)) for name, text in instructions.items()))(kernel)


def _parsed(kernel: LoopKernel, text: str) -> tuple[Expression, Expression]:
    """Return both sides of an assignment in the text of a kernel.

    Raises
    ------
    KernelError
        ``syntax`` and the other codes of the parser.
    """
    known: dict[str, Operation] = dict(OPERATIONS)
    functions: dict[str, ForeignName] = {}
    for instruction in kernel.instructions:
        for reduction in reductions(expand_rules(instruction.expression, kernel.substitutions)):
            if not reduction.operation.text:
                known.setdefault(reduction.operation.name, reduction.operation)
        for call in calls(instruction.expression):
            if isinstance(call.function, ForeignName):
                functions[function_name(call)] = call.function
    found = parse_assignment(Source.of(text), frozenset(kernel.inames), known)
    if isinstance(found, RuleText) or len(found) != 1 or found[0].declared is not None:
        hints = ("write target = expression",)
        problem = Diagnostic("syntax", f"'{text}' is not one assignment", hints=hints)
        raise KernelError("map_instructions", kernel.name, [problem])

    def bound(node: Expression) -> Expression:
        name = functions.get(function_name(node)) if type(node) is p.Call else None
        return node if name is None else p.Call(name, node.parameters)

    return map_nodes(found[0].assignee, bound), map_nodes(found[0].expression, bound)


def _over(kernel: LoopKernel, expression: Expression) -> list[tuple[str, ...]]:
    return [reduction.inames for reduction in reductions(expand_rules(expression, kernel.substitutions))]


def _statement_violations(
    base: LoopKernel, old: Instruction, assignee: Expression, expression: Expression
) -> Iterator[Diagnostic]:
    """Yield the reasons why *old* cannot assign so."""
    if old.is_c:
        message = f"'{old.id}' is C text"
        yield Diagnostic("staged-by-c", message, hints=("make the kernel with other text",), sites=(old.site(),))
        return
    reduced, before = _over(base, expression), _over(base, old.expression)
    if reduced != before:
        yield Diagnostic(
            "bad-instructions",
            f"'{old.id}' would have other reductions than it has",
            (f"over {_lists(before)} before, over {_lists(reduced)} now",),
            ("keep its reductions, or make the kernel with the new instruction",),
            sites=(old.site(),),
        )
        return
    used = variables(assignee) | variables(expand_rules(expression, base.substitutions))
    known = {*old.inames, *(iname for inames in before for iname in inames)}
    known |= {*base.names()} - {*base.inames}
    if unknown := sorted(used - known):
        what = f"has no loop over '{unknown[0]}'" if unknown[0] in base.inames else f"knows no '{unknown[0]}'"
        hints = (f"its loops: {', '.join(old.inames) or 'none'}",)
        yield Diagnostic("undeclared-name", f"'{old.id}' {what}", hints=hints, sites=(old.site(),))


def _lists(inames: Sequence[Sequence[str]]) -> str:
    return " and ".join(", ".join(entry) for entry in inames) or "nothing"


def _rewritten_violations(source: Instruction, present: Instruction) -> Iterator[Diagnostic]:
    """Yield ``bad-instructions`` if an earlier transform changed more of an instruction than its inames."""
    same = (
        _normal(_moved(source.assignee, source, present)) == _normal(present.assignee)
        and _normal(_moved(source.expression, source, present)) == _normal(present.expression)
    )
    if not same:
        yield Diagnostic(
            "bad-instructions",
            f"an earlier step rewrote '{present.id}', which is {present} now",
            (f"it was written as {source}",),
            ("map instructions before they are rewritten: before prefetches, for example",),
            sites=(source.site(),),
        )


def _normal(expr: Expression) -> Expression:
    """Return *expr* with its affine parts in one form, for a comparison."""

    def change(node: Expression) -> Expression:
        form = affine_of(node) if isinstance(node, p.Sum | p.Product) else None
        return node if form is None else to_expression(form)

    return map_nodes(expr, change)


def _moved(expr: Expression, source: Instruction, present: Instruction) -> Expression:
    """Return an expression of *source* in terms of the inames of *present*, a copy of it."""
    assert isinstance(present.origin, Copy), "it executes instances of the program"
    forms = present.origin.forms
    inner = [iname for term in present.terms for iname in term.inames if iname not in present.inames]
    reduced = {
        iname: tuple(dict.fromkeys(x for x in inner if x in form.names()))
        for iname, form in forms.items()
        if iname not in source.inames
    }
    return substitute(expr, {iname: to_expression(form) for iname, form in forms.items()}, reduced)


def _assigning(
    kernel: LoopKernel, old: Instruction, assignee: Expression, expression: Expression
) -> Instruction:
    """Return *old* with another assignment."""
    new = replace(old, assignee=assignee, expression=expression, place=Place())
    return replace(new, reads=reads_of(kernel, new))


def _answers(
    kernel: LoopKernel, insn_match: str, f: Callable[[Instruction], Answer] | None
) -> Mapping[str, str]:
    """Return the results of *f* for the selected instructions, as text."""
    found = [*match_violations(kernel, [insn_match], "map_instructions")]
    if f is None:
        hints = ("pass f, or instructions={id: text}",)
        found.append(Diagnostic("bad-value", "nothing says what the instructions become", hints=hints))
    if found or f is None:
        raise TransformError("map_instructions", kernel.name, found)
    assert kernel.reference is not None, "a kernel has its reference program"
    base = kernel.reference.kernel
    texts = {}
    for name in dict.fromkeys(reference_id(i) for i in meant(kernel, insn_match, "map_instructions")):
        old = next((instruction for instruction in base.instructions if instruction.id == name), None)
        if old is None:
            hints = ("match instructions of the program: those that it was written with",)
            problem = Diagnostic("bad-instructions", f"'{name}' was made by a transform", hints=hints)
            raise TransformError("map_instructions", kernel.name, [problem])
        texts[name] = _text(kernel, old, asked(partial(_refused, kernel), "f", f, old))
    return texts


def _refused(kernel: LoopKernel, finding: Diagnostic) -> TransformError:
    return TransformError("map_instructions", kernel.name, [finding])


def _text(kernel: LoopKernel, old: Instruction, answer: Answer) -> str:
    """Return an answer of the user's function as the text of an assignment."""
    if isinstance(answer, str):
        return answer
    what = f"'{old.id}' can become another assignment, and nothing else"
    if isinstance(answer, Assignment):
        plain = Assignment(answer.assignee, answer.expression)
        if replace(answer, id=None) == plain:
            return str(plain)
    elif isinstance(answer, Instruction):
        kept: dict[str, Any] = {"assignee": old.assignee, "expression": old.expression}
        other = [e.name for e in fields(old) if getattr(replace(answer, **kept), e.name) is not getattr(old, e.name)]
        if not other:
            return f"{show(answer.assignee)} = {show(answer.expression)}"
        what += f": not its {other[0]}"
    else:
        what += f": the function returned {answer!r}"
    hints = ("return text, or insn.copy(expression=..); other transforms tag, order, remove instructions",)
    raise TransformError("map_instructions", kernel.name, [Diagnostic("bad-instructions", what, hints=hints)])


# }}}
