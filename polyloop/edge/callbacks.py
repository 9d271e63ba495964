"""Callbacks: functions of users that the package calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from polyloop.edge.words import spelt
from polyloop.errors import Diagnostic, PolyloopError

__all__ = ["asked"]

_R = TypeVar("_R")
_MOST: int = 300


def asked(
    refuse: Callable[[Diagnostic], PolyloopError], name: str, function: Callable[..., _R], /, *args: object,
    **kwargs: object,
) -> _R:
    """Return the result of a user's *function*, which was passed as *name*.

    Raises
    ------
    PolyloopError
        ``callback-failed``, made by *refuse*: the function raised an exception, which is the cause of this one.
    """
    try:
        return function(*args, **kwargs)
    except (PolyloopError, RecursionError, MemoryError):
        raise
    except Exception as raised:
        said = spelt(raised)
        said = said if len(said) <= _MOST else f"{said[:_MOST]}.."
        finding = Diagnostic(
            "callback-failed", f"'{name}' raised an exception when it was called", (said,),
            ("the traceback above has the line", "in Python: error.__cause__"),
        )  # fmt: skip
        raise refuse(finding) from raised
