"""Tuning reports: every choice, its outcome, and its time."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from polyloop.display import Drawing, Shown, brief, clipped
from polyloop.errors import Diagnostic, TuningError
from polyloop.runtime.invoke import CompiledKernel
from polyloop.serial.value import Value
from polyloop.tuning.measure import LEAST_SAMPLES, Interval
from polyloop.tuning.space import Choice, shown

__all__ = ["Outcome", "Trial", "Tuned", "other_devices"]


class Outcome(Enum):
    """Outcome of a choice."""

    REFUSED = "refused"
    TOO_LARGE = "too large"
    FAILED = "not compiled"
    SPILLS = "spills"
    TIMED = "timed"
    UNMEASURED = "not reached"
    LOST = "lost"


@dataclass(frozen=True)
class Trial:
    """One choice.

    Attributes
    ----------
    why
        Reason of the refusal, in one line.
    time
        Of one call, None where it was not measured.
    registers
        Of a thread, where it was compiled for a GPU.
    """

    choice: Choice
    outcome: Outcome
    why: str = ""
    time: Interval | None = None
    registers: int | None = None

    __repr__ = brief


@dataclass(frozen=True, eq=False)
class Tuned(Value, Shown):
    """The result of :func:`tune`; prints as a table.

    Attributes
    ----------
    trials
        Every choice in the order in which they were taken.
    seed
        Of that order.
    trace
        The transforms of the fastest kernel, as JSON: ``pl.replay(pl.trace_from_json(found.trace), program)`` makes it
        again of the program as it was written, without the function that built it.
    device
        Names and versions of compiler, driver and device.
    """

    trials: tuple[Trial, ...]
    seed: int
    trace: str = field(default="", repr=False)
    device: str = field(default="", repr=False)
    _load: Callable[[], CompiledKernel] | None = field(default=None, repr=False, compare=False)

    @property
    def fastest(self) -> Trial:
        """The trial with the least time."""
        timed = [(trial.time.median, number) for number, trial in enumerate(self.trials) if trial.time is not None]
        assert timed, "a result has a time"
        return self.trials[min(timed)[1]]

    @property
    def best(self) -> dict[str, Any]:
        """The fastest choice: ``build(**found.best)``."""
        return dict(self.fastest.choice)

    @property
    def compiled(self) -> CompiledKernel:
        """The fastest kernel, compiled."""
        if self._load is None:
            hints = ("pl.compile(build(**found.best))", "or pl.replay(pl.trace_from_json(found.trace), program)")
            message = "a result that was read from JSON has no programs"
            raise TuningError("tune", None, [Diagnostic("no-programs", message, (), hints)])
        return self._load()

    def ready(self, load: Callable[[], CompiledKernel]) -> Tuned:
        """Return the same with a way to get at the fastest kernel."""
        return Tuned(self.trials, self.seed, self.trace, self.device, load)

    def merged(self, other: Tuned) -> Tuned:
        """Return the trials of two searches on devices of one kind as one result.

        ::

            both = pl.Tuned.from_json(first).merged(pl.Tuned.from_json(second))     # of two machines

        A choice that both have keeps the time of more samples.  The two have not raced each other: times of machines
        with other loads are compared as they are.

        Raises
        ------
        TuningError
            ``different-devices``.
        """
        if other.device != self.device:
            raise TuningError("merged", None, [other_devices((self.device, other.device))])
        found = {shown(trial.choice): trial for trial in self.trials}
        for trial in other.trials:
            mine = found.get(shown(trial.choice))
            if mine is None or _samples(trial) > _samples(mine):
                found[shown(trial.choice)] = trial
        trials = tuple(found.values())
        if not any(trial.time is not None for trial in trials):
            return Tuned(trials, self.seed, "", self.device)
        best = Tuned(trials, self.seed).best
        traced = next((entry for entry in (self, other) if entry.trace and entry.best == best), None)
        return Tuned(trials, self.seed, "" if traced is None else traced.trace, self.device)

    def draw(self) -> Drawing:
        """Draw the choices by their times, with confidence intervals: a :class:`polyloop.Picture`.

        ::

            found = pl.tune(build, space, args)
            found.draw()                    # a notebook shows it
            found.draw().save("tuned.svg")

        The fastest comes first; those that are not told apart from it say so.  Below are the reasons for which choices
        have no time, and for each name of the space the least time with each of its values.

        Raises
        ------
        TuningError
            ``nothing-to-draw`` if no choice was measured.
        """
        return self._picture()

    def to_json(self) -> str:
        """Return all of it as JSON."""
        trials = [
            {
                "choice": dict(trial.choice),
                "outcome": trial.outcome.value,
                "why": trial.why,
                "time": None if trial.time is None else
                [trial.time.low, trial.time.median, trial.time.high, trial.time.samples],
                "registers": trial.registers,
            }
            for trial in self.trials
        ]  # fmt: skip
        return json.dumps({"seed": self.seed, "trials": trials, "trace": self.trace, "device": self.device}, indent=1)

    @classmethod
    def from_json(cls, text: str) -> Tuned:
        """Return the value of text that :meth:`to_json` wrote."""
        given = json.loads(text)
        trials = tuple(
            Trial(one["choice"], Outcome(one["outcome"]), one["why"],
                  None if one["time"] is None else Interval(*one["time"]), one["registers"])
            for one in given["trials"]
        )  # fmt: skip
        return cls(trials, given["seed"], given.get("trace", ""), given.get("device", ""))

    def __repr__(self) -> str:
        counts = Counter(trial.outcome.value for trial in self.trials)
        found = ", ".join(f"{count} {outcome}" for outcome, count in counts.items())
        if not counts[Outcome.TIMED.value]:
            return f"<Tuned: {found}>"
        best = self.fastest
        assert best.time is not None, "it has the least time"
        return f"<Tuned: {clipped(shown(best.choice), 120)} takes {best.time.median * 1e6:.2f} us; {found}>"

    def __str__(self) -> str:
        timed = sorted((t for t in self.trials if t.time is not None), key=lambda t: t.time.median if t.time else 0.0)
        lines = []
        for trial in timed:
            assert trial.time is not None
            registers = "" if trial.registers is None else f", {trial.registers} registers"
            reach = max(trial.time.high - trial.time.median, trial.time.median - trial.time.low)
            sure = f"+- {reach * 1e6:.2f}"
            if trial.time.samples < LEAST_SAMPLES:
                sure = f"in {trial.time.samples} sample{'s' * (trial.time.samples > 1)}, too few to be sure"
            lines.append(f"{trial.time.median * 1e6:12.2f} us {sure}  {shown(trial.choice)}{registers}")
        for trial in self.trials:
            if trial.time is None:
                why = f": {trial.why}" if trial.why else ""
                lines.append(f"{trial.outcome.value:>15}  {shown(trial.choice)}{why}")
        return "\n".join(lines)


def _samples(trial: Trial) -> int:
    return 0 if trial.time is None else trial.time.samples


def other_devices(names: Sequence[str]) -> Diagnostic:
    """Return the finding of times that were taken on different devices."""
    return Diagnostic("different-devices", "times of different devices are no one result", tuple(names),
                      ("tune on each kind of device by itself, and keep a result for each",))
