"""Tuning whose tasks an executor runs: the same trials, what tasks lose, and results that merge."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import polyloop as pl
from polyloop.errors import TuningError
from polyloop.tuning.measure import Interval
from polyloop.tuning.report import Outcome, Trial, Tuned
from polyloop.tuning.spread import reply_of, spread
from tests.tuning.test_tune import SPACE, arguments, build, product


@pytest.fixture(autouse=True)
def _apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POLYLOOP_CACHE_DIR", str(tmp_path))


class Here:
    """An executor that runs tasks at once, and cannot run some."""

    def __init__(self, *lost: int) -> None:
        self.lost, self.count = lost, 0

    def submit(self, task: Callable[..., str], *given: Any) -> Future[str]:
        future: Future[str] = Future()
        self.count += 1
        if self.count in self.lost:
            future.set_exception(OSError("the machine went away"))
        else:
            future.set_result(task(*given))
        return future


def _tuned(device: str, *entries: tuple[int, float]) -> Tuned:
    trials = [Trial({"tile": tile}, Outcome.TIMED, "", Interval(time, time, time, 9)) for tile, time in entries]
    return Tuned(tuple(trials), 0, device=device)


def _timed(device: Callable[[], str], seen: list[list[int]]) -> Callable[[Sequence[Any]], str]:
    """Return a task in which the time of a choice is its number."""
    def task(choices: Sequence[Any]) -> str:
        seen.append([choice["tile"] for choice in choices])
        return reply_of(_tuned(device(), *((choice["tile"], float(choice["tile"] // 2)) for choice in choices)))
    return task


@pytest.mark.slow
def test_processes_find_what_one_search_finds() -> None:
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        found = pl.tune(build, SPACE, arguments, target=pl.CTarget(), seconds=0.3, jobs=2, executor=pool)
    assert {trial.outcome for trial in found.trials} == {Outcome.TIMED, Outcome.REFUSED}
    given = arguments()
    np.testing.assert_allclose(found.compiled(**given).y, given["a"] @ given["x"], rtol=1e-5)


def test_tasks_of_an_executor_find_what_one_search_finds() -> None:
    given = arguments()
    space: dict[str, list[Any]] = {"order": ["rows"], "tile": [4, 0]}
    executor = Here()
    found = pl.tune(build, space, lambda: given, target=pl.CTarget(), seconds=0.1, jobs=2, executor=executor)
    alone = pl.tune(build, space, given, target=pl.CTarget(), seconds=0.1)
    assert [(t.choice, t.outcome, t.why) for t in found.trials] == [(t.choice, t.outcome, t.why) for t in alone.trials]
    assert executor.count == 2
    assert found.device == alone.device
    np.testing.assert_allclose(found.compiled(**given).y, given["a"] @ given["x"], rtol=1e-5)
    assert pl.replay(pl.trace_from_json(found.trace), product()).trace == build(**found.best).trace


def test_what_is_near_the_fastest_races_once_more_in_one_task() -> None:
    seen: list[list[int]] = []
    choices = [{"tile": tile} for tile in range(2, 10)]
    device, trials = spread(Here(), _timed(lambda: "one", seen), choices, 4, lambda: None)
    assert device == "one"
    assert seen == [[2, 6], [3, 7], [4, 8], [5, 9], [2, 3]]
    assert [trial.choice["tile"] for trial in trials] == [*range(2, 10)]


def test_the_choices_of_a_task_that_failed_say_so() -> None:
    seen: list[list[int]] = []
    _, trials = spread(Here(2), _timed(lambda: "one", seen), [{"tile": tile} for tile in range(2, 6)], 2, lambda: None)
    assert [(trial.choice["tile"], trial.why) for trial in trials if trial.outcome is Outcome.LOST] == [
        (3, "its task failed: OSError: the machine went away"), (5, "its task failed: OSError: the machine went away")]


def test_tasks_that_cannot_be_carried_are_refused() -> None:
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool, pytest.raises(TuningError) as err:
        pl.tune(lambda tile: build("rows", tile), {"tile": [4]}, arguments, target=pl.CTarget(), executor=pool)
    assert err.value.codes == ("tasks-failed",)
    assert "define build at the top of a module" in str(err.value)


def test_what_is_no_executor_is_refused() -> None:
    with pytest.raises(TuningError) as err:
        pl.tune(build, SPACE, arguments, target=pl.CTarget(), executor=4)
    assert err.value.codes == ("bad-executor",)


def test_findings_of_a_task_are_those_of_the_search() -> None:
    with ThreadPoolExecutor(1) as pool, pytest.raises(TuningError) as err:
        pl.tune(build, SPACE, lambda: 3, target=pl.CTarget(), executor=pool)
    assert err.value.codes == ("no-arguments",)


def test_times_of_different_devices_are_no_one_result() -> None:
    names = iter(["one", "another"])
    with pytest.raises(TuningError) as err:
        spread(Here(), _timed(lambda: next(names), []), [{"tile": 1}, {"tile": 2}], 2, lambda: None)
    assert err.value.codes == ("different-devices",)
    assert "one" in str(err.value)


def test_results_merge() -> None:
    both = _tuned("one", (4, 2.0), (8, 3.0)).merged(Tuned.from_json(_tuned("one", (8, 1.0), (16, 1.5)).to_json()))
    assert [trial.choice["tile"] for trial in both.trials] == [4, 8, 16]
    assert both.best == {"tile": 16}
    with pytest.raises(TuningError) as err:
        both.merged(_tuned("another", (4, 1.0)))
    assert err.value.codes == ("different-devices",)
