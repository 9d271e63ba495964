"""Preparations before there is a first kernel: layers above give kernels their methods."""

from __future__ import annotations

from collections.abc import Callable
from threading import RLock
from typing import Final

__all__ = ["before_kernels", "prepare_kernels"]

_WAITING: Final[list[Callable[[], None]]] = []
_RUNNING: Final[list[Callable[[], None]]] = []
_LOCK: Final = RLock()


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
                _RUNNING[0]()
                _WAITING.pop(0)
            finally:
                _RUNNING.clear()
