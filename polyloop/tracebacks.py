"""Tracebacks of errors as they leave the library: the user's frames, without those of the package.

The frame that raises an error is added by Python after that, so that one of the package stays: it has a line that tells
the public function alone (:func:`told_by_name`).  Only ``sys.excepthook`` could leave it out, and that is the user's.

An error of the user's is told by its text, which names the place in the kernel.  ``POLYLOOP_TRACEBACK=full`` in the
environment keeps all frames, for work on the library.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from types import FunctionType, TracebackType
from typing import Final, TypeVar

__all__ = ["bare", "lines_for_ipython", "told_by_name"]

_E = TypeVar("_E", bound=BaseException)
_PACKAGE: Final = "polyloop"
_SWITCH: Final = "POLYLOOP_TRACEBACK"


def bare(error: _E) -> _E:
    """Return *error* without frames of the package in its traceback, and in those of the errors that it came from.

    An error that only the library saw, and that is not the declared cause, is not shown at all.  Frames of the user's
    functions that the library called stay.
    """
    if os.environ.get(_SWITCH) == "full":
        return error
    seen: list[BaseException] = []
    now: BaseException | None = error
    while now is not None and not any(now is other for other in seen):
        seen.append(now)
        now.__traceback__ = _outside(now.__traceback__)
        if now.__cause__ is None and now.__context__ is not None and _outside(now.__context__.__traceback__) is None:
            now.__suppress_context__ = True
        now = now.__cause__ or (None if now.__suppress_context__ else now.__context__)
    return error


def told_by_name(function: Callable[..., object], name: str) -> None:
    """Let tracebacks tell the frames of *function* in one line, without its source.

    ::

        File ".../polyloop/edge/calls.py", line 172, in call    # before, with the line of source
        File "<polyloop>", line 172, in split_iname                          # after
    """
    if isinstance(function, FunctionType) and os.environ.get(_SWITCH) != "full":
        function.__code__ = function.__code__.replace(co_filename=f"<{_PACKAGE}>", co_name=name, co_qualname=name)


def lines_for_ipython(error: BaseException) -> list[str]:
    """Return the lines that IPython shows for *error*: those for the frames of the user, and the message."""
    shell = sys.modules["IPython"].get_ipython()
    frames = error.__traceback__ if os.environ.get(_SWITCH) == "full" else _outside(error.__traceback__)
    found: list[str] = shell.InteractiveTB.structured_traceback(type(error), error, frames, tb_offset=1)
    return found


def _outside(frames: TracebackType | None) -> TracebackType | None:
    """Return a traceback without the frames of the package."""
    kept = []
    while frames is not None:
        if not _is_ours(frames):
            kept.append(frames)
        frames = frames.tb_next
    result = None
    for entry in reversed(kept):
        result = TracebackType(result, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return result


def _is_ours(entry: TracebackType) -> bool:
    """Return whether a frame runs code of the package, or a function that the package has made."""
    name = str(entry.tb_frame.f_globals.get("__name__", ""))
    return name.partition(".")[0] == _PACKAGE or entry.tb_frame.f_code.co_filename.startswith(f"<{_PACKAGE}")
