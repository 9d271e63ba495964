"""``pl.operation_budget``: how long ISL may think about one question."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from polyloop.errors import Diagnostic, VerificationError
from polyloop.poly.budget import DEFAULT_OPERATIONS, with_budget

__all__ = ["operation_budget"]


@contextmanager
def operation_budget(max_operations: int) -> Iterator[None]:
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
        problem = Diagnostic("bad-budget", f"a budget of {max_operations!r} operations", hints=(hint,))
        raise VerificationError("operation_budget", None, [problem])
    with with_budget(max_operations):
        yield
