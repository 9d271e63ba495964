"""Actions of a copy engine: boxes of arrays go to shared memory and back, and threads wait for them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from polyloop.expr.nodes import Expression
from polyloop.frozen import quick
from polyloop.kernel.tags import Role
from polyloop.kernel.tree import Tree
from polyloop.poly.affine import Affine

__all__ = [
    "AwaitBox",
    "AwaitStores",
    "Crew",
    "EngineStep",
    "FreeSlot",
    "OpenRings",
    "Pieces",
    "StartBox",
    "StoreBox",
    "TensorMap",
    "Watch",
]


@dataclass(frozen=True, eq=False)
class TensorMap:
    """Description of an array, by which a copy engine finds boxes of it.  Axes begin with the contiguous one.

    Attributes
    ----------
    extents
        The engine stores zeros in place of elements from these subscripts on.
    strides
        Distances of neighbours [elements]; the first is 1.
    box
        Elements along each axis that one operation copies.
    swizzle
        Bytes of the rows in shared memory whose pieces are permuted; 0 if they are in order.
    rounds
        True if the engine rounds float32 to 11 bits (tf32), for an instruction that takes no more.
    """

    name: str
    array: str
    dtype: np.dtype[np.generic]
    extents: tuple[Expression, ...]
    strides: tuple[Expression, ...]
    box: tuple[int, ...]
    swizzle: int
    rounds: bool = False


Pieces: TypeAlias = tuple[tuple[Expression, tuple[Affine, ...]], ...]
"""Boxes of single operations: the first element in a tile, and subscripts in the array, the contiguous axis first."""


@quick
@dataclass(frozen=True, eq=False)
class StartBox:
    """The start of the copy of a box, by one thread.

    Attributes
    ----------
    ring, slot
        The barrier that counts the bytes that have arrived: an array and a subscript.
    bytes
        Bytes of the whole box.
    pieces
        The boxes of single operations.
    """

    map: TensorMap
    ring: str
    slot: Expression
    bytes: int
    pieces: Pieces


@quick
@dataclass(frozen=True, eq=False)
class AwaitBox:
    """The wait for a box by each thread; ``phases`` has a bit for each slot of the ring, which changes at each wait."""

    ring: str
    slot: Expression
    phases: str


@quick
@dataclass(frozen=True, eq=False)
class StoreBox:
    """The copy of a box to the array, by one thread, which goes on when the elements in shared memory have been read.

    ``pieces`` are as in :class:`StartBox`.  If ``is_once`` is False, elements are stored more than once, and the thread
    waits until they are in the array.  If ``has_fence`` is True, it may have stored elements of the box itself.  If
    ``is_late`` is True, :class:`AwaitStores` waits for it.
    """

    map: TensorMap
    pieces: Pieces
    is_once: bool
    has_fence: bool = False
    is_late: bool = False


@quick
@dataclass(frozen=True, eq=False)
class AwaitStores:
    """The wait, by the thread that stores boxes, until their elements in shared memory have been read."""


@quick
@dataclass(frozen=True, eq=False)
class OpenRings:
    """The initialization of rings by one thread; ``rings`` has the number of slots of each.

    A phase of a slot ends when it has been freed ``frees`` times; with 0, when the bytes that are expected have
    arrived.
    """

    rings: tuple[tuple[str, int], ...]
    frees: int = 0


@quick
@dataclass(frozen=True, eq=False)
class FreeSlot:
    """The end of the use of a slot by a warp, or if ``is_of_group`` is True, by four: another role may fill it."""

    ring: str
    slot: Expression
    is_of_group: bool = False


EngineStep: TypeAlias = StartBox | AwaitBox | StoreBox | AwaitStores | OpenRings | FreeSlot
"""Actions of a copy engine, which are no assignments of threads."""


@dataclass(frozen=True, eq=False)
class Watch:
    """The copies that one thread of a block starts, which has nothing else to do.

    Attributes
    ----------
    thread
        Its number in the block.
    tree
        The copies, each behind the wait for a free slot; once code generation has divided the launch.
    private
        Its variables: those with a bit for each slot, and scalars that the other threads compute too.
    """

    role: Role
    thread: int
    tree: Tree = ()
    private: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Crew:
    """The roles of the threads of a launch.

    Attributes
    ----------
    watches
        The threads that start copies.
    rest
        The role of the others.
    threads, block
        Threads of the last role, which are the first ones, and of the whole block.
    """

    watches: tuple[Watch, ...]
    rest: Role
    threads: int
    block: int

    def lines(self) -> Iterator[str]:
        """Yield a sentence on each role."""
        ends = [*(watch.thread for watch in self.watches), self.block]
        for watch, end in zip(self.watches, ends[1:], strict=True):
            yield f"{end - watch.thread} threads have the role {watch.role}"
        yield f"{self.threads} threads have the role {self.rest}"
