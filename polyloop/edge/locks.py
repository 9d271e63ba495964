"""Locks that a child of fork has free, whoever held them in its parent."""

from __future__ import annotations

import os
import weakref
from threading import RLock

__all__ = ["OwnLock"]


class OwnLock:
    """A lock of this process, which a thread may take again: ``with lock.now:``.

    A thread that holds it when another one forks is not in the child, and would never release it there.

    Attributes
    ----------
    now
        The lock itself: another one in each process.
    """

    def __init__(self) -> None:
        self.now = RLock()
        _ALL.add(self)


_ALL = weakref.WeakSet[OwnLock]()


def _renew() -> None:
    for lock in _ALL:
        lock.now = RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew)
