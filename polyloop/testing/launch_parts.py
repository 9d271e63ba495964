"""Launches for brute force: which accesses may happen at one time, and for how long a launch's own memory lives.

Without a schedule, every launch that the host can start counts as one: then accesses that the end of a launch could
order are no race.  With the launches of a schedule, blocks of one launch run at one time, launches one after the other
in the order of the loops of the host, and private and shared memory is gone with its launch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from polyloop.kernel.tree import runs
from polyloop.kernel.updates import EXCHANGE
from polyloop.mapping.thread_mapping import Placement
from polyloop.schedule.plan import Launch
from polyloop.sync.host_loops import loop_prefixes, obstacle

__all__ = ["LaunchParts", "Touched", "race"]

Touched: TypeAlias = Mapping[tuple[tuple[int, ...], tuple[int, ...], Any], set[tuple[int, ...]]]
"""Threads that access a cell, by time, part of the program and kind of access."""


@dataclass(frozen=True)
class LaunchParts:
    """The part of the program to which each instance belongs.

    Attributes
    ----------
    depths
        By statement: the number of its launch, and of the entries of its time that the host decides.
    is_built
        True if the parts are the launches of a schedule.
    """

    depths: Mapping[str, tuple[int, int]]
    is_built: bool

    @classmethod
    def of(cls, placement: Placement, launches: Sequence[Launch] | None) -> LaunchParts:
        """Return the parts of the *launches* of a schedule; if it is None, of all that the host could start."""
        places = placement.program.places
        if launches is None:
            return cls({name: (0, _host_entries(placement, name)) for name in places}, is_built=False)
        homes = {name: (number, len(x.home)) for number, x in enumerate(launches) for name in runs(x.tree)}
        ids = {name: s.lowered.instruction.id for name, s in placement.statements.items()}
        merged = {ids[name]: home for name, home in homes.items() if name in ids}
        return cls({name: homes.get(name) or merged[ids[name]] for name in ids}, is_built=True)

    def part(self, statement: str, time: tuple[int, ...]) -> tuple[int, ...]:
        """Return the part of an instance: the same for those that may run at one time on different blocks."""
        number, depth = self.depths[statement]
        return (number, *time[:depth])

    def life(self, statement: str, time: tuple[int, ...]) -> tuple[int, ...]:
        """Return the key of private and shared memory: with a schedule, each launch has its own."""
        return self.part(statement, time) if self.is_built else ()


def _host_entries(placement: Placement, name: str) -> int:
    """Return the number of leading entries of a statement's time that order launches."""
    path = placement.program.places[name]
    depth = 0
    for block in loop_prefixes(path):
        if obstacle(placement, block):
            break
        depth = len(block)
    return depth + 1


def race(touched: Touched, blocks: int | None) -> str | None:
    """Return the conflicting accesses to a cell: threads at one time, or blocks within one part of the program.

    *blocks* is the number of coordinates of a thread that name its block, None for a cell that one block sees.
    """
    if all(kind == "read" for _, _, kind in touched):
        return None
    moments: dict[Any, dict[Any, set[tuple[int, ...]]]] = {}
    parts: dict[Any, dict[Any, set[tuple[int, ...]]]] = {}
    for (time, part, kind), threads in touched.items():
        moments.setdefault(time, {}).setdefault(kind, set()).update(threads)
        if blocks:
            parts.setdefault(part, {}).setdefault(kind, set()).update(thread[:blocks] for thread in threads)
    if any(_conflict(threads) for threads in moments.values()):
        return "two threads at one time"
    return "two blocks" if any(_conflict(members) for members in parts.values()) else None


def _conflict(by_kind: Mapping[Any, set[tuple[int, ...]]]) -> bool:
    """Return whether two of the parties are different and their accesses do not commute."""
    for kind, threads in by_kind.items():
        if kind == "read":
            continue
        others = frozenset[tuple[int, ...]]().union(*(t for k, t in by_kind.items() if k != kind))
        if kind in ("write", EXCHANGE) and len(threads) > 1:
            return True
        if others and (len(others) > 1 or len(threads) > 1 or others != threads):
            return True
    return False
