"""``Tuned.draw()``: the times of all choices as bars, with their confidence intervals."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from polyloop.errors import Diagnostic, TuningError
from polyloop.runtime.explanation import time_text
from polyloop.tuning.report import Trial, Tuned
from polyloop.tuning.space import Value, shown
from polyloop.viz.picture import Picture, picture_of
from polyloop.viz.svg import CHAR, Canvas

__all__ = ["draw_tuned"]

_SMALL: Final = 11.0
_ROW: Final = 20.0
_BAR: Final = 360.0
_MOST: Final = 60
_LETTERS: Final = 60
_COLUMNS: Final = 100
_VALUES: Final = 20
"""Lines on values."""


def draw_tuned(found: Tuned) -> Picture:
    """Draw the choices by their times: see :meth:`Tuned.draw`."""
    timed = sorted((trial for trial in found.trials if trial.time is not None), key=_median)
    if not timed:
        problem = Diagnostic("nothing-to-draw", "no choice was measured", hints=("print(found) has the reasons",))
        raise TuningError("draw", None, [problem])
    others = [trial for trial in found.trials if trial.time is None]
    best = timed[0].time
    assert best is not None, "it was measured"
    title = f"{len(timed)} of {len(found.trials)} choices measured, the fastest takes {time_text(best.median)}"
    canvas = Canvas()
    canvas.text(12, 16, title, bold=True)
    canvas.text(12, 35, "bar: time of one call; line: its confidence interval (95 %)", "quiet", size=_SMALL)
    left = 24 + CHAR * _SMALL * min(_LETTERS, max(len(shown(trial.choice)) for trial in timed))
    scale = _BAR / max(trial.time.high for trial in timed[:_MOST] if trial.time is not None)
    y, lines = 62.0, [title]
    for number, trial in enumerate(timed):
        if number < _MOST:
            _bar(canvas, trial, (left, y), scale, is_best=number == 0, told=_is_told(trial, timed[0]))
            y += _ROW
        lines.append(_line(trial, timed[0]))
    rest = [*_outcomes(others), *([f"{len(timed) - _MOST} slower ones are left out"] if len(timed) > _MOST else [])]
    y += 8
    for line in rest[:_MOST]:
        canvas.text(12, y, line, "quiet", size=_SMALL)
        y += 16
    parts = [*_values(timed)]
    if parts:
        canvas.text(12, y + 8, "the least time with each value", "blue", bold=True)
        y += 30
    more = [f".. {len(parts) - _VALUES} lines more, which print(..) has"] if len(parts) > _VALUES else []
    for line in [*parts[:_VALUES], *more]:
        canvas.text(12, y, line, size=_SMALL)
        y += 16
    return picture_of(canvas, title, "\n".join([*lines, *rest, *parts]))


def _median(trial: Trial) -> float:
    assert trial.time is not None, "it was measured"
    return trial.time.median


def _is_told(trial: Trial, best: Trial) -> bool:
    """Return whether a choice is slower than the best by more than their intervals."""
    assert trial.time is not None, "it was measured"
    assert best.time is not None, "it was measured"
    return trial.time.low > best.time.high


def _bar(
    canvas: Canvas, trial: Trial, at: tuple[float, float], scale: float, *, is_best: bool, told: bool
) -> None:  # fmt: skip
    """Draw the bar of one choice."""
    x, y = at
    text, time = shown(trial.choice), trial.time
    assert time is not None, "it was measured"
    text = text if len(text) <= _LETTERS else f"{text[: _LETTERS - 2]}.."
    canvas.text(x - 10, y, text, "green" if is_best else "ink", size=_SMALL, bold=is_best, anchor="end")
    canvas.rect(x, y - 7, time.median * scale, 14, "on-green" if is_best else "on-blue", "rule", radius=2)
    low, high = x + time.low * scale, x + time.high * scale
    canvas.line([(low, y), (high, y)], "ink", width=1.5)
    for end in (low, high):
        canvas.line([(end, y - 4), (end, y + 4)], "ink", width=1.5)
    more = "" if trial.registers is None else f", {trial.registers} registers"
    same = "" if told or is_best else ", not told apart from the fastest"
    canvas.text(x + max(high - x, time.median * scale) + 10, y, f"{time_text(time.median)}{more}{same}", size=_SMALL)


def _line(trial: Trial, best: Trial) -> str:
    time = trial.time
    assert time is not None, "it was measured"
    stars = "#" * max(1, round(40 * _median(best) / time.median))
    same = "" if trial is best or _is_told(trial, best) else "  (not told apart from the fastest)"
    return f"{time_text(time.median):>9}  {stars:<40}  {shown(trial.choice)}{same}"


def _outcomes(others: list[Trial]) -> Iterator[str]:
    """Yield the reasons for which choices have no time, each with their number."""
    found: dict[tuple[str, str], list[Trial]] = {}
    for trial in others:
        found.setdefault((trial.outcome.value, trial.why), []).append(trial)
    for (outcome, why), trials in found.items():
        yield f"{outcome}: {len(trials)}, such as {shown(trials[0].choice)}{f': {why}' if why else ''}"


def _values(timed: list[Trial]) -> Iterator[str]:
    """Yield for each name its values, with the least time that a choice with it has."""
    for name in timed[0].choice:
        least: dict[Value, float] = {}
        for trial in timed:
            least.setdefault(trial.choice[name], _median(trial))
        if len(least) > 1:
            yield from _listed(f"{shown({name: value})} {time_text(time)}" for value, time in least.items())


def _listed(entries: Iterable[str]) -> Iterator[str]:
    """Yield the entries in lines of at most a hundred characters."""
    line = ""
    for entry in entries:
        if line and len(line) + len(entry) > _COLUMNS - 3:
            yield f"{line};"
            line = f"    {entry}"
        else:
            line = f"{line}; {entry}" if line else entry
    yield line
