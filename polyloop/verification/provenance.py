"""Expressions of a transformed program against those of its reference program, operand by operand.

A copy of a statement has the reference statement's right-hand side, conditions and subscripts, with its own instances
in the place of the program's: both are walked side by side.  A read of a temporary that a transform fills stands for
what fills it, which is walked in its place, through any number of temporaries; a result of a reduction in parts stands
for the one reduction of the program.  What is left are operands:

* numbers, functions, operators and names of variables are the same,
* an affine expression of inames has the value that the program's has, for each instance,
* a read of an array that nobody writes, or of an argument, is of the same element.  Which write a read sees, and which
  element of a temporary, is proven by the order of accesses and the values that go through temporaries.

Instructions that only carry values (buffers, what launches save, asynchronous copies) have nothing but a read on their
right-hand side.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import NoReturn

import islpy as isl
import numpy as np
import pymbolic.primitives as p

from polyloop.dataflow.address_spaces import place
from polyloop.dataflow.pass_through import HINTS, carrier_violations, is_carrier
from polyloop.dataflow.value_flow import writers_of
from polyloop.dataflow.value_paths import Path
from polyloop.errors import Diagnostic
from polyloop.expr.nodes import (
    CText,
    Expression,
    Lookup,
    Record,
    Reduction,
    Targets,
    TypeCast,
    array_name,
)
from polyloop.expr.printer import show
from polyloop.expr.rewrite import children, map_nodes
from polyloop.frozen import replace
from polyloop.kernel.arrays import ArrayArg
from polyloop.kernel.instruction import Copy, Evaluation, Partial
from polyloop.kernel.kernel import LoopKernel, memoised
from polyloop.mapping.thread_mapping import Placed, Placement, free_inames, reference_map
from polyloop.poly.affine import Affine, affine_of
from polyloop.poly.budget import looking_at
from polyloop.poly.sets import map_from_forms
from polyloop.program.lower import Access
from polyloop.proof.obligation import Claim, Obligation, findings
from polyloop.proof.witness import instance, pair
from polyloop.verification.accumulators import evaluated
from polyloop.verification.correspondence import Comparison

__all__ = ["expression_obligations", "expression_violations"]


def expression_violations(kernel: LoopKernel) -> Iterator[Diagnostic]:
    """Yield where an expression of *kernel* is not that of its reference program."""
    yield from findings(kernel, expression_obligations(Comparison(kernel)))


def expression_obligations(comparison: Comparison) -> Iterator[Obligation]:
    """Yield that the expressions of a transformed program are those of its reference program."""
    says = "each right-hand side, condition and subscript, rules expanded, is the program's"
    walk = _Walk(comparison)
    yield Obligation(Claim.OPERANDS, "expressions", says, walk.argument, partial(_problems, walk))


def _problems(walk: _Walk) -> Iterator[Diagnostic]:
    comparison = walk.comparison
    for statement in walk.real.statements.values():
        try:
            walk.statement(comparison.new.statements.get(statement.name, statement))
        except _Differs as error:
            yield error.found


class _Differs(Exception):  # noqa: N818  # a signal within this module
    def __init__(self, found: Diagnostic) -> None:
        super().__init__(found.message)
        self.found = found


@dataclass(frozen=True, eq=False)
class _At:
    """A pair of statements that are walked side by side.

    Attributes
    ----------
    old
        The statement of the reference program.
    reader
        The copy in which the walk began.
    steps
        The statements through which a value has come to it, the last of which is looked at; each with a function for
        the relation to it from the one before.
    is_moved
        Whether ``old`` is a reduction that the steps compute, and not what the reader copies.
    """

    old: Placed
    reader: Placed
    steps: tuple[tuple[Placed, Callable[[], isl.Map]], ...] = ()
    is_moved: bool = False

    @property
    def new(self) -> Placed:
        """The statement of the transformed program that is looked at."""
        return self.steps[-1][0] if self.steps else self.reader

    def into(self, statement: Placed, link: Callable[[], isl.Map]) -> _At:
        """Return the place in *statement*, which computes a value that is used here."""
        return _At(self.old, self.reader, (*self.steps, (statement, link)), self.is_moved)

    @cached_property
    def path(self) -> Path:
        """The steps with their relations."""
        return Path(self.reader, tuple((statement, link()) for statement, link in self.steps))

    @cached_property
    def free(self) -> frozenset[str]:
        """Inames of the reference statement that its copy does not decide about."""
        return free_inames(self.reader, self.old)

    @cached_property
    def forms(self) -> dict[str, Affine]:
        """Inames of the reference statement in terms of the dimensions of its copy, those that it decides about."""
        origin = self.reader.lowered.instruction.origin
        assert isinstance(origin, Copy | Partial), "only a copy has a reference instance"
        inames = self.old.lowered.inames
        return {x: origin.forms[x].substitute(self.reader.forms) for x in inames if x not in self.free}

    @cached_property
    def compared(self) -> dict[tuple[Affine, Affine], bool]:
        """Pairs of forms, and whether they are one form in the dimensions of the reader: subscripts recur."""
        return {}

    def is_same(self, a: Affine, b: Affine) -> bool:
        """Return whether a form of the reference statement and one of its copy are the same at sight."""
        known = self.compared.get((a, b))
        if known is None:
            known = not self.steps and (not self.free or a.names().isdisjoint(self.free))
            known = known and a.substitute(self.forms) == b.substitute(self.new.forms)
            self.compared[a, b] = known
        return known


class _Walk:
    """The expressions of one transformed program."""

    def __init__(self, comparison: Comparison) -> None:
        self.comparison = comparison
        self.kernel = comparison.kernel
        self.is_folded = False
        self.known: dict[Placed, frozenset[str]] = {}
        self.kept: dict[str, bool] = {}

    @cached_property
    def new(self) -> Placement:
        """The transformed program, in which what is in a buffer counts as in its array."""
        return self.comparison.new

    @cached_property
    def old(self) -> Placement:
        """The reference program."""
        return self.comparison.old

    @cached_property
    def real(self) -> Placement:
        """The transformed program with its buffers."""
        return place(self.kernel)

    @cached_property
    def arrays(self) -> Collection[str]:
        """The arrays of the transformed program, and the accumulators."""
        return {*self.new.program.kernel.arrays(), *self.new.program.accumulators}

    def argument(self) -> str:
        """Return the kind of argument, with the rewrites that it went by."""
        return "operands side by side" + (", up to integers computed ahead" if self.is_folded else "")

    # {{{ statements

    def statement(self, new: Placed) -> None:
        """Look at what one statement computes, unless it only has a part in what others do."""
        lowered = new.lowered
        origin = lowered.instruction.origin
        if is_carrier(new):
            for finding in carrier_violations(self.real, new):
                raise _Differs(finding)
        elif not isinstance(origin, Copy | Partial) or lowered.role in ("init", "combine"):
            return  # what reads it looks at it
        elif lowered.role == "plain":
            at = _At(self.comparison.counterpart(new), new)
            if isinstance(origin, Partial):
                self.part(at, origin)
            else:
                self.assignment(at)
        elif not self.comparison.combines(new):
            operation = lowered.operation
            assert operation is not None, "an update has an operation"
            old = self.comparison.counterpart(new)
            if operation.of_states == (old.lowered.operation is not None and old.lowered.operation.of_states):
                at = _At(old, new)
                self.instances(at)
                self.match(at, old.lowered.rhs, lowered.rhs)

    def assignment(self, at: _At) -> None:
        """Look at a copy of an assignment: both sides and the conditions."""
        old, new = at.old.lowered, at.new.lowered
        self.instances(at)
        self.match(at, old.rhs, new.rhs)
        if len(old.predicates) != len(new.predicates):
            self.differ(at, _all(old.predicates), _all(new.predicates), "under the condition")
        for a, b in zip(old.predicates, new.predicates, strict=True):
            self.match(at, a, b)
        if old.atomic != new.atomic:
            self.differ(at, old.atomic, new.atomic, "by the atomic update")
        self.target(at, old.lhs, new.lhs)

    def instances(self, at: _At) -> None:
        """Look whether each instance of a copy is one of the program's."""
        if at.free or at.reader.lowered.across:
            return
        known = _known_inside(at.reader)
        if at.old not in known:
            looking_at(at.reader, at.old)
            known[at.old] = bool(reference_map(at.reader, at.old).range().is_subset(at.old.domain))
        if not known[at.old]:
            name, site = at.reader.lowered.instruction.id, at.reader.lowered.instruction.site()
            text = f"'{name}' would run for instances that '{at.old.lowered.instruction.id}' does not have"
            raise _Differs(Diagnostic("expression-changed", text, hints=HINTS, sites=(site,)))

    def part(self, at: _At, origin: Partial) -> None:
        """Look at an instruction that stores parts of the results of a reduction."""
        wanted = self.updates(origin.instruction)[origin.number]
        name = at.new.lowered.write.array
        if self.kernel.partials.get(name) != (origin.instruction, origin.number) or at.new.lowered.predicates:
            self.differ(at, wanted.lowered.lhs, at.new.lowered.lhs, "in place of a part of")
        self.reduction(at, wanted, at.new.lowered.rhs)

    def updates(self, instruction: str) -> dict[int, Placed]:
        """Return the reductions of an instruction of the reference program by their numbers."""
        return _updates(self.old).get(instruction, {})

    def target(self, at: _At, a: Expression, b: Expression) -> None:
        """Look at what is assigned: the same variable, and of an argument the same element."""
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

    def match(self, at: _At, a: Expression, b: Expression) -> None:
        """Look whether *b* has the value of *a*, each in its statement."""
        if isinstance(b, p.Variable | p.Subscript) and self.is_read(b):
            self.read(at, a, b)
            return
        one, other = self.form(at.old, a), self.form(at.new, b)
        if one is not None and other is not None:
            why = self.same(at, one, other)
            if why is not None:
                self.differ(at, a, b, notes=(why,) if why else ())
            return
        self.node(at, a, b)

    def node(self, at: _At, a: Expression, b: Expression) -> None:
        """Look whether two nodes that are no operands are the same, and have the same operands."""
        kind = type(a)
        if kind is not type(b):
            self.differ(at, a, b)
        if not isinstance(a, p.ExpressionNode):
            if repr(a) != repr(b):
                self.differ(at, a, b)
            return
        mine, theirs = children(a), children(b)
        if len(mine) != len(theirs) and kind in (p.Sum, p.Product):
            mine, theirs = _operands(a), _operands(b)
            self.is_folded = True
        if len(mine) != len(theirs) or not _same_head(a, b):
            self.differ(at, a, b)
        for x, y in zip(mine, theirs, strict=True):
            self.match(at, x, y)

    def is_read(self, node: Expression) -> bool:
        name = array_name(node)
        return name in self.arrays

    def read(self, at: _At, a: Expression, b: Expression) -> None:
        """Look whether a read *b* sees the value of *a*."""
        name = array_name(b)
        if name in self.new.program.accumulators:
            wanted = self.result(at.old, a)
            if wanted is None:
                self.differ(at, a, b)
            self.reduction(at, wanted, b)
        elif name in self.kernel.evaluations:
            for inside in self.sources(at, b):
                self.match(inside, a, inside.new.lowered.rhs)
        elif isinstance(a, p.Variable | p.Subscript) and array_name(a) in self.old.program.kernel.arrays():
            self.element(at, a, b)
        else:
            self.differ(at, a, b)

    def element(self, at: _At, a: Expression, b: Expression) -> None:
        """Look whether *b* is the element that *a* is, as far as dataflow does not show it."""
        name, meant = array_name(a), array_name(b)
        if meant in self.kernel.buffers:
            if self.kernel.buffers[meant] != name:
                self.differ(at, a, b)
            return  # buffer_obligations show which element it is
        if name != meant:
            self.differ(at, a, b)
        mine, theirs = (e.index_tuple if isinstance(e, p.Subscript) else () for e in (a, b))
        if self.is_kept(name):
            if len(mine) != len(theirs):
                self.differ(at, a, b)
            pairs = list(zip(mine, theirs, strict=True))
            if at.steps:  # value_obligations show which element it is, as far as subscripts are affine
                pairs = [(x, y) for x, y in pairs if self.form(at.old, x) is None or self.form(at.new, y) is None]
        else:
            mine = tuple(x for x in mine if self.form(at.old, x) is None)
            theirs = tuple(y for y in theirs if self.form(at.new, y) is None)
            if len(mine) != len(theirs):
                self.differ(at, a, b)
            pairs = list(zip(mine, theirs, strict=True))
        for x, y in pairs:
            try:
                self.match(at, x, y)
            except _Differs as error:
                self.differ(at, a, b, notes=error.found.notes)

    def is_kept(self, name: str) -> bool:
        """Return whether the elements of a variable are the reference program's, and do not follow from its writes."""
        known = self.kept.get(name)
        if known is None:
            array = self.old.program.kernel.arrays().get(name)
            known = self.kept[name] = isinstance(array, ArrayArg) or not writers_of(self.old, name)
        return known

    def sources(self, at: _At, b: Expression) -> Iterator[_At]:
        """Yield the places in the statements that fill the temporary that is read."""
        for source in writers_of(self.new, array_name(b)):
            if source.lowered.predicates or source.lowered.atomic:
                self.differ(at, b, f"{show(b)}, where a condition holds")
            yield at.into(source, partial(self.link, at.new, b, source))

    def link(self, reader: Placed, b: Expression, source: Placed) -> isl.Map:
        """Return ``{ instance that reads -> instance of the source whose value it sees }``."""
        space = reader.domain.get_space().map_from_domain_and_range(source.domain.get_space())
        found = isl.Map.empty(space)
        for access in self.accesses(reader, b):
            sources, _ = self.comparison.flow(access.array).of(reader, access)
            for other, link in sources:
                if other is source:
                    found = found.union(link)
        return found

    def accesses(self, statement: Placed, node: Expression) -> list[Access]:
        """Return the reads of *statement* that *node* of its text may be: they differ in what they depend on."""
        indices = node.index_tuple if isinstance(node, p.Subscript) else ()
        known = {*statement.lowered.inames, *self.kernel.parameters}
        forms = tuple(f if (f := affine_of(e)) is not None and f.names() <= known else None for e in indices)
        name = array_name(node)
        return [a for a in statement.lowered.reads if a.array == name and a.indices == forms and not a.keeps]

    def form(self, statement: Placed, expr: Expression) -> Affine | None:
        """Return *expr* as a form of inames and parameters, None if it is none."""
        if isinstance(expr, np.generic):
            return None
        form = affine_of(expr)
        if form is None or not form.terms:
            return form
        numbers = self.numbers(statement)
        if len(form.terms) == 1 and type(form.terms[0][0]) is str:
            return form if form.terms[0][0] in numbers else None
        return form if form.names() <= numbers else None

    def numbers(self, statement: Placed) -> frozenset[str]:
        """Return the inames and parameters of which *statement* may have forms."""
        known = self.known.get(statement)
        if known is None:
            lowered = statement.lowered
            known = self.known[statement] = frozenset((*lowered.inames, *lowered.fixed, *self.kernel.parameters))
        return known

    def same(self, at: _At, a: Affine, b: Affine) -> str | None:
        """Return why two forms, each in the inames of its statement, have not one value; None if they have."""
        if not a.terms and not b.terms:
            return None if a == b else ""
        if at.is_same(a, b):
            return None
        looking_at(at.new, at.old)
        wrong = self.differing(at, a.substitute(at.old.forms), b.substitute(at.new.forms))
        if wrong is None:
            return f"which term of '{at.old.lowered.instruction.id}' it is does not follow from its place"
        if wrong.is_empty():
            return None
        values, _ = pair(wrong.identity(), at.reader, at.reader)
        return f"they differ in instance {instance(at.reader, values)}"

    def differing(self, at: _At, a: Affine, b: Affine) -> isl.Set | None:
        """Return the instances of the reader for which two forms differ, None if it is not known which term it is."""
        wanted = map_from_forms(at.old.domain, at.old.dims, [a])
        if at.is_moved:
            reached = at.path.reference_instances(at.old)
            if reached is None:
                return None
            wrong = at.path.values([b]).subtract(reached.apply_range(wanted)).domain()
            return wrong if wrong.is_empty() else wrong.unwrap().domain()
        left = reference_map(at.reader, at.old)
        got = map_from_forms(at.new.domain, at.new.dims, [b])
        got = at.path.relation.apply_range(got) if at.steps else got
        return got.intersect_domain(left.domain()).subtract(left.apply_range(wanted)).domain()

    # }}}
    # {{{ reductions

    def result(self, old: Placed, a: Expression) -> Placed | None:
        """Return the reduction of the reference program whose result *a* is, None if it is none."""
        if not isinstance(a, p.Variable | p.Subscript):
            return None
        found = self.updates(old.lowered.instruction.id).values()
        return next((update for update in found if update.lowered.write.array == array_name(a)), None)

    def reduction(self, at: _At, wanted: Placed, b: Expression) -> None:
        """Look whether *b* is a result, or a part of one, of a reduction of the reference program."""
        if not isinstance(b, p.Variable | p.Subscript):
            self.differ(at, wanted.lowered.lhs, b)
        name = array_name(b)
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

    def collected(self, at: _At, wanted: Placed, statement: Placed) -> None:
        """Look at one statement of a reduction that stands for that of *wanted*."""
        lowered = statement.lowered
        mine, theirs = wanted.lowered.operation, lowered.operation
        assert mine is not None, "a reduction has an operation"
        assert theirs is not None, "a reduction has an operation"
        if replace(mine, of_states=False) != replace(theirs, of_states=False):
            self.differ(at, str(mine), str(theirs), "with the operation")
        if lowered.role == "combine" or lowered.rhs is None:
            return
        inside = at.into(statement, partial(evaluated, at.new, statement)) if at.steps else _At(at.old, statement)
        if lowered.role == "init" or (theirs.of_states and not mine.of_states):
            self.reduction(inside, wanted, lowered.rhs)
        elif not isinstance(lowered.instruction.origin, Evaluation):
            if not self.comparison.stands_for(statement, wanted):
                self.differ(at, wanted.lowered.lhs, lowered.lhs)
        else:
            self.match(_At(wanted, inside.reader, inside.steps, True), wanted.lowered.rhs, lowered.rhs)

    # }}}

    def differ(self, at: _At, a: object, b: object, word: str = "", notes: tuple[str, ...] = ()) -> NoReturn:
        """Raise that *b* stands where the program has *a*."""
        name, original = at.new.lowered.instruction.id, at.old.lowered.instruction.id
        word = f"{word} " if word else ""
        there, here = (_shown(placement, e) for placement, e in ((self.old, a), (self.new, b)))
        text = f"'{name}' would compute {word}'{here}' where '{original}' of the program has '{there}'"
        instructions = dict.fromkeys((at.reader.lowered.instruction, at.new.lowered.instruction))
        sites = tuple(instruction.site() for instruction in instructions)
        raise _Differs(Diagnostic("expression-changed", text, notes, HINTS, sites=sites))


@memoised
def _known_inside(copy: Placed) -> dict[Placed, bool]:
    """Return where it is kept whether each instance of *copy* is one of a statement of the program."""
    del copy
    return {}


@memoised
def _updates(old: Placement) -> dict[str, dict[int, Placed]]:
    """Return the reductions of a reference program by instruction and number."""
    found: dict[str, dict[int, Placed]] = {}
    for statement in old.statements.values():
        number = statement.lowered.number
        if statement.lowered.role == "update" and number is not None:
            found.setdefault(statement.lowered.instruction.id, {})[number] = statement
    return found


def _all(conditions: Sequence[Expression]) -> Expression:
    return conditions[0] if len(conditions) == 1 else p.LogicalAnd(tuple(conditions)) if conditions else True


def _shown(placement: Placement, expr: object) -> str:
    """Return *expr* as text, with reductions in the place of their accumulators."""

    def named(node: Expression) -> Expression:
        if not isinstance(node, p.Variable | p.Subscript) or array_name(node) not in placement.program.accumulators:
            return node
        for statement in writers_of(placement, array_name(node)):
            lowered = statement.lowered
            if lowered.role == "update" and lowered.operation is not None:
                return Reduction(lowered.operation, lowered.own, map_nodes(lowered.rhs, named))
        return node

    return expr if isinstance(expr, str) else show(map_nodes(expr, named))


def _operands(expr: Expression) -> tuple[Expression, ...]:
    """Return the operands of a sum or product, those integers that come first as one."""
    operands: tuple[Expression, ...] = expr.children
    values: list[int] = []
    for operand in operands:
        form = affine_of(operand)
        if form is None or form.terms or isinstance(operand, np.generic):
            break
        values.append(form.const)
    if len(values) < 2:
        return operands
    start = values[0]
    for value in values[1:]:
        start = start + value if isinstance(expr, p.Sum) else start * value
    return (start, *operands[len(values) :])


def _same_head(a: Expression, b: Expression) -> bool:
    """Return whether two nodes of one kind are the same but for their operands."""
    match a:
        case p.Call():
            return bool(a.function == b.function)
        case p.Comparison():
            return bool(a.operator == b.operator)
        case p.Variable():
            return bool(a.name == b.name)
        case p.Subscript():
            return array_name(a) == array_name(b)
        case TypeCast() | Record():
            return bool(a.dtype == b.dtype)
        case Lookup():
            return bool(a.field == b.field)
        case CText():
            return bool((a.code, a.names, a.touched, len(a.values)) == (b.code, b.names, b.touched, len(b.values)))
        case _:
            return True
