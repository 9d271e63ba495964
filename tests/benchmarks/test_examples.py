"""The benchmark of the example programs takes every step of every script."""

from __future__ import annotations

import json

import pytest

from benchmarks.examples import main, names


@pytest.mark.usefixtures("young_heap")
def test_the_benchmark_reports_every_step(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--repeat", "1", "--json", "matmul_tiled"]) == 0
    (timing,) = json.loads(capsys.readouterr().out)
    assert [name for name, _ in timing["steps"]] == ["split_iname"] * 3 + ["add_prefetch"] * 2
    assert all(ms > 0 for _, ms in timing["steps"])
    assert timing["total"] > timing["source"] > 0
    assert main(["--repeat", "1", "--steps", "transpose"]) == 0
    assert "add_padding" in capsys.readouterr().out


def test_it_finds_every_script() -> None:
    assert {"matmul_registers", "matmul_tiled", "transpose"} <= set(names())
