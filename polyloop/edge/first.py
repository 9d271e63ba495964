"""Preparations before there is a first kernel, and modules that are imported when they are first used.

Both are done by one thread at a time, and a fork waits for it: its child would have half of a module, and wait for a
thread that is not there.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib import import_module
from threading import RLock
from types import ModuleType
from typing import Final

from polyloop.edge.collector import rare_collections

__all__ = ["before_kernels", "imported", "prepare_kernels"]

_WAITING: Final[list[Callable[[], None]]] = []
_RUNNING: Final[list[Callable[[], None]]] = []
_LOCK: Final = RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_LOCK.acquire, after_in_parent=_LOCK.release, after_in_child=_LOCK.release)


def imported(name: str) -> ModuleType:
    """Return a module of the package, imported by now."""
    with _LOCK, rare_collections():
        return import_module(name)


def before_kernels(prepare: Callable[[], None]) -> None:
    """Let *prepare* be called once, before the first kernel is made."""
    _WAITING.append(prepare)


def prepare_kernels() -> None:
    """Call what is waiting; other threads wait until it is done."""
    while _WAITING:
        with _LOCK:
            if _RUNNING or not _WAITING:
                return
            _RUNNING.append(_WAITING[0])
            try:
                with rare_collections():
                    _RUNNING[0]()
                _WAITING.pop(0)
            finally:
                _RUNNING.clear()
