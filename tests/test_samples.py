"""The default set has a few of many cases, and the quick set some tests of each module."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests import samples


@pytest.mark.parametrize(("count", "expected"), [
    (1, [0]), (2, [0, 9]), (4, [0, 3, 6, 9]), (10, [*range(10)]), (20, [*range(10)]),
])  # fmt: skip
def test_cases_are_chosen_at_equal_distances(count: int, expected: list[int]) -> None:
    assert samples.evenly(range(10), count) == expected


@pytest.mark.parametrize("total", range(1, 40))
def test_as_many_cases_are_chosen_as_are_asked_for(total: int) -> None:
    for count in range(1, total + 1):
        assert len(set(samples.evenly(range(total), count))) == count


def test_three_tests_share_a_list() -> None:
    """With a third of the cases each, and shifted, three tests have every case."""
    cases = [*range(177)]
    chosen = [set(samples.evenly([*cases[shift:], *cases[:shift]], 60)) for shift in range(3)]
    assert set().union(*chosen) == set(cases)


def test_times_are_recorded_by_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(samples, "TIMES", tmp_path / "times.json")
    name = f"tests/{Path(__file__).name}"
    samples.write_times({f"{name}::test_a[1]": 0.02, f"{name}::test_a[2]": 9.0, f"{name}::test_b": 0.04})
    samples.write_times({f"{name}::test_c": 2.0, f"{name}::test_b": 0.06})
    samples.write_times({f"{name}::test_b": 0.08})
    assert json.loads((tmp_path / "times.json").read_text()) == {
        Path(__file__).name: {"seconds": 0.08, "long": ["test_c"]},
    }  # fmt: skip
