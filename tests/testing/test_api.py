"""Calls with drawn arguments return or are refused; so are texts that were traces."""

from __future__ import annotations

import json
from random import Random

import pytest

from polyloop.testing.api import Mode, Outcome, Report, call, fuzz_calls, main, mutated, public_names
from polyloop.testing.drawing.api_values import recipes_as_json


@pytest.mark.parametrize("mode", Mode)
def test_a_sample_of_calls(mode: Mode) -> None:
    report = Report()
    report.add(call(seed, mode) for seed in range(120))
    assert report.wrong == [], str(report)
    assert set(report.counts) <= {"returned", "refused"}


@pytest.mark.slow
@pytest.mark.parametrize("mode", Mode)
def test_very_many_calls(mode: Mode) -> None:
    report = fuzz_calls(range(1000, 21000), mode, jobs=2)
    assert report.wrong == [], str(report)


def test_calls_are_drawn_again_from_their_seeds() -> None:
    assert [call(seed, Mode.FITTING).what for seed in range(8)] == [call(seed, Mode.FITTING).what for seed in range(8)]


def test_everything_public_is_called() -> None:
    names = set(public_names())
    assert {"split_iname", "make_kernel", "GlobalArg", "compile", "verify", "Recipe", "check_equivalence"} <= names
    assert not names & {"float32", "vec", "auto"}


def test_what_ends_otherwise_is_reported() -> None:
    report = Report()
    report.add([Outcome(0, "f()", "returned"), Outcome(7, "g()", "bare", "KeyError: 'x'", 0.5)])
    assert str(report) == "bare: 1\nreturned: 1\nslowest: 0.5 s, seed 7: g()\nbare, seed 7: g()\n  KeyError: 'x'"


def test_a_call_that_takes_too_long_ends() -> None:
    outcome = next(found for seed in range(50) if (found := call(seed, Mode.FITTING, 1e-4)).kind == "late")
    assert outcome.is_wrong


def test_texts_are_changed() -> None:
    texts = recipes_as_json()
    for text in texts:
        assert isinstance(json.loads(text), list | dict)
    changed = [mutated(Random(seed), texts[seed % len(texts)]) for seed in range(200)]
    assert sum(one != texts[seed % len(texts)] for seed, one in enumerate(changed)) > 190


def test_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--count", "5", "--only", "json"]) == 0
    assert "JSON of traces and recipes" in capsys.readouterr().out
