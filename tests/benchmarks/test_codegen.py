"""The benchmark runs and reports what it says; its goals are not checked on a machine that may be busy."""

from __future__ import annotations

import json

import pytest

from benchmarks.codegen import GOALS, PHASES, main


def test_the_benchmark_reports_totals_goals_and_phases(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--repeat", "1", "--json"]) == 0
    timings = {timing["kernel"]: timing for timing in json.loads(capsys.readouterr().out)}
    assert set(timings) == {"axpy", "matmul", "stencil"}
    for name, timing in timings.items():
        assert tuple(timing["phases"]) == PHASES
        assert timing["total"] == pytest.approx(sum(timing["phases"].values()))
        assert timing["goal"] == GOALS.get(name)


def test_the_table_has_a_line_for_each_kernel(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--repeat", "1"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 4
    assert "20 ms" in lines[2]
