"""How much work ISL may do on one question, and how many relations were looked at.

ISL counts its steps.  Where a question takes more of them than the budget, ISL gives up with an error and is as good as
before for the next question; whoever asked must then say that nothing is proven.  The limit holds for the length of
:func:`limited` only: ISL reports an overrun while it reads text as a fault of the text.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from types import TracebackType
from typing import Final

import islpy as isl

__all__ = [
    "DEFAULT_OPERATIONS",
    "NoAnswer",
    "OutOfOperations",
    "Tally",
    "budget",
    "limited",
    "looked_at",
    "looking_at",
    "with_budget",
]

DEFAULT_OPERATIONS: Final = 100_000_000
"""Steps that ISL may take for one question."""

_budget: ContextVar[int] = ContextVar("budget", default=DEFAULT_OPERATIONS)


@dataclass
class Tally:
    """What was looked at in answering one question: how many relations, and what the last one was between."""

    relations: int = 0
    last: tuple[object, ...] = ()


_tally: ContextVar[Tally] = ContextVar("tally")


class NoAnswer(Exception):  # noqa: N818  # a signal to who asked, not an error of the user
    """ISL has no answer to a question: ``reason`` says what it did; ``last`` is what the last relation was between."""

    def __init__(self, reason: str, last: tuple[object, ...]) -> None:
        super().__init__(reason)
        self.reason = reason
        self.last = last


class OutOfOperations(NoAnswer):
    """A question takes more steps than the budget has."""

    def __init__(self, operations: int, last: tuple[object, ...]) -> None:
        super().__init__(f"gave up after {operations} operations", last)
        self.operations = operations


def budget() -> int:
    """Return how many steps ISL may take for one question."""
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


def looking_at(*between: object, number: int = 1) -> None:
    """Count one relation, or a *number*, and remember what it is *between* (as before, if nothing is said)."""
    tally = _tally.get(None)
    if tally is not None:
        tally.relations += number
        if between:
            tally.last = between


def looked_at() -> int:
    """Return how many relations were counted so far for the present question."""
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


class _Question:
    """One question while it is answered; see :func:`limited`."""

    def __enter__(self) -> Tally:
        context = isl.DEFAULT_CONTEXT
        self.outer = context.get_max_operations()
        self.operations = budget()
        self.around = _tally.get(None)
        self.tally = Tally()
        self.token = _tally.set(self.tally)
        context.reset_operations()
        context.set_max_operations(self.operations)
        return self.tally

    def __exit__(
        self, kind: type[BaseException] | None, failure: BaseException | None, at: TracebackType | None
    ) -> None:
        exceeded = _is_exceeded()
        _tally.reset(self.token)
        if self.around is not None:
            self.around.relations += self.tally.relations
        context = isl.DEFAULT_CONTEXT
        context.set_max_operations(self.outer)
        context.reset_operations()
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
    """
    return _Question()
