"""The mutants of the proofs: which are drawn, and that tests which fail on one kill it."""

from __future__ import annotations

from pathlib import Path
from queue import SimpleQueue
from types import ModuleType

import pytest


@pytest.fixture
def mutants() -> ModuleType:
    pytest.importorskip("cosmic_ray")
    from tests import mutants  # noqa: PLC0415 - it needs what may be missing

    return mutants


def test_the_same_seed_draws_the_same_mutants(mutants: ModuleType) -> None:
    first, again, other = (mutants.drawn(5, seed, ["sync"]) for seed in (1, 1, 2))
    assert first == again != other
    for mutant, text in first:
        before = (mutants.ROOT / mutant.module).read_text(encoding="utf-8")
        assert mutant.module.startswith("polyloop/sync/")
        assert text != before


def test_annotations_are_no_mutants(mutants: ModuleType) -> None:
    text = "def f(x: int | None) -> int | None:\n    y: int | None = x\n    return y\n"
    assert mutants._meaning(text) == mutants._meaning(text.replace("|", "+"))
    assert mutants._meaning(text) != mutants._meaning(text.replace("= x", "= -x"))


@pytest.mark.parametrize(("number", "killed"), [(1, ""), (2, "FAILED tests/test_one.py::test_it")])
def test_a_mutant_is_killed_by_a_test_that_fails(mutants: ModuleType, tmp_path: Path, number: int, killed: str) -> None:
    place = mutants.Workplace(tmp_path)
    test = "from polyloop.sync import warps\n\n\ndef test_it() -> None:\n    assert warps.MUTANT == 1\n"
    (tmp_path / "tests/test_one.py").write_text(test, encoding="utf-8")
    mutant = mutants.Mutant("polyloop/sync/warps.py", "core/NumberReplacer", 0, 1)
    before = (tmp_path / mutant.module).read_text(encoding="utf-8")
    outcome = place.judge(mutant, f"{before}\nMUTANT = {number}\n", 100, [("tests/test_one.py",)])
    assert outcome.killed_by.startswith(killed)
    assert bool(outcome.killed_by) == bool(killed)
    assert (tmp_path / mutant.module).read_text(encoding="utf-8") == before
    with pytest.raises(RuntimeError, match="runs no tests"):
        place.judge(mutant, before, 100, [("tests/test_one.py", "-k", "other")])


def test_tests_that_fail_without_a_mutant_are_told(mutants: ModuleType, tmp_path: Path) -> None:
    place = mutants.Workplace(tmp_path)
    (tmp_path / "tests/test_one.py").write_text("def test_it() -> None:\n    raise ValueError\n", encoding="utf-8")
    places: SimpleQueue[object] = SimpleQueue()
    places.put(place)
    with pytest.raises(SystemExit, match=r"without any mutant: FAILED tests/test_one\.py::test_it"):
        mutants.require_sound(places, [("tests/test_one.py",)], 100)
