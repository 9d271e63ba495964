"""Progress of long work, on a terminal and in a notebook: a bar with a rate and what is best so far.

Bars are those of the package ``tqdm``; without it nothing is shown.  Nothing is written to a pipe, a file or the log of
a build.  ``POLYLOOP_PROGRESS=0`` in the environment turns all bars off.  One bar is shown at a time: work inside of
work that has one has none.
"""

from __future__ import annotations

import importlib
import os
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Final, Self

from polyloop.display import clipped

__all__ = ["Bar", "are_bars_wanted", "has_bars", "progress"]

_SWITCH: Final = "POLYLOOP_PROGRESS"
_OFF: Final = frozenset({"0", "off", "no", "false"})
_NOTE: Final = 60
"""Characters of a note."""
_shown: list[Bar] = []
"""The bar that is shown, or would be."""


def has_bars() -> bool:
    """Return whether the package that draws bars is installed."""
    return _package() is not None


def _package() -> Any:  # noqa: ANN401 - a package without types
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a notebook without widgets, where a bar is text
        try:
            return importlib.import_module("tqdm.auto")
        except ImportError:
            return None


def are_bars_wanted() -> bool:
    """Return whether a bar would be seen: the switch is not off, and there is a terminal or a notebook."""
    if os.environ.get(_SWITCH, "").lower() in _OFF or "CI" in os.environ:
        return False
    return _is_notebook() or (sys.stderr is not None and sys.stderr.isatty())


def _is_notebook() -> bool:
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return "IPKernelApp" in getattr(shell, "config", ())


class Bar:
    """Steps of some work; shown when *delay* seconds have passed, if it is seen."""

    def __init__(self, what: str, total: int | None, unit: str, delay: float, *, stays: bool, is_seen: bool) -> None:
        self._what, self._total, self._unit, self._stays = what, total, unit, stays
        self._begin = time.perf_counter()
        self._from = self._begin + delay if is_seen else float("inf")
        self._count, self._note = 0, ""
        self._bar: Any = None
        self._lock = threading.Lock()

    def step(self, count: int = 1) -> None:
        """Say that *count* more are done."""
        self._count += count
        self._show(count)

    def reach(self, count: int) -> None:
        """Say that *count* are done, all in all."""
        self.step(count - self._count)

    def note(self, text: str) -> None:
        """Say what is being done, or what is best so far."""
        self._note = text
        self._show(0)

    def write(self, line: str) -> None:
        """Print a line; above the bar, if there is one."""
        if self._bar is not None:
            self._bar.write(line)
        else:
            print(line, flush=True)

    def _show(self, count: int) -> None:
        if time.perf_counter() < self._from:
            return
        with self._lock:
            if self._bar is None:
                self._bar = self._made()
                if self._bar is None:
                    self._from = float("inf")
                    return
                count = self._count
            note = clipped(self._note, _NOTE)
            if note:
                self._bar.set_postfix_str(note, refresh=not count)
            if count:
                self._bar.update(count)

    def _made(self) -> Any:  # noqa: ANN401 - of a package without types
        """Return a bar of the package, that began when the work did."""
        package = _package()
        if package is None:
            return None
        bar = package.tqdm(total=self._total, desc=self._what, unit=self._unit, leave=self._stays)
        bar.start_t -= time.perf_counter() - self._begin
        return bar

    def __enter__(self) -> Self:
        _shown.append(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        _shown.remove(self)
        self._from = float("inf")
        if self._bar is not None:
            self._bar.close()


@contextmanager
def progress(
    what: str, total: int | None, unit: str, *, delay: float = 0.0, stays: bool = True, is_wanted: bool | None = None
) -> Iterator[Bar]:
    """Context of work of *total* steps, None where that is not known; it gets the bar to step.

    Parameters
    ----------
    delay
        How long the work goes on without a bar [s].
    stays
        Whether the bar stays when the work is done.
    is_wanted
        Whether to show it; by default :func:`are_bars_wanted`.
    """
    is_seen = (are_bars_wanted() if is_wanted is None else is_wanted) and not _shown
    with Bar(what, total, unit, delay, stays=stays, is_seen=is_seen) as bar:
        yield bar
