"""The tests of the default set and of the quick one, chosen by measured time, and the measurement.

``@pytest.mark.few(3)`` keeps three cases of a test in the default set, evenly chosen; the others are ``slow``.  With
``shift=1`` they are the cases behind those, so that tests of one list share it.

The quick set has as many tests of each module as fit into its seconds, by ``times.json``, which
``python -m pytest -m "slow or not slow" --record-times`` writes.
"""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Final, TypeVar

import pytest

__all__ = ["Recorder", "evenly", "mark_few", "mark_quick"]

_T = TypeVar("_T")
ROOT: Final = Path(__file__).parent
TIMES: Final = ROOT / "times.json"
_PROOFS: Final = frozenset({"dataflow", "optimize", "poly", "program", "schedule", "sync", "verification"})
_SECONDS: Final = {True: 1.1, False: 0.35}
"""CPU seconds that a module has in the quick set, among the proofs and elsewhere."""
_LONG: Final = 0.5
"""Seconds of a test that is not in the quick set, and is recorded by its name."""
_UNKNOWN: Final = 0.1
"""Seconds of a test of a module that is not recorded yet."""


def evenly(values: Sequence[_T], count: int) -> list[_T]:
    """Return *count* of *values*, the first and the last among them if there is room, at equal distances."""
    if count >= len(values):
        return list(values)
    if count == 1:
        return [values[0]]
    return [values[k * (len(values) - 1) // (count - 1)] for k in range(count)]


def _function(item: pytest.Item) -> str:
    return str(getattr(item, "originalname", item.name))


def mark_few(items: Sequence[pytest.Item]) -> None:
    """Mark all cases of each test ``slow`` but the few that its marker ``few`` asks for."""
    cases: dict[tuple[Path, str], list[pytest.Item]] = defaultdict(list)
    for item in items:
        if item.get_closest_marker("few") and not any(map(item.get_closest_marker, ("slow", "gpu"))):
            cases[item.path, _function(item)].append(item)
    for of_one in cases.values():
        marker = of_one[0].get_closest_marker("few")
        assert marker is not None, "it has been found above"
        shift = marker.kwargs.get("shift", 0)
        kept = {id(item) for item in evenly([*of_one[shift:], *of_one[:shift]], marker.args[0])}
        for item in of_one:
            if id(item) not in kept:
                item.add_marker(pytest.mark.slow)


def mark_quick(items: Sequence[pytest.Item]) -> None:
    """Mark the tests of the quick set: first cases of each module, as many as fit; none builds the site."""
    times: Mapping[str, Mapping[str, object]] = json.loads(TIMES.read_text(encoding="utf-8"))
    first: dict[Path, dict[str, pytest.Item]] = defaultdict(dict)
    for item in items:
        if not any(map(item.get_closest_marker, ("slow", "gpu", "site"))):
            first[item.path].setdefault(_function(item), item)
    for path, of_module in first.items():
        name = path.relative_to(ROOT).as_posix()
        recorded = times.get(name, {"seconds": _UNKNOWN, "long": []})
        seconds, long = recorded["seconds"], recorded["long"]
        assert isinstance(seconds, float), f"{TIMES}: {name}"
        assert isinstance(long, Collection), f"{TIMES}: {name}"
        short = [item for function, item in of_module.items() if function not in long]
        room = _SECONDS[name.partition("/")[0] in _PROOFS]
        for item in evenly(short, max(1, int(room / seconds))):
            item.add_marker(pytest.mark.quick)


def _now() -> float:
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


class Recorder:
    """Plugin that measures the CPU seconds of each test, with those of the processes that it starts.

    Of parallel workers each measures, and the process that started them has the reports.
    """

    def __init__(self, *, is_worker: bool) -> None:
        self._is_worker = is_worker
        self._begin = 0.0
        self._seconds: dict[str, float] = defaultdict(float)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self) -> None:
        """Begin to measure."""
        self._begin = _now()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]) -> None:
        """Leave the time of a phase with the report of the test."""
        end = _now()
        item.user_properties.append((f"cpu {call.when}", end - self._begin))
        self._begin = end

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add up the time of a test."""
        if report.when == "teardown":
            self._seconds[report.nodeid] = sum(float(str(value)) for name, value in report.user_properties
                                               if name.startswith("cpu "))

    def pytest_sessionfinish(self) -> None:
        """Write what was measured of each module."""
        if not self._is_worker:
            write_times(self._seconds)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Show the seconds of each folder."""
        folders: dict[str, float] = defaultdict(float)
        for node, seconds in self._seconds.items():
            folders[node.partition("::")[0].rpartition("/")[0]] += seconds
        terminalreporter.section("CPU seconds")
        for folder, seconds in sorted(folders.items(), key=lambda entry: -entry[1]):
            terminalreporter.write_line(f"{seconds:8.1f}  {folder}")
        terminalreporter.write_line(f"{sum(folders.values()):8.1f}  all")


def write_times(seconds: Mapping[str, float]) -> None:
    """Write the mean time of first cases of each module that was measured, and the names of those that take long."""
    first: dict[str, dict[str, float]] = defaultdict(dict)
    for node, taken in seconds.items():
        path, _, test = node.partition("::")
        first[path.partition("tests/")[2]].setdefault(test.partition("[")[0], taken)
    found = json.loads(TIMES.read_text(encoding="utf-8")) if TIMES.exists() else {}
    for path, of_module in first.items():
        short = [taken for taken in of_module.values() if taken <= _LONG]
        known = [name for name in found.get(path, {"long": []})["long"] if name not in of_module]
        long = sorted([*known, *(name for name, taken in of_module.items() if taken > _LONG)])
        mean = sum(short) / len(short) if short else _UNKNOWN
        found[path] = {"seconds": max(0.005, round(mean, 3)), "long": long}
    kept = {path: found[path] for path in sorted(found) if (ROOT / path).exists()}
    TIMES.write_text("{\n" + ",\n".join(f"{json.dumps(path)}: {json.dumps(kept[path])}" for path in kept) + "\n}\n",
                     encoding="utf-8")
