"""The benchmark runs and reports what it says; its goals are not checked on a machine that may be busy."""

from __future__ import annotations

import json

import pytest

import polyloop as pl
from benchmarks.codegen import PHASES, POLYLOOP, main
from benchmarks.programs import PROGRAMS


def test_the_benchmark_reports_totals_goals_and_phases(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["axpy", "matmul, tiled", "--repeat", "1", "--seconds", "0", "--alone", "--json"]) == 0
    timings = json.loads(capsys.readouterr().out)
    assert [(timing["program"], timing["library"]) for timing in timings] == [
        ("axpy", "polyloop"), ("matmul, tiled", "polyloop"),
    ]  # fmt: skip
    for timing in timings:
        assert tuple(timing["phases"]) == PHASES
        assert timing["total"] == pytest.approx(sum(timing["phases"].values()))
    assert [timing["goal"] for timing in timings] == [2.0, 13.0]


def test_the_table_has_a_line_for_each_kernel(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["axpy", "stencil", "--repeat", "1", "--seconds", "0", "--alone"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 4
    assert lines[2].startswith("| axpy | polyloop |")
    assert lines[2].endswith("| 2 ms |")


def test_loopy_stands_beside_it_where_it_is_installed(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("loopy")
    assert main(["axpy", "--repeat", "1", "--seconds", "0"]) == 0
    assert "| axpy | loopy |" in capsys.readouterr().out


def test_loopy_is_named_where_it_is_not(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("benchmarks.codegen._loopy", lambda: None)
    assert main(["axpy", "--repeat", "1", "--seconds", "0"]) == 0
    assert capsys.readouterr().err == "Loopy is not installed, and left out\n"


def test_chains_are_as_long_as_asked_for() -> None:
    assert {"chain of 15", "chain of 240"} <= {program.name for program in PROGRAMS}


@pytest.mark.parametrize("program", [p for p in PROGRAMS if not p.name.endswith("0")], ids=lambda p: str(p.name))
def test_every_program_is_legal(program: object) -> None:
    found = next(p for p in PROGRAMS if p is program)
    kernel = found.transform(POLYLOOP, found.define(POLYLOOP))
    assert "__global__" in pl.generate_code(kernel, target=pl.CudaTarget()).device_code


def test_chains_and_pipelines_have_as_many_instructions_as_they_say() -> None:
    for program in PROGRAMS:
        kind, _, count = program.name.partition(" of ")
        if kind in {"chain", "pipeline"} and int(count) <= 30:
            assert len(program.define(POLYLOOP).instructions) == int(count)
