"""Teams of threads of OpenMP in loaded libraries: their number, and what is left of them in children of fork."""

from __future__ import annotations

import ctypes
import os
from typing import Final

__all__ = ["alone_in_children", "ask_for_threads"]

_SETTER: Final = "omp_set_num_threads"
_OF_LLVM: Final = "__kmpc_fork_call"


class _Children:
    """Libraries with a team of threads, and whether this process is a child that was forked off.

    GCC's OpenMP keeps the threads of a team for the next loop.  A child made by ``fork`` has the team, but not its
    threads, and would wait for them for ever.  In such a child the thread that forked executes loops alone: no team is
    asked then.  Source: GCC, libgomp/team.c, ``gomp_team_start``.  LLVM's OpenMP makes new threads in a child.
    """

    found: Final[dict[int, ctypes.CDLL]] = {}
    is_registered = False
    is_child = False

    @classmethod
    def alone(cls) -> None:
        """Let the present thread execute loops alone."""
        cls.is_child = True
        for library in cls.found.values():
            getattr(library, _SETTER)(1)


def alone_in_children(library: ctypes.CDLL) -> None:
    """Let children of this process that fork off execute the loops of *library* by one thread, if it has teams."""
    if not hasattr(library, _SETTER) or hasattr(library, _OF_LLVM) or not hasattr(os, "register_at_fork"):
        return
    place = ctypes.cast(getattr(library, _SETTER), ctypes.c_void_p).value
    assert place is not None, "a function has an address"
    _Children.found.setdefault(place, library)  # one for all libraries that share GCC's OpenMP
    if not _Children.is_registered:
        _Children.is_registered = True
        os.register_at_fork(after_in_child=_Children.alone)


def ask_for_threads(library: ctypes.CDLL, count: int) -> None:
    """Let the present thread execute loops of *library* with *count* threads, unless it has to do so alone."""
    if not _Children.is_child:
        getattr(library, _SETTER)(count)
