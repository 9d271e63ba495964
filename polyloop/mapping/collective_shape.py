"""Shape of a collective: the position of its threads in warps, and the number of its parts in shared memory.

Threads are numbered with ``l.0`` running fastest, and consecutive numbers form warps.  Threads of a group whose numbers
differ in one bit, and that are in one warp, exchange values by shuffles (butterfly).  This leaves a group divided into
*parts*, each with one value; parts are combined through shared memory.  Then the blocks of a cluster store what they
have in the shared memory of each other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from math import prod
from typing import Final

from polyloop.expr.nodes import Operation
from polyloop.poly.axes import digit_axis, digit_parts, thread_axis

__all__ = ["LOGICAL", "Kind", "Meeting", "Span", "meeting_of"]


LOGICAL: Final = frozenset({"any", "all"})
"""Operations that a barrier of the block computes itself (``__syncthreads_or``, ``__syncthreads_and``)."""


class Kind(Enum):
    """Kind of a collective operation on one value of each thread."""

    COMBINE = "combine"
    """Every thread gets the combination of all."""
    EXCLUSIVE = "exclusive"
    """Every thread gets the combination of those before it, along one axis."""
    INCLUSIVE = "inclusive"
    """Every thread gets the combination of those up to it, along one axis."""


@dataclass(frozen=True)
class Span:
    """One thread axis of a collective.

    Attributes
    ----------
    direct
        Number of threads along the axis that exchange values by shuffles, a power of two.
    stride
        Difference between the numbers of threads that are neighbours along the axis.
    is_across
        True if values are combined along the axis.
    """

    axis: str
    extent: int
    direct: int
    stride: int
    is_across: bool

    @property
    def parts(self) -> int:
        """Number of parts along the axis."""
        return self.extent // self.direct

    @property
    def bits(self) -> tuple[int, ...]:
        """Differences between the numbers of threads that exchange values by shuffles."""
        found, bit = [], 1
        while bit < self.direct:
            found.append(bit * self.stride)
            bit *= 2
        return tuple(found)


@dataclass(frozen=True)
class Meeting:
    """The threads of a block as groups that combine their values; ``spans`` are the axes with several threads.

    ``blocks`` are the blocks of a cluster whose groups combine their values with those of each other.
    """

    spans: tuple[Span, ...]
    warp_size: int
    blocks: int = 1

    @property
    def across(self) -> tuple[Span, ...]:
        """The axes along which the threads of one group combine values."""
        return tuple(span for span in self.spans if span.is_across)

    @property
    def along(self) -> tuple[Span, ...]:
        """The axes that number the groups."""
        return tuple(span for span in self.spans if not span.is_across)

    @property
    def bits(self) -> tuple[int, ...]:
        """Differences between the numbers of threads that exchange values by shuffles, ascending."""
        return tuple(bit for span in self.across for bit in span.bits)

    @property
    def parts(self) -> int:
        """Number of parts of a group, which exchange values through shared memory."""
        return prod(span.parts for span in self.across)

    @property
    def groups(self) -> int:
        """Number of groups of a block."""
        return prod(span.extent for span in self.along)

    @property
    def is_whole_block(self) -> bool:
        """True if all threads of the block are one group."""
        return not self.along

    def scratch(self, kind: Kind, operation: Operation) -> int:
        """Return the number of elements of shared memory that the groups of a block need."""
        own = self.blocks * self.groups if self.blocks > 1 else 0
        return self.within_block(kind, operation) + own

    def within_block(self, kind: Kind, operation: Operation) -> int:
        """Return the number of elements of shared memory through which the threads of a block combine values."""
        votes = self.warp_size > 1 and operation.name in LOGICAL  # devices with warps have barriers that vote
        at_once = votes and kind is Kind.COMBINE and self.is_whole_block
        if self.parts == 1 or at_once:
            return 0
        return self.parts * self.groups


def meeting_of(sizes: Sequence[int], across: Sequence[str], warp_size: int, blocks: int = 1) -> Meeting:
    """Return the groups that combine values *across* some axes, in a block of *sizes* along ``l.0``, ``l.1``, ..

    *blocks* are those of a cluster, if it is across its axis.
    """
    if any(digit_parts(axis) is not None for axis in across):
        return Meeting(tuple(_digit_spans(prod(sizes), across)), warp_size, blocks)
    spans: list[Span] = []
    stride = 1
    for number, extent in enumerate(sizes):
        axis = thread_axis(number)
        direct = 1
        if axis in across and stride & (stride - 1) == 0:
            while extent % (2 * direct) == 0 and 2 * direct * stride <= warp_size:
                direct *= 2
        if extent > 1:
            spans.append(Span(axis, extent, direct, stride, axis in across))
        stride *= extent
    return Meeting(tuple(spans), warp_size, blocks)


def _digit_spans(threads: int, across: Sequence[str]) -> Iterator[Span]:
    """Yield the digits of the thread number, those *across* which threads of a warp combine values and those between.

    >>> [span.bits for span in _digit_spans(128, ["l.0001.4"])]
    [(1, 2), ()]
    """
    below = 1
    for stride, extent in sorted(part for axis in across if (part := digit_parts(axis)) is not None):
        if stride > below:
            yield Span(digit_axis(below, stride // below), stride // below, 1, below, is_across=False)
        yield Span(digit_axis(stride, extent), extent, extent, stride, is_across=True)
        below = stride * extent
    if threads > below:
        left = -(-threads // below)
        yield Span(digit_axis(below, left), left, 1, below, is_across=False)
