"""Tuning on the CPU: what is cut and why, the race, and results that are kept."""

from __future__ import annotations

import random
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import polyloop as pl
from polyloop.errors import TuningError
from polyloop.runtime.ccompile import build_library
from polyloop.runtime.gpu import gpu_available
from polyloop.tuning.measure import Interval, interval, race
from polyloop.tuning.report import Outcome, Trial
from polyloop.tuning.space import Space
from polyloop.tuning.worker import compile_all

F = np.float32
N = 4096


def product() -> pl.LoopKernel:
    return pl.make_kernel(
        "{[i, j]: 0 <= i, j < n}",
        "y[i] = sum(j, a[i, j]*x[j])",
        [pl.GlobalArg("a", F, shape="n, n"), pl.GlobalArg("x, y", F, shape="n"), ...],
        name="product",
    )


def build(order: str, tile: int) -> pl.LoopKernel:
    knl = pl.split_iname(product(), "i", tile)
    return pl.prioritize_loops(knl, "i_outer, i_inner, j" if order == "rows" else "j, i_outer, i_inner")


SPACE: dict[str, list[Any]] = {"order": ["rows", "columns"], "tile": [4, 16, 0]}


@pytest.fixture(autouse=True)
def _apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POLYLOOP_CACHE_DIR", str(tmp_path))


def arguments(n: int = 100) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    return {"a": rng.random((n, n), F), "x": rng.random(n, F)}


def test_what_is_refused_is_cut_with_its_reason_and_the_fastest_runs() -> None:
    given = arguments()
    found = pl.tune(build, SPACE, given, target=pl.CTarget(), seconds=2, jobs=1)
    assert len(found.trials) == 6
    refused = {tuple(trial.choice.values()): trial.why for trial in found.trials if trial.outcome is Outcome.REFUSED}
    assert set(refused) == {("rows", 0), ("columns", 0), ("columns", 4), ("columns", 16)}
    assert refused["rows", 0].endswith("[wrong-length]") or "[" in refused["rows", 0]
    assert refused["columns", 4].endswith("[accumulator-not-constant]")
    assert found.best["order"] == "rows"
    np.testing.assert_allclose(found.compiled(**given).y, given["a"] @ given["x"], rtol=1e-5)
    text = str(found).splitlines()
    assert len(text) == 6
    assert " us +- " in text[0]
    assert text[-1].lstrip().startswith("refused  ")


def test_results_are_kept_for_the_same_programs_and_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    given = arguments()
    first = pl.tune(build, SPACE, given, target=pl.CTarget(), seconds=2)
    raced: list[int] = []
    monkeypatch.setattr("polyloop.tuning.tune.race", lambda *_, **__: raced.append(1))
    again = pl.tune(build, SPACE, given, target=pl.CTarget(), seconds=2)
    assert again == first
    assert not raced
    assert pl.Tuned.from_json(first.to_json()) == first
    np.testing.assert_allclose(again.compiled(**given).y, given["a"] @ given["x"], rtol=1e-5)
    with pytest.raises(TypeError):  # another size: the race that is replaced here is run
        pl.tune(build, SPACE, arguments(50), target=pl.CTarget())
    assert raced


def test_conditions_and_seeds() -> None:
    space = Space({"a": [1, 2, 3], "b": [1, 2, 3]}, (lambda a, b: a < b,))
    assert sorted(tuple(choice.values()) for choice in space) == [(1, 2), (1, 3), (2, 3)]
    assert space.drawn(5, 2) == space.drawn(5, None)[:2]
    assert len({tuple(c["a"] for c in Space({"a": range(9)}).drawn(seed, None)) for seed in range(5)}) > 1


@pytest.mark.parametrize(("space", "conditions", "text"), [
    ({"order": []}, (), "tune: 'order' has no values to choose from [empty-space]\n  Hint: give 'order' a value"),
    ({"tile": [1]}, (lambda tiles: tiles,), "tune: no choice 'tiles' [unknown-choice]"),
    ({"tile": [1, 2]}, (lambda tile: tile > 2,), "tune: no combination of values meets the conditions [empty-space]"),
])
def test_refusals(space: Any, conditions: Any, text: str) -> None:
    with pytest.raises(TuningError) as error:
        pl.tune(build, space, arguments(), conditions=conditions)
    assert str(error.value).startswith(text)


@pytest.mark.parametrize(("change", "text"), [
    ({"space": [1, 2]}, "tune: [1, 2] is not a space of choices [bad-space]\n  Hint: pass the values of each name: "),
    ({"space": {"order": "rows"}}, "tune: the values of 'order' are 'rows', which is no list [bad-space]\n"
                                   "  Hint: \"order\": ['rows'] leaves no choice but this"),
    ({"space": {"tile": 4}}, "tune: the values of 'tile' are 4, which is no list [bad-space]"),
    ({"space": {"tile": [(4, 8)]}}, "tune: 'tile' cannot be (4, 8), of type tuple [bad-space]\n"
                                    "  Note: results are kept as JSON, which holds numbers, texts, true, "
                                    "false and null\n"
                                    "  Hint: pass a name or a number; build can look up what it means"),
    ({"space": {"tile": [np.int64(4)]}}, "tune: build cannot be called with the choice tile=4 [bad-build]"),
    ({"space": {"tile": [4, 8, 4]}}, "tune: 'tile' has the value 4 twice [bad-space]"),
    ({"space": {"tile": [1, True]}}, "tune: 'tile' has the value True twice [bad-space]"),
    ({"conditions": ["tile > 2"]}, "tune: 'tile > 2' is not a condition [bad-space]"),
    ({"most": 0}, "tune: most=0 leaves no choice to try [empty-space]"),
    ({"args": []}, "tune: [] is not what a kernel can be called with [no-arguments]"),
    ({"args": [3]}, "tune: 3 is not what a kernel can be called with [no-arguments]"),
    ({"space": {"order": ["rows"]}}, "tune: build cannot be called with the choice order='rows' [bad-build]\n"
                                     "  Note: missing a required argument: 'tile'"),
    ({"space": {"order": ["rows"], "tile": [4], "w": [1]}}, "tune: build cannot be called with the choice "
                                                            "order='rows', tile=4, w=1 [bad-build]"),
    ({"build": lambda order, tile: None}, "tune: build returns no kernel but NoneType for order='"),
])  # fmt: skip
def test_what_is_wrong_is_said_before_anything_is_compiled(
    change: dict[str, Any], text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("polyloop.tuning.tune.compile_all", None)
    given: dict[str, Any] = {"build": build, "space": {"order": ["rows"], "tile": [4, 8]}, "args": arguments()}
    with pytest.raises(TuningError) as error:
        pl.tune(**given | {"target": pl.CTarget()} | change)
    assert str(error.value).startswith(text)


def test_results_belong_to_programs_device_versions_and_effort(monkeypatch: pytest.MonkeyPatch) -> None:
    given = arguments()
    space: dict[str, list[Any]] = {"order": ["rows"], "tile": [4, 16]}
    races: list[int] = []

    def raced(calls: list[object], *_: object, **__: object) -> list[Interval]:
        races.append(1)
        return [interval([1e-6 * (number + 1)] * 8) for number in range(len(calls))]

    monkeypatch.setattr("polyloop.tuning.tune.race", raced)
    options: dict[str, Any] = {"target": pl.CTarget(), "jobs": 1}
    first = pl.tune(build, space, given, **options)
    assert [trial.time.samples for trial in first.trials if trial.time] == [8, 8]
    for same in (space, {**space, "tile": [16, 4]}, {**space, "tile": [4, 16, 0]}):  # what is refused has no program
        found = pl.tune(build, same, given, **options)
        assert len(races) == 1
        assert found.best == first.best
        assert len(found.trials) == len(same["tile"])
    changes: list[dict[str, Any]] = [{"seconds": 5}, {"precision": 0.1}, {"remember": False}]
    for number, change in enumerate(changes, 2):
        pl.tune(build, space, given, **options, **change)
        assert len(races) == number
    monkeypatch.setattr("polyloop.tuning.tune.find_compiler", lambda _: "another compiler")
    pl.tune(build, space, given, **options)
    assert len(races) == 5
    pl.tune(build, {"order": ["rows"], "tile": [4, 16, 32]}, given, **options)
    assert len(races) == 6


def test_the_same_seed_tries_the_same_choices_in_the_same_order() -> None:
    given = arguments(8)
    options: dict[str, Any] = {"target": pl.CTarget(), "jobs": 1, "seconds": 0.1, "remember": False, "most": 3}
    first, again, other = (pl.tune(build, {"order": ["rows"], "tile": [2, 4, 8, 16, 32]}, given, seed=seed, **options)
                           for seed in (3, 3, 4))  # fmt: skip
    assert [t.choice for t in first.trials] == [t.choice for t in again.trials] != [t.choice for t in other.trials]
    assert (first.seed, other.seed) == (3, 4)
    assert len(first.trials) == 3


def test_a_result_from_json_says_how_to_get_at_its_kernel() -> None:
    trial = Trial({"tile": 4}, Outcome.TIMED, "", interval([2e-6]))
    with pytest.raises(TuningError) as error:
        _ = pl.Tuned.from_json(pl.Tuned((trial,), 0).to_json()).compiled
    assert str(error.value) == (
        "tune: a result that was read from JSON has no programs [no-programs]\n"
        "  Hint: pl.compile(build(**found.best))\n"
        "  Hint: or pl.replay(pl.trace_from_json(found.trace), program)"
    )
    assert str(pl.Tuned((trial,), 0)).strip() == "2.00 us in 1 sample, too few to be sure  tile=4"


def test_nothing_to_measure_says_why() -> None:
    with pytest.raises(TuningError) as error:
        pl.tune(build, {"order": ["rows"], "tile": [0]}, arguments(), target=pl.CTarget())
    assert error.value.codes == ("nothing-to-measure",)
    assert "order='rows', tile=0: refused, " in str(error.value)


def test_what_needs_too_many_registers_is_cut_before_it_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    def tiles(wide: int) -> pl.LoopKernel:
        knl = pl.split_iname(product(), "i", 32 * wide, outer_tag="g.0")
        return pl.split_iname(knl, "i_inner", wide, outer_tag="l.0", inner_tag="ilp")

    compiled: list[list[str]] = []
    monkeypatch.setattr("polyloop.tuning.tune.compile_all", lambda sources, *_: compiled.append(sources))
    monkeypatch.setattr("polyloop.tuning.tune._measured", lambda *_: [])
    with pytest.raises(TuningError) as error:
        pl.tune(tiles, {"wide": [4, 300]}, arguments(), target=pl.CudaTarget("sm_90"))
    assert [len(sources) for sources in compiled] == [1]
    assert "wide=300: too large, a thread would keep 300 registers of values, and has 255" in str(error.value)


def test_what_needs_too_much_shared_memory_is_cut_before_it_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    def tiles(size: int) -> pl.LoopKernel:
        knl = pl.split_iname(product(), "i", 32, outer_tag="g.0", inner_tag="l.0")
        knl = pl.split_iname(knl, "j", size)
        return pl.add_prefetch(knl, "x", ["j_inner"], default_tag="l.auto")

    compiled: list[int] = []
    monkeypatch.setattr("polyloop.tuning.tune.compile_all", lambda sources, *_: compiled.append(len(sources)))
    monkeypatch.setattr("polyloop.tuning.tune._measured", lambda *_: [])
    with pytest.raises(TuningError) as error:
        pl.tune(tiles, {"size": [64, 100_000]}, arguments(), target=pl.CudaTarget("sm_90"))
    assert compiled == [1]
    assert "size=100000: refused" in str(error.value)
    assert "shared memory" in str(error.value)


def test_the_fastest_kernel_is_made_again_by_replaying_its_trace() -> None:
    given = arguments()
    found = pl.Tuned.from_json(pl.tune(build, SPACE, given, target=pl.CTarget(), seconds=2, jobs=1).to_json())
    again = pl.replay(pl.trace_from_json(found.trace), product())
    assert str(again) == str(build(**found.best))
    np.testing.assert_allclose(pl.compile(again, pl.CTarget())(**given).y, given["a"] @ given["x"], rtol=1e-5)


def test_programs_are_compiled_by_several_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    sources = [pl.generate_code(build("rows", tile), target=pl.CTarget()).device_code for tile in (4, 8, 16)]
    done: list[int] = []
    started: list[object] = []
    popen = subprocess.Popen

    def counted(*arguments: Any, **options: Any) -> Any:
        if "polyloop.tuning.worker" in arguments[0]:
            started.append(arguments)
        return popen(*arguments, **options)

    monkeypatch.setattr("polyloop.tuning.worker.subprocess.Popen", counted)
    compile_all(sources, None, jobs=2, finished=lambda: done.append(1))
    assert len(started) == 2
    assert len(done) == 3
    monkeypatch.setattr("polyloop.runtime.ccompile.subprocess.run", None)  # all of them are in the cache now
    assert all(build_library(source) for source in sources)


def test_a_bar_shows_how_far_it_has_come(monkeypatch: pytest.MonkeyPatch) -> None:
    bars: dict[str, list[int]] = {}
    notes: list[str] = []

    class Bar:
        start_t = 0.0

        def __init__(self, total: int, desc: str, unit: str, leave: bool) -> None:
            assert (unit, leave) == ("choice", True)
            self._steps = bars[desc] = [total, 0]

        def update(self, count: int) -> None:
            self._steps[1] += count

        def set_postfix_str(self, text: str, refresh: bool) -> None:
            del refresh
            notes.append(text)

        def close(self) -> None:
            notes.append("closed")

    monkeypatch.setitem(sys.modules, "tqdm.auto", SimpleNamespace(tqdm=Bar))
    pl.tune(build, SPACE, arguments(), target=pl.CTarget(), seconds=2, jobs=1, progress=True)
    assert bars == {"build": [6, 6], "compile": [2, 2], "race": [2, 2]}
    assert notes.count("closed") == 3
    assert [note for note in notes if re.fullmatch(r"[\d.]+ [mun]s with .*=\d+", note)]
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    with pytest.raises(TuningError) as error:
        pl.tune(build, SPACE, arguments(7), target=pl.CTarget(), seconds=2, jobs=1, progress=True)
    assert error.value.codes == ("no-progress-bar",)


class _Simulated:
    """A clock of calls that say how long they take, with noise."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self.taken: dict[object, int] = {}

    def seconds(self, call: Callable[[], object], repeat: int) -> float:
        time_of_one: Any = call()
        self.taken[time_of_one] = self.taken.get(time_of_one, 0) + 1
        return float(time_of_one * (1 + 0.05 * self._random.random())) if repeat else 0.0


def _takes(seconds: float) -> list[Callable[[], object]]:
    return [lambda: seconds]


@pytest.mark.parametrize("seed", range(20))
def test_the_race_finds_the_fastest_and_stops_the_slow(seed: int) -> None:
    clock = _Simulated(seed)
    times = race([_takes(t) for t in (3e-3, 1e-3, 2e-3, 1.2e-3)], clock, precision=0.01,
                 deadline=time.perf_counter() + 30)
    medians = [found.median for found in times if found is not None]
    assert min(medians) == medians[1]
    assert clock.taken[3e-3] <= 10 + 2
    assert all(found is not None and found.low <= found.median <= found.high for found in times)


def test_the_race_ends_at_the_deadline() -> None:
    times = race([_takes(1e-3), _takes(1e-3)], _Simulated(0), precision=0.0, deadline=0.0)
    assert times[0] is not None


def test_the_interval_of_a_median_holds_it_as_often_as_it_says() -> None:
    rng = np.random.default_rng(0)
    for count in (8, 20, 59):
        hits = 0
        for _ in range(400):
            found = interval(list(rng.exponential(1.0, count)))
            hits += found.low <= np.log(2) <= found.high
        assert hits >= 0.93 * 400


@pytest.mark.gpu
@pytest.mark.skipif(not gpu_available()[0], reason=gpu_available()[1] or "a GPU is there")
def test_gpu_tuning() -> None:
    def threads(count: int, wide: int) -> pl.LoopKernel:
        knl = pl.make_kernel("{[i]: 0 <= i < n}", "z[i] = 2*x[i]", [pl.GlobalArg("x, z", F, shape="n"), ...],
                             name="twice", assumptions="n mod 4 = 0")
        knl = pl.split_iname(knl, "i", count * wide, outer_tag="g.0")
        return pl.split_iname(knl, "i_inner", wide, outer_tag="l.0", inner_tag="vec" if wide > 1 else "unr")

    x = np.arange(1 << 22, dtype=F)
    found = pl.tune(threads, {"count": [1, 128, 2048], "wide": [1, 4]}, {"x": x}, target=pl.CudaTarget(), seconds=5)
    assert found.best["count"] == 128
    assert all(trial.outcome is Outcome.REFUSED for trial in found.trials if trial.choice["count"] == 2048)
    np.testing.assert_array_equal(found.compiled(x=x).z, 2 * x)
