"""A deterministic scheduler for threads: they take turns where a test says, between any two instructions of Python.

As in systematic testing of programs with threads (CHESS, by a bounded number of preemptions): of two threads, one is
interrupted at a chosen bytecode instruction of the functions that are looked at, the other runs until it ends or waits
for a lock, and the first goes on.  :func:`explored` does this for every instruction.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from types import FrameType, ModuleType
from typing import Any

__all__ = ["Run", "explored"]

_STUCK = 0.02
"""A thread that has its turn and reaches no instruction for so long [s] waits for a lock: another one has its turn."""
_LONGEST = 30.0


class Run:
    """One run of several functions in threads of their own, which switch at given instructions.

    Parameters
    ----------
    files
        The files whose functions are looked at.
    switches
        After how many instructions, of all threads together, the turn goes to the next thread.
    """

    def __init__(self, works: Sequence[Callable[[], Any]], files: Collection[str], switches: Collection[int]) -> None:
        self.steps, self.results = 0, list[Any]([None] * len(works))
        self.errors = list[BaseException]()
        self._files, self._switches = frozenset(files), frozenset(switches)
        self._alive, self._turn, self._change = set(range(len(works))), 0, threading.Condition()
        threads = [threading.Thread(target=self._work, args=(number, work), daemon=True)
                   for number, work in enumerate(works)]
        for thread in threads:
            thread.start()
        self._watch()
        for thread in threads:
            thread.join(_LONGEST)
            assert not thread.is_alive(), "threads wait for each other"

    def _watch(self) -> None:
        """Give the turn to another thread where the one that has it waits for a lock."""
        waited, seen = 0.0, -1
        with self._change:
            while self._alive and waited < _LONGEST:
                self._change.wait(_STUCK)
                waited = waited + _STUCK if seen == self.steps else 0.0
                if seen == self.steps:
                    self._next()
                seen = self.steps

    def _next(self) -> None:
        """Give the turn to the next thread that has not ended; the condition is held."""
        others = [number for number in sorted(self._alive) if number > self._turn] or sorted(self._alive)
        if others:
            self._turn = others[0]
        self._change.notify_all()

    def _work(self, number: int, work: Callable[[], Any]) -> None:
        sys.settrace(lambda frame, event, _: self._traced(number, frame, event))
        try:
            self.results[number] = work()
        except BaseException as error:  # told to the test
            self.errors.append(error)
        finally:
            sys.settrace(None)
            with self._change:
                self._alive.discard(number)
                if self._turn == number:
                    self._next()

    def _traced(self, number: int, frame: FrameType, event: str) -> Any:
        if event == "call" and frame.f_code.co_filename in self._files:
            frame.f_trace_opcodes, frame.f_trace_lines = True, False
            return lambda inner, what, _: self._step(number, inner, what)
        return None

    def _step(self, number: int, frame: FrameType, event: str) -> Any:
        if event == "opcode":
            with self._change:
                while self._turn != number and self._alive - {number}:
                    self._change.wait(_LONGEST)
                self.steps += 1
                if self.steps in self._switches:
                    self._next()
                    while self._turn != number and self._alive - {number}:
                        self._change.wait(_LONGEST)
        return lambda inner, what, _: self._step(number, inner, what)


def explored(
    make: Callable[[], Sequence[Callable[[], Any]]], *modules: ModuleType, every: int = 1, most: int = 400
) -> Iterator[Run]:
    """Yield runs of the functions that *make* returns, anew for each, with one switch at each instruction.

    Of more than *most* instructions, evenly spread ones are taken.
    """
    files = [str(module.__file__) for module in modules]
    whole = Run(make(), files, ())
    yield whole
    stride = max(every, whole.steps // most)
    for place in range(1, whole.steps, stride):
        yield Run(make(), files, (place,))
    for place in range(1, whole.steps, 7 * stride):  # two switches
        yield Run(make(), files, (place, place + 1 + place % 5))


