"""Budgets of calls and of ISL questions, and the number of relations examined.

ISL counts its steps.  A question that exceeds its budget of steps ends with an error, and leaves ISL in a valid state;
the caller must then report that nothing is proven.

A call of the user's has a budget of time (:func:`one_call`).  Time is that of the processor, of this thread: the load
of the machine changes no answer.  The clock is read between questions and wherever a relation is counted; inside of a
question ISL's steps stand for it, whose speed differs by a factor of 40: the slowest that were measured let a call
take twice its budget, and fast ones end it early.  A call that runs out of time ends with :class:`OutOfTime`, which
nothing below the call may catch: a text or a verdict never depends on the clock.

ISL's limit on steps is one for the whole process.  So one thread at a time is inside of a call or a question.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from time import perf_counter, thread_time
from types import TracebackType
from typing import Final

import islpy as isl

from polyloop.edge.collector import rare_collections
from polyloop.edge.locks import OwnLock

__all__ = [
    "ASIDE",
    "DEFAULT_OPERATIONS",
    "DEFAULT_SECONDS",
    "NoAnswer",
    "OutOfOperations",
    "OutOfTime",
    "Tally",
    "alone",
    "aside",
    "budget",
    "limited",
    "look_at_the_clock",
    "looked_at",
    "looking_at",
    "one_call",
    "seconds_of_a_call",
    "with_budget",
    "with_seconds",
]

DEFAULT_OPERATIONS: Final = 100_000_000
"""Steps that ISL may take for one question."""

ASIDE: Final = 1_000_000
"""Steps that ISL may take for one question that may stay open; kernels of the test gallery take up to 160,000."""

DEFAULT_SECONDS: Final = 30.0
"""Time that one call of the user's may take [seconds of the processor]."""

_STEPS_PER_SECOND: Final = 100_000  # of one question; measured: 50,000 to 2 million, by what the steps are
_OUTSIDE: Final = 3  # times as many between questions, where sets are made and nothing hard is asked
_FEW_STEPS: Final = 20_000  # lower limit, for when hardly any time is left

_budget: ContextVar[int] = ContextVar("budget", default=DEFAULT_OPERATIONS)
_seconds: ContextVar[float] = ContextVar("seconds", default=DEFAULT_SECONDS)


_ISL: Final = OwnLock()
"""Held by the thread that asks the one ISL of the process."""


@dataclass
class Tally:
    """Relations examined for one question: their number, and the sides of the last one."""

    relations: int = 0
    last: tuple[object, ...] = ()


_tally: ContextVar[Tally] = ContextVar("tally")


class NoAnswer(Exception):  # noqa: N818  # a signal to the caller, not a user's error
    """ISL gave up on a question: ``reason`` tells why, ``last`` the operands of the last relation."""

    def __init__(self, reason: str, last: tuple[object, ...]) -> None:
        super().__init__(reason)
        self.reason = reason
        self.last = last


class OutOfOperations(NoAnswer):
    """A question takes more steps than the budget has."""

    def __init__(self, operations: int, last: tuple[object, ...]) -> None:
        super().__init__(f"gave up after {operations} operations", last)
        self.operations = operations


class OutOfTime(Exception):  # noqa: N818  # a signal to the outermost call
    """A public call exceeded its ``seconds``; ``last`` holds the operands of the last relation."""

    def __init__(self, seconds: float, last: tuple[object, ...]) -> None:
        super().__init__(f"gave up after {seconds:g} s")
        self.seconds = seconds
        self.last = last


_MOSTLY: Final = 0.9


@dataclass
class _Call:
    """One call of the user's: when it began and how long it may take [seconds of this thread's processor time]."""

    seconds: float
    sure: float = field(init=False)
    at: float = field(default_factory=perf_counter)
    end: float | None = None
    """The processor time at which it is over; unknown before it was asked for."""
    last: tuple[object, ...] = ()

    def __post_init__(self) -> None:
        self.sure = self.seconds

    def left(self) -> float:
        """Return a time that is left for sure.

        To ask for the processor time of a thread costs a system call, and processor time does not run faster than the
        clock: it is asked for when a tenth of what was left may be over.  What ran before the first time counts whole.

        Raises
        ------
        OutOfTime
            None is.
        """
        now = perf_counter()
        left = self.sure - (now - self.at)
        if left > _MOSTLY * self.sure:
            return left
        used = thread_time()
        if self.end is None:
            self.end = used + left
        self.sure, self.at = self.end - used, now
        if self.sure <= 0:
            raise OutOfTime(self.seconds, self.last)
        return self.sure


_call: ContextVar[_Call | None] = ContextVar("call", default=None)


def budget() -> int:
    """Return the number of steps that ISL may take for one question."""
    return _budget.get()


@contextmanager
def with_budget(operations: int) -> Iterator[None]:
    """Let ISL take at most *operations* steps for each question inside the ``with``."""
    assert operations > 0, "ISL takes 0 for no limit"
    token = _budget.set(operations)
    try:
        yield
    finally:
        _budget.reset(token)


def seconds_of_a_call() -> float:
    """Return the time budget of one call of the user's [seconds]."""
    return _seconds.get()


@contextmanager
def with_seconds(seconds: float) -> Iterator[None]:
    """Let each call inside the ``with`` take at most *seconds*."""
    assert seconds > 0, "no time at all"
    token = _seconds.set(seconds)
    try:
        yield
    finally:
        _seconds.reset(token)


@contextmanager
def alone() -> Iterator[None]:
    """Keep ISL for this thread; the limits on what it is asked stay as they are."""
    with _ISL.now:
        yield


@contextmanager
def one_call() -> Iterator[bool]:
    """Open a public call, with its time limit; yield whether it is the outermost one.

    Calls inside of it share its time.

    Raises
    ------
    OutOfTime
        It takes longer than :func:`seconds_of_a_call`.
    """
    if _call.get() is not None:
        yield False
        return
    with _ISL.now, rare_collections():
        call = _Call(seconds_of_a_call())
        token = _call.set(call)
        question = _Steps(_OUTSIDE * _steps_in(call.seconds))
        try:
            yield True
        finally:
            _call.reset(token)
            if question.end():
                raise OutOfTime(call.seconds, call.last)


def look_at_the_clock() -> None:
    """End the present call if its time is over; for loops that neither ask ISL nor count relations."""
    call = _call.get()
    if call is not None:
        call.left()


def _steps_in(seconds: float) -> int:
    return max(int(min(seconds, 1e6) * _STEPS_PER_SECOND), _FEW_STEPS)


@contextmanager
def aside() -> Iterator[None]:
    """Limit a question to :data:`ASIDE` steps, for a caller with a safe default if there is no answer.

    Raises
    ------
    NoAnswer
        It is open.
    """
    with with_budget(min(budget(), ASIDE)), limited():
        yield


def looking_at(*between: object, number: int = 1) -> None:
    """Count relations, and record their operands for a message if ISL gives up (without any: the last ones stay)."""
    call = _call.get()
    if call is not None:
        if between:
            call.last = between
        call.left()
    tally = _tally.get(None)
    if tally is not None:
        tally.relations += number
        if between:
            tally.last = between


def looked_at() -> int:
    """Return the number of relations counted for the present question."""
    tally = _tally.get(None)
    return 0 if tally is None else tally.relations


def _is_exceeded() -> bool:
    """Return whether the present question has taken all of its steps: then whatever ISL is asked next fails.

    An overrun does not always raise its own error, or any: a result may be None.  Each object that ISL makes is a step.
    """
    try:
        isl.Val.zero(isl.DEFAULT_CONTEXT)
    except isl.Error:
        return True
    return False


class _Steps:
    """A limit on ISL's steps, from its making until :meth:`end`."""

    def __init__(self, operations: int) -> None:
        context = isl.DEFAULT_CONTEXT
        self.outer = context.get_max_operations()
        context.reset_operations()
        context.set_max_operations(operations)

    def end(self) -> bool:
        """Put the limit around it back, and return whether this one was reached."""
        exceeded = _is_exceeded()
        context = isl.DEFAULT_CONTEXT
        context.set_max_operations(self.outer)
        context.reset_operations()
        return exceeded


class _Question:
    """Context of one question to ISL; see :func:`limited`."""

    def __enter__(self) -> Tally:
        self.call = _call.get()
        self.operations = budget()
        in_time = self.operations if self.call is None else _steps_in(self.call.left())
        self.is_short = in_time < self.operations
        self.lock = _ISL.now
        self.lock.acquire()
        self.around = _tally.get(None)
        self.tally = Tally()
        self.token = _tally.set(self.tally)
        self.steps = _Steps(min(self.operations, in_time))
        return self.tally

    def __exit__(
        self, kind: type[BaseException] | None, failure: BaseException | None, at: TracebackType | None
    ) -> None:
        exceeded = self.steps.end()
        self.lock.release()
        _tally.reset(self.token)
        if self.around is not None:
            self.around.relations += self.tally.relations
        if exceeded and self.is_short:
            assert self.call is not None
            raise OutOfTime(self.call.seconds, self.tally.last) from failure
        if exceeded:
            raise OutOfOperations(self.operations, self.tally.last) from failure
        if isinstance(failure, isl.Error):
            words = str(failure).partition("failed: ")[2].partition(" in /")[0]
            raise NoAnswer(f"failed: {words or failure}", self.tally.last) from failure


def limited() -> AbstractContextManager[Tally]:
    """Answer one question: ISL may take the budget's steps, and relations are counted.

    Raises
    ------
    OutOfOperations
        The question takes more.  ISL can be used again.
    NoAnswer
        ISL failed in its own way, as it does on a few relations.
    OutOfTime
        The time of the call is over.
    """
    return _Question()
