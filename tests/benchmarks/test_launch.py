"""The benchmark of launches prints a line for each way to launch."""

from __future__ import annotations

import pytest

from benchmarks import launch


def test_it_prints_a_line_for_each_way(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(launch, "_CALLS", 2)
    monkeypatch.setattr(launch, "_ROUNDS", 1)
    assert launch.main([]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == ["| call | us |", "|---|---|"]
    assert [line.split("|")[1].strip() for line in lines[2:8]] == [
        "polyloop, C", "polyloop, C, output allocated", "polyloop, C, bound", "polyloop, C, a new number each time",
        "polyloop, C, the kernel itself, a new number each time", "NumPy, np.add once"]
