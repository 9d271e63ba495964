"""Products of drawn sizes: what is drawn, and how a schedule is made."""

from __future__ import annotations

import importlib
import math

import pytest

from benchmarks.gpu import drawn as bench


def test_the_same_products_are_drawn_for_a_seed() -> None:
    jobs = bench.drawn(60, 1)
    assert jobs == bench.drawn(60, 1)
    assert jobs != bench.drawn(60, 2)
    assert [job.dtype for job in jobs[:5]] == [*bench.TYPES, bench.TYPES[0]]
    for job in jobs:
        assert 2**24 <= 2 * math.prod(dict(job.sizes).values()) <= 2**37
        assert job.result == job.dtype
    odd = [job for job in jobs if any(size % 8 for size in dict(job.sizes).values())]
    assert 5 < len(odd) < 30


@pytest.mark.nvrtc
def test_a_schedule_is_made_and_compiled_or_refused() -> None:
    schedules = importlib.import_module("polyloop.library.matmul").schedules
    for dtype in bench.TYPES:
        assert len(schedules(dtype, dtype)) > 3
    found = bench.made("float64", "tiles of 64 x 64", "sm_90")
    assert found.program is not None
    assert not found.refused
    assert "KeyError" in bench.made("float64", "none of this name", "sm_90").refused
