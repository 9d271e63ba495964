"""Hardware axes: dimensions of instances that are not loops.

A dimension has the name of its iname, or of the hardware axis that the iname runs on: ``g.0`` to ``g.2`` number the
blocks of the grid, or its clusters of blocks if the axis ``c.0`` numbers the blocks of a cluster.  ``l.0`` to ``l.2``
number the threads of a block, and ``l.4.8`` is the digit ``thread / 4 % 8`` of the number of the thread.  No iname has
a dot.  This module alone builds such names and takes them apart.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import Final

__all__ = [
    "AXES",
    "BLOCK_AXES",
    "CLUSTER_AXIS",
    "THREAD_AXES",
    "Level",
    "block_axis",
    "digit_axis",
    "digit_parts",
    "is_axis",
    "is_block_axis",
    "is_grid_axis",
    "is_thread_axis",
    "letter_of",
    "level_of",
    "loops_among",
    "number_of",
    "thread_axis",
]


class Level(Enum):
    """Level of the machine that an axis enumerates; the value is the prefix of axis names."""

    GRID = "g"
    """Blocks of the grid, or clusters of them."""
    CLUSTER = "c"
    """Blocks of a cluster."""
    BLOCK = "l"
    """Threads of a block."""


_LEVELS: Final = {level.value: level for level in Level}


def level_of(name: str) -> Level | None:
    """Return the level of the axis *name*, None for a loop."""
    return _LEVELS[name[0]] if name[1:2] == "." else None


def is_axis(name: str) -> bool:
    """Return whether a dimension is a hardware axis."""
    return name[1:2] == "."


def is_block_axis(name: str) -> bool:
    """Return whether a dimension numbers blocks: those of the grid, or those of a cluster."""
    return name[:2] == "g." or name == CLUSTER_AXIS


def is_grid_axis(name: str) -> bool:
    """Return whether a dimension numbers the blocks, or the clusters, of the grid."""
    return name[:2] == "g."


def is_thread_axis(name: str) -> bool:
    """Return whether a dimension numbers the threads of a block, or is a digit of their number."""
    return name[:2] == "l."


def loops_among(dims: Iterable[str]) -> list[str]:
    """Return the dimensions that are loops, in their order."""
    return [name for name in dims if name[1:2] != "."]


def number_of(axis: str) -> int:
    """Return the number of an axis within its level; for a digit of the thread number its stride."""
    return int(axis[2:].partition(".")[0])


def letter_of(axis: str) -> str:
    """Return ``x``, ``y`` or ``z`` for axis 0, 1 or 2 of a level."""
    return "xyz"[number_of(axis)]


def block_axis(number: int) -> str:
    """Return the name of an axis of blocks."""
    return f"{Level.GRID.value}.{number}"


def thread_axis(number: int) -> str:
    """Return the name of an axis of threads."""
    return f"{Level.BLOCK.value}.{number}"


def digit_axis(stride: int | str, extent: int | str) -> str:
    """Return the name of the digit ``thread / stride % extent``."""
    return f"{Level.BLOCK.value}.{stride}.{extent}"


def digit_parts(name: str) -> tuple[int, int] | None:
    """Return stride and extent of the digit that a dimension is, None if it is none."""
    if name[:2] != "l." or "." not in name[2:]:
        return None
    stride, _, extent = name[2:].partition(".")
    return int(stride), int(extent)


CLUSTER_AXIS: Final = "c.0"
BLOCK_AXES: Final = tuple(map(block_axis, range(3)))
THREAD_AXES: Final = tuple(map(thread_axis, range(3)))
AXES: Final = (*BLOCK_AXES, CLUSTER_AXIS, *THREAD_AXES)
