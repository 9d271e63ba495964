"""Ranks as threads of one process: the engine of tests and of a first look, without any library."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from queue import Empty, Queue
from threading import Event
from time import monotonic
from typing import Any, Final

import numpy as np

from polyloop.distributed.engines.engine import Group, Peer, Ranked, lost

__all__ = ["ThreadEngine", "World"]

_TICK: Final = 0.02
"""Time between two looks at whether another rank has failed [s]."""


@dataclass(eq=False)
class World:
    """Queues between the ranks of one process, and whether one has failed."""

    size: int
    timeout: float
    failed: Event = field(default_factory=Event)

    def __post_init__(self) -> None:
        self.queues: dict[tuple[int, int, str], Queue[Any]] = {
            (source, target, kind): Queue() for source in range(self.size) for target in range(self.size)
            for kind in ("message", "share", "text")}


class ThreadEngine(Ranked):
    """An engine between threads.

    Parameters
    ----------
    rank
        The number of this rank.
    world
        The queues between the ranks.
    """

    def __init__(self, rank: int, world: World) -> None:
        self.rank = rank
        self.size = world.size
        self._world = world
        self._begun: Counter[int] = Counter()
        self._came: Counter[int] = Counter()
        self._waiting: dict[tuple[int, int], Any] = {}

    def start(self, sends: Sequence[Peer], receives: Sequence[Peer]) -> Callable[[], None]:
        """Put copies of what is sent into the queues, and return the function that takes what comes."""
        for peer, buffer in sends:
            self.put(peer, "message", _copy(buffer))
        numbered = self.numbered(receives)

        def wait() -> None:
            for peer, number, buffer in numbered:
                found = self.message(peer, number)
                if found.shape != buffer.shape:
                    lost(self.rank, f"{len(buffer)} elements from rank {peer}", f"{len(found)} came")
                buffer[...] = found

        return wait

    def all_reduce(self, buffer: Any, operation: str, ranks: Group) -> None:  # noqa: ANN401 - an array
        """Combine the buffers of *ranks* in their order, so that all get the same bits."""
        for peer in ranks:
            self.put(peer, "share", _copy(buffer))
        buffer[...] = self._combined(buffer, operation, ranks)

    def reduce_scatter(self, buffer: Any, operation: str, ranks: Group) -> Any:  # noqa: ANN401 - an array
        """Combine the buffers of *ranks*, and return the part of this rank."""
        size = len(buffer) // len(ranks)
        for place, peer in enumerate(ranks):
            self.put(peer, "share", _copy(buffer[place * size : (place + 1) * size]))
        mine = buffer[ranks.index(self.rank) * size :][:size]
        mine[...] = self._combined(mine, operation, ranks)
        return mine

    def _combined(self, buffer: Any, operation: str, ranks: Group) -> Any:  # noqa: ANN401 - an array
        """Return the shares that *ranks* have put, combined in their order, as an array like *buffer*."""
        combine = {"sum": np.add, "product": np.multiply, "max": np.maximum, "min": np.minimum}[operation]
        result = None
        for peer in ranks:
            part = np.asarray(self._take(peer, "share"))
            result = part if result is None else combine(result, part)
        return result if isinstance(buffer, np.ndarray) else buffer.new_tensor(result)

    def all_gather(self, text: str) -> list[str]:
        """Return the texts of all ranks."""
        for peer in range(self.size):
            self.put(peer, "text", text)
        return [self._take(peer, "text") for peer in range(self.size)]

    def numbered(self, receives: Sequence[Peer]) -> list[tuple[int, int, Any]]:
        """Return the receives, each with the number of its message among those of its rank."""
        found = []
        for peer, buffer in receives:
            found.append((peer, self._begun[peer], buffer))
            self._begun[peer] += 1
        return found

    def message(self, peer: int, number: int) -> Any:  # noqa: ANN401 - an array
        """Return the message of a rank with a number: the order is that in which exchanges began, not of their ends."""
        while (peer, number) not in self._waiting:
            self._waiting[peer, self._came[peer]] = self._take(peer, "message")
            self._came[peer] += 1
        return self._waiting.pop((peer, number))

    def put(self, peer: int, kind: str, value: object) -> None:
        """Put something into the queue to a rank."""
        self._world.queues[self.rank, peer, kind].put(value)

    def _take(self, peer: int, kind: str) -> Any:  # noqa: ANN401 - what was put
        return self.taken(self._world.queues[peer, self.rank, kind], f"for a {kind} of rank {peer}")

    def taken(self, queue: Queue[Any], doing: str) -> Any:  # noqa: ANN401 - what was put
        """Return the next value of a queue.

        Raises
        ------
        CommunicationError
            ``rank-lost``: another rank has failed, or the time is over.
        """
        end = monotonic() + self._world.timeout
        while True:
            try:
                return queue.get(timeout=_TICK)
            except Empty:
                if self._world.failed.is_set():
                    lost(self.rank, doing, "another rank has failed")
                if monotonic() > end:
                    lost(self.rank, doing, f"nothing came for {self._world.timeout:g} s")


def _copy(buffer: Any) -> Any:  # noqa: ANN401 - an array
    return buffer.copy() if isinstance(buffer, np.ndarray) else buffer.clone()
