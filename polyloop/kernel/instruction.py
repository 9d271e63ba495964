"""Instructions with their origins, substitution rules and explicit barriers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from typing import Any, Final, TypeAlias

import islpy as isl
import pymbolic.primitives as p

from polyloop.display import Shown
from polyloop.errors import Place, Site
from polyloop.expr.nodes import CText, Expression, Operation, array_name, targets_of
from polyloop.expr.printer import show
from polyloop.expr.rewrite import substitute
from polyloop.expr.rules import bind, is_parameter, unbind
from polyloop.frozen import quick, replace
from polyloop.kernel.intrinsic import Matrix
from polyloop.kernel.text.options import NoSync
from polyloop.kernel.tree import Scope
from polyloop.poly.affine import Affine
from polyloop.poly.sets import reorder

__all__ = [
    "Carry",
    "Copy",
    "CopyStep",
    "Evaluation",
    "ExplicitBarrier",
    "Instruction",
    "Move",
    "MoveRole",
    "Origin",
    "Partial",
    "SubstitutionRule",
    "Term",
    "may_group",
    "renested",
]


@dataclass(frozen=True)
class SubstitutionRule:
    """``name(arguments) := expression``: a macro, expanded at each use.

    ``value`` is in terms of ``parameters``, whose names nothing else can have (:func:`polyloop.expr.rules.bind`): what
    is done to other names does not concern them.
    """

    name: str
    parameters: tuple[str, ...]
    value: Expression

    def __post_init__(self) -> None:
        assert all(map(is_parameter, self.parameters)), f"{self.parameters} of '{self.name}' are not bound"

    @staticmethod
    def of(name: str, arguments: Sequence[str], expression: Expression) -> SubstitutionRule:
        """Return the rule that ``name(arguments) := expression`` spells."""
        return SubstitutionRule(name, *bind(arguments, expression))

    @property
    def arguments(self) -> tuple[str, ...]:
        """Names for the parameters, as people read them."""
        return unbind(self.parameters, self.value)[0]

    @property
    def expression(self) -> Expression:
        """The value in terms of ``arguments``, to be shown."""
        return unbind(self.parameters, self.value)[1]

    def mapped(self, change: Callable[[Expression], Expression]) -> SubstitutionRule:
        """Return the rule with *change* made in its value; the rule itself if that changes nothing."""
        value = change(self.value)
        return self if value is self.value else SubstitutionRule(self.name, self.parameters, value)

    def over(self, arguments: Sequence[Expression]) -> Expression:
        """Return the value of ``name(arguments)``; other rules in it stay."""
        return substitute(self.value, dict(zip(self.parameters, arguments, strict=True)))

    def __str__(self) -> str:
        names, expression = unbind(self.parameters, self.value)
        return f"{self.name}({', '.join(names)}) := {show(expression)}"


@quick
@dataclass(frozen=True)
class Copy:
    """The instruction executes instances of one instruction of the reference program.

    ``forms`` gives each iname of the reference instruction (loop and reduction inames) as an
    affine form of the present inames.
    """

    instruction: str
    forms: Mapping[str, Affine]


@dataclass(frozen=True)
class Evaluation:
    """The instruction evaluates a substitution rule, or reads an array, ahead of its use.

    ``forms`` gives each iname of the rule's reductions as an affine form of the present inames, and those others of the
    program that are the same wherever the value is used.
    """

    rule: str
    forms: Mapping[str, Affine] = field(default_factory=dict)


class MoveRole(Enum):
    """Role of a move between an element and its place in the buffer."""

    LOAD = "load"
    """The element's value into the buffer."""
    START = "start"
    """A value of its own into the buffer."""
    STORE = "store"
    """The value in the buffer back to the element."""
    ADD = "add"
    """The value in the buffer combined with the element's: what began as a neutral element collects updates."""


@dataclass(frozen=True)
class Move:
    """The instruction carries values between an array and its buffer.

    ``forms`` gives each subscript of the array's element, by its number (``"0"``, ``"1"``), as an affine form of the
    present inames.
    """

    array: str
    role: MoveRole
    forms: Mapping[str, Affine]


@dataclass(frozen=True)
class Carry:
    """The instruction carries the values of a temporary from one launch to a later one: it saves or reloads them."""

    temporary: str
    forms: Mapping[str, Affine] = field(default_factory=dict)


@dataclass(frozen=True)
class Partial:
    """The instruction combines some terms of reduction ``number`` of a reference instruction, for several results.

    ``forms`` gives the inames of that reduction, and those loops of the reference instruction that are the same for all
    of these results, as affine forms of the present inames.
    """

    instruction: str
    number: int
    forms: Mapping[str, Affine]


class CopyStep(Enum):
    """Half of an asynchronous copy, which two instructions make together.

    The start issues the copy: from then on the values of the elements that are written are unknown.  The arrival waits
    for it: then they have their values.
    """

    START = "start"
    ARRIVAL = "arrival"


Origin: TypeAlias = Copy | Evaluation | Move | Carry | Partial


@quick
@dataclass(frozen=True, eq=False)
class Term:
    """The iteration domain of one reduction inside an instruction.

    ``inames`` are the instruction's, then those of the enclosing reductions, then its own.
    """

    inames: tuple[str, ...]
    domain: isl.Set


@dataclass(frozen=True)
class ExplicitBarrier:
    """``... lbarrier`` or ``... gbarrier``: orders the instructions before it and those after it.

    Attributes
    ----------
    blocks
        ``(iname, number)`` for each written ``for`` block around it, in the inames of the reference program.  The
        innermost loop around the line is not among them: the barrier closes it, and it is opened again.
    before
        Ids of the instructions of the reference program that run before.
    divides
        Inames of loops that it divides though their iterations hand values on: such a loop has to run in parallel.
    notes
        Two instances that show it.
    """

    id: str
    scope: Scope
    blocks: tuple[tuple[str, int], ...]
    before: frozenset[str]
    place: Place = field(compare=False)
    divides: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def site(self) -> Site:
        """Return the place for a diagnostic."""
        return self.place.site(self.id)


_NEW: Final = Place()


@quick
@dataclass(frozen=True, eq=False)
class Instruction(Shown):
    """``assignee = expression`` for every point of ``domain``.

    Attributes
    ----------
    inames
        Loop inames from the outermost to the innermost; also the order of the dimensions of ``domain``.
    domain
        Exact iteration domain.
    terms
        One entry for each reduction of ``expression`` (rules expanded), outer before inner, left to right.
    predicates
        Data-dependent conditions; affine ones are part of ``domain``.
    depends_on
        Ids of the instructions that must run before, as ``dep=`` names them.
    nosync
        Instructions with which the user says that there is no conflict where the analysis can only suppose one.
    groups, conflicts
        Groups that it belongs to, and groups between whose instructions it may not run.
    blocks
        ``(iname, number)`` for each written ``for`` block around it: only instructions with the
        same number may share that loop.
    """

    id: str
    inames: tuple[str, ...]
    domain: isl.Set
    assignee: Expression
    expression: Expression
    origin: Origin
    terms: tuple[Term, ...] = ()
    predicates: tuple[Expression, ...] = ()
    depends_on: frozenset[str] = frozenset()
    nosync: frozenset[NoSync] = frozenset()
    tags: frozenset[str] = frozenset()
    groups: frozenset[str] = frozenset()
    conflicts: frozenset[str] = frozenset()
    blocks: tuple[tuple[str, int], ...] = ()
    place: Place = field(default=_NEW, compare=False)
    atomic: bool = False
    """True if the update of the assignee is atomic."""
    fast: bool | None = None
    """True if its functions may be approximations; None: as the kernel says."""
    step: CopyStep | None = None
    """The half of an asynchronous copy that it is; None for a synchronous instruction."""
    matrix: Matrix | None = None
    """The matrix instruction that carries out its reduction, where the language has it."""
    reads: frozenset[str] = field(default=frozenset())
    """Names of arrays, temporaries and parameters that the instruction reads (rules expanded)."""

    @property
    def assignees(self) -> tuple[Expression, ...]:
        """Assigned variables or elements: one, except for C text of the user's."""
        return targets_of(self.assignee)

    @property
    def is_c(self) -> bool:
        """True if the instruction is C text of the user's."""
        return isinstance(self.expression, CText)

    @cached_property
    def may_keep(self) -> bool:
        """True if the instruction is C text that may leave a target as it was, or has none."""
        text, targets = self.expression, self.assignees
        if not isinstance(text, CText):
            return False
        return not targets or not all(isinstance(x, p.Variable) and text.sets(x.name) for x in targets)

    @cached_property
    def writes(self) -> tuple[str, ...]:
        """Names of the variables that the instruction assigns, each once."""
        assignees = self.assignees
        if len(assignees) == 1:
            return (array_name(assignees[0]),)
        return tuple(dict.fromkeys(array_name(assignee) for assignee in assignees))

    @property
    def target(self) -> str:
        """Name of the variable that the instruction assigns, which is one."""
        (name,) = self.writes
        return name

    def copy(self, **changes: Any) -> Instruction:  # noqa: ANN401 - the fields, as in Loopy
        """Return the instruction with fields changed: for a function given to :func:`polyloop.map_instructions`."""
        return replace(self, **changes)

    def with_transformed_expressions(self, f: Callable[[Expression], Expression]) -> Instruction:
        """Return the instruction with *f* applied to its left and its right side."""
        return replace(self, assignee=f(self.assignee), expression=f(self.expression))

    def site(self) -> Site:
        """Return the place for a diagnostic."""
        return self.place.site(self.id, "" if self.place.text else f"{show(self.assignee)} = {show(self.expression)}")

    def __str__(self) -> str:
        condition = "".join(f" if {show(predicate)}" for predicate in self.predicates)
        return f"{show(self.assignee)} = {show(self.expression)}{condition}"


def may_group(instruction: Instruction, operation: Operation) -> bool:
    """Return whether threads may combine the terms of a reduction in groups.

    Where their order matters, that is so for the sums of tiles of a scan, whose order is proven term by term.
    """
    return not operation.ordered or (operation.reassociable and isinstance(instruction.origin, Partial))


def renested(instruction: Instruction, nest: tuple[str, ...]) -> Instruction:
    """Return *instruction* with its loops in the order *nest*."""
    if nest == instruction.inames:
        return instruction
    count = len(nest)
    terms = tuple(
        Term((*nest, *t.inames[count:]), reorder(t.domain, t.inames, (*nest, *t.inames[count:])))
        for t in instruction.terms
    )
    domain = reorder(instruction.domain, instruction.inames, nest)
    return replace(instruction, inames=nest, domain=domain, terms=terms)
