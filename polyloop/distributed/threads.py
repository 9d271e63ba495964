"""Ranks as threads of one process: the engine of tests and of a first look, without any library."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from queue import Empty, Queue
from threading import Event, Thread
from time import monotonic
from typing import Any, Final, TypeVar

import numpy as np

from polyloop.distributed.engine import Engine, Group, Peer, Ranked, lost
from polyloop.errors import CommunicationError

__all__ = ["ThreadEngine", "run_ranks"]

_T = TypeVar("_T")

_TICK: Final = 0.02
"""Time between two looks at whether another rank has failed [s]."""


@dataclass(eq=False)
class _World:
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

    def __init__(self, rank: int, world: _World) -> None:
        self.rank = rank
        self.size = world.size
        self._world = world
        self._begun: Counter[int] = Counter()
        self._came: Counter[int] = Counter()
        self._waiting: dict[tuple[int, int], Any] = {}

    def start(self, sends: Sequence[Peer], receives: Sequence[Peer]) -> Callable[[], None]:
        """Put copies of what is sent into the queues, and return the function that takes what comes."""
        for peer, buffer in sends:
            self._put(peer, "message", _copy(buffer))
        numbered = []
        for peer, buffer in receives:
            numbered.append((peer, self._begun[peer], buffer))
            self._begun[peer] += 1

        def wait() -> None:
            for peer, number, buffer in numbered:
                found = self._message(peer, number)
                if found.shape != buffer.shape:
                    lost(self.rank, f"{len(buffer)} elements from rank {peer}", f"{len(found)} came")
                buffer[...] = found

        return wait

    def all_reduce(self, buffer: Any, operation: str, ranks: Group) -> None:  # noqa: ANN401 - an array
        """Combine the buffers of *ranks* in their order, so that all get the same bits."""
        for peer in ranks:
            self._put(peer, "share", _copy(buffer))
        buffer[...] = self._combined(buffer, operation, ranks)

    def reduce_scatter(self, buffer: Any, operation: str, ranks: Group) -> Any:  # noqa: ANN401 - an array
        """Combine the buffers of *ranks*, and return the part of this rank."""
        size = len(buffer) // len(ranks)
        for place, peer in enumerate(ranks):
            self._put(peer, "share", _copy(buffer[place * size : (place + 1) * size]))
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
            self._put(peer, "text", text)
        return [self._take(peer, "text") for peer in range(self.size)]

    def _message(self, peer: int, number: int) -> Any:  # noqa: ANN401 - an array
        """Return the message of a rank with a number: the order is that in which exchanges began, not of their ends."""
        while (peer, number) not in self._waiting:
            self._waiting[peer, self._came[peer]] = self._take(peer, "message")
            self._came[peer] += 1
        return self._waiting.pop((peer, number))

    def _put(self, peer: int, kind: str, value: object) -> None:
        self._world.queues[self.rank, peer, kind].put(value)

    def _take(self, peer: int, kind: str) -> Any:  # noqa: ANN401 - what was put
        queue, end = self._world.queues[peer, self.rank, kind], monotonic() + self._world.timeout
        while True:
            try:
                return queue.get(timeout=_TICK)
            except Empty:
                if self._world.failed.is_set():
                    lost(self.rank, f"for a {kind} of rank {peer}", "another rank has failed")
                if monotonic() > end:
                    lost(self.rank, f"for a {kind} of rank {peer}", f"nothing came for {self._world.timeout:g} s")


def _copy(buffer: Any) -> Any:  # noqa: ANN401 - an array
    return buffer.copy() if isinstance(buffer, np.ndarray) else buffer.clone()


def run_ranks(count: int, program: Callable[[Engine], _T], *, timeout: float = 60.0) -> list[_T]:
    """Run *program* on ranks that are threads of this process, and return the results in the order of the ranks.

    ::

        def program(engine):
            run = divided.compile(engine)
            u = run.scatter("u", whole, n=64)
            run(u=u, n=64, steps=10)
            return run.gather("u", u, n=64)

        results = pl.run_ranks(4, program)

    Parameters
    ----------
    count
        Number of ranks.
    program
        Called with the engine of each rank.
    timeout
        Time after which a rank gives up to wait for another one [s].

    Raises
    ------
    CommunicationError
        ``rank-lost``: a rank waited in vain for another one, and that one did not fail.  Otherwise the first error of
        a rank is raised.
    """
    world = _World(count, timeout)
    results: list[Any] = [None] * count
    errors: list[BaseException | None] = [None] * count

    def work(rank: int) -> None:
        try:
            results[rank] = program(ThreadEngine(rank, world))
        except BaseException as error:
            errors[rank] = error
            world.failed.set()

    threads = [Thread(target=work, args=(rank,), daemon=True) for rank in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = [error for error in errors if error is not None]
    first = next((error for error in found if not isinstance(error, CommunicationError)), None)
    if found:
        raise first or found[0]
    return results
