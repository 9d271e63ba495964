"""What is remembered makes no difference: neither to values nor to texts, whatever ran before."""

from __future__ import annotations

import gc
import json
import subprocess
import sys
import weakref
from collections.abc import Sequence
from pathlib import Path

import islpy as isl
import pymbolic.primitives as p
import pytest

import polyloop as pl
from polyloop.expr.nodes import Expression
from polyloop.memo import Same, forgotten, interned, known, memoised
from polyloop.testing.pairs import check_pairs
from tests.gallery import GALLERY

ROOT = Path(__file__).parents[1]
SAMPLE = [name for name in sorted(GALLERY) if "cuda" not in GALLERY[name].refused][3::11]

# {{{ the mechanism


class Thing:
    """Anything with attributes."""

    def __init__(self) -> None:
        self.asked = 0


@memoised
def once(thing: Thing) -> list[int]:
    thing.asked += 1
    return [thing.asked]


@memoised
def by_value(thing: Thing, name: str, numbers: tuple[int, ...]) -> tuple[str, int]:
    thing.asked += 1
    return name, sum(numbers)


@memoised
def by_identity(thing: Thing, domain: isl.Set, expr: Expression) -> str:
    thing.asked += 1
    return f"{domain} {expr}"


def is_small(found: int) -> bool:
    return found < 2


@memoised(unless=is_small)
def at_last(thing: Thing, name: str) -> int:
    del name
    thing.asked += 1
    return thing.asked


def test_a_value_is_found_once_for_each_object() -> None:
    thing = Thing()
    assert once(thing) is once(thing)
    assert once(Thing()) is not once(thing)
    assert thing.asked == 1


def test_further_arguments_count_by_value() -> None:
    thing = Thing()
    assert by_value(thing, "x", (1, 2)) is by_value(thing, "x", (1, 2))
    assert by_value(thing, "x", (2, 2)) == ("x", 4)
    assert thing.asked == 2
    assert known(by_value, thing) == {("x", (1, 2)): ("x", 3), ("x", (2, 2)): ("x", 4)}


def test_sets_and_expressions_count_by_identity() -> None:
    thing, x = Thing(), p.Variable("x")
    one, same = (isl.Set("{[i]: 0 <= i < 4}") for _ in range(2))
    assert one.is_equal(same)
    assert p.Sum((x, 1)) == p.Sum((x, 1.0))
    sums = [p.Sum((x, 1)), p.Sum((x, 1.0))]
    for domain in (one, same):
        for expr in sums:
            assert by_identity(thing, domain, expr) == by_identity(thing, domain, expr) == f"{domain} {expr}"
    assert thing.asked == 4


def test_a_value_that_is_not_final_is_looked_for_again() -> None:
    thing = Thing()
    assert [at_last(thing, "x") for _ in range(4)] == [1, 2, 2, 2]


def test_errors_are_not_remembered() -> None:
    class Failing(Thing):
        @memoised
        def value(self) -> int:
            self.asked += 1
            if self.asked == 1:
                raise ValueError
            return self.asked

    thing = Failing()
    with pytest.raises(ValueError):  # noqa: PT011
        thing.value()
    assert thing.value() == thing.value() == 2


def test_forgotten_values_are_found_anew_and_parts_stay() -> None:
    @memoised
    def part(thing: Thing) -> Thing:
        del thing
        return Thing()

    thing = Thing()
    kept = part(thing)
    assert once(thing) == [1]
    with forgotten():
        assert once(thing) == [2]
        assert once(thing) == [3]
        assert part(thing) is kept, "it is equal to itself alone"
    assert once(thing) == [1]


@pytest.mark.usefixtures("young_heap")
def test_what_is_remembered_goes_with_its_object() -> None:
    domain = isl.Set("{[i]: 0 <= i < 4}")

    @memoised
    def made(domain: isl.Set) -> Thing:
        thing = Thing()
        setattr(thing, "domain", domain)  # noqa: B010  # leads back to its object
        return thing

    found = weakref.ref(made(domain))
    assert found() is not None
    del domain
    gc.collect()
    assert found() is None


@pytest.mark.usefixtures("young_heap")
def test_one_object_is_kept_for_a_key_as_long_as_it_lives() -> None:
    key = (Same(ROOT), "x")
    first = interned(key, Thing)
    assert interned((Same(ROOT), "x"), Thing) is first
    assert interned((Same(ROOT), "y"), Thing) is not first
    gone = weakref.ref(first)
    del first
    gc.collect()
    assert gone() is None


# }}}
# {{{ generated text


def texts(names: Sequence[str]) -> dict[str, str]:
    return {name: pl.generate_code(GALLERY[name].make(), target=pl.CudaTarget()).device_code for name in names}


def texts_of_a_process(names: Sequence[str]) -> dict[str, str]:
    program = f"import json; from tests.test_memo import texts; print(json.dumps(texts({[*names]!r})))"
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, str] = json.loads(done.stdout)
    return found


@pytest.fixture(scope="module")
def wanted() -> dict[str, str]:
    """Return texts of a process that made others before."""
    texts([*GALLERY][:8])
    return texts(SAMPLE)


def test_texts_are_the_same_in_reverse_order(wanted: dict[str, str]) -> None:
    assert texts_of_a_process(SAMPLE[::-1]) == wanted


@pytest.mark.few(1)
@pytest.mark.parametrize("name", SAMPLE[::4])
def test_a_text_is_the_same_in_a_process_of_its_own(name: str, wanted: dict[str, str]) -> None:
    assert texts_of_a_process([name]) == {name: wanted[name]}


@pytest.mark.few(4)
@pytest.mark.parametrize("name", SAMPLE)
def test_a_text_is_the_same_where_nothing_is_remembered(name: str, wanted: dict[str, str]) -> None:
    with forgotten():
        assert texts([name]) == {name: wanted[name]}


# }}}


@memoised
def _intersection(first: isl.Set, second: isl.Set) -> isl.Set:
    return first.intersect_params(second)


def test_a_set_that_is_kept_is_not_changed_by_questions() -> None:
    space = isl.Set("[n] -> { [i, j] : 0 <= i < n and 0 <= j < n }")
    kept = _intersection(space, isl.Set("[n] -> { : n >= -4 }"))
    assert _intersection(space, isl.Set("[n] -> { : n >= -4 }")) is not kept  # sets count by identity
    before = str(kept)
    assert "-4" not in before
    other = isl.Set("[n] -> { [i, j] : i = j and 0 <= i < n }")
    assert not kept.is_empty()
    assert not kept.is_subset(other)
    assert kept.coalesce().is_equal(kept)
    assert hash(kept) == hash(kept)
    assert str(kept) == before


@pytest.mark.parametrize("seed", [654002580])
def test_programs_that_once_depended_on_what_was_remembered(seed: int) -> None:
    assert check_pairs([seed]).failures == []
