"""Temporaries as they are declared in the generated code.  Data only."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import prod
from typing import Final

import numpy as np

from polyloop.frozen import quick
from polyloop.kernel.arrays import AddressSpace
from polyloop.kernel.swizzle import Swizzle

__all__ = ["POOL_ALIGNMENT", "Lane", "Packed", "Storage", "Strided", "pool_spans", "shared_bytes"]

POOL_ALIGNMENT: Final = 16
"""Greatest alignment of an element type [bytes]; the size of storage that several types share is a multiple of it."""
_END_ALIGNMENT: Final = 1024
"""Alignment at the end of a pool [bytes]: the greatest one that a copy engine or an instruction asks for."""


@dataclass(frozen=True)
class Packed:
    """Layout of contiguous rows, each of which may end in padding.

    Attributes
    ----------
    nesting
        Axes from the slowest to the fastest; None for their order.
    padding
        Elements that are appended to each row, along the contiguous axis.
    swizzle
        Permutation of the elements of each row.
    """

    nesting: tuple[int, ...] | None = None
    padding: int = 0
    swizzle: Swizzle | None = None


@dataclass(frozen=True)
class Strided:
    """Layout by the stride of each axis [elements]; the array is declared as one row with gaps."""

    strides: tuple[int, ...]


@dataclass(frozen=True)
class Lane:
    """Storage in one variable of each lane of a warp; lanes read the variables of one another by shuffles.

    Attributes
    ----------
    subscript
        The axis whose subscript is the number of the lane that is read.
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
    at_end
        True if it lies at the end of that storage, and not at its beginning.
    lane
        Set if each lane of a warp holds one element in a variable.
    cleared
        True if it is initialized with zeros.
    spread
        True if the first axis is that of the blocks of a cluster, each of which has the elements of its own position.
    """

    name: str
    dtype: np.dtype[np.generic]
    shape: tuple[int, ...]
    address_space: AddressSpace
    layout: Packed | Strided = _PLAIN
    pool: str | None = None
    at_end: bool = False
    lane: Lane | None = None
    cleared: bool = False
    spread: bool = False

    @property
    def swizzle(self) -> Swizzle | None:
        """Permutation of the elements of each row."""
        return self.layout.swizzle if isinstance(self.layout, Packed) else None

    @property
    def dims(self) -> tuple[int, ...]:
        """Extents as they are declared [elements]."""
        match self.layout:
            case Strided(strides):
                pairs = list(zip(self.shape, strides, strict=True))[self.spread :]
                last = sum((extent - 1) * stride for extent, stride in pairs)
                return (max(0, last) + 1,)
            case Packed(padding=padding):
                dims = [self.shape[axis] for axis in self._kept]
                return (*dims[:-1], dims[-1] + padding) if dims else ()

    @property
    def distances(self) -> tuple[int, ...]:
        """Stride of each axis in the generated code [elements]."""
        if isinstance(self.layout, Strided):
            return (0, *self.layout.strides[1:]) if self.spread else self.layout.strides
        found, step = [0] * len(self.shape), 1
        for axis, extent in zip(reversed(self._kept), reversed(self.dims), strict=False):
            found[axis] = step
            step *= extent
        return tuple(found)

    @property
    def _kept(self) -> tuple[int, ...]:
        """The axes that a block stores, from the slowest to the fastest."""
        assert isinstance(self.layout, Packed), f"'{self.name}' has strides"
        axes = self.layout.nesting or range(len(self.shape))
        return tuple(axis for axis in axes if axis or not self.spread)

    @property
    def is_plain(self) -> bool:
        """True if the elements are stored in the order of their subscripts, without gaps."""
        return self.layout == _PLAIN and not self.spread

    @property
    def nbytes(self) -> int:
        """Size [bytes]."""
        return prod(self.dims) * self.dtype.itemsize


def pool_spans(storages: Iterable[Storage]) -> dict[str, tuple[int, int]]:
    """Return the bytes of each of *storages* in shared memory, from the beginning of its pool: first, and behind."""
    shared = [storage for storage in storages if storage.address_space is AddressSpace.LOCAL]
    sizes = dict[str, int]()
    for storage in shared:
        place = storage.pool or storage.name
        sizes[place] = max(sizes.get(place, 0), storage.nbytes)
    found = dict[str, tuple[int, int]]()
    for storage in shared:
        room = sizes[storage.pool or storage.name] - storage.nbytes
        first = room // _END_ALIGNMENT * _END_ALIGNMENT if storage.at_end else 0
        found[storage.name] = first, first + storage.nbytes
    return found


def shared_bytes(storages: Iterable[Storage]) -> int:
    """Return the shared memory that *storages* take [bytes]; a pool takes the size of its largest member."""
    total, pools = 0, dict[str, int]()
    for storage in storages:
        if storage.address_space is AddressSpace.LOCAL:
            if storage.pool is None:
                total += storage.nbytes
            else:
                pools[storage.pool] = max(pools.get(storage.pool, 0), storage.nbytes)
    return total + sum(-(-size // POOL_ALIGNMENT) * POOL_ALIGNMENT for size in pools.values())
