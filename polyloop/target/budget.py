"""``pl.time_budget`` of a call, and ``pl.operation_budget`` of one question to ISL."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from math import isfinite
from typing import Annotated

from polyloop.edge.checks import EXPLAINED
from polyloop.edge.words import spelt
from polyloop.errors import Diagnostic, VerificationError
from polyloop.poly.budget import DEFAULT_OPERATIONS, DEFAULT_SECONDS, with_budget, with_seconds

__all__ = ["operation_budget", "time_budget"]


@contextmanager
def operation_budget(max_operations: Annotated[int, EXPLAINED]) -> Iterator[None]:
    """Let ISL take *max_operations* for each thing to prove, inside the ``with``.

    ::

        with pl.operation_budget(10**9):
            program = pl.generate_code(knl)

    It holds for transforms, for :func:`polyloop.verify` and for code generation.  Where it runs out, nothing is proven,
    and that is an error: ``not-proven``.

    Raises
    ------
    VerificationError
        ``bad-budget``.
    """
    given: object = max_operations
    if type(given) is not int or max_operations < 1:
        hint = f"pass a number of operations; by default it is {DEFAULT_OPERATIONS}"
        problem = Diagnostic("bad-budget", f"a budget of {spelt(max_operations)} operations", hints=(hint,))
        raise VerificationError("operation_budget", None, [problem])
    with with_budget(max_operations):
        yield


@contextmanager
def time_budget(seconds: Annotated[float, EXPLAINED]) -> Iterator[None]:
    """Let each call take *seconds* of processor time, inside the ``with``; 30 by default.

    ::

        with pl.time_budget(600):
            knl = pl.add_prefetch(knl, "a", ["i_inner", "k_inner"])

    It holds for the creation of a kernel, for each transform, for :func:`polyloop.verify` and for code generation.  A
    call that takes longer fails with ``out-of-time``, which names the last question.  While ISL works on
    one, its steps are counted, 100,000 for a second: a hard one may end the call before its time is over, or let it
    take twice as long (measured), by how fast the steps are.  No kernel, verdict or text depends on it otherwise.  A C
    compiler has ten times as long, by the clock.

    Parameters
    ----------
    seconds
        At most one year.

    Raises
    ------
    VerificationError
        ``bad-budget``.
    """
    given: object = seconds
    is_number = isinstance(given, int | float) and not isinstance(given, bool)
    if not (is_number and isfinite(seconds) and 0 < seconds <= 366 * 86400):
        hint = f"pass a number of seconds; by default it is {DEFAULT_SECONDS:g}"
        raise VerificationError("time_budget", None, [
            Diagnostic("bad-budget", f"a time budget of {spelt(seconds)} seconds", hints=(hint,))])
    with with_seconds(float(seconds)):
        yield
