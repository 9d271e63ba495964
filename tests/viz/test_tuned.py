"""The picture of a result of tuning: order, intervals, reasons, and the least time with each value."""

from __future__ import annotations

from pathlib import Path

import pytest

import polyloop as pl
from polyloop.tuning.measure import Interval
from polyloop.tuning.report import Outcome, Trial
from tests.viz.test_pictures import check


def timed(tile: int, low: float, median: float, high: float, order: str = "i") -> Trial:
    return Trial({"tile": tile, "order": order}, Outcome.TIMED, "", Interval(low, median, high, 30), 32)


RESULT = pl.Tuned(
    (
        timed(16, 19e-6, 20e-6, 21e-6),
        timed(32, 9e-6, 10e-6, 11e-6),
        timed(32, 10.5e-6, 12e-6, 13e-6, "j"),
        Trial({"tile": 64, "order": "i"}, Outcome.REFUSED, "too wide [too-many-threads]"),
        Trial({"tile": 64, "order": "j"}, Outcome.REFUSED, "too wide [too-many-threads]"),
    ),
    0,
)

TEXT = """\
3 of 5 choices measured, the fastest takes 10 us
    10 us  ########################################  tile=32, order='i'
    12 us  #################################         tile=32, order='j'  (not told apart from the fastest)
    20 us  ####################                      tile=16, order='i'
refused: 2, such as tile=64, order='i': too wide [too-many-threads]
tile=32 10 us; tile=16 20 us
order='i' 10 us; order='j' 12 us"""


def test_the_text_of_a_result() -> None:
    picture = check(RESULT.draw)  # type: ignore[arg-type]
    assert isinstance(picture, pl.Picture)
    assert str(picture) == TEXT
    assert [label.text for label in picture.labels if "registers" in label.text] == [
        "10 us, 32 registers", "12 us, 32 registers, not told apart from the fastest", "20 us, 32 registers",
    ]  # fmt: skip


def test_a_result_of_many_choices_is_small() -> None:
    many = pl.Tuned(tuple(timed(n, n * 1e-6, (n + 1) * 1e-6, (n + 2) * 1e-6) for n in range(400)), 0)
    picture = check(many.draw)  # type: ignore[arg-type]
    assert "340 slower ones are left out" in str(picture)
    values = str(picture).partition("left out\n")[2]
    assert max(map(len, values.splitlines())) <= 100
    assert values.count("tile=") == 400


def test_a_result_is_saved(tmp_path: Path) -> None:
    assert RESULT.draw().save(tmp_path / "x.svg").read_text(encoding="utf-8") == RESULT.draw().svg()


def test_nothing_measured_is_refused() -> None:
    with pytest.raises(pl.TuningError) as caught:
        pl.Tuned(RESULT.trials[3:], 0).draw()
    assert caught.value.codes == ("nothing-to-draw",)
