"""The benchmark runs and reports what it says; growth is checked by counts, which do not depend on the machine."""

from __future__ import annotations

import gc
import json
import sys
from types import FrameType

import numpy as np
import pytest

import polyloop as pl
from benchmarks.creation import CHAINS, main


@pytest.mark.usefixtures("young_heap")
def test_the_benchmark_reports_every_chain(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--repeat", "1", "--longest", "15", "--json"]) == 0
    timings = json.loads(capsys.readouterr().out)
    assert [(timing["kind"], timing["length"]) for timing in timings] == [("arrays", 15), ("temporaries", 15)]
    assert all(0 < timing["creation"] < timing["to_source"] for timing in timings)
    assert main(["--repeat", "1", "--longest", "15"]) == 0
    assert "60 ms" in capsys.readouterr().out


def _calls_to_create(kind: str, length: int) -> int:
    """Return how many functions of this library are called while a chain is created."""
    calls = 0

    def count(frame: FrameType, event: str, _: object) -> None:
        nonlocal calls
        calls += event == "call" and frame.f_globals.get("__name__", "").startswith("polyloop")

    text = CHAINS[kind](length)
    before = sys.getprofile()
    gc.disable()  # what it calls depends on when it runs
    sys.setprofile(count)
    try:
        pl.make_kernel("{[i]: 0 <= i < n}", text, [pl.GlobalArg("x", np.float32, shape="n"), ...])
    finally:
        sys.setprofile(before)
        gc.enable()
    return calls


@pytest.mark.parametrize("kind", CHAINS)
def test_creation_grows_linearly(kind: str) -> None:
    _calls_to_create(kind, 3)  # what is done once
    few, many = _calls_to_create(kind, 40), _calls_to_create(kind, 160)
    assert few > 40
    assert many < 5 * few
