"""The parts of a lowered program: accesses, assignments, accumulators, and the loop tree around them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import Enum
from fractions import Fraction
from typing import Any, Final, TypeAlias

import islpy as isl

from polyloop.expr.nodes import Expression, Operation, Reduction
from polyloop.expr.rewrite import variables
from polyloop.frozen import once, quick
from polyloop.kernel.instruction import Instruction
from polyloop.kernel.kernel import LoopKernel, memoised
from polyloop.kernel.tree import Tree
from polyloop.kernel.updates import COMMUTATIVE
from polyloop.poly.affine import Affine, affine_of
from polyloop.program.guards import Guard

__all__ = [
    "Access",
    "AccessKind",
    "Accumulation",
    "Accumulator",
    "Assign",
    "Combine",
    "Init",
    "Kept",
    "Lowered",
    "Operand",
    "Other",
    "Part",
    "Program",
    "Update",
    "leaf_count",
]


@quick
@dataclass(frozen=True, eq=False)
class Operand:
    """A read in the instruction's text, by its number (leaf) among all reads of the instruction."""

    leaf: int


@quick
@dataclass(frozen=True, eq=False)
class Kept:
    """The implicit read of an element by an assignment of one of its fields, which keeps the others; numbered, too.

    To the analysis, such an assignment reads and writes the whole element.  So does C text with its outputs.
    """

    leaf: int


class Other(Enum):
    """An access that is no numbered read of its instruction."""

    OWN = "own"
    """A write, or the read of an accumulator by a statement of its reduction."""
    BOUND = "bound"
    """The read of a bound variable: a scalar that the statement's domain depends on."""
    START = "start"
    """The read of the start value of a reduction."""


AccessKind: TypeAlias = Operand | Kept | Other


@quick
@dataclass(frozen=True, eq=False)
class Access:
    """One read or write of a statement.

    Attributes
    ----------
    indices
        Subscripts as affine forms of the statement's inames and the parameters.  None for a subscript that is not
        affine, which may be any index of that axis.
    fields
        The accessed field, as names from the outside in; empty for whole elements.
    guards
        Data-dependent conditions under which an instance makes the access.
    domain
        Instances of the statement, over its inames, to which affine conditions restrict the access; None for all.
    computed
        For each axis, the subscript if it is not affine but depends on inames and parameters alone, else None.  Empty
        if there is no such subscript.
    """

    array: str
    indices: tuple[Affine | None, ...]
    kind: AccessKind = Other.OWN
    fields: tuple[str, ...] = ()
    guards: tuple[Guard, ...] = ()
    domain: isl.Set | None = None
    computed: tuple[Expression | None, ...] = ()

    @property
    def leaf(self) -> int | None:
        """The number of a read among those of its instruction."""
        return None if isinstance(self.kind, Other) else self.kind.leaf

    @property
    def is_guarded(self) -> bool:
        """True if a condition inside of the statement may rule the access out in some instance."""
        return bool(self.guards) or self.domain is not None

    def covers(self, field: tuple[str, ...]) -> bool:
        """Return True if the access includes the scalar field *field* of the element."""
        return field[: len(self.fields)] == self.fields

    def is_affine(self) -> bool:
        """Return True if every subscript is affine."""
        return None not in self.indices


@quick
@dataclass(frozen=True, eq=False)
class Accumulation:
    """The reduction that a statement is part of.

    Attributes
    ----------
    number
        Its number among the reductions of the instruction, in the order of their ``terms``.
    inames
        The inames over which it reduces.
    operation
        The operation that combines the statement's value into the accumulator.
    along
        For a scan, the loops along which its accumulator is kept, or the one loop on a thread axis; else empty.
    partial_of
        The number of the reduction of the same instruction that combines the results of this one, if they are partial.
    joined
        Inames of reductions whose loops also set a temporary that the reduction reads, with the ``for`` block of each.
    """

    number: int
    inames: tuple[str, ...]
    operation: Operation
    along: tuple[str, ...] = ()
    partial_of: int | None = None
    joined: Mapping[str, int | None] = field(default_factory=dict)


@quick
@dataclass(frozen=True, eq=False)
class Assign:
    """``lhs = rhs`` where all ``predicates`` hold; or ``rhs`` combined into ``lhs`` by an ``atomic`` operation.

    The read of ``lhs`` by an atomic update is not among the reads of the statement.
    """

    predicates: tuple[Expression, ...] = ()
    atomic: str | None = None


@quick
@dataclass(frozen=True, eq=False)
class Init:
    """``lhs = rhs`` at the start of a reduction, or ``lhs`` = the neutral element if ``rhs`` is None.

    ``across`` are the thread axes over which the partial results are spread.
    """

    reduction: Accumulation
    across: tuple[str, ...] = ()


@quick
@dataclass(frozen=True, eq=False)
class Update:
    """``lhs = lhs op rhs``, with the operation of the reduction.

    ``fixed`` has inames of the reduction that are no loops, as each result has one new term, as affine forms of the
    loops.
    """

    reduction: Accumulation
    fixed: Mapping[str, Affine] = field(default_factory=dict)


@quick
@dataclass(frozen=True, eq=False)
class Combine:
    """``lhs`` of every thread becomes the combination of the ``lhs`` of the threads ``across`` some axes.

    For a scan, these are the threads up to it (inclusive), or with ``after``, those before it (exclusive).
    """

    reduction: Accumulation
    across: tuple[str, ...]
    after: bool = False


_NONE: Final[Mapping[str, Any]] = {}

Part: TypeAlias = Assign | Init | Update | Combine


def _steps(form: Affine | None, inames: Collection[str]) -> dict[str, int]:
    """Return iname -> coefficient of a form without quotients; of others, and of none, nothing."""
    if form is None or not all(isinstance(x, str) for x, _ in form.terms):
        return {}
    return {str(x): a for x, a in form.terms if x in inames}


@quick
@dataclass(frozen=True, eq=False)
class Lowered:
    """One statement of the lowered program.

    Attributes
    ----------
    part
        The role of the statement in its instruction: the assignment itself, or a step of one of its reductions.
    domain
        Every instance that runs for some values of the bound variables.
    exact
        The instances that run for given values of the bound variables, which are parameters of the set.
    """

    name: str
    instruction: Instruction
    part: Part
    inames: tuple[str, ...]
    domain: isl.Set
    exact: isl.Set
    lhs: Expression
    rhs: Expression
    writes: tuple[Access, ...]
    reads: tuple[Access, ...]

    @once
    def bounds(self) -> tuple[str, ...]:
        """The bound variables, whose values decide which instances run."""
        return tuple(access.array for access in self.reads if access.kind is Other.BOUND)

    @property
    def write(self) -> Access:
        """The write of a statement that has one: an accumulation, an atomic update, an assignment."""
        (access,) = self.writes
        return access

    @property
    def accesses(self) -> tuple[Access, ...]:
        """All accesses of the statement, writes first."""
        return (*self.writes, *self.reads)

    def is_write(self, access: Access) -> bool:
        """Return True if *access*, one of the statement's, is a write."""
        return any(access is write for write in self.writes)

    def writes_to(self, array: str) -> tuple[Access, ...]:
        """Return the writes to *array*."""
        writes = self.writes
        if len(writes) == 1:
            return writes if writes[0].array == array else ()
        return tuple(write for write in writes if write.array == array)

    @property
    def is_conditional(self) -> bool:
        """True if it depends on data whether an instance has an effect; C text may always have none."""
        return bool(self.predicates or self.bounds or self.instruction.may_keep)

    def is_certain(self, access: Access) -> bool:
        """Return True if nothing about *access* depends on data: neither its element, nor whether it happens."""
        return access.is_affine() and not access.guards and not self.is_conditional

    def is_unconditional(self, access: Access) -> bool:
        """Return True if each instance makes *access*, to a known element."""
        return not access.is_guarded and self.is_certain(access)

    @property
    def predicates(self) -> tuple[Expression, ...]:
        """Data-dependent conditions, all of which must hold for an instance to have an effect."""
        return self.part.predicates if isinstance(self.part, Assign) else ()

    @property
    def atomic(self) -> str | None:
        """The operation of an atomic update, else None."""
        return self.part.atomic if isinstance(self.part, Assign) else None

    @property
    def reduction(self) -> Accumulation | None:
        """The reduction of the statement; None for an assignment."""
        return None if isinstance(self.part, Assign) else self.part.reduction

    @property
    def number(self) -> int | None:
        """The number of that reduction."""
        return None if isinstance(self.part, Assign) else self.part.reduction.number

    @property
    def own(self) -> tuple[str, ...]:
        """The inames of that reduction."""
        return () if isinstance(self.part, Assign) else self.part.reduction.inames

    @property
    def along(self) -> tuple[str, ...]:
        """The loops of that reduction, if it is a scan."""
        return () if isinstance(self.part, Assign) else self.part.reduction.along

    @property
    def joined(self) -> Mapping[str, int | None]:
        """Inames of reductions whose loops also set a temporary that it reads, with the ``for`` block of each."""
        return _NONE if isinstance(self.part, Assign) else self.part.reduction.joined

    @property
    def fixed(self) -> Mapping[str, Affine]:
        """Inames of the reduction that are no loops of the statement, as affine forms of its loops."""
        return self.part.fixed if isinstance(self.part, Update) else _NONE

    @property
    def across(self) -> tuple[str, ...]:
        """The thread axes over which partial results are spread, for the init or combine of such a reduction."""
        return self.part.across if isinstance(self.part, Init | Combine) else ()

    def domain_of(self, access: Access) -> isl.Set:
        """Return the instances that may make *access*."""
        return self.domain if access.domain is None else access.domain

    @once
    def stores_one_value(self) -> bool:
        """Return True if all instances that write one element store the same in it.

        That is a number, or an expression of parameters, scalar arguments, and inames that the subscripts determine:
        ``a[i % 4] = 0``, ``a[2*i + j] = 2*i + j``, ``a[i] = sqrt(i)`` in a loop over ``j``.  Threads may store it at
        one time.
        """
        if not isinstance(self.part, Assign) or self.instruction.is_c or self.atomic is not None:
            return False
        names, own = variables(self.rhs), frozenset(self.inames)
        if not names.isdisjoint(access.array for access in self.reads):
            return False
        steps = [step for index in self.write.indices if (step := _steps(index, own))]
        if names & own <= {x for step in steps if len(step) == 1 for x in step}:
            return True
        value = _steps(affine_of(self.rhs), own)
        alike = [step for step in steps if step.keys() == value.keys()]
        return any(len({Fraction(value[x], step[x]) for x in step}) == 1 for step in alike)

    def commutes_with(self, other: Lowered) -> bool:
        """Return True if the order of their writes does not matter.

        Both are atomic updates with one commutative operation; or instances of one statement, which all store the same.
        """
        if self is other and self.stores_one_value:
            return True
        return self.atomic is not None and self.atomic == other.atomic and self.atomic in COMMUTATIVE


@quick
@dataclass(frozen=True, eq=False)
class Accumulator:
    """The private variable in which a reduction collects its terms.

    ``shape`` has one axis for each sequential loop of the instruction that lies inside the reduction.
    """

    name: str
    reduction: Reduction
    shape: tuple[int, ...]
    instruction: str


@quick
@dataclass(frozen=True, eq=False)
class Program:
    """Statements and their loop tree; loops that run on hardware axes are not in the tree."""

    kernel: LoopKernel
    statements: Mapping[str, Lowered]
    tree: Tree
    accumulators: Mapping[str, Accumulator]
    places: Mapping[str, tuple[int | str, ...]]

    def leaves(self, instruction: str) -> list[tuple[Lowered, Access]]:
        """Return the numbered reads of an instruction, in order."""
        found = [
            (statement, access)
            for statement in _by_instruction(self).get(instruction, ())
            for access in statement.reads
            if access.leaf is not None
        ]
        return sorted(found, key=lambda pair: pair[1].leaf or 0)


@memoised
def _by_instruction(program: Program) -> dict[str, list[Lowered]]:
    """Return the statements of each instruction, in their order."""
    found: dict[str, list[Lowered]] = {}
    for statement in program.statements.values():
        found.setdefault(statement.instruction.id, []).append(statement)
    return found


def leaf_count(new: Program, old: Program, access: Access) -> int:
    """Return the number of reads of the user's text for which a numbered read of a transformed program stands.

    A read of a temporary that a transform fills stands for the reads of the fill, a read of a partial result for the
    reads of its reduction.

    Parameters
    ----------
    new, old
        The transformed program and its reference program.
    """
    filler = new.kernel.evaluations.get(access.array)
    if filler is not None:
        return sum(leaf_count(new, old, inner) for _, inner in new.leaves(filler))
    if access.array not in new.kernel.partials:
        return 1
    instruction, number = new.kernel.partials[access.array]
    return sum(statement.number == number for statement, _ in old.leaves(instruction))
