"""How much work ISL may do on one question, and how many relations were looked at.

ISL counts its steps.  Where a question takes more of them than the budget, ISL gives up with an error and is as good as
before for the next question; whoever asked must then say that nothing is proven.  The limit holds for the length of
:func:`limited` only: ISL reports an overrun while it reads text as a fault of the text.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
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


@cache
def _probe() -> isl.Map:
    return isl.Map("[n] -> { [i, j] -> [j, k] : 0 <= i < j <= k < n }")


def _is_exceeded() -> bool:
    """Return whether the present question has taken all of its steps: then whatever ISL is asked next fails.

    An overrun does not always raise its own error, or any: a result may be None.
    """
    probe = _probe()
    try:
        probe.apply_range(probe)
    except isl.Error:
        return True
    return False


@contextmanager
def limited() -> Iterator[Tally]:
    """Answer one question: ISL may take the budget's steps, and relations are counted.

    Raises
    ------
    OutOfOperations
        The question takes more.  ISL can be used again.
    NoAnswer
        ISL failed in its own way, as it does on a few relations.
    """
    _probe()
    context = isl.DEFAULT_CONTEXT
    outer = context.get_max_operations()
    operations = budget()
    around = _tally.get(None)
    token = _tally.set(tally := Tally())
    context.reset_operations()
    context.set_max_operations(operations)
    failure: isl.Error | None = None
    try:
        yield tally
    except isl.Error as error:
        failure = error
    finally:
        exceeded = _is_exceeded()
        _tally.reset(token)
        if around is not None:
            around.relations += tally.relations
        context.set_max_operations(outer)
        context.reset_operations()
        if exceeded:
            raise OutOfOperations(operations, tally.last)
    if failure is not None:
        words = str(failure).partition("failed: ")[2].partition(" in /")[0]
        raise NoAnswer(f"failed: {words or failure}", tally.last) from failure
