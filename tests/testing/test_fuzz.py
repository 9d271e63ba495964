"""The fuzzer as its user sees it: drawers for every transform, the command, failures made small."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from polyloop.testing import pairs
from polyloop.testing.drawers import DRAWERS, NOT_DRAWN
from polyloop.testing.fuzz import main, report
from polyloop.testing.pairs import Failure, Pair, Tally, check_pair
from polyloop.testing.random_chains import Step, random_step
from polyloop.testing.random_kernels import random_source
from polyloop.testing.reduce import reduced
from polyloop.transform.registry import FUNCTIONS


@pytest.fixture(autouse=True, scope="module")
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("POLYLOOP_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        yield


def test_every_transform_is_drawn() -> None:
    missing = FUNCTIONS.keys() - DRAWERS.keys() - NOT_DRAWN.keys()
    assert not missing, "give each transform a drawer in polyloop/testing/drawers.py"
    knl = random_source(8).make()
    rng = random.Random(0)
    names = {random_step(rng, knl).name for _ in range(1500)}
    assert names == DRAWERS.keys() & FUNCTIONS.keys()


def test_kernels_and_chains_are_the_same_each_time() -> None:
    assert random_source(5) == random_source(5)
    knl = random_source(8).make()
    assert random_step(random.Random(3), knl) == random_step(random.Random(3), knl)


def test_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--pairs", "6", "--seed", "0"]) == 0
    shown = capsys.readouterr().out
    assert "6/6 pairs" in shown
    assert "pairs compared" in shown


def test_a_report_has_what_was_counted() -> None:
    tally = Tally()
    tally.counts["pairs"] = 2
    tally.witnesses["race", "real"] = 3
    tally.precision["race", "legal"] = 1
    other = Tally()
    other.add(tally)
    assert report(other) == (
        "counts\n  pairs        2\nwitnesses of refusals, by brute force\n  race   real 3\n"
        "refused kernels, by brute force at small sizes\n  race  legal 1"
    )


def test_a_failure_is_made_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pairs, "disagreement", lambda programs, *_: None if "x" not in str(programs.kernel) else "x!")
    source = random_source(8)
    steps = (Step("split_iname", {"split_iname": "i", "inner_length": 5}), Step("assume", {"assumptions": "n >= 1"}))
    pair = Pair(source, steps, (3, 4), 8)
    small = reduced(Failure("wrong-result", pair, ""))
    assert small.pair.steps == ()
    assert len(small.pair.source.lines) == 1
    assert small.pair.sizes == (3,)
    assert "x!" in small.text


def test_a_pair_is_tried_again() -> None:
    tally = check_pair(Pair(random_source(8), (), (4,), 8))
    assert tally.counts["runs compared"] == 1
    assert not tally.failures
