"""Iname tags: the way a loop is executed, and the one parser of their spelling; the order of blocks."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, TypeAlias

from polyloop.frozen import quick
from polyloop.kernel.limits import WARP_SIZE
from polyloop.poly.axes import CLUSTER_AXIS, block_axis, digit_axis, thread_axis

__all__ = [
    "AutoLocal",
    "BlockOrder",
    "Box",
    "ClusterAxis",
    "GroupAxis",
    "InameTag",
    "Interleave",
    "Lane",
    "LocalAxis",
    "Role",
    "Sequential",
    "ThreadDigit",
    "Unroll",
    "UnrollHint",
    "Vectorize",
    "Warp",
    "axis_name",
    "is_in_warp",
    "is_lane",
    "is_thread",
    "parse_tag",
    "placing",
]


@dataclass(frozen=True)
class Sequential:
    """``for`` (the default) or ``ord``: an ordinary loop, run upward."""

    def __str__(self) -> str:
        return "for"


@dataclass(frozen=True)
class Box(Sequential):
    """``box``: elements that one thread copies at once, by a copy engine; an ordinary loop for other targets."""

    def __str__(self) -> str:
        return "box"


@dataclass(frozen=True)
class Unroll:
    """``unr``: unrolled in full; needs a constant trip count."""

    def __str__(self) -> str:
        return "unr"


@dataclass(frozen=True)
class UnrollHint:
    """``unr_hint``: the compiler is asked to unroll; the trip count may vary.

    ``unr_hint.2`` asks for two iterations at a time.
    """

    count: int | None = None

    def __str__(self) -> str:
        return "unr_hint" if self.count is None else f"unr_hint.{self.count}"


@dataclass(frozen=True)
class GroupAxis:
    """``g.N``: one block of the grid for each value, along axis ``N`` (0, 1 or 2)."""

    axis: int

    def __str__(self) -> str:
        return block_axis(self.axis)


@dataclass(frozen=True)
class ClusterAxis(GroupAxis):
    """``c.0``: one block of a cluster for each value; the blocks of a cluster run at the same time.

    A device with clusters is needed (CUDA, ``sm_90``), and at most 8 values.
    """

    axis: int = 0

    def __str__(self) -> str:
        return CLUSTER_AXIS


@quick
@dataclass(frozen=True)
class BlockOrder:
    """Order in which the blocks of each launch are numbered, and the number of them that run.

    Attributes
    ----------
    axis, group
        The block axis that is divided into panels, and indices of a panel; no axis for the order of the axes.
    most
        Most blocks that a launch has, which execute the other ones too, one after the other; 0 if each block is one of
        the launch.
    ahead
        True if a block starts the first copies of its next tile before it stores the results of the present one.
    counted
        The block axis along which blocks count their arrivals, so that the last one executes a block of the next
        launch; None if launches are started one by one.
    """

    axis: str | None = None
    group: int = 1
    most: int = 0
    ahead: bool = False
    counted: str | None = None

    @property
    def is_plain(self) -> bool:
        """True if blocks are those of the launch, in the order of the axes."""
        return self.axis is None and not self.most

    @property
    def persists(self) -> bool:
        """True if blocks of the launch execute several blocks of the grid."""
        return self.most > 0

    def __str__(self) -> str:
        parts = [] if self.axis is None else [f"in panels of {self.group} along {self.axis}"]
        parts += [f"at most {self.most} at a time, which take turns"] if self.most else []
        parts += ["copies for the next turn start early"] if self.ahead else []
        parts += [f"the last to arrive along {self.counted} goes on to the next launch"] if self.counted else []
        return ", ".join(parts)


@dataclass(frozen=True)
class Role:
    """A role of threads of a block: the instructions that they execute.

    Attributes
    ----------
    copies
        The instructions, each of which starts copies by a copy engine; empty if they are all others.
    registers
        Registers of each thread; 0 for as many as the compiler gives to all.
    """

    name: str
    copies: tuple[str, ...] = ()
    registers: int = 0

    def __str__(self) -> str:
        own = f"starts the copies of {', '.join(self.copies)}" if self.copies else "executes everything else"
        return f"{self.name}: {own}" + (f", with {self.registers} registers a thread" if self.registers else "")


@dataclass(frozen=True)
class LocalAxis:
    """``l.N``: one thread of the block for each value, along axis ``N`` (0, 1 or 2)."""

    axis: int

    def __str__(self) -> str:
        return thread_axis(self.axis)


@dataclass(frozen=True)
class Lane(LocalAxis):
    """``lane``: one thread of a warp for each value.

    Lanes are the threads of ``l.0``; their number is a power of two, up to 32, and those without a value are idle.
    """

    axis: int = 0

    def __str__(self) -> str:
        return "lane"


@dataclass(frozen=True)
class Warp(LocalAxis):
    """``w``: one warp of the block for each value, on ``l.1``, with 32 threads on ``l.0``."""

    axis: int = 1

    def __str__(self) -> str:
        return "w"


@dataclass(frozen=True)
class ThreadDigit:
    """``l%8``, ``l/8%4``, ``l/32``: a digit of the number of the thread in its block.

    It is ``thread / stride % extent``; without an extent it is the last digit, ``thread / stride``.
    """

    stride: int
    extent: int | None = None

    def __str__(self) -> str:
        over = f"/{self.stride}" if self.stride > 1 or self.extent is None else ""
        return f"l{over}" + ("" if self.extent is None else f"%{self.extent}")


@dataclass(frozen=True)
class AutoLocal:
    """``l.auto``: spread over the threads of the block; resolved when the block size is known."""

    def __str__(self) -> str:
        return "l.auto"


@dataclass(frozen=True)
class Interleave:
    """``ilp``: each statement runs for all values before the next one does; unrolled, or (``ilp.seq``) in a loop."""

    unrolled: bool = True

    def __str__(self) -> str:
        return "ilp" if self.unrolled else "ilp.seq"


@dataclass(frozen=True)
class Vectorize:
    """``vec``: as ``ilp``, with the lanes of wide loads and stores where that is proven to be possible."""

    def __str__(self) -> str:
        return "vec"


InameTag: TypeAlias = (
    Sequential | Unroll | UnrollHint | GroupAxis | LocalAxis | ThreadDigit | AutoLocal | Interleave | Vectorize
)

_PLAIN: Final[dict[str, InameTag]] = {
    "for": Sequential(),
    "ord": Sequential(),
    "box": Box(),
    "unr": Unroll(),
    "unr_hint": UnrollHint(),
    CLUSTER_AXIS: ClusterAxis(),
    "l.auto": AutoLocal(),
    "lane": Lane(),
    "w": Warp(),
    "ilp": Interleave(),
    "ilp.unr": Interleave(),
    "ilp.seq": Interleave(unrolled=False),
    "vec": Vectorize(),
}
_HINT = re.compile(r"unr_hint\.([1-9]\d{0,3})")
_AXIS = re.compile(r"([gl])\.([0-2])")
_DIGIT = re.compile(r"l(?:/([1-9]\d*))?(?:%([1-9]\d*))?")


@lru_cache(maxsize=256)
def parse_tag(text: str) -> InameTag | None:
    """Return the tag spelt *text* (``"g.0"``, ``"unr"``, ...), or None if there is none."""
    plain = _PLAIN.get(text)
    if plain is not None:
        return plain
    hint = _HINT.fullmatch(text)
    if hint is not None:
        return UnrollHint(int(hint[1]))
    match = _AXIS.fullmatch(text)
    if match is None:
        digit = _DIGIT.fullmatch(text)
        if digit is None or text == "l":
            return None
        return ThreadDigit(int(digit[1] or 1), int(digit[2]) if digit[2] else None)
    number = int(match.group(2))
    return GroupAxis(number) if match.group(1) == "g" else LocalAxis(number)


def axis_name(tag: InameTag) -> str | None:
    """Return ``"g.N"``, ``"c.0"``, ``"l.N"`` for an axis, ``"l.8.4"`` for a digit of the thread, None for a loop."""
    if isinstance(tag, ThreadDigit):
        return digit_axis(tag.stride, tag.extent or "")
    if isinstance(tag, LocalAxis):
        return thread_axis(tag.axis)
    return str(tag) if isinstance(tag, GroupAxis) else None


def is_thread(tag: InameTag) -> bool:
    """Return whether the values of an iname are on different threads of a block."""
    return isinstance(tag, _THREADS)


def is_in_warp(tag: InameTag) -> bool:
    """Return whether *tag* is a digit of the lane: threads that differ in it alone are in one warp."""
    if not isinstance(tag, ThreadDigit) or tag.extent is None:
        return False
    is_bits = not (tag.stride & (tag.stride - 1) or tag.extent & (tag.extent - 1))
    return is_bits and tag.stride * tag.extent <= WARP_SIZE


def placing(tag: InameTag) -> InameTag | None:
    """Return *tag* if it concerns threads or lanes, None for sequential and unrolled loops."""
    return None if isinstance(tag, Sequential | Unroll | UnrollHint) else tag


def is_lane(tag: InameTag) -> bool:
    """Return whether the values of an iname are lanes: run side by side, one statement after the other."""
    return isinstance(tag, _LANES)


_THREADS: Final = (LocalAxis, ThreadDigit)
_LANES: Final = (Interleave, Vectorize)
