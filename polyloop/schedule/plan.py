"""The finished schedule: what code generation turns into text.  Data only."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from math import prod
from typing import Final, TypeAlias

import islpy as isl
import numpy as np

from polyloop.dataflow.uniformity import Uniformity
from polyloop.errors import Diagnostic
from polyloop.expr.nodes import Expression, Operation
from polyloop.frozen import once, quick
from polyloop.kernel.arrays import AddressSpace, Argument, ArrayArg, Table
from polyloop.kernel.intrinsic import WARP, MatrixIntrinsic
from polyloop.kernel.kernel import Condition
from polyloop.kernel.swizzle import Swizzle
from polyloop.kernel.tags import InameTag
from polyloop.kernel.tree import Barrier, Loop, Run, Tree, runs
from polyloop.mapping.mixed_radix import Digit, digits_among
from polyloop.poly.affine import Affine
from polyloop.schedule.collective import Collective

__all__ = [
    "Action",
    "Assign",
    "Atomic",
    "AwaitCopy",
    "Contract",
    "FileScope",
    "Front",
    "IndexVariables",
    "Lane",
    "Launch",
    "LoopForms",
    "Packed",
    "Product",
    "Remarks",
    "Schedule",
    "Share",
    "StartCopy",
    "Statement",
    "Storage",
    "Strided",
    "Tensor",
    "Update",
    "shared_bytes",
]

_NONE: Final = frozenset[str]()
_INT32: Final[np.dtype[np.generic]] = np.dtype(np.int32)
POOL_ALIGNMENT: Final = 16
"""Most that an element type asks for [bytes]; storage that several types share is a multiple of it."""


@dataclass(frozen=True, eq=False)
class Product:
    """That whole warps carry out a statement by a matrix instruction: ``lhs += a*b`` for all i, j and k of it.

    Attributes
    ----------
    a, b
        The operands, as in the statement.
    axes
        For each subscript i, j and k the dimensions of which it is the sum, with their coefficients, the lowest first.
    """

    intrinsic: MatrixIntrinsic
    a: Expression
    b: Expression
    axes: Mapping[str, tuple[tuple[str, int], ...]]
    ahead: bool = False
    """True if operands are loaded while the products of the step before are added up."""

    def lane_digits(self) -> Iterator[Digit]:
        """Yield every digit of the lane that addresses of operands may contain."""
        for operand in "ab":
            for part in self.intrinsic.layout(operand):
                if part.in_lane:
                    yield Digit(part.place, part.extent)
            for number in range(WARP.bit_length() - 1):
                for length in range(1, WARP.bit_length() - number):
                    yield Digit(2**number, 2**length)


class Share(Enum):
    """The share that a statement has in what a matrix instruction does with the loops around it."""

    ALL = "all"
    FIRST = "first"
    """Before the loops, if operands are loaded ahead: operands of nothing."""
    STEP = "step"
    """Each iteration: the loads for it, and the products of the one before it."""
    LOADS = "loads"
    """The loads of a step alone."""
    PRODUCTS = "products"
    """The products of a step alone."""
    LAST = "last"
    """Behind the loops: the products of the last iteration."""


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
        Extents of all dimensions that are not conditions any more.
    fragments
        Names of the registers of a and b that are kept from one step to the next.
    step
        The unrolled loop of which each iteration is such a step.
    """

    original: Statement
    product: Product
    loops: tuple[tuple[str, int], ...]
    boxes: Mapping[str, int]
    share: Share = Share.ALL
    fragments: Mapping[str, str] = field(default_factory=dict)
    step: str = ""


@quick
@dataclass(frozen=True, eq=False)
class Assign:
    """``lhs = rhs``.  If only the instances ``copied`` have something to copy, the others store zeros."""

    copied: isl.Set | None = None


@quick
@dataclass(frozen=True, eq=False)
class StartCopy:
    """The start of an asynchronous copy of ``rhs`` to ``lhs``.

    ``copied`` is as in an assignment; ``is_awaited`` says whether there is an arrival for all instances.
    """

    copied: isl.Set | None = None
    is_awaited: bool = True


@quick
@dataclass(frozen=True, eq=False)
class AwaitCopy:
    """The arrival of an asynchronous copy; it says the whole assignment, too, for targets without such copies.

    ``pending`` is how many groups of copies that were started later may be under way after it.
    """

    pending: int = 0
    copied: isl.Set | None = None


@quick
@dataclass(frozen=True, eq=False)
class Update:
    """``rhs`` is combined into ``lhs`` by the operation, from the right; by a matrix instruction where there is one."""

    operation: Operation
    product: Product | None = None


@quick
@dataclass(frozen=True, eq=False)
class Atomic:
    """``rhs`` is combined into ``lhs`` in one indivisible step, by an operation of :mod:`polyloop.kernel.updates`."""

    operation: str


Assignment: TypeAlias = Assign | StartCopy | AwaitCopy
"""All that gives ``lhs`` the value of ``rhs``."""
Action: TypeAlias = Assign | StartCopy | AwaitCopy | Update | Atomic | Collective | Tensor
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
        Id of the kernel's instruction that it comes from (for comments and messages).
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
        What an instance does with the two.  In a collective operation all threads execute it, and combine what they
        have in ``lhs``: there is no ``rhs`` to read.
    predicates
        Data-dependent conditions; all must hold for the instance to have an effect.
    bounds
        The last of ``dims``: scalar temporaries that the domain depends on, of which the program knows the values
        from their assignment on.
    fast
        Whether its functions may be approximations.
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
        """Digits of the thread number among ``dims``, and of a matrix instruction those that operands may use.

        ``"l.8.4"`` is ``thread / 8 % 4``.
        """
        found = digits_among(self.dims)
        if isinstance(self.action, Tensor):
            found.update((digit.axis, digit) for digit in self.action.product.lane_digits())
        return found

    @property
    def is_assignment(self) -> bool:
        """True if ``lhs`` gets a value whatever it had before."""
        return isinstance(self.action, Assignment)

    @property
    def copied(self) -> isl.Set | None:
        """The instances that copy, if the others store zeros."""
        return self.action.copied if isinstance(self.action, Assignment) else None

    @property
    def product(self) -> Product | None:
        """The matrix instruction that carries out an update, where the language has it."""
        return self.action.product if isinstance(self.action, Update) else None

    @property
    def collective(self) -> Collective | None:
        """The collective operation of all threads of a block that it stands for, if it does."""
        return self.action if isinstance(self.action, Collective) else None


@dataclass(frozen=True)
class Packed:
    """Rows one behind the other; each may end in elements without a use.

    Attributes
    ----------
    nesting
        Axes from the slowest to the fastest; None for their order.
    padding
        Elements that are appended to each row, in the axis that is stored contiguously.
    swizzle
        How the elements of each row change places.
    """

    nesting: tuple[int, ...] | None = None
    padding: int = 0
    swizzle: Swizzle | None = None


@dataclass(frozen=True)
class Strided:
    """Elements in one row with gaps, at distances along each axis [elements]."""

    strides: tuple[int, ...]


@dataclass(frozen=True)
class Lane:
    """A variable of each lane of a warp; lanes read those of each other.

    Attributes
    ----------
    subscript
        The subscript that says whose variable is read.
    block
        Threads along each axis of the block.
    """

    subscript: int
    block: tuple[int, ...]


_PLAIN: Final = Packed()


@quick
@dataclass(frozen=True)
class Storage:
    """A temporary as it is declared in the generated code.

    Attributes
    ----------
    shape
        Extents [elements], constant for private and local storage.
    pool
        Name of the storage that it shares with other temporaries.
    lane
        Set if each lane of a warp has one element, in a variable.
    cleared
        Whether it begins with zeros.
    """

    name: str
    dtype: np.dtype[np.generic]
    shape: tuple[int, ...]
    address_space: AddressSpace
    layout: Packed | Strided = _PLAIN
    pool: str | None = None
    lane: Lane | None = None
    cleared: bool = False

    @property
    def swizzle(self) -> Swizzle | None:
        """Permutation of the elements of each row."""
        return self.layout.swizzle if isinstance(self.layout, Packed) else None

    @property
    def dims(self) -> tuple[int, ...]:
        """Extents as they are declared [elements]."""
        match self.layout:
            case Strided(strides):
                last = sum((extent - 1) * stride for extent, stride in zip(self.shape, strides, strict=True))
                return (max(0, last) + 1,)
            case Packed(nesting, padding):
                dims = [self.shape[axis] for axis in nesting or range(len(self.shape))]
                return (*dims[:-1], dims[-1] + padding) if dims else ()

    @property
    def distances(self) -> tuple[int, ...]:
        """Distance between neighbours along each axis, as the text has it [elements]."""
        if isinstance(self.layout, Strided):
            return self.layout.strides
        found, step = [0] * len(self.shape), 1
        nesting = self.layout.nesting or range(len(self.shape))
        for axis, extent in zip(reversed(nesting), reversed(self.dims), strict=True):
            found[axis] = step
            step *= extent
        return tuple(found)

    @property
    def is_plain(self) -> bool:
        """True if the elements are stored in the order of their subscripts, without gaps."""
        return self.layout == _PLAIN

    @property
    def nbytes(self) -> int:
        """Size [bytes]."""
        return prod(self.dims) * self.dtype.itemsize


def shared_bytes(storages: Iterable[Storage]) -> int:
    """Return the shared memory that *storages* take [bytes]: those of one pool as much as the largest of them."""
    total, pools = 0, dict[str, int]()
    for storage in storages:
        if storage.address_space is AddressSpace.LOCAL:
            if storage.pool is None:
                total += storage.nbytes
            else:
                pools[storage.pool] = max(pools.get(storage.pool, 0), storage.nbytes)
    return total + sum(-(-size // POOL_ALIGNMENT) * POOL_ALIGNMENT for size in pools.values())


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
        Which of ``g.0`` .. ``g.2`` are in use.  Their extents follow from the domains.
    exchanged
        Arrays through which threads of a block pass values to each other.
    """

    name: str
    tree: Tree
    local_size: tuple[int, ...]
    group_axes: tuple[str, ...]
    temporaries: tuple[Storage, ...]
    exchanged: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Front:
    """The iterations of a loop before the value ``end`` stand apart; quiet ones need none of the barriers inside."""

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
        What the parameters must fulfil besides, so that no access leaves its array; checked at launch.
    workspace
        Temporaries in global memory: arrays that whoever launches the program allocates.
    """

    parameters: tuple[str, ...]
    assumptions: isl.Set
    arguments: tuple[Argument, ...]
    conditions: tuple[Condition, ...] = ()
    workspace: tuple[ArrayArg, ...] = ()


@dataclass(frozen=True, eq=False)
class LoopForms:
    """The form in which each loop is printed, if it is no plain sequential loop.

    Attributes
    ----------
    tags
        ``Unroll``, ``UnrollHint`` or ``Vectorize``, by iname.
    tiles
        Outer inames of splits: candidates for separating full tiles from partial ones.
    slabs
        ``iname -> (front, back)``: iterations to peel, on the user's request.
    fronts
        More about the first iterations that are peeled, by loop.
    """

    tags: Mapping[str, InameTag] = field(default_factory=dict)
    tiles: frozenset[str] = frozenset()
    slabs: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    fronts: Mapping[str, Front] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class IndexVariables:
    """Dimensions as variables of the text: their types, and names of those that the kernel has no iname for.

    Attributes
    ----------
    dtype
        Type of inames where they are values.
    long
        Dimensions of type int64 where they are values.
    digit_names
        What to call digits of the thread number.
    named
        Inames of the reference program that several inames make up now, as forms of dimensions.
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
        Temporaries whose values stand in the text.
    """

    preambles: tuple[tuple[str, str], ...] = ()
    tables: Mapping[str, Table] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Remarks:
    """Notes for readers of the text.

    Attributes
    ----------
    unchecked
        What the user let pass, and why.
    left_open
        What ISL gave up on, on which the speed of the text depends; by kernel.
    """

    unchecked: tuple[str, ...] = ()
    left_open: tuple[tuple[str, Diagnostic], ...] = ()

    def lines(self) -> Iterator[str]:
        """Yield claims that are not proven, and questions that were left open."""
        yield from self.unchecked
        yield from (f"{found.message}: {' '.join(found.notes)}" for _, found in self.left_open)


@dataclass(frozen=True, eq=False)
class Schedule:
    """A kernel ready for code generation.

    Attributes
    ----------
    phantoms
        Statements that blocks at an edge carry out as others do, for elements without a use.
    uniformity
        Thread axes along which the bounds of loops may differ that the program computes.
    """

    name: str
    contract: Contract
    statements: Mapping[str, Statement]
    launches: tuple[Launch, ...]
    loops: LoopForms = LoopForms()
    indices: IndexVariables = IndexVariables()
    file_scope: FileScope = FileScope()
    remarks: Remarks = Remarks()
    phantoms: frozenset[str] = frozenset()
    uniformity: Uniformity = field(default_factory=Uniformity)

    def apart(self, tree: Tree) -> frozenset[str]:
        """Return the thread axes along which loops around *tree* may differ, whose threads meet in it.

        Those of other warps do not take part where only the threads of one exchange values, in a loop whose length data
        decides.
        """
        statements = [self.statements[name] for name in runs(tree)]
        varying = self.uniformity.varying
        found = frozenset[str]().union(*(varying.get(b, _NONE) for s in statements for b in s.bounds))
        if not found or not found <= self.uniformity.warp_axes or not _is_within_warps(tree, self.statements):
            return _NONE
        return found


def _is_within_warps(tree: Tree, statements: Mapping[str, Statement]) -> bool:
    """Return whether threads meet in *tree* only if they are of one warp."""
    for node in tree:
        if isinstance(node, Barrier):
            return False
        if isinstance(node, Loop) and not _is_within_warps(node.body, statements):
            return False
        if isinstance(node, Run) and (together := statements[node.name].collective) and not together.is_direct:
            return False
    return True
