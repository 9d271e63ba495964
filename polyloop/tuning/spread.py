"""Choices divided over the tasks of an executor, and what the tasks found, put together.

Each task builds, compiles and races its choices against each other.  Those that may be the fastest of all race once
more, in one task: times that are compared in the end were taken in turn on one machine.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, Final

from polyloop.edge.words import spelt
from polyloop.errors import Diagnostic, TuningError
from polyloop.tuning.report import Outcome, Trial, Tuned, other_devices
from polyloop.tuning.space import Choice, shown

__all__ = ["reply_of", "spread"]

_CHOICES_OF_A_TASK: Final = 8
_FINALISTS: Final = 8


def reply_of(found: Tuned | Sequence[Diagnostic]) -> str:
    """Return the reply of a task as text: a result, or findings."""
    if isinstance(found, Tuned):
        return json.dumps({"tuned": found.to_json()})
    return json.dumps({"found": [[one.code, one.message, one.notes, one.hints] for one in found]})


def spread(
    executor: Any, task: Callable[[Sequence[Choice]], str], choices: Sequence[Choice],  # noqa: ANN401 - any that submits
    tasks: int | None, finished: Callable[[], object],
) -> tuple[str, tuple[Trial, ...]]:  # fmt: skip
    """Return the device of the tasks, and a trial for each choice.

    Parameters
    ----------
    task
        Searches some choices and replies as :func:`reply_of` does.
    tasks
        Their number, by default one for every eight choices.
    finished
        Called for each choice of a task that has ended.

    Raises
    ------
    TuningError
        ``bad-executor``, ``tasks-failed``, ``different-devices``, and the findings of a task.
    """
    if not callable(getattr(executor, "submit", None)):
        raise _refused(Diagnostic(
            "bad-executor", f"{spelt(executor)} is no executor", (),
            ("pass one that has submit, as those of concurrent.futures have: ProcessPoolExecutor(4)",)))
    count = max(1, min(len(choices), tasks or -(-len(choices) // _CHOICES_OF_A_TASK)))
    parts = [choices[number::count] for number in range(count)]
    found, devices = _ended(executor, task, parts, finished)
    if len(devices) > 1:
        raise _refused(other_devices(devices))
    again = _finalists(found)
    if count > 1 and len(again) > 1:
        second, others = _ended(executor, task, [again], lambda: None, may_fail=True)
        if set(others) <= set(devices):
            found |= {name: trial for name, trial in second.items() if trial.time is not None}
    return devices[0], tuple(found[shown(choice)] for choice in choices)


def _ended(
    executor: Any, task: Callable[[Sequence[Choice]], str], parts: Sequence[Sequence[Choice]],  # noqa: ANN401
    finished: Callable[[], object], *, may_fail: bool = False,
) -> tuple[dict[str, Trial], list[str]]:  # fmt: skip
    """Run a task for each part; return the trials by their choices, and the devices on which tasks ran."""
    futures: list[Future[str]] = []
    found: dict[str, Trial] = {}
    devices: dict[str, None] = {}
    failures: list[str] = []
    try:
        futures.extend(executor.submit(task, part) for part in parts)
        for part, future in zip(parts, futures, strict=True):
            error: BaseException | None = None
            try:
                reply = future.result()
            except Exception as cause:
                error = cause
            if error is not None:
                why = f"{type(error).__name__}: {error}".splitlines()[0][:200]
                failures.append(why)
                found |= {shown(choice): Trial(choice, Outcome.LOST, f"its task failed: {why}") for choice in part}
            else:
                tuned = _read(reply)
                devices[tuned.device] = None
                found |= {shown(trial.choice): trial for trial in tuned.trials}
            for _ in part:
                finished()
    except BaseException:
        for future in futures:
            future.cancel()
        raise
    if len(failures) == len(parts) and not may_fail:
        raise _refused(Diagnostic(
            "tasks-failed", f"none of {len(parts)} task{'s' * (len(parts) > 1)} came to an end",
            tuple(dict.fromkeys(failures)),
            ("tasks are carried by pickle: define build at the top of a module that the workers can import",
             "let args be such a function too, where arrays cannot be sent")))
    return found, [*devices]


def _read(reply: str) -> Tuned:
    """Return the result in the reply of a task, or raise its findings."""
    given = json.loads(reply)
    if "found" in given:
        raise TuningError("tune", None, [Diagnostic(code, message, tuple(notes), tuple(hints))
                                         for code, message, notes, hints in given["found"]])
    return Tuned.from_json(given["tuned"])


def _finalists(found: Mapping[str, Trial]) -> list[Choice]:
    """Return the choices whose times are not told apart from the least one."""
    timed = sorted(((trial.time, trial.choice) for trial in found.values() if trial.time is not None),
                   key=lambda pair: pair[0].median)
    return [choice for time, choice in timed if time.low <= timed[0][0].high][:_FINALISTS]


def _refused(finding: Diagnostic) -> TuningError:
    return TuningError("tune", None, [finding])
