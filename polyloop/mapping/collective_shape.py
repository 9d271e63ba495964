"""Shape of a collective: the position of its threads in warps, and the number of its parts in shared memory.

Threads are numbered with ``l.0`` running fastest, and consecutive numbers form warps.  If the numbers of two threads of
a group differ in one bit only, and both are in one warp, they exchange values by shuffles.  The rest are *parts*, each
with one value, which are combined through shared memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from math import prod
from typing import Final

from polyloop.expr.nodes import Operation
from polyloop.poly.axes import thread_axis

__all__ = ["LOGICAL", "Kind", "Meeting", "Span", "meeting_of"]


LOGICAL: Final = frozenset({"any", "all"})
"""Operations that a barrier of the block carries out by the way."""


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
    """One thread axis: its ``extent``, and how many threads along it, 1, 2, 4, .., exchange values directly."""

    axis: str
    extent: int
    direct: int
    stride: int
    is_across: bool

    @property
    def parts(self) -> int:
        """Parts along the axis."""
        return self.extent // self.direct

    @property
    def bits(self) -> tuple[int, ...]:
        """Differences in number to the threads that values are exchanged with."""
        found, bit = [], 1
        while bit < self.direct:
            found.append(bit * self.stride)
            bit *= 2
        return tuple(found)


@dataclass(frozen=True)
class Meeting:
    """The threads of a block as groups that combine their values; ``spans`` are the axes with several threads."""

    spans: tuple[Span, ...]
    warp_size: int

    @property
    def across(self) -> tuple[Span, ...]:
        """The axes along which the threads of a group lie."""
        return tuple(span for span in self.spans if span.is_across)

    @property
    def along(self) -> tuple[Span, ...]:
        """The axes that tell groups apart."""
        return tuple(span for span in self.spans if not span.is_across)

    @property
    def bits(self) -> tuple[int, ...]:
        """Differences in number between threads that exchange values directly, ascending."""
        return tuple(bit for span in self.across for bit in span.bits)

    @property
    def parts(self) -> int:
        """Parts of a group, which exchange values through shared memory."""
        return prod(span.parts for span in self.across)

    @property
    def groups(self) -> int:
        """Groups of a block."""
        return prod(span.extent for span in self.along)

    @property
    def is_whole_block(self) -> bool:
        """True if all threads of the block are one group."""
        return not self.along

    def scratch(self, kind: Kind, operation: Operation) -> int:
        """Return how many elements of shared memory the groups of a block need."""
        at_once = kind is Kind.COMBINE and self.is_whole_block and operation.name in LOGICAL
        if self.parts == 1 or at_once:
            return 0
        return self.parts * self.groups


def meeting_of(sizes: Sequence[int], across: Sequence[str], warp_size: int) -> Meeting:
    """Return how the threads of a block with *sizes* threads along ``l.0``, ``l.1``, .. meet *across* some axes."""
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
    return Meeting(tuple(spans), warp_size)
