"""Provenance of values: expressions of a transformed program against those of its reference program, by operand.

A copy of a statement must have the right-hand side, conditions and subscripts of its original, for its own instances.
Both trees are walked side by side.  A read of a temporary that a transform fills is replaced by the expression of the
fill, through any number of temporaries.  The result of a reduction that is computed in parts is compared with the one
reduction of the program.  Then these claims remain:

* Numbers, functions, operators and names of variables are equal.
* An operation on values has the type that it has in the program; a temporary that a transform fills holds its value.
* An affine expression of inames has the value of the program's expression, for each instance.
* A read of an unwritten array, or of an argument, is of the same element.  The write that a read sees, and the element
  of a temporary, are proven by the order of accesses and the values of temporaries.

The right-hand side of a copy instruction (buffers, saves across launches, asynchronous copies) must be a single read.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, is_dataclass
from functools import cached_property, partial, reduce
from itertools import chain, islice
from typing import NoReturn, TypeAlias

import islpy as isl
import numpy as np
import pymbolic.primitives as p

from polyloop.dataflow.address_spaces import place
from polyloop.dataflow.pass_through import HINTS, carrier_violations, is_carrier
from polyloop.dataflow.value_flow import writers_of
from polyloop.errors import Diagnostic
from polyloop.expr.chains import side_by_side
from polyloop.expr.dtypes import DType
from polyloop.expr.nodes import Expression, Lookup, Reduction, Targets, TypeCast, array_name
from polyloop.expr.printer import show
from polyloop.expr.promotion import TypeConflictError
from polyloop.expr.rewrite import children, map_nodes
from polyloop.frozen import replace
from polyloop.kernel.arrays import ArrayArg
from polyloop.kernel.instruction import Carry, Copy, Evaluation, Partial
from polyloop.kernel.kernel import LoopKernel, memoised
from polyloop.mapping.thread_mapping import Placed, Placement, reference_map
from polyloop.poly.affine import Affine, affine_in, affine_of
from polyloop.poly.budget import looking_at
from polyloop.program.conditions import terms_held
from polyloop.program.ir import Access, Assign, Combine, Init, Kept, Update
from polyloop.program.operand_types import TYPE_HINTS, OperandTypes
from polyloop.proof.obligation import Claim, Obligation, findings
from polyloop.proof.witness import instance
from polyloop.verification.accumulators import evaluated
from polyloop.verification.correspondence import Comparison, comparison_of, operation_of
from polyloop.verification.failing import may_fail_elsewhere
from polyloop.verification.node_heads import folded_operands, same_head
from polyloop.verification.origins import Use

__all__ = ["Element", "Entry", "Number", "Terms", "Text", "expression_obligations", "expression_violations", "texts"]


@dataclass(frozen=True, eq=False)
class Number:
    """An affine expression ``form`` of inames and parameters, which must have the value of the program's ``wanted``.

    ``shown`` has the use and the two expressions for messages: the whole accesses, if the form is in a subscript.
    """

    use: Use
    wanted: Affine
    form: Affine
    shown: tuple[Use, Expression, Expression]

    def differing(self) -> isl.Map | None:
        """Return ``{ place -> wrong value }``; None if the use does not determine the right value."""
        wanted = self.use.wanted([self.wanted.substitute(self.use.old.forms)])
        return None if wanted is None else self.use.found([self.form.substitute(self.use.new.forms)]).subtract(wanted)


@dataclass(frozen=True, eq=False)
class Element:
    """A read in a statement that fills a temporary: ``found``, which must see the value of the program's ``wanted``.

    Both are sequences because accesses of one text may differ in the conditions under which they are made.
    """

    use: Use
    wanted: Sequence[Access]
    found: Sequence[Access]


@dataclass(frozen=True, eq=False)
class Entry:
    """A read of a temporary that a transform fills; ``found`` are the accesses with its text."""

    use: Use
    found: Sequence[Access]


@dataclass(frozen=True, eq=False)
class Terms:
    """A reduction that is computed ahead of ``result``, the use of its result."""

    use: Use
    result: Use


@dataclass(frozen=True, eq=False)
class _Instances:
    """A copy, whose instances must all be instances of its original."""

    use: Use


_Operand: TypeAlias = Number | Element | Entry | Terms | _Instances


@dataclass(frozen=True, eq=False)
class Text:
    """Comparison of the text of one statement with its original's: the operands that need a proof beyond the text.

    ``difference`` is the first difference of the texts, if there is one; operands behind it are not listed.
    """

    operands: list[_Operand]
    difference: Diagnostic | None


def expression_violations(kernel: LoopKernel) -> Iterator[Diagnostic]:
    """Yield a diagnostic for each statement of *kernel* whose expressions are not those of its reference program."""
    yield from findings(kernel, expression_obligations(comparison_of(kernel)))


def expression_obligations(comparison: Comparison) -> Iterator[Obligation]:
    """Yield the obligation that the expressions of a transformed program are those of its reference program."""
    says = "each right-hand side, condition and subscript, rules expanded, is the program's"
    walk = _walk(comparison)
    yield Obligation(Claim.OPERANDS, "expressions", says, walk.argument, partial(_problems, walk))


def texts(comparison: Comparison) -> list[tuple[Placed, Text]]:
    """Return the statements of the transformed program, without mere copy instructions, each with its comparison."""
    walk = _walk(comparison)
    return [(s, walk.text(s)) for s in comparison.new.statements.values() if not is_carrier(s)]


@memoised
def _walk(comparison: Comparison) -> _Walk:
    return _Walk(comparison)


def _problems(walk: _Walk) -> Iterator[Diagnostic]:
    real = place(walk.kernel)
    for statement in real.statements.values():
        if is_carrier(statement):
            yield from islice(carrier_violations(real, statement), 1)
        else:
            text = walk.text(walk.comparison.new.statements.get(statement.name, statement))
            found = (problem for operand in text.operands for problem in walk.problems(operand))
            yield from islice(found if text.difference is None else chain(found, [text.difference]), 1)


class _Differs(Exception):  # noqa: N818  # a signal within this module
    def __init__(self, found: Diagnostic) -> None:
        super().__init__(found.message)
        self.found = found


class _Walk:
    """Walk over the expressions of a transformed program, side by side with those of its reference program."""

    def __init__(self, comparison: Comparison) -> None:
        self.comparison = comparison
        self.kernel = comparison.kernel
        self.is_folded = False
        self.known: dict[tuple[Placed, bool], frozenset[str]] = {}
        self.kept: dict[str, bool] = {}
        self.texts: dict[Placed, Text] = {}
        self.operands: list[_Operand] = []
        self.around: tuple[Use, Expression, Expression] | None = None
        self.is_index = False
        self.want: DType | None = None

    @cached_property
    def new(self) -> Placement:
        """The transformed program, with accesses to buffers as accesses to their arrays (:func:`unbuffered`)."""
        return self.comparison.new

    @cached_property
    def old(self) -> Placement:
        """The reference program."""
        return self.comparison.old

    @cached_property
    def types(self) -> OperandTypes:
        """The types of expressions in both programs."""
        return OperandTypes(self.old.program.kernel, self.new.program.kernel)

    @cached_property
    def arrays(self) -> Collection[str]:
        """The arrays of the transformed program, and the accumulators."""
        return {*self.new.program.kernel.arrays(), *self.new.program.accumulators}

    def argument(self) -> str:
        """Return the argument of the proof, with the rewrite that it used."""
        return "operands side by side" + (", up to integers computed ahead" if self.is_folded else "")

    def text(self, statement: Placed) -> Text:
        """Return the comparison of one statement."""
        known = self.texts.get(statement)
        if known is None:
            self.operands, self.around, self.is_index, self.want, difference = [], None, False, None, None
            try:
                self.statement(statement)
            except _Differs as error:
                difference = error.found
            known = self.texts[statement] = Text(self.operands, difference)
        return known

    def problems(self, operand: _Operand) -> Iterator[Diagnostic]:
        """Yield diagnostics if the instances of a copy, or the values of an affine expression, are not the program's.

        The other kinds of operands are proven in :mod:`.values`.
        """
        use = operand.use
        if isinstance(operand, _Instances):
            if not (use.free or use.reader.lowered.across or _is_inside(use.reader, use.old)):
                name, site = use.reader.lowered.instruction.id, use.reader.lowered.instruction.site()
                text = f"'{name}' would run for instances that '{use.old.lowered.instruction.id}' does not have"
                yield Diagnostic("expression-changed", text, hints=HINTS, sites=(site,))
        elif isinstance(operand, Number):
            looking_at(use.new, use.old)
            wrong = operand.differing()
            if wrong is None:
                why = f"which term of '{use.old.lowered.instruction.id}' it is does not follow from its place"
                yield self.different(*operand.shown, notes=(why,))
            elif not wrong.is_empty():
                why = f"they differ in instance {instance(use.reader, use.example(wrong.domain()))}"
                yield self.different(*operand.shown, notes=(why,))

    # {{{ statements

    def statement(self, new: Placed) -> None:
        """Compare the expressions of one copy.

        Fills, inits and combines are compared from the copies that read their results.
        """
        lowered = new.lowered
        origin = lowered.instruction.origin
        if not isinstance(origin, Copy | Partial) or isinstance(lowered.part, Init | Combine):
            return
        elif isinstance(lowered.part, Assign):
            at = Use(self.comparison.counterpart(new), new)
            if isinstance(origin, Partial):
                self.part(at, origin)
            else:
                self.assignment(at)
        elif not self.comparison.combines(new):
            old = self.comparison.counterpart(new)
            if operation_of(new).of_states == operation_of(old).of_states:
                at = Use(old, new)
                self.operands.append(_Instances(at))
                self.term(at, old, lowered.rhs)

    def assignment(self, at: Use) -> None:
        """Compare a copy of an assignment: both sides and the conditions."""
        old, new = at.old.lowered, at.new.lowered
        self.operands.append(_Instances(at))
        self.wanted(at, old.rhs, new.rhs, self.types.stored_in(old.lhs))
        if len(old.predicates) != len(new.predicates):
            self.differ(at, _all(old.predicates), _all(new.predicates), "under the condition")
        for a, b in zip(old.predicates, new.predicates, strict=True):
            self.match(at, a, b)
        if old.atomic != new.atomic:
            self.differ(at, old.atomic, new.atomic, "by the atomic update")
        self.target(at, old.lhs, new.lhs)

    def part(self, at: Use, origin: Partial) -> None:
        """Compare an instruction that stores partial results of a reduction."""
        wanted = self.updates(origin.instruction)[origin.number]
        name = at.new.lowered.write.array
        if self.kernel.partials.get(name) != (origin.instruction, origin.number) or at.new.lowered.predicates:
            self.differ(at, wanted.lowered.lhs, at.new.lowered.lhs, "in place of a part of")
        self.reduction(at, wanted, at.new.lowered.rhs)

    def updates(self, instruction: str) -> dict[int, Placed]:
        """Return the update statements of an instruction of the reference program, by the number of the reduction."""
        return _updates(self.old).get(instruction, {})

    def target(self, at: Use, a: Expression, b: Expression) -> None:
        """Compare assignees: the variable, and for an argument the element."""
        match a, b:
            case Targets(), Targets() if len(a.elements) == len(b.elements):
                for one, other in zip(a.elements, b.elements, strict=True):
                    self.target(at, one, other)
            case Lookup(), Lookup() if a.field == b.field:
                self.target(at, a.aggregate, b.aggregate)
            case (p.Variable() | p.Subscript()), (p.Variable() | p.Subscript()):
                self.element(at, a, b)
            case _:
                self.differ(at, a, b)

    # }}}
    # {{{ operands

    def match(self, at: Use, a: Expression, b: Expression) -> None:
        """Compare *b* in the transformed statement with *a* in the original; list the operands that need a proof."""
        if isinstance(b, p.Variable | p.Subscript) and self.is_read(b):
            self.read(at, a, b)
            return
        one, other = self.form(at.old, a), self.form(at.new, b)
        if one is not None and other is not None:
            if not one.terms and not other.terms:
                if one != other:
                    self.differ(at, a, b)
            elif not at.is_same(one, other):
                self.operands.append(Number(at, one, other, self.around or (at, a, b)))
            return
        self.node(at, a, b)

    def wanted(self, at: Use, a: Expression, b: Expression, want: DType | None) -> None:
        """Compare *b* with *a*, where *a* is wanted as *want*."""
        before, self.want = self.want, want
        self.match(at, a, b)
        self.want = before

    def node(self, at: Use, a: Expression, b: Expression) -> None:
        """Compare two inner nodes: their heads, their children, and their types in a value."""
        kind = type(a)
        if kind is not type(b):
            self.differ(at, a, b)
        if not isinstance(a, p.ExpressionNode):
            assert not is_dataclass(a), f"a leaf is a number or a name, not {a!r}, whose repr leaves things out"
            if repr(a) != repr(b):
                self.differ(at, a, b)
            return
        mine, theirs = children(a), children(b)
        if len(mine) != len(theirs) and kind in (p.Sum, p.Product):
            mine, theirs = folded_operands(a), folded_operands(b)
            self.is_folded = True
        if len(mine) != len(theirs) or not same_head(a, b):
            self.differ(at, a, b)
        is_index, self.is_index = self.is_index, self.is_index and kind is not TypeCast
        want = None if self.is_index else self.types.of_operands(a, self.want)
        for x, y in side_by_side(kind, mine, theirs):
            self.wanted(at, x, y, want)
        self.is_index = is_index
        if not is_index:
            try:
                note = self.types.of_operation(a, b)
            except TypeConflictError as conflict:
                site = at.new.lowered.instruction.site()
                raise _Differs(replace(conflict.diagnostic, sites=(site,))) from conflict
            self.same_type(at, a, b, note)

    def same_type(self, at: Use, a: Expression, b: Expression, note: str | None) -> None:
        """Raise ``type-changed`` if there is a *note* of two types."""
        if note is not None:
            found = self.different(at, a, b, notes=(note,))
            raise _Differs(replace(found, code="type-changed", hints=TYPE_HINTS))

    def is_read(self, node: Expression) -> bool:
        name = array_name(node)
        return name in self.arrays

    def read(self, at: Use, a: Expression, b: Expression) -> None:
        """Compare a read *b* of an array or accumulator with the expression *a*, whose value it must see."""
        name = array_name(b)
        if name in self.new.program.accumulators:
            wanted = self.result(at.old, a)
            if wanted is None:
                self.differ(at, a, b)
            self.reduction(at, wanted, b)
        elif name in self.kernel.evaluations:
            note = self.types.of_stored(a, b, at.old.lowered.instruction, self.want, self.is_index)
            self.same_type(at, a, b, note)
            if at.is_new(a, b):
                for inside in self.sources(at, b):
                    self.match(inside, a, inside.new.lowered.rhs)
        elif isinstance(a, p.Variable | p.Subscript) and array_name(a) in self.old.program.kernel.arrays():
            self.element(at, a, b)
        else:
            self.differ(at, a, b)

    def element(self, at: Use, a: Expression, b: Expression) -> None:
        """Compare the variables of two accesses, and the subscripts that no dataflow proof covers."""
        name, meant = array_name(a), array_name(b)
        if meant in self.kernel.buffers:
            if self.kernel.buffers[meant] != name:
                self.differ(at, a, b)
            return  # buffer_obligations prove that it is the element
        if name != meant:
            self.differ(at, a, b)
        if at.steps:
            self.operands.append(Element(at, self.accesses(self.old, at.old, a), self.accesses(self.new, at.new, b)))
        before, self.around = self.around, self.around or (at, a, b)
        is_index, self.is_index = self.is_index, True
        try:
            for x, y in self.subscripts(at, a, b):
                self.match(at, x, y)
        except _Differs as error:
            if before is not None:
                raise
            whole = self.different(at, a, b, notes=error.found.notes)
            raise _Differs(replace(whole, code=error.found.code, hints=error.found.hints)) from error
        self.around, self.is_index = before, is_index

    def subscripts(self, at: Use, a: Expression, b: Expression) -> list[tuple[Expression, Expression]]:
        """Return the pairs of subscripts that no dataflow proof covers.

        Affine subscripts of written temporaries are proven by the order of accesses, affine subscripts in fills by the
        values of the temporaries.
        """
        mine, theirs = (list(e.index_tuple) if isinstance(e, p.Subscript) else [] for e in (a, b))
        if not self.is_kept(array_name(a)):
            mine = [x for x in mine if self.form(at.old, x) is None]
            theirs = [y for y in theirs if self.form(at.new, y) is None]
        if len(mine) != len(theirs):
            self.differ(at, a, b)
        pairs = list(zip(mine, theirs, strict=True))
        if at.steps:
            return [(x, y) for x, y in pairs if self.form(at.old, x) is None or self.form(at.new, y) is None]
        return pairs

    def is_kept(self, name: str) -> bool:
        """Return True for arguments and unwritten arrays, of which affine subscripts are compared, too."""
        known = self.kept.get(name)
        if known is None:
            array = self.old.program.kernel.arrays().get(name)
            known = self.kept[name] = isinstance(array, ArrayArg) or not writers_of(self.old, name)
        return known

    def sources(self, at: Use, b: Expression) -> Iterator[Use]:
        """Yield the uses in the statements that fill the temporary that *b* reads."""
        array, found = array_name(b), self.accesses(self.new, at.new, b)
        self.operands.append(Entry(at, found))
        for source in writers_of(self.new, array):
            if isinstance(source.lowered.instruction.origin, Carry):
                continue  # Comparison.flow traces values through saves and reloads
            if source.lowered.predicates or source.lowered.atomic:
                self.differ(at, b, f"{show(b)}, where a condition holds")
            yield at.into(source, partial(self.link, at.new, found, source), array)

    def link(self, reader: Placed, accesses: Sequence[Access], source: Placed) -> isl.Map:
        """Return ``{ instance that reads -> instance of the source whose value it sees }``."""
        flow = self.comparison.flow(accesses[0].array)
        links = [link for a in accesses for other, link in flow.of(reader, a)[0] if other is source]
        nothing = isl.Map.empty(reader.domain.get_space().map_from_domain_and_range(source.domain.get_space()))
        return reduce(isl.Map.union, links) if links else nothing

    def accesses(self, placement: Placement, statement: Placed, node: Expression) -> list[Access]:
        """Return the read of *statement* with the text *node*; several if each is made under a condition."""
        indices = node.index_tuple if isinstance(node, p.Subscript) else ()
        known = {*statement.lowered.inames, *placement.program.kernel.parameters}
        forms = tuple(f if (f := affine_of(e)) is not None and f.names() <= known else None for e in indices)
        reads = [a for a in statement.lowered.reads if a.array == array_name(node) and not isinstance(a.kind, Kept)]
        found = [a for a in reads if a.indices == forms]
        if not found:
            raise AssertionError(f"{statement.name} has no read {show(node)}")
        return [a for a in found if a.domain is None][:1] or found  # an unconditional access covers the others

    def form(self, statement: Placed, expr: Expression) -> Affine | None:
        """Return *expr* as an affine form of inames and parameters, None if it is none."""
        if isinstance(expr, np.generic):
            return None
        numbers = self.numbers(statement)
        form = affine_in(expr, numbers)
        if form is None or not form.terms:
            return form
        if len(form.terms) == 1 and type(form.terms[0][0]) is str:
            return form if form.terms[0][0] in numbers else None
        return form if form.names() <= numbers else None

    def numbers(self, statement: Placed) -> frozenset[str]:
        """Return the names that may occur in affine forms of *statement*: in a value, those of index values alone."""
        known = self.known.get((statement, self.is_index))
        if known is None:
            lowered = statement.lowered
            exact = self.types.exact if not self.is_index else (*lowered.fixed, *self.kernel.parameters)
            known = self.known[statement, self.is_index] = frozenset((*lowered.inames, *exact))
        return known

    # }}}
    # {{{ reductions

    def result(self, old: Placed, a: Expression) -> Placed | None:
        """Return the update statement of the reduction whose result *a* reads, None if it reads no accumulator."""
        if not isinstance(a, p.Variable | p.Subscript):
            return None
        found = self.updates(old.lowered.instruction.id).values()
        return next((update for update in found if update.lowered.write.array == array_name(a)), None)

    def reduction(self, at: Use, wanted: Placed, b: Expression) -> None:
        """Compare *b* with the reduction of *wanted*: it must read a result of it, or a partial result."""
        if not isinstance(b, p.Variable | p.Subscript):
            self.differ(at, wanted.lowered.lhs, b)
        name = array_name(b)
        if not at.is_new(wanted, b):
            return
        if name in self.kernel.evaluations:
            for inside in self.sources(at, b):
                self.reduction(inside, wanted, inside.new.lowered.rhs)
        elif name in self.kernel.partials:
            if self.kernel.partials[name] != (wanted.lowered.instruction.id, wanted.lowered.number):
                self.differ(at, wanted.lowered.lhs, b)
        elif name in self.new.program.accumulators:
            for statement in writers_of(self.new, name):
                self.collected(at, wanted, statement)
        else:
            self.differ(at, wanted.lowered.lhs, b)

    def collected(self, at: Use, wanted: Placed, statement: Placed) -> None:
        """Compare one statement of a reduction of the transformed program with the reduction of *wanted*."""
        lowered = statement.lowered
        mine, theirs = operation_of(wanted), operation_of(statement)
        if replace(mine, of_states=False) != replace(theirs, of_states=False):
            self.differ(at, str(mine), str(theirs), "with the operation")
        if isinstance(lowered.part, Combine) or lowered.rhs is None:
            return
        inside = at.within(statement, evaluated) if at.steps else Use(at.old, statement)
        if isinstance(lowered.part, Init) or (theirs.of_states and not mine.of_states):
            self.reduction(inside, wanted, lowered.rhs)
        elif not isinstance(lowered.instruction.origin, Evaluation):
            if not self.comparison.stands_for(statement, wanted):
                self.differ(at, wanted.lowered.lhs, lowered.lhs)
        else:
            moved = inside.of(wanted)
            self.operands.append(Terms(moved, at))
            self.term(moved, wanted, lowered.rhs)

    def term(self, at: Use, wanted: Placed, b: Expression) -> None:
        """Compare a term of a reduction with that of *wanted*, which conditions around it may hold back."""
        try:
            self.match(at, wanted.lowered.rhs, b)
        except _Differs as error:
            instruction, number = wanted.lowered.instruction, wanted.lowered.number
            assert number is not None, f"{wanted.name} belongs to no reduction"
            held = terms_held(self.old.program.kernel, instruction)[number]
            if not held or type(b) is type(wanted.lowered.rhs):
                raise
            why = f"'{instruction.id}' uses it where {' and '.join(map(show, held))}"
            raise _Differs(may_fail_elsewhere(at.new, b, why)) from error

    # }}}

    def differ(self, at: Use, a: object, b: object, word: str = "", notes: tuple[str, ...] = ()) -> NoReturn:
        """Raise the diagnostic of :meth:`different`."""
        raise _Differs(self.different(at, a, b, word, notes))

    def different(self, at: Use, a: object, b: object, word: str = "", notes: tuple[str, ...] = ()) -> Diagnostic:
        """Return the diagnostic that the transformed program has *b* where the program has *a*."""
        name, original = at.new.lowered.instruction.id, at.old.lowered.instruction.id
        word = f"{word} " if word else ""
        there, here = (_shown(placement, e) for placement, e in ((self.old, a), (self.new, b)))
        text = f"'{name}' would compute {word}'{here}' where '{original}' of the program has '{there}'"
        instructions = dict.fromkeys((at.reader.lowered.instruction, at.new.lowered.instruction))
        sites = tuple(instruction.site() for instruction in instructions)
        return Diagnostic("expression-changed", text, notes, HINTS, sites=sites)


@memoised
def _is_inside(copy: Placed, original: Placed) -> bool:
    """Return True if each instance of *copy* maps to an instance of *original*."""
    looking_at(copy, original)
    exact = bool(copy.lowered.bounds or original.lowered.bounds)  # compared for equal values of bound variables
    instances = reference_map(copy, original, exact=exact).range()
    return bool(instances.is_subset(original.exact if exact else original.domain))


@memoised
def _updates(old: Placement) -> dict[str, dict[int, Placed]]:
    """Return the update statements of a reference program, by instruction and number of the reduction."""
    found: dict[str, dict[int, Placed]] = {}
    for statement in old.statements.values():
        if isinstance(part := statement.lowered.part, Update):
            found.setdefault(statement.lowered.instruction.id, {})[part.reduction.number] = statement
    return found


def _all(conditions: Sequence[Expression]) -> Expression:
    return conditions[0] if len(conditions) == 1 else p.LogicalAnd(tuple(conditions)) if conditions else True


def _shown(placement: Placement, expr: object) -> str:
    """Return *expr* as text, with accumulators replaced by their reductions."""

    def named(node: Expression) -> Expression:
        if not isinstance(node, p.Variable | p.Subscript) or array_name(node) not in placement.program.accumulators:
            return node
        for statement in writers_of(placement, array_name(node)):
            if isinstance(part := statement.lowered.part, Update):
                reduction = part.reduction
                return Reduction(reduction.operation, reduction.inames, map_nodes(statement.lowered.rhs, named))
        return node

    return expr if isinstance(expr, str) else show(map_nodes(expr, named))
