"""The benchmark of growth reports every program."""

from __future__ import annotations

import json

import pytest

from benchmarks.growth import PROGRAMS, main


@pytest.mark.usefixtures("young_heap")
def test_the_benchmark_reports_every_program(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--largest", "125", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [(row["program"], row["size"]) for row in rows] == [(program, 125) for program in PROGRAMS]
    assert all(row["creation"] > 0 and row["source"] > 0 for row in rows)
    assert main(["--largest", "125"]) == 0
    assert "all in conflict" in capsys.readouterr().out
