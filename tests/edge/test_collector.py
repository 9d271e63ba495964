"""The garbage collector during a call: its thresholds are those of the user before, after, and where he sets them."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import polyloop as pl
from polyloop.edge.collector import AT_ONCE, rare_collections
from polyloop.edge.first import imported


@pytest.fixture(autouse=True)
def thresholds() -> Iterator[None]:
    before = gc.get_threshold()
    gc.set_threshold(600, 9, 8)
    yield
    gc.set_threshold(*before)


def test_collections_are_rare_inside() -> None:
    with rare_collections():
        assert gc.get_threshold() == (AT_ONCE, 9, 8)
        with rare_collections():
            assert gc.get_threshold() == (AT_ONCE, 9, 8)
        assert gc.get_threshold() == (AT_ONCE, 9, 8)
    assert gc.get_threshold() == (600, 9, 8)


@pytest.mark.parametrize("own", [0, AT_ONCE, 10 * AT_ONCE])
def test_a_collector_that_is_off_or_runs_as_rarely_is_left_alone(own: int) -> None:
    gc.set_threshold(own, 9, 8)
    with rare_collections():
        assert gc.get_threshold() == (own, 9, 8)
    assert gc.get_threshold() == (own, 9, 8)


def test_a_threshold_that_is_set_meanwhile_stays() -> None:
    with rare_collections():
        gc.set_threshold(1234, 5, 6)
    assert gc.get_threshold() == (1234, 5, 6)


def test_a_call_that_fails_leaves_the_thresholds_as_they_were() -> None:
    seen = []

    def note(phase: str, info: object) -> None:
        del phase, info
        seen.append(gc.get_threshold())

    knl = pl.make_kernel("{[i]: 0 <= i < n}", "y[i] = 2*x[i]", [pl.GlobalArg("x, y", np.float32, shape="n"), ...])
    gc.callbacks.append(note)
    try:
        with pytest.raises(pl.TransformError):
            pl.split_iname(knl, "j", 8)
        pl.split_iname(knl, "i", 8)
    finally:
        gc.callbacks.remove(note)
    assert gc.get_threshold() == (600, 9, 8)
    assert {*seen} <= {(600, 9, 8), (AT_ONCE, 9, 8)}


def test_modules_are_imported_with_rare_collections(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "looks_at_thresholds.py").write_text("import gc\nseen = gc.get_threshold()\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert imported("looks_at_thresholds").seen == (AT_ONCE, 9, 8)
    assert gc.get_threshold() == (600, 9, 8)
