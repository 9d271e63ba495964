"""The parts of a lowered program: accesses, assignments, accumulators, and the loop tree around them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final, TypeAlias

import islpy as isl

from polyloop.expr.nodes import Expression, Operation, Reduction
from polyloop.frozen import once, quick
from polyloop.kernel.instruction import Instruction
from polyloop.kernel.kernel import LoopKernel, memoised
from polyloop.kernel.tree import Tree
from polyloop.kernel.updates import COMMUTATIVE
from polyloop.poly.affine import Affine
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
    """A read of the text, by its number among all reads of its instruction."""

    leaf: int


@quick
@dataclass(frozen=True, eq=False)
class Kept:
    """No read of the text, but of what an assignment of a field keeps of its element; it has a number, too.

    To the analysis, such an assignment reads and writes the whole element.
    """

    leaf: int


class Other(Enum):
    """An access that is no read of the instruction's own text."""

    OWN = "own"
    """A write, or the read of an accumulator by a statement of its reduction."""
    BOUND = "bound"
    """The read of a bound variable: a scalar that the statement's domain depends on."""
    START = "start"
    """The read of the state that a reduction begins with."""


AccessKind: TypeAlias = Operand | Kept | Other


@quick
@dataclass(frozen=True, eq=False)
class Access:
    """One read or write of a statement.

    Attributes
    ----------
    indices
        Subscripts as affine forms of the statement's inames and the parameters; None where a
        subscript is not affine: any element along that axis.
    fields
        The field that is touched, as names from the outside in; empty for whole elements.
    guards
        Conditions that data decides, under which the statement makes the access, if it runs.
    domain
        Instances of the statement, over its inames, outside of which affine conditions rule the access out; None if
        there are none.
    computed
        Subscripts that are not affine, but computed from inames and parameters alone; None for all others.  Empty if
        there are none.
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
        """Return whether the scalar field *field* of the element is touched."""
        return field[: len(self.fields)] == self.fields

    def is_affine(self) -> bool:
        """Return whether every subscript is known exactly."""
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
        Those over which it reduces.
    operation
        The operation with which the statement's value is combined.
    along
        Of a scan: the loops along which its accumulator is kept, or the one loop on a thread axis.
    partial_of
        The reduction that combines the results of this one, if they are partial and combined where they are.
    joined
        Inames of reductions in whose loops something is set that the reduction reads, with the ``for`` block of each.
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
    """``lhs`` is where a reduction begins: ``rhs``, or the neutral element if that is None.

    ``across`` are the thread axes over which the partial results lie.
    """

    reduction: Accumulation
    across: tuple[str, ...] = ()


@quick
@dataclass(frozen=True, eq=False)
class Update:
    """``rhs`` is combined into ``lhs`` by the operation of the reduction.

    ``fixed`` are inames that are no loops of the statement, as forms of those that are: that of the one new term of a
    scan.
    """

    reduction: Accumulation
    fixed: Mapping[str, Affine] = field(default_factory=dict)


@quick
@dataclass(frozen=True, eq=False)
class Combine:
    """``lhs`` of every thread becomes the combination of those of the threads ``across`` some axes.

    Of a scan, these are the threads up to it, or, with ``after``, those before it.
    """

    reduction: Accumulation
    across: tuple[str, ...]
    after: bool = False


_NONE: Final[Mapping[str, Any]] = {}

Part: TypeAlias = Assign | Init | Update | Combine


@quick
@dataclass(frozen=True, eq=False)
class Lowered:
    """One assignment of the lowered program.

    ``part`` says what it is of its instruction.  ``exact`` is the domain for given values of the bound variables, which
    are parameters of it; ``domain`` holds every instance that runs for some values.
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
        """All that the statement touches, writes first."""
        return (*self.writes, *self.reads)

    def is_write(self, access: Access) -> bool:
        """Return whether *access*, one of the statement's, is a write."""
        return any(access is write for write in self.writes)

    def writes_to(self, array: str) -> tuple[Access, ...]:
        """Return the writes to *array*."""
        writes = self.writes
        if len(writes) == 1:
            return writes if writes[0].array == array else ()
        return tuple(write for write in writes if write.array == array)

    @property
    def is_conditional(self) -> bool:
        """Return whether data decides if an instance has an effect; C text may always have none."""
        return bool(self.predicates or self.bounds or self.instruction.is_c)

    def is_certain(self, access: Access) -> bool:
        """Return whether the element that each instance touches by *access* is a fact: data decides nothing of it."""
        return access.is_affine() and not access.guards and not self.is_conditional

    def is_unconditional(self, access: Access) -> bool:
        """Return whether each instance makes *access*, and the element is a fact."""
        return not access.is_guarded and self.is_certain(access)

    @property
    def predicates(self) -> tuple[Expression, ...]:
        """Conditions that data decides, all of which hold where an instance has an effect."""
        return self.part.predicates if isinstance(self.part, Assign) else ()

    @property
    def atomic(self) -> str | None:
        """The operation of an atomic update."""
        return self.part.atomic if isinstance(self.part, Assign) else None

    @property
    def reduction(self) -> Accumulation | None:
        """The reduction that the statement is part of; None for an assignment."""
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
        """Inames of reductions in whose loops something is set that it reads, with the ``for`` block of each."""
        return _NONE if isinstance(self.part, Assign) else self.part.reduction.joined

    @property
    def fixed(self) -> Mapping[str, Affine]:
        """Inames that are no loops of the statement, as forms of those that are."""
        return self.part.fixed if isinstance(self.part, Update) else _NONE

    @property
    def across(self) -> tuple[str, ...]:
        """The thread axes over which the partial results of its reduction lie, if it begins or combines them."""
        return self.part.across if isinstance(self.part, Init | Combine) else ()

    def domain_of(self, access: Access) -> isl.Set:
        """Return the instances that may make *access*."""
        return self.domain if access.domain is None else access.domain

    def commutes_with(self, other: Lowered) -> bool:
        """Return whether both are atomic updates that may happen in any order."""
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
    """Return how many reads of the user's text a numbered read of a transformed program stands for.

    A read of a value that is computed ahead stands for those made there; one of a part of a reduction, or of its
    result so far, for those of the reduction.

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
