"""The finished schedule, and the waits between its threads.  Data only."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from itertools import groupby
from typing import Final, TypeAlias

import islpy as isl
import numpy as np

from polyloop.dataflow.uniformity import Uniformity
from polyloop.display import Shown, brief
from polyloop.expr.nodes import Expression, Operation
from polyloop.frozen import once, quick
from polyloop.kernel.arrays import Argument, ArrayArg, Table
from polyloop.kernel.intrinsic import MatrixIntrinsic
from polyloop.kernel.kernel import Condition
from polyloop.kernel.tags import BlockOrder, InameTag
from polyloop.kernel.tree import Barrier, Loop, Node, Run, Scope, Tree, runs
from polyloop.mapping.mixed_radix import Digit, digits_among
from polyloop.poly.affine import Affine
from polyloop.poly.axes import CLUSTER_AXIS
from polyloop.schedule.collective import Collective
from polyloop.schedule.conditions import Asked
from polyloop.schedule.copy_engine import Crew, EngineStep, TensorMap
from polyloop.schedule.remarks import Remarks
from polyloop.schedule.storage import Storage

__all__ = [
    "Action",
    "Assign",
    "Atomic",
    "AwaitCopy",
    "AwaitProducts",
    "Contract",
    "FileScope",
    "Front",
    "IndexVariables",
    "Launch",
    "LoopForms",
    "Product",
    "Remarks",
    "Schedule",
    "Share",
    "StartCopy",
    "Statement",
    "Tensor",
    "Turns",
    "Update",
    "Wait",
    "program_tree",
]

_NONE: Final = frozenset[str]()
_IN_ORDER: Final = BlockOrder()
_INT32: Final[np.dtype[np.generic]] = np.dtype(np.int32)


@dataclass(frozen=True, eq=False)
class Product:
    """A matrix instruction for a statement of whole warps: ``lhs += a*b`` for all i, j and k of the instruction.

    Attributes
    ----------
    a, b
        The operands, as in the statement.
    axes
        For each subscript i, j and k, the terms of its form: dimensions with their coefficients, in ascending order.
    """

    intrinsic: MatrixIntrinsic
    a: Expression
    b: Expression
    axes: Mapping[str, tuple[tuple[str, int], ...]]
    ahead: bool = False
    """True if operands are loaded one step ahead of their products (software pipelining)."""
    runs_on: bool = False
    """True if :class:`AwaitProducts` waits for the products of the statement."""
    from_registers: bool = False
    """True if each lane has its elements of ``a`` in its registers."""

    def lane_digits(self) -> Iterator[Digit]:
        """Yield every digit of the lane that addresses of operands may contain."""
        bits = self.intrinsic.lanes.bit_length() - 1
        for operand in "ab":
            for part in self.intrinsic.layout(operand):
                if part.in_lane:
                    yield Digit(part.place, part.extent)
            for number in range(bits):
                for length in range(1, bits + 1 - number):
                    yield Digit(2**number, 2**length)


class Share(Enum):
    """Part of a matrix instruction, and of the loops around it, that one statement executes."""

    ALL = "all"
    """Loads and products of an iteration."""
    FIRST = "first"
    """Ahead of the loops: zeros as the operands of the first products, if operands are loaded ahead; of products that
    run on, what they add to."""
    STEP = "step"
    """In each iteration: the loads for it, and the products of the iteration before."""
    LOADS = "loads"
    """The loads of a step alone."""
    PRODUCTS = "products"
    """The products of a step alone."""
    LAST = "last"
    """Behind the loops: the products of the last iteration."""
    WAIT = "wait"
    """Behind the loops: the wait for products that run on."""


@quick
@dataclass(frozen=True, eq=False)
class Tensor:
    """Matrix instruction of whole warps, with the unrolled loops that are printed with it; code generation makes it.

    Attributes
    ----------
    original
        The statement with all of its dimensions.
    loops
        The unrolled loops around it that are printed with it, outermost first, with their extents.
    boxes
        Extents of the dimensions that the instruction covers as a whole: they run from 0, without conditions.
    fragments
        Names of the registers of a and b that keep operands from one step to the next.
    step, pending
        The unrolled loop whose iterations are the steps of a :class:`Share`; later groups that a wait leaves under way.
    """

    original: Statement
    product: Product
    loops: tuple[tuple[str, int], ...]
    boxes: Mapping[str, int]
    share: Share = Share.ALL
    fragments: Mapping[str, str] = field(default_factory=dict)
    step: str = ""
    pending: int = 0


@quick
@dataclass(frozen=True, eq=False)
class Assign:
    """``lhs = rhs``.  If ``copied`` is a set, only these instances copy, and the others store zeros.

    One operation copies all elements along the dimensions ``box``.
    """

    copied: isl.Set | None = None
    box: frozenset[str] = _NONE


@quick
@dataclass(frozen=True, eq=False)
class StartCopy:
    """The start of an asynchronous copy of ``rhs`` to ``lhs``.

    ``copied`` is as in :class:`Assign`; ``is_awaited`` is True if each instance has an arrival.  One operation copies
    all elements along the dimensions ``box``.
    """

    copied: isl.Set | None = None
    is_awaited: bool = True
    box: frozenset[str] = _NONE


@quick
@dataclass(frozen=True, eq=False)
class AwaitCopy:
    """The arrival of an asynchronous copy; it has both sides of the assignment, for targets without such copies.

    ``pending`` is the number of groups of copies, started later, that may still be in flight after it.  ``box`` is as
    in :class:`StartCopy`.
    """

    pending: int = 0
    copied: isl.Set | None = None
    box: frozenset[str] = _NONE


@quick
@dataclass(frozen=True, eq=False)
class Update:
    """``lhs = lhs op rhs``, by the matrix instruction ``product`` if there is one and the language has it."""

    operation: Operation
    product: Product | None = None


@quick
@dataclass(frozen=True, eq=False)
class AwaitProducts:
    """The wait for products of the statement ``issue``, which has everything else in common with it.

    ``pending`` is the number of groups of products, issued later, that may still be under way after it.  If it is None,
    all are waited for, and their sums are used then.
    """

    issue: str
    product: Product
    pending: int | None


@quick
@dataclass(frozen=True, eq=False)
class Atomic:
    """``rhs`` is combined into ``lhs`` in one indivisible step, by an operation of :mod:`polyloop.kernel.updates`."""

    operation: str


Assignment: TypeAlias = Assign | StartCopy | AwaitCopy
"""Actions that give ``lhs`` the value of ``rhs``."""
Action: TypeAlias = Assign | StartCopy | AwaitCopy | Update | AwaitProducts | Atomic | Collective | Tensor | EngineStep
_ASSIGN: Final = Assign()


@quick
@dataclass(frozen=True, eq=False)
class Statement:
    """One assignment of the lowered program: no reductions, no substitution rules.

    Attributes
    ----------
    name
        Unique in the schedule.
    instruction
        Id of its instruction in the kernel (for comments and messages).
    dims
        Names of the dimensions of ``domain``, in order: loop inames under their own names,
        hardware axes as ``"g.0"`` .. ``"g.2"`` and ``"l.0"`` .. ``"l.2"`` (not identifiers, so
        they cannot collide with a name of the user's).
    domain
        Exact iteration domain over ``dims``.
    lhs, rhs
        In terms of ``dims`` (as pymbolic ``Variable("l.0")``), parameters and arrays.
        ``lhs`` is a ``Variable`` or a ``Subscript``.
    action
        The effect of an instance.  All threads execute a collective operation, which combines their values of ``lhs``
        and does not read ``rhs``.
    predicates
        Data-dependent conditions; all must hold for the instance to have an effect.
    bounds
        The last of ``dims``: scalar temporaries that the domain depends on, as variables of the generated code.
    fast
        True if its functions may be approximations.
    """

    name: str
    instruction: str
    dims: tuple[str, ...]
    domain: isl.Set
    lhs: Expression
    rhs: Expression
    action: Action = _ASSIGN
    predicates: tuple[Expression, ...] = ()
    bounds: tuple[str, ...] = ()
    fast: bool = False

    @once
    def digits(self) -> dict[str, Digit]:
        """Digits of the thread number among ``dims``, and for a matrix instruction, those in addresses of operands.

        ``"l.8.4"`` is ``thread / 8 % 4``.
        """
        found = digits_among(self.dims)
        if isinstance(self.action, Tensor):
            found.update((digit.axis, digit) for digit in self.action.product.lane_digits())
        return found

    @property
    def is_assignment(self) -> bool:
        """True if ``lhs`` gets the value of ``rhs``, independent of its old value."""
        return isinstance(self.action, Assignment)

    @property
    def copied(self) -> isl.Set | None:
        """The instances that copy, if the others store zeros."""
        return self.action.copied if isinstance(self.action, Assignment) else None

    @property
    def product(self) -> Product | None:
        """The matrix instruction of an update, for languages that have it."""
        return self.action.product if isinstance(self.action, Update) else None

    @property
    def collective(self) -> Collective | None:
        """The collective operation that the statement is, None if it is none."""
        return self.action if isinstance(self.action, Collective) else None


@dataclass(frozen=True, eq=False)
class Turns:
    """Order of the blocks of a launch, or of its clusters.

    Attributes
    ----------
    opening, ahead, closing
        If blocks execute several ones of the grid: what they execute once, the first copies of the next one, which are
        started at a barrier of the tree, and what they execute at the end.
    late
        Statements that store boxes from shared memory, which are read in the next turn at the latest.
    cluster
        Blocks of a cluster, whose axis is ``c.0``; 1 if blocks run by themselves.
    crew, joins
        Roles of the threads of a block; None if all do the same.  The block axis along which blocks of the launch in
        front count their arrivals, and the last one executes a block of this launch; None if a host starts it.
    """

    order: BlockOrder
    opening: Tree = ()
    ahead: Tree = ()
    closing: Tree = ()
    late: frozenset[str] = _NONE
    cluster: int = 1
    crew: Crew | None = None
    joins: str | None = None


_PLAIN_TURNS: Final = Turns(_IN_ORDER)
_NOTHING_ASKED: Final = Asked()


@quick
@dataclass(frozen=True, eq=False)
class Launch:
    """One device kernel.

    Attributes
    ----------
    name
        C identifier of the kernel function.
    tree
        Loops, barriers and ``Run`` nodes naming statements of the schedule.
    local_size
        Threads of a block along ``l.0``, ``l.1``, ``l.2``; only the axes in use, in order.
    group_axes
        The axes of ``g.0`` .. ``g.2`` that are in use, whose extents follow from the domains; and ``c.0``.
    exchanged
        Arrays through which threads of a block pass values to each other.
    maps
        Descriptions of arrays for a copy engine, which are passed behind the arguments.
    home
        The path in the loop tree of the program to the body of the loop of the host that has the launch: positions and
        loops from the root, alternating; empty if the host has no loop around it.
    turns
        The order of its blocks, and what they execute in turn.
    asked
        Conditions that the host decides.
    """

    name: str
    tree: Tree
    local_size: tuple[int, ...]
    group_axes: tuple[str, ...]
    temporaries: tuple[Storage, ...]
    exchanged: frozenset[str] = frozenset()
    maps: tuple[TensorMap, ...] = ()
    home: tuple[int | str, ...] = ()
    turns: Turns = _PLAIN_TURNS
    asked: Asked = _NOTHING_ASKED

    @property
    def order(self) -> BlockOrder:
        """The order of its blocks, and the number of them."""
        return self.turns.order

    @property
    def cluster(self) -> int:
        """The blocks of a cluster."""
        return self.turns.cluster

    @property
    def grid_axes(self) -> tuple[str, ...]:
        """The axes of the grid: without that of a cluster."""
        return tuple(axis for axis in self.group_axes if axis != CLUSTER_AXIS)

    @property
    def ahead(self) -> Tree:
        """The first copies of the next turn."""
        return self.turns.ahead

    @property
    def whole(self) -> Tree:
        """Everything that its blocks execute."""
        copies = () if self.turns.crew is None else [node for watch in self.turns.crew.watches for node in watch.tree]
        return (*self.turns.opening, *self.ahead, *copies, *self.tree, *self.turns.closing)

    @property
    def block(self) -> tuple[int, ...]:
        """Threads of a block along each axis, with those that have another role than ``local_size``."""
        return self.local_size if self.turns.crew is None else (self.turns.crew.block,)

    @property
    def hosts(self) -> tuple[str, ...]:
        """The loops of the host around the launch, outermost first; their inames are arguments of the launch."""
        return tuple(entry for entry in self.home if isinstance(entry, str))


@dataclass(frozen=True)
class Wait(Shown):
    """Two instructions that access one element of an array on different threads, and the barrier between them.

    Attributes
    ----------
    array
        The array, or the storage that several temporaries share.
    first, second
        Ids of the instructions, in the order that must hold.
    loop
        The loop that carries the conflict: ``second`` follows in a later iteration; None if it follows in the same one.
    scope
        The threads that have to wait for each other.
    by
        Description of the barrier, or of the end of a launch; empty if there is none.
    barrier
        Number of that barrier among those of all launches, in the order of their text; None if it is none of them.
    """

    array: str
    first: str
    second: str
    loop: str | None
    scope: Scope
    by: str
    barrier: int | None = None

    __repr__ = brief

    def __str__(self) -> str:
        later = f", in a later iteration of '{self.loop}'" if self.loop else ""
        return f"'{self.array}': '{self.first}' before '{self.second}'{later}: {self.by}"


@dataclass(frozen=True)
class Front:
    """A peeled prologue of a loop: the iterations before the value ``end``.

    ``is_quiet`` is True if the prologue needs none of the barriers of the body.
    """

    end: int
    is_quiet: bool


@dataclass(frozen=True, eq=False)
class Contract:
    """The interface of a program: everything that passes between it and its caller, and the preconditions.

    Attributes
    ----------
    parameters
        Integer parameters of the domains (all are value arguments).
    assumptions
        Parameter set (no set dimensions) that the caller guarantees; checked at launch.
    conditions
        Further conditions on the parameters, under which no access leaves its array; checked at launch.
    workspace
        Temporaries in global memory, which the caller allocates.
    """

    parameters: tuple[str, ...]
    assumptions: isl.Set
    arguments: tuple[Argument, ...]
    conditions: tuple[Condition, ...] = ()
    workspace: tuple[ArrayArg, ...] = ()


@dataclass(frozen=True, eq=False)
class LoopForms:
    """Forms of the loops that are not printed as plain sequential loops.

    Attributes
    ----------
    tags, side_by_side
        ``Unroll``, ``UnrollHint`` or ``Vectorize``, by iname; those that are written out as ``ilp`` (independent).
    tiles
        Outer inames of splits: candidates for separating full tiles from partial ones.
    slabs
        ``iname -> (front, back)``: iterations to peel, on the user's request.
    fronts
        Peeled prologues with a known end, by loop.
    """

    tags: Mapping[str, InameTag] = field(default_factory=dict)
    tiles: frozenset[str] = frozenset()
    slabs: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    fronts: Mapping[str, Front] = field(default_factory=dict)
    side_by_side: frozenset[str] = frozenset()


@dataclass(frozen=True, eq=False)
class IndexVariables:
    """Dimensions as variables of the generated code: their types, and names of those that are no inames.

    Attributes
    ----------
    dtype
        Type of inames that are used as values.
    long
        Dimensions of type int64 when used as values.
    digit_names
        Names for digits of the thread number.
    named
        Inames of the reference program that are now sums of several inames, as forms of dimensions.
    """

    dtype: np.dtype[np.generic] = _INT32
    long: frozenset[str] = frozenset()
    digit_names: Mapping[str, str] = field(default_factory=dict)
    named: tuple[tuple[str, Affine], ...] = ()


@dataclass(frozen=True, eq=False)
class FileScope:
    """The user's definitions in front of the generated functions.

    Attributes
    ----------
    preambles
        Name and text of each, in order.
    tables
        Temporaries with an initializer, which become constant tables.
    """

    preambles: tuple[tuple[str, str], ...] = ()
    tables: Mapping[str, Table] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Schedule:
    """A kernel ready for code generation.

    Attributes
    ----------
    phantoms
        Statements with instances beyond their domains, for elements that are not used (over-execution at edges).
    uniformity
        Thread axes along which bound variables may differ.
    """

    name: str
    contract: Contract
    statements: Mapping[str, Statement]
    launches: tuple[Launch, ...]
    loops: LoopForms = LoopForms()
    indices: IndexVariables = IndexVariables()
    file_scope: FileScope = FileScope()
    remarks: Remarks = field(default_factory=Remarks)
    phantoms: frozenset[str] = frozenset()
    uniformity: Uniformity = field(default_factory=Uniformity)

    def __repr__(self) -> str:
        return f"<Schedule of '{self.name}': {len(self.launches)} launches, {len(self.statements)} statements>"

    def apart(self, tree: Tree) -> frozenset[str]:
        """Return the thread axes along which bounds of loops around *tree* differ, but only between warps.

        The result is empty unless threads synchronize in *tree* within warps only: then warps may run the loops for
        different numbers of iterations.
        """
        statements = [self.statements[name] for name in runs(tree)]
        varying = self.uniformity.varying
        found = frozenset[str]().union(*(varying.get(b, _NONE) for s in statements for b in s.bounds))
        if not found or not found <= self.uniformity.warp_axes or not _is_within_warps(tree, self.statements):
            return _NONE
        return found


def program_tree(launches: Iterable[Launch]) -> Tree:
    """Return the program of *launches* as a tree: loops of the host around them, each a ``Run`` of its name."""
    return _program([(launch.home, launch.name) for launch in launches])


def _program(launches: Sequence[tuple[tuple[int | str, ...], str]]) -> Tree:
    """Return the tree of launches with their homes; neighbours with the same first loop share it."""
    found: list[Node] = []
    for first, group in groupby(launches, key=lambda entry: entry[0][:2]):
        if first:
            found.append(Loop(str(first[1]), _program([(home[2:], name) for home, name in group])))
        else:
            found += [Run(name) for _, name in group]
    return tuple(found)


def _is_within_warps(tree: Tree, statements: Mapping[str, Statement]) -> bool:
    """Return True if *tree* has no barrier, and no collective operation that is not within warps."""
    for node in tree:
        if isinstance(node, Barrier):
            return False
        if isinstance(node, Loop) and not _is_within_warps(node.body, statements):
            return False
        if isinstance(node, Run) and (together := statements[node.name].collective) and not together.is_direct:
            return False
    return True
