"""Device functions: the entries that the language of a device fills in.

Each entry has the functions of one kind of device operation.  A language has an entry or lacks it
(:attr:`~polyloop.codegen.language.Language.device`).  Code generation asks for an entry by :meth:`Language.need
<polyloop.codegen.language.Language.need>`, which raises an error if it is missing.  :class:`Reductions`,
:class:`Copies` and :class:`Loads` are optional: shuffles replace the first, ordinary copies and loads the others.

A language whose device has no warps, or warps without shuffles, says so in its limits.  Then nothing asks for
:class:`Shuffles`, and values go through shared memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Final

from polyloop.errors import Diagnostic
from polyloop.expr.dtypes import DType
from polyloop.kernel.intrinsic import MatrixIntrinsic

__all__ = [
    "MOST_IN_CLUSTER",
    "Arrivals",
    "Atomics",
    "Boxes",
    "Clusters",
    "Copies",
    "Entry",
    "Loads",
    "LookBack",
    "Matrices",
    "Reductions",
    "Roles",
    "SharedMatrices",
    "Shuffles",
    "Threads",
    "Together",
    "Word",
    "lacking",
]


class Entry:
    """An entry; ``what`` and ``hint`` describe it, and a remedy without it, in messages."""

    what: ClassVar[str]
    hint: ClassVar[str]

    def texts(self) -> Iterator[str]:
        """Yield all texts in the entry."""
        for value in vars(self).values():
            for part in value.values() if isinstance(value, Mapping) else (value,):
                if isinstance(part, Entry):
                    yield from part.texts()
                elif isinstance(part, str):
                    yield part


def lacking(target: str, kind: type[Entry]) -> Diagnostic:
    """Return the diagnostic for a target without an entry that the program needs."""
    return Diagnostic(
        "unsupported-device-function",
        f"target '{target}' has no {kind.what}",
        (f"the language of the target has no entry '{kind.__name__}'",),
        (kind.hint,),
    )


@dataclass(frozen=True)
class Word(Entry):
    """The integer type that holds the bits of a type, and formats of the conversions to it and back.

    ``swap`` is its own compare-and-swap, empty for that of :class:`Atomics`.
    """

    type: str
    to: str
    back: str
    swap: str = ""


@dataclass(frozen=True)
class Threads(Entry):
    """Blocks of threads, with memory that a block shares.

    Attributes
    ----------
    axes
        Expression for each hardware axis.
    block_barrier, warp_barrier
        Statements by which the threads of a block, or those of a warp, wait for each other.
    shared_barrier
        The barrier of a block whose threads exchange values through shared memory alone; empty if it is the same.
    shared
        Storage class of memory shared by a block.
    dynamic_shared
        Declaration of dynamic shared memory: a format with the fields ``{name}``, and ``{bytes}`` for its alignment.
    global_space, shared_space
        Qualifiers of what a pointer points to: an array argument, and shared memory.
    blocks
        Expression for the number of blocks of a launch, along the first axis.
    """

    what = "blocks and threads"
    hint = "generate code for a device, or leave out the tags of axes"
    axes: Mapping[str, str]
    block_barrier: str
    warp_barrier: str
    shared: str
    dynamic_shared: str = ""
    global_space: str = ""
    shared_space: str = ""
    shared_barrier: str = ""
    blocks: str = ""


@dataclass(frozen=True)
class Together(Entry):
    """All launches of a program in one function, whose blocks wait for each other between two launches.

    Attributes
    ----------
    function
        Qualifiers and result type of the function that is launched; those of launches are called by it.
    launch_bounds
        As in :class:`~polyloop.codegen.language.Syntax`.
    block
        The parameter by which the function of a launch is told its block.
    make_block
        Declaration of a block: a format with the fields ``{name}``, ``{x}``, ``{y}`` and ``{z}``.
    own, count
        The number of a block among those that run, and how many of them there are.
    table
        Parameter with the list of launches: a format with the fields ``{type}`` and ``{name}``.
    state
        Parameter with the state of the barrier: a format with the field ``{name}``.
    barrier
        Definition of the function by which all blocks wait for each other, and its name.  It takes the state, and the
        number of arrivals of all blocks at this wait and those before.
    """

    what = "barriers of all blocks of a launch"
    hint = 'leave out launches="cooperative"'
    function: str
    launch_bounds: str
    block: str
    make_block: str
    own: str
    count: str
    table: str
    state: str
    barrier: tuple[str, str]

    def texts(self) -> Iterator[str]:
        """Yield all texts in the entry."""
        yield from super().texts()
        yield from self.barrier


@dataclass(frozen=True)
class Arrivals(Entry):
    """Blocks of a launch that count their arrivals, so that the last one goes on.

    Attributes
    ----------
    last
        The function by which all threads of a block say that they have stored what the last block needs, and that
        returns whether this is the last one; arguments are the address of a counter, and the number of blocks.  It is
        like those of :class:`Matrices`, for the statement of a barrier of these threads, and leaves the counter at 0.
    barrier
        The statement of a barrier of all threads of a block.
    count
        Expression for the number of blocks of a launch along each axis of the grid.
    """

    what = "blocks that count their arrivals"
    hint = "leave out pl.join_launches"
    last: Callable[[str], Sequence[str]]
    barrier: str
    count: Mapping[str, str]


@dataclass(frozen=True)
class Shuffles(Entry):
    """Functions by which the lanes of a warp read variables of one another.

    Each takes a mask of the calling lanes, if there are masks, a variable, and a number.  The number is the lane to
    read (``read``), the XOR of the two lanes' numbers (``differing``), or the distance to the lane below or above.

    Attributes
    ----------
    has_masks
        Whether calls name the lanes that make them.  Without, those do that are active.
    """

    what = "shuffles, by which the lanes of a warp exchange values"
    hint = "leave the values in shared memory, or say in the limits of the device that it has no shuffles"
    read: str
    differing: str
    below: str
    above: str
    has_masks: bool = True

    @property
    def position(self) -> int:
        """Place of the variable among the arguments of a call."""
        return int(self.has_masks)


@dataclass(frozen=True)
class Reductions(Entry):
    """Calls of reductions over a whole warp, or a whole block, in one instruction.

    Attributes
    ----------
    warp
        By ``(operation, NumPy name of the type)``; fields are the mask of the lanes and the value.
    block
        By operation on truth values; the field is the value.
    """

    what = "reductions in one instruction"
    hint = "shuffles do the same"
    warp: Mapping[tuple[str, str], str]
    block: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class SubGroups(Entry):
    """Groups of threads of a block that combine values at once; which threads form one is up to the device.

    Attributes
    ----------
    reductions
        Call that combines the values of a group, by ``(operation, NumPy name of the type)``; the field is the value.
    lane
        The number of a thread in its group.
    number, count
        The number of a group in its block, and how many there are.
    """

    what = "sub-groups"
    hint = "threads exchange values through shared memory"
    reductions: Mapping[tuple[str, str], str]
    lane: str
    number: str
    count: str


@dataclass(frozen=True)
class Atomics(Entry):
    """Atomic updates of memory.

    Attributes
    ----------
    native
        Call of each native update, by ``(operation, NumPy name of the type)``; fields are the element and the value.
    swap
        Call of compare-and-swap on a word, which implements all other updates; the fields are the address of the word,
        the expected word and the new one.
    words
        The word for compare-and-swap, by NumPy name of the type; ``half`` for 16-bit floating-point types without one.
    directives
        Line that makes the assignment behind it an atomic update, by ``(operation, NumPy name of the type)``.
    wide
        Call that updates neighbouring elements of global memory, each of them atomically, by ``(operation, NumPy name
        of the type, elements)``; fields are the address of a vector and a vector of values.
    """

    what = "atomic updates"
    hint = "compute each element by one thread, by a reduction"
    native: Mapping[tuple[str, str], str]
    swap: str
    words: Mapping[str, Word]
    directives: Mapping[tuple[str, str], str] = field(default_factory=dict)
    wide: Mapping[tuple[str, str, int], str] = field(default_factory=dict)


@dataclass(frozen=True)
class LookBack(Entry):
    """Functions by which blocks wait for the totals of blocks that began before them.

    Attributes
    ----------
    take
        Call that adds 1 to a counter and returns the number before; the field is its address.
    fence
        Memory fence for global memory: stores before it are visible before stores after it.
    ballot
        Call that returns the mask of the lanes of a warp for which a condition holds; fields are the mask of the
        calling lanes, and the condition.
    first
        The number of the lowest bit that is set; the field is a mask.
    mask
        Type of a mask.
    pause
        Statement that delays a thread; the field is a time [ns].  Empty if there is none.
    words
        Conversions of a value of 4 bytes to the lower half of a word of 8 bytes, and back, by NumPy name of the type.
    """

    what = "scans over blocks in one pass, for which blocks have to wait for blocks that began before them"
    hint = "make the scan of several launches: pl.split_scan"
    take: str
    fence: str
    ballot: str
    first: str
    mask: str
    pause: str
    words: Mapping[str, Word]


@dataclass(frozen=True)
class Loads(Entry):
    """Loads of data that caches need not keep.

    Attributes
    ----------
    once
        Function that loads through a pointer: numbers of 4 and 8 bytes, and vectors of these.
    """

    what = "loads past the caches"
    hint = "ordinary loads do the same"
    once: str


@dataclass(frozen=True)
class Stores(Entry):
    """Stores of data that caches need not keep.

    Attributes
    ----------
    once
        Function that stores a value through a pointer: numbers of 4 and 8 bytes, and vectors of these.  Empty if only
        whole lines can be stored so.
    line
        Function that stores all lanes of a vector: arguments are a pointer, the address of the lanes in a line of
        memory of the thread, and their bytes.  Empty if there is :attr:`once`.
    least
        The bytes of the smallest line.
    fence
        Statement by which a thread lets others see the lines that it stored.
    team, share
        Directives of a block that all threads execute, and of a loop in it whose iterations they share, and behind
        which none waits for the others.
    """

    what = "stores past the caches"
    hint = "ordinary stores do the same"
    once: str = ""
    line: str = ""
    least: int = 1
    fence: str = ""
    team: str = ""
    share: str = ""


@dataclass(frozen=True)
class Copies(Entry):
    """Asynchronous copies to shared memory, by functions that the definitions of the language have.

    Attributes
    ----------
    starts
        ``f(to, from)``, by number of bytes.
    fills
        ``f(to, from, condition)``, by number of bytes: zeros are stored if the condition does not hold, and *from* need
        not be a valid address then.
    commit
        ``f()`` commits a group of copies.
    wait
        A function that waits for all groups but the last ones.
    waiting
        Format of its call; fields are the function, and the number of groups that may be ``pending``.
    """

    what = "asynchronous copies"
    hint = "ordinary copies do the same"
    starts: Mapping[int, str]
    fills: Mapping[int, str]
    commit: str
    wait: str
    waiting: str


MOST_IN_CLUSTER: Final = 8
"""Blocks of a cluster on every device that has clusters: CUDA C++ Programming Guide, "Thread Block Clusters"."""


@dataclass(frozen=True)
class Clusters(Entry):
    """Clusters of blocks, which run at the same time and see each other's shared memory.

    The functions are like those of :class:`Matrices`.

    Attributes
    ----------
    head
        Format of the qualifier of a launched function; the field is the number of blocks of a cluster, along the first
        axis.
    arrive, wait
        The functions by which a thread says that it has begun, and waits until all threads of the cluster have.
    barrier
        The function by which the threads of a cluster wait for each other, and see what each has stored.
    place
        The function that returns the place in the shared memory of a block of the cluster of which the calling block
        has the like; arguments are a pointer and the position of the block.
    """

    what = "clusters of blocks"
    hint = 'generate code for a device that has them: CudaTarget("sm_90"), or leave out the tag c.0'
    head: str
    arrive: Sequence[str]
    wait: Sequence[str]
    barrier: Sequence[str]
    place: Sequence[str]


@dataclass(frozen=True)
class Matrices(Entry):
    """Matrix instructions, as C functions: each is a head (result type and parameters) and the lines of its body.

    Attributes
    ----------
    lacks
        Returns the reason why the device does not have an instruction, with a hint; None if it has it.
    multiply
        Returns the function that adds a product of two fragments to a third one.
    load
        Returns the function that loads a number of matrices of 8 rows of 16 bytes, transposed or not; None where each
        lane loads its own elements.
    convert
        Returns the function that converts a float to an operand.
    pack
        The function that packs two elements of 16 bits into a register.
    pair
        Returns the function that loads two neighbours as operands, given the name of the function for one.
    as_register, as_float
        Names of the functions from a float to a register with its bits, and back.
    pack_bytes
        The function that packs four elements of 8 bits into a register.
    """

    what = "matrix instructions"
    hint = "leave out tensorize"
    lacks: Callable[[MatrixIntrinsic], tuple[str, str] | None]
    multiply: Callable[[MatrixIntrinsic], Sequence[str]]
    load: Callable[[int, bool], Sequence[str]] | None
    convert: Callable[[MatrixIntrinsic], Sequence[str]]
    pack: Sequence[str]
    pair: Callable[[str], Sequence[str]]
    as_register: str
    as_float: str
    pack_bytes: Sequence[str]


MOST_PENDING: Final = 7
"""Groups of products that a wait can leave under way: PTX ISA, "wgmma.wait_group"."""


@dataclass(frozen=True)
class SharedMatrices(Entry):
    """Matrix instructions whose operands are in shared memory, as C functions like those of :class:`Matrices`.

    Attributes
    ----------
    multiply
        Returns the function that adds a product to the results, given the subscripts along which the rows of ``a`` and
        ``b`` are stored.
    multiply_rows
        Returns the same for rows of ``a`` in registers, given the subscript of the rows of ``b``.
    descriptor
        The function that describes a tile by its address, and its strides from panel to panel and from 8 rows to the
        next 8 [bytes].
    begin
        The function ahead of products, which lets them see the results.
    finish
        Returns the function that ends a group of products and waits for all, given the number of results of a thread
        and their type.
    commit
        The function that ends a group of products.
    wait
        Returns the function that waits for all groups but the last ones, given their number.
    complete
        Returns the function that waits for all groups but the last ones, given their number, that of the results of a
        thread and their type.
    ready
        Returns the function that stands between the first values of results and products that run on, given their
        number and type: a compiler that moves values across it would set registers while products add to them.
    behind
        The function that changes nothing, and ahead of which an assembler puts no wait for products that stands behind
        it: not before its argument is known.
    """

    what = "matrix instructions with operands in shared memory"
    hint = "leave out tensorize, or take an instruction with operands in registers"
    multiply: Callable[[MatrixIntrinsic, str, str], Sequence[str]]
    multiply_rows: Callable[[MatrixIntrinsic, str], Sequence[str]]
    descriptor: Sequence[str]
    begin: Sequence[str]
    finish: Callable[[int, DType], Sequence[str]]
    commit: Sequence[str]
    wait: Callable[[int], Sequence[str]]
    complete: Callable[[int, int, DType], Sequence[str]]
    ready: Callable[[int, DType], Sequence[str]]
    behind: Sequence[str]


@dataclass(frozen=True)
class Boxes(Entry):
    """Copies of boxes to and from shared memory by a copy engine, as C functions like those of :class:`Matrices`.

    Attributes
    ----------
    type
        The name of the type of a description of an array, and its definition.
    parameter
        Format of a parameter that is one; the field is its name.
    open
        The function that initializes the slots of a ring.
    expect
        The function that tells a slot of the bytes that copies will deliver.
    load
        Returns the function that starts a copy, given the number of axes.
    wait
        The function that waits for a slot.
    store
        Returns the function that starts a copy to an array, given the number of axes.
    stored
        The function that waits until copies to arrays have read shared memory; and the one that waits until they are
        complete.
    publish
        The function that lets a copy engine, and matrix instructions, see behind the next barrier what the thread has
        stored.
    """

    what = "copies of boxes by a copy engine"
    hint = 'generate code for a device that has one: CudaTarget("sm_90"), or fetch by via=\'cp.async\''
    type: tuple[str, str]
    parameter: str
    open: Sequence[str]
    expect: Sequence[str]
    load: Callable[[int], Sequence[str]]
    wait: Sequence[str]
    store: Callable[[int], Sequence[str]]
    stored: tuple[Sequence[str], Sequence[str]]
    publish: Sequence[str]


@dataclass(frozen=True)
class Roles(Entry):
    """Threads of a block with different roles, as C functions like those of :class:`Matrices`.

    Attributes
    ----------
    open
        The function that initializes the slots of a ring that are freed some times.
    free, free_of_group
        The functions by which a warp frees a slot, and one thread of a group of four warps for all of them.
    barrier
        Statement by which the threads of a role wait for each other: a format with the field ``{threads}``.
    fewer, more
        Statements that change the registers of a thread: formats with the field ``{registers}``.
    launch_bounds
        Launch bounds of blocks whose threads change their registers: a format with the field ``{threads}``.
    """

    what = "roles of the threads of a block"
    hint = 'generate code for a device that has them: CudaTarget("sm_90a"), or leave out pl.assign_roles'
    open: Sequence[str]
    free: Sequence[str]
    free_of_group: Sequence[str]
    barrier: str
    fewer: str
    more: str
    launch_bounds: str
