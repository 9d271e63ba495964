"""The benchmark of arrays prints a line for each library that is there, and each kind of call."""

from __future__ import annotations

import importlib
from importlib import import_module as imported

import pytest

from benchmarks import arrays


def test_it_prints_a_line_for_each_kind_of_call(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(arrays, "_CALLS", 2)
    monkeypatch.setattr(arrays, "_ROUNDS", 1)
    monkeypatch.setattr(importlib, "import_module", absent)
    assert arrays.main([]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == ["| call | us |", "|---|---|"]
    assert [line.split("|")[1].strip() for line in lines[2:]] == [
        "NumPy, output passed", "NumPy, output passed, a new number each time",
        "NumPy, output without axes passed, a new number each time", "NumPy, output allocated",
        "NumPy, pl.gufunc, output allocated", "NumPy, pl.gufunc, 1000 batches in one call"]


def absent(name: str) -> object:
    if name.startswith("polyloop."):
        return imported(name)
    raise ImportError(name)
