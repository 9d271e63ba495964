"""What threads share, with a switch between any two instructions: it is made once, and nobody sees a half of it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
import pytest

import polyloop as pl
from polyloop import memo
from polyloop.edge import first
from polyloop.memo import interned, memoised
from polyloop.runtime import backends, cache, executor, invoke, packed, repeat
from polyloop.runtime.cache import CacheKey, DiskCache
from polyloop.serial import form
from tests.runtime.interleave import Run, explored

F = np.float32


def fine(run: Run) -> None:
    assert run.errors == []


class Counter:
    """A counter that is right in threads."""

    def __init__(self) -> None:
        self.count, self._lock = 0, Lock()

    def __call__(self) -> int:
        with self._lock:
            self.count += 1
            return self.count


# {{{ the scheduler itself


def test_it_finds_an_update_that_is_lost() -> None:
    """A counter without a lock loses an update in some order, and never with one."""
    def lost(has_lock: bool) -> bool:
        found = []

        def make() -> Any:
            box, lock = {"n": 0}, Lock()
            found.append(box)

            def work() -> None:
                if has_lock:
                    with lock:
                        _bump(box)
                else:
                    _bump(box)

            return [work, work]

        for run in explored(make, sys.modules[__name__]):
            fine(run)
        return any(box["n"] != 2 for box in found)

    assert lost(False)
    assert not lost(True)


def _bump(box: dict[str, int]) -> None:
    before = box["n"]
    box["n"] = before + 1


# }}}


class Thing:
    """Something immutable that keeps what is found of it."""


def test_memoised_results_are_one_object() -> None:
    @memoised
    def of_one(_: Thing) -> list[int]:
        return [1]

    @memoised
    def of_several(_: Thing, number: int) -> list[int]:
        return [number]

    def make() -> Any:
        thing = Thing()
        return [lambda: (of_one(thing), of_several(thing, 3), of_several(thing, 4))] * 2

    for run in explored(make, memo):
        fine(run)
        one, other = run.results
        assert all(a is b for a, b in zip(one, other, strict=True))


def test_interned_objects_are_one_object() -> None:
    def make() -> Any:
        key = ("key", Counter())
        return [lambda: interned(key, Thing)] * 2

    for run in explored(make, memo):
        fine(run)
        assert run.results[0] is run.results[1]


def test_preparations_run_once_and_are_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Counter] = []

    def make() -> Any:
        counter, done = Counter(), list[bool]()
        monkeypatch.setattr(first, "_WAITING", [])
        made.append(counter)

        def prepare() -> None:
            counter()
            done.append(True)

        first.before_kernels(prepare)

        def work() -> bool:
            first.prepare_kernels()
            return bool(done)

        return [work, work]

    for run in explored(make, first):
        fine(run)
        assert run.results == [True, True]
    assert all(counter.count == 1 for counter in made)


def test_a_loaded_kernel_is_opened_once(monkeypatch: pytest.MonkeyPatch) -> None:
    knl = pl.make_kernel("{[i]: 0 <= i < n}", "z[i] = 2*x[i]", [pl.GlobalArg("x, z", F, shape="n"), ...], name="twice")
    data, opened, plain = pl.dumps(pl.compile(knl, target=pl.CTarget())), list[Counter](), backends.make_backend

    def make() -> Any:
        counter = Counter()
        opened.append(counter)
        monkeypatch.setattr(invoke, "make_backend", lambda *given: (counter(), plain(*given))[1])
        run, x = pl.loads(data), np.ones(5, F)
        def work() -> Any:
            return run(x=x).z.tolist()

        return [work, work]

    for run in explored(make, invoke, every=3, most=60):
        fine(run)
        assert run.results == [[2.0] * 5] * 2
    assert {counter.count for counter in opened} == {1}


def test_a_specialization_is_compiled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    knl = pl.make_kernel("{[i]: 0 <= i < n}", "z[i] = 2*x[i]", name="twice")
    made, plain = list[Counter](), executor.compiled
    known = dict[Any, Any]()

    def compiled(counter: Counter, *given: Any) -> Any:
        counter()
        key = str(given[0])
        if key not in known:
            known[key] = plain(*given)
        return known[key]

    def make() -> Any:
        counter = Counter()
        made.append(counter)
        monkeypatch.setattr(executor, "compiled", lambda *given: compiled(counter, *given))
        run = pl.compile(knl, target=pl.CTarget())
        def work(size: int) -> Any:
            return run(x=np.ones(size, F)).z.tolist()

        return [partial(work, 4), partial(work, 3)]

    for run in explored(make, executor, every=3, most=60):
        fine(run)
        assert run.results == [[2.0] * 4, [2.0] * 3]
    assert {counter.count for counter in made} == {1}


def test_recognized_calls_are_those_of_their_thread() -> None:
    """The function that a kernel goes to is exchanged by calls; each call still has its arrays and its numbers."""
    data = [pl.GlobalArg("x, z", float, shape="n"), pl.ValueArg("s", float), ...]
    knl = pl.make_kernel("{[i]: 0 <= i < n}", "z[i] = s*x[i]", data, name="scaled")

    def calls(run: Any, size: int) -> Callable[[], list[list[float]]]:
        x = np.ones(size)
        return lambda: [run(x=x, s=float(number)).z.tolist() for number in range(2)]

    def make() -> Any:
        run = pl.compile(knl, target=pl.CTarget())
        run(x=np.ones(3), s=1.0)
        return [calls(run, 3), calls(run, 5)]

    for run in explored(make, repeat, packed, invoke, every=5, most=60):
        fine(run)
        assert run.results == [[[0.0] * 3, [1.0] * 3], [[0.0] * 5, [1.0] * 5]]


def test_an_entry_of_the_cache_is_made_once(tmp_path: Path) -> None:
    made: list[Counter] = []

    def make() -> Any:
        counter, number = Counter(), len(made)
        made.append(counter)
        (tmp_path / str(number)).mkdir()
        store, key = DiskCache(tmp_path / str(number)), CacheKey("c", "text", "compiler")

        def work() -> Any:
            return store.made(key, lambda: {"a": str(counter()).encode()}, {"a"})["a"]

        return [work, work]

    for run in explored(make, cache, every=11, most=60):
        fine(run)
        assert run.results == [b"1", b"1"]
    assert all(counter.count == 1 for counter in made)
    assert cache._LOCKS == {}


def test_fingerprints_are_found_by_several() -> None:
    data = [pl.GlobalArg("x, z", F, shape="n"), ...]

    def make() -> Any:
        knl = pl.make_kernel("{[i]: 0 <= i < n}", "z[i] = 2*x[i]", data, name="twice")
        return [lambda: knl.fingerprint, lambda: hash(knl)]

    seen = set()
    for run in explored(make, form, every=50, most=25):
        fine(run)
        seen.add(tuple(run.results))
    assert len(seen) == 1
