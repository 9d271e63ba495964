"""Last writes: what is found is what the definition says."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import permutations

import islpy as isl
import numpy as np
import pytest

import polyloop as pl
from polyloop.dataflow import last_writes as last
from polyloop.dataflow.last_writes import (
    Accesses,
    LastWrites,
    Timed,
    last_writes,
    last_writes_by_definition,
    seen,
    seen_by_definition,
)
from polyloop.memo import forgotten
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


def _are_equal(one: LastWrites, other: LastWrites) -> bool:
    return bool(one.found.is_equal(other.found) and one.unwritten.is_equal(other.unwritten))


def test_what_is_defined_is_what_is_found() -> None:
    accesses = _joined(_ORDERS[0])
    assert _are_equal(last_writes(accesses), last_writes_by_definition(accesses))


def _accesses(reads: str, sure: str, possible: str, times: str) -> Accesses:
    return Accesses(isl.UnionMap(reads), isl.UnionMap(sure), isl.UnionMap(possible), isl.UnionMap(times))


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


def _by_isl(accesses: Accesses) -> LastWrites:
    """Return the last writes that ISL's dataflow analysis finds."""
    info = isl.UnionAccessInfo.from_sink(accesses.reads).set_must_source(accesses.sure)
    flow = info.set_may_source(accesses.possible).set_schedule_map(accesses.times).compute_flow()
    return LastWrites(flow.get_may_dependence().reverse(), flow.get_may_no_source().domain())


_NONE = "{ }"
_THREADS = (
    # threads t that write one element at one time, in a loop or before it
    ("{ R[i] -> a[i] : 0 <= i < 9 }", "{ W[t, i] -> a[i] : 0 <= t < 4 and 0 <= i < 6 }", _NONE,
     "{ W[t, i] -> [0, i]; R[i] -> [1, i] }"),
    ("{ R[i, t] -> a[0] : 0 <= i < 9 and 0 <= t < 2 }", "{ W[i, t] -> a[0] : 0 <= t < 4 and t <= i < 6 }", _NONE,
     "{ W[i, t] -> [i, 1]; R[i, t] -> [i, 0] }"),
    ("{ R[i] -> a[i] : 0 <= i < 9 }", "{ W[t] -> a[o] : 0 <= t < 8 and o = floor(t/2); V[t] -> a[t + 3] : 0 <= t < 4 }",
     _NONE, "{ W[t] -> [0, 0]; V[t] -> [2, 0]; R[i] -> [3, i] }"),
)  # fmt: skip


@pytest.mark.parametrize("texts", _THREADS)
def test_of_writes_at_one_time_one_stands_for_all(texts: tuple[str, str, str, str]) -> None:
    accesses = _accesses(*texts)
    result = last_writes(accesses)
    assert _are_equal(result, last_writes_by_definition(accesses))
    assert _are_equal(result, _by_isl(accesses))
    assert result.found.intersect_range(accesses.sure.domain()).is_single_valued()


def test_beside_a_may_write_all_writes_of_one_time_are_seen() -> None:
    accesses = _accesses(*_THREADS[0])
    accesses = replace(accesses, possible=isl.UnionMap("{ M[] -> a[0] }"))
    accesses = replace(accesses, times=accesses.times.union(isl.UnionMap("{ M[] -> [0, 9] }")))
    result = last_writes(accesses)
    assert _are_equal(result, last_writes_by_definition(accesses))
    wanted = "{ R[i] -> W[t, i] : 0 <= t < 4 and 0 <= i < 6; R[0] -> M[] }"
    assert result.found.is_equal(isl.UnionMap(wanted))


def test_what_is_known_of_a_write_changes_nothing() -> None:
    known = replace(_CHAIN, is_determined=lambda *_: True)  # each element has one writer of a statement
    assert _are_equal(last_writes(known), last_writes(_CHAIN))


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


@pytest.mark.few(10)
@pytest.mark.parametrize("seed", range(25))
def test_random_accesses_against_points(seed: int) -> None:
    accesses = _random_accesses(random.Random(seed))
    for size in (1, 2, 3):
        at = isl.Set(f"[n] -> {{ : n = {size} }}")
        small = Accesses(
            accesses.reads.intersect_params(at), accesses.sure.intersect_params(at),
            accesses.possible.intersect_params(at), accesses.times.intersect_params(at),
        )  # fmt: skip
        found, wanted = last_writes(accesses), last_writes_by_definition(small)
        assert found.found.intersect_params(at).is_equal(wanted.found)
        assert found.unwritten.intersect_params(at).is_equal(wanted.unwritten)


@pytest.mark.parametrize("seed", range(40))
def test_entries_of_times_may_be_dimensions_in_any_order(seed: int) -> None:
    """Some entries are dimensions, in another order than these; others are constants, or other forms."""
    rng = random.Random(seed)

    def statement(name: str, place: int) -> tuple[str, str]:
        dims = ["t", "i", "j", "k"]
        loops = rng.sample(dims[1:], 3)
        loops[rng.randrange(3)] = rng.choice((*dims[1:], "i + j", "floor(j/2)", "1", "-k"))
        instance = f"{name}[{', '.join(rng.sample(dims, 4))}]"
        time = ", ".join(entry for loop in loops for entry in (str(rng.choice((0, 0, place))), loop))
        element = rng.choice(("i", "j + k", "floor(i/2) + j", "t", "2k"))
        domain = f"0 <= t < 2 and 0 <= i, j < 3 and 0 <= k < {rng.choice((2, 3))}"
        return f"{instance} -> a[{element}] : {domain}", f"{instance} -> [{time}] : {domain}"

    texts = {name: statement(name, place) for place, name in enumerate("WVRM")}
    reads, sure, possible = (
        "{ " + "; ".join(texts[name][0] for name in names) + " }"
        for names in ("R", "WV", "M" if seed % 2 else "")
    )
    accesses = _accesses(reads, sure, possible, "{ " + "; ".join(time for _, time in texts.values()) + " }")
    assert _are_equal(last_writes(accesses), last_writes_by_definition(accesses))


def _statement(rng: random.Random, place: int) -> tuple[isl.Map, isl.Map]:
    """Return an access in loops, some of which are entries of its time, and this time."""
    dims = ["t", "i", "j"]
    loops = rng.sample(dims[1:], 2)
    loops[rng.randrange(2)] = rng.choice((*dims[1:], "i + j", "1", "-i"))
    time = ", ".join(entry for loop in loops for entry in (str(rng.choice((0, place))), loop))
    domain = f"0 <= t < 2 and 0 <= i < 3 and 0 <= j < {rng.choice((2, 3))}"
    element = rng.choice(("i", "i + j + 1", "floor(i/2) + j", "2j", "t"))
    return isl.Map(f"{{ [t, i, j] -> a[{element}] : {domain} }}"), isl.Map(f"{{ [t, i, j] -> [{time}] }}")


@pytest.mark.parametrize("seed", range(6))
def test_what_pairs_of_accesses_share_depends_on_no_other_access(seed: int) -> None:
    """Reads see the same writes whatever was asked before: with other writes, or with these at other times."""
    rng = random.Random(seed)
    made = [_statement(rng, place) for place in range(4)]
    for _ in range(6):
        chosen = rng.sample(made, 3)
        times = [rng.choice((time, made[rng.randrange(4)][1])) for _, time in chosen]
        read, *writes = (
            Timed.at(cells, time, is_sure=rng.random() < 0.8)
            for (cells, _), time in zip(chosen, times, strict=True)
        )
        links, unwritten = seen(read, writes)
        with forgotten():
            wanted, wanted_unwritten = seen_by_definition(read, writes)
        assert unwritten.is_equal(wanted_unwritten)
        found = {id(write): pairs for write, pairs in links}
        assert {*found} == {id(write) for write, _ in wanted}
        assert all(found[id(write)].is_equal(pairs) for write, pairs in wanted)


def test_of_elements_that_nothing_writes_no_write_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    times = isl.Map("{ [i] -> [9, i] }"), *(isl.Map(f"{{ [i] -> [{n}, i] }}") for n in range(8))
    read = Timed.at(isl.Map("{ [i] -> a[i] : 0 <= i < 9 }"), times[0])
    inside = [isl.Map(f"{{ [i] -> a[i + 0*{n}] : 1 <= i < 8 }}") for n in range(8)]
    writes = [Timed.at(cells, time, is_sure=True) for cells, time in zip(inside, times[1:], strict=True)]
    asked = []

    def counted(pairs: isl.Map, rows: object) -> isl.Map:
        asked.append(rows)
        return pairs

    monkeypatch.setattr(last, "_in_order", counted)
    links, unwritten = seen(read, writes)
    assert [write is writes[-1] for write, _ in links] == [True]
    assert unwritten.is_equal(isl.Set("{ [0]; [8] }"))
    assert len(asked) == 1


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
