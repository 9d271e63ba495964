"""Last writes: proven, whatever ISL finds."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import permutations

import islpy as isl
import numpy as np
import pytest

import polyloop as pl
from polyloop.dataflow.last_writes import Accesses, LastWrites, last_writes
from tests.transform.checking import check

_BOUNDS = (
    "[n] -> { [i, j] : i >= 0 }",
    "[n] -> { [i, j] : 0 <= j < 2n }",
    "[n] -> { [i, j] : 2*floor((1 + j)/2) < n - 2i + j }",
    "[n] -> { [i, j] : n >= -4 }",
)
_ORDERS = list(permutations(range(4)))


def _domain(order: tuple[int, ...]) -> isl.Set:
    found = isl.Set.universe(isl.Set(_BOUNDS[0]).get_space())
    for number in order:
        found = found.intersect(isl.Set(_BOUNDS[number]))
    return found


def _joined(order: tuple[int, ...]) -> Accesses:
    """Return the accesses of ``o[i] = ..`` and ``.. = o[i + 1]``, in loops over digits, the bounds in some order."""
    texts = {
        "W": ("o[o] : (1 + j + o) mod 2 = 0 and 3 + 2i <= o <= 4 + 2i", "[0, i, 0, j]"),
        "R": ("o[o] : (j + o) mod 2 = 0 and 4 + 2i <= o <= 5 + 2i", "[1, i, 0, j]"),
    }
    made = {
        name: [
            isl.Map(f"[n] -> {{ {name}[i, j] -> {text} }}").intersect_domain(_domain(order).set_tuple_name(name))
            for text in pair
        ]
        for name, pair in texts.items()
    }
    times = made["W"][1].to_union_map().union(made["R"][1].to_union_map())
    nothing = isl.UnionMap.empty(times.get_space())
    return Accesses(made["R"][0].to_union_map(), made["W"][0].to_union_map(), nothing, times)


def _is_last(found: isl.UnionMap, n: int) -> bool:
    """Return whether each read has the last write of its element, by trying all."""
    inside = [(i, j) for i in range(n) for j in range(2 * n) if 2 * i + j % 2 < n]
    wanted = isl.UnionMap.empty(found.get_space())
    for i, j in inside:
        writes = [(x, y) for x, y in inside if 2 * x + y % 2 == 2 * i + j % 2 + 1]
        if writes:
            pair = isl.Map(f"[n] -> {{ R[{i}, {j}] -> W[{max(writes)[0]}, {max(writes)[1]}] : n = {n} }}")
            wanted = wanted.union(pair.to_union_map())
    return bool(found.intersect_params(isl.Set(f"[n] -> {{ : n = {n} }}")).is_equal(wanted))


@pytest.mark.parametrize("order", _ORDERS)
def test_the_last_write_is_found_in_whatever_order_bounds_are(order: tuple[int, ...]) -> None:
    assert all(_is_last(last_writes(_joined(order)).found, n) for n in range(4))


def test_differences_are_what_is_found() -> None:
    accesses = _joined(_ORDERS[0])
    found, wanted = last_writes(accesses), accesses.differences()
    assert found.found.is_equal(wanted.found)
    assert found.unwritten.is_equal(wanted.unwritten)


def _accesses(reads: str, sure: str, possible: str, times: str) -> Accesses:
    return Accesses(*map(isl.UnionMap, (reads, sure, possible, times)))


_CHAIN = _accesses(
    "{ R[i] -> a[i] : 0 <= i < 9 }",
    "{ W[i] -> a[2*i] : 0 <= i < 3; V[i] -> a[i] : 0 <= i < 4 }",
    "{ M[i] -> a[i] : 0 <= i < 7 }",
    "{ V[i] -> [0, i]; W[i] -> [1, i]; M[i] -> [2, i]; R[i] -> [3, i] }",
)


def test_sure_writes_hide_and_possible_ones_do_not() -> None:
    result = last_writes(_CHAIN)
    wanted = "{ R[i] -> V[i] : i = 1 or i = 3; R[i] -> W[j] : i = 2*j and 0 <= j < 3; R[i] -> M[i] : 0 <= i < 7 }"
    assert result.found.is_equal(isl.UnionMap(wanted))
    assert result.unwritten.is_equal(isl.UnionSet("{ R[i] : 5 <= i < 9 }"))


@pytest.mark.parametrize(
    ("found", "unwritten", "fault"),
    [
        ("{ R[i] -> V[i] : 0 <= i < 4; R[4] -> W[2] }", "{ R[i] : 5 <= i < 9 }", "a sure write comes between"),
        ("{ R[i] -> V[i + 1] : 0 <= i < 3 }", "{ R[i] : 0 <= i < 9 }", "is not one of the element"),
        ("{ R[1] -> V[1] }", "{ R[i] : 2 <= i < 9; R[0] }", "is said to have none"),
        ("{ R[1] -> V[1] }", "{ R[i] : 6 <= i < 9 }", "is not said to have none"),
        ("{ R[i] -> M[i] : 0 <= i < 6 }", "{ }", "a possible write is missing"),
    ],
)
def test_what_is_wrong_is_seen(found: str, unwritten: str, fault: str) -> None:
    result = LastWrites(isl.UnionMap(found), isl.UnionSet(unwritten))
    assert any(fault in text for text in _CHAIN.faults(result))


def test_what_is_right_has_no_fault() -> None:
    assert not [*_CHAIN.faults(_CHAIN.differences())]


def test_a_wrong_answer_of_isl_is_not_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = LastWrites(isl.UnionMap("{ R[1] -> V[1] }"), isl.UnionSet("{ R[i] : 2 <= i < 9 }"))
    monkeypatch.setattr(Accesses, "computed", lambda _: wrong)
    result = last_writes(_CHAIN)
    assert result.found.is_equal(_CHAIN.differences().found)


def test_a_read_of_any_element_sees_each_last_write() -> None:
    any_element = isl.UnionMap("{ R[i] -> a[j] : 0 <= i < 2 and 0 <= j < 9 }")
    result = last_writes(replace(_CHAIN, reads=any_element))
    wanted = "{ R[i] -> V[j] : j = 1 or j = 3; R[i] -> W[j] : 0 <= j < 3; R[i] -> M[j] : 0 <= j < 7 }"
    wanted_map = isl.UnionMap(wanted).intersect_domain(isl.UnionSet("{ R[i] : 0 <= i < 2 }"))
    assert result.found.is_equal(wanted_map)
    assert result.unwritten.is_equal(isl.UnionSet("{ R[i] : 0 <= i < 2 }"))


def _random_accesses(rng: random.Random) -> Accesses:
    """Return some accesses in loops over digits, with bounds of many kinds, in random order."""
    statements = {name: rng.choice((0, 1, 2)) for name in ("R", "W", "V")}
    relations, times = {}, isl.UnionMap.empty(isl.Space.params_alloc(isl.DEFAULT_CONTEXT, 0))
    for number, (name, place) in enumerate(statements.items()):
        bounds = ["0 <= i < n", f"0 <= j < {rng.choice(('n', '2n', '4'))}", "n >= -4", "n >= 1"]
        bounds.append(rng.choice(("2*floor(j/2) < n + j - i", "(i + j) mod 2 = 0", "2i + (j mod 2) < n", "i <= j")))
        rng.shuffle(bounds)
        subscript = rng.choice(("i", "j", "i + j", "2i + (j mod 2)", "floor(j/2) + i", "i + 1"))
        domain = f"[n] -> {{ {name}[i, j] : {' and '.join(bounds)} }}"
        access = isl.UnionMap(f"[n] -> {{ {name}[i, j] -> a[{subscript}] }}").intersect_domain(isl.UnionSet(domain))
        relations[name] = access
        loops = rng.choice(("i, {p}, j", "{p}, i, j", "i, j, {p}", "{p}, j, i"))
        text = loops.format(p=3 * place + number)
        times = times.union(isl.UnionMap(f"[n] -> {{ {name}[i, j] -> [{text}] }}").intersect_domain(access.domain()))
    return Accesses(relations["R"], relations["W"], relations["V"], times)


@pytest.mark.parametrize("seed", range(25))
def test_random_accesses_against_points(seed: int) -> None:
    accesses = _random_accesses(random.Random(seed))
    for size in (1, 2, 3):
        at = isl.Set(f"[n] -> {{ : n = {size} }}")
        small = Accesses(*(part.intersect_params(at) for part in (
            accesses.reads, accesses.sure, accesses.possible, accesses.times)))  # fmt: skip
        found, wanted = last_writes(accesses), small.differences()
        assert found.found.intersect_params(at).is_equal(wanted.found)
        assert found.unwritten.intersect_params(at).is_equal(wanted.unwritten)


def test_joined_digits_are_no_reordering() -> None:
    knl = pl.make_kernel(
        "[n] -> {[i, j]: 0 <= i, j < n}",
        """
        b[i] = j
        c[i, j] = b[i + 1]
        """,
        [pl.GlobalArg("b", np.float64, shape="n + 1"), pl.GlobalArg("c", np.float64, shape="n, n"), ...],
    )
    knl = pl.split_iname(knl, "i", 2)
    knl = pl.join_inames(knl, ["j", "i_inner"])
    for n in (1, 2, 5):
        b = np.append(np.full(n, n - 1.0), 7.0)
        check(knl, {"b": np.full(n + 1, 7.0), "c": np.zeros((n, n))}, {"b": b, "c": np.repeat(b[1:, None], n, axis=1)})
