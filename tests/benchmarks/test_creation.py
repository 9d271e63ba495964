"""The benchmark runs and reports what it says; growth is checked by counts, which do not depend on the machine."""

from __future__ import annotations

import json
import sys
from types import FrameType
from typing import Any

import numpy as np
import pytest

import polyloop as pl
from benchmarks.creation import CHAINS, main


def test_the_benchmark_reports_every_chain(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--repeat", "1", "--longest", "15", "--json"]) == 0
    timings = json.loads(capsys.readouterr().out)
    assert [(timing["kind"], timing["length"]) for timing in timings] == [("arrays", 15), ("temporaries", 15)]
    assert all(0 < timing["creation"] < timing["to_source"] for timing in timings)
    assert main(["--repeat", "1", "--longest", "15"]) == 0
    assert "60 ms" in capsys.readouterr().out


def _steps_to_create(kind: str, length: int) -> int:
    """Return how many byte codes of this library run while a chain is created."""
    steps = 0

    def count(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal steps
        del argument
        if event == "call":
            if "polyloop" not in frame.f_globals.get("__name__", ""):
                return None
            frame.f_trace_opcodes, frame.f_trace_lines = True, False
        steps += event == "opcode"
        return count

    text = CHAINS[kind](length)
    before = sys.gettrace()
    sys.settrace(count)
    try:
        pl.make_kernel("{[i]: 0 <= i < n}", text, [pl.GlobalArg("x", np.float32, shape="n"), ...])
    finally:
        sys.settrace(before)
    return steps


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="later versions do not tell of all byte codes")
@pytest.mark.parametrize("kind", CHAINS)
def test_creation_grows_linearly(kind: str) -> None:
    few, many = _steps_to_create(kind, 40), _steps_to_create(kind, 160)
    assert many < 4.2 * few
