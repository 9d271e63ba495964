"""Products in a chain: the schedules that are timed are made and compiled."""

from __future__ import annotations

import pytest

from benchmarks.gpu import fused as bench
from benchmarks.gpu.chains import CHAINS


def test_calls_have_names_of_their_own() -> None:
    assert len({str(job) for job in bench.JOBS}) == len(bench.JOBS)
    assert {job.chain.name for job in bench.JOBS} == {chain.name for chain in CHAINS}


def test_a_figure_shows_what_the_best_of_pytorch_is_measured_by() -> None:
    figure = bench.Figure("call", 2e9, {"eager": 20.0, "torch.compile": 10.0}, {"own": 8.0}, {"own": 1e-3})
    assert "torch.compile 10.0 us (200)" in str(figure)
    assert "own **1.25** (250, error 1e-03)" in str(figure)


@pytest.mark.few(1)
@pytest.mark.nvrtc
@pytest.mark.parametrize(("number", "name"), [(n, name) for n, chain in enumerate(CHAINS) for name in chain.schedules])
def test_a_schedule_is_made_and_compiled(number: int, name: str) -> None:
    job = next(job for job in bench.JOBS if job.number == number)
    assert bench.make(job, name).refused == ""


def test_what_is_refused_is_told() -> None:
    assert "KeyError" in bench.make(bench.JOBS[0], "none of this name").refused
