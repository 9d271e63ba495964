"""Which conflicts between threads are found, and what they need."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import suppress

import numpy as np
import pytest

import polyloop as pl
from polyloop.dataflow.address_spaces import place
from polyloop.kernel.arrays import AddressSpace
from polyloop.kernel.tree import Scope
from polyloop.mapping.thread_mapping import Placement
from polyloop.sync import races as race
from polyloop.sync.races import Need, needs, races, shared_arrays
from polyloop.testing.drawing.drawers import DRAWERS
from polyloop.testing.drawing.random_kernels import random_source
from polyloop.transform.loops import tag
from tests.verification.kernels import exchange, on_threads


def all_needs(knl: pl.LoopKernel) -> list[Need]:
    placement = place(knl)
    return [need for array in shared_arrays(placement) for need in needs(placement, array)]


@pytest.mark.parametrize("reader", ["y, 31 - x", "7 - y, x", "7 - y, 31 - x", "y, (x + 1) % 32"])
def test_a_read_of_another_threads_element_needs_a_block_barrier(reader: str) -> None:
    knl = on_threads(exchange(reader))
    assert place(knl).spaces["t"] is AddressSpace.LOCAL
    found = {(n.conflict.first.name, n.conflict.second.name, n.scope) for n in all_needs(knl)}
    assert found == {("put", "get", Scope.BLOCK)}


def test_a_thread_that_reads_its_own_element_keeps_it_private_and_needs_nothing() -> None:
    knl = on_threads(exchange("y, x"))
    assert place(knl).spaces["t"] is AddressSpace.PRIVATE
    assert all_needs(knl) == []


def test_own_elements_in_shared_memory_need_nothing() -> None:
    knl = pl.set_temporary_address_space(on_threads(exchange("y, x")), "t", "local")
    assert all_needs(knl) == []


def test_private_memory_for_an_exchange_is_refused() -> None:
    knl = pl.set_temporary_address_space(on_threads(exchange("y, 31 - x")), "t", "private")
    with pytest.raises(pl.VerificationError) as caught:
        pl.generate_code(knl)
    assert set(caught.value.codes) <= {"illegal-order"}
    assert "'t'" in str(caught.value)


def test_blocks_that_exchange_through_global_memory_need_a_new_launch() -> None:
    knl = pl.make_kernel(
        "{[i]: 0 <= i < n}",
        """
        b[i] = a[i] {id=put}
        c[i] = b[n - 1 - i] {id=get}
        """,
        [pl.GlobalArg("a, b, c", np.float32, shape="n"), ...],
    )
    knl = pl.split_iname(knl, "i", 32, outer_tag="g.0", inner_tag="l.0")
    assert Scope.GRID in {need.scope for need in all_needs(knl)}
    program = pl.generate_code(knl)
    assert [launch.name for launch in program.launches] == ["loop_kernel_0", "loop_kernel_1"]


def test_two_blocks_that_write_one_element_are_a_race() -> None:
    knl = pl.make_kernel("{[i]: 0 <= i < n}", "s[0] = a[i]", [pl.GlobalArg("a", np.float32), ...])
    with pytest.raises(pl.TransformError) as caught:
        pl.split_iname(knl, "i", 32, outer_tag="g.0")
    assert caught.value.codes == ("write-race",)


def brute_force_conflict(distance: int, threads: int) -> bool:
    """Return whether a thread reads what another one writes, both running i in [distance, threads)."""
    running = range(distance, threads)
    return any(reader - distance == writer != reader for reader in running for writer in running)


@pytest.mark.parametrize("distance", [0, 1, 5, 15, 16, 40])
def test_a_race_is_found_exactly_where_enumeration_finds_one(distance: int) -> None:
    knl = pl.make_kernel(
        f"{{[i]: {distance} <= i < 16}}" if distance < 16 else "{[i]: 0 <= i < 16}",
        f"a[i] = a[i - {distance}] + 1" if distance < 16 else "a[i] = a[i + 16] + 1",
        [pl.GlobalArg("a", np.float32, shape="64"), ...],
    )
    expected = brute_force_conflict(distance, 16) if distance < 16 else False
    if expected:
        with pytest.raises(pl.TransformError) as caught:
            pl.tag_inames(knl, "i:l.0")
        assert caught.value.codes == ("illegal-parallel",)
    else:
        pl.tag_inames(knl, "i:l.0")


def test_what_no_barrier_can_keep_apart_is_found_without_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = {True: 0, False: 0}

    def both(placement: Placement, array: str) -> Iterator[Need]:
        found = list(races(placement, array))
        wanted = [need for need in needs(placement, array) if need.scope is None]
        assert len(found) == len(wanted)
        for one, other in zip(found, wanted, strict=True):
            assert (one.first, one.second, one.conflict.first) == (other.first, other.second, other.conflict.first)
            assert one.conflict.relation.is_equal(other.conflict.relation)
        counts[bool(found)] += 1
        return iter(found)

    monkeypatch.setattr(tag, "races", both)
    for seed in range(90):
        rng = random.Random(seed)
        try:
            knl = random_source(seed).make()
        except pl.PolyloopError:
            continue
        for _ in range(3):
            name = rng.choice(("split_iname", "tag_inames", "tile"))
            with suppress(pl.PolyloopError):
                knl = getattr(pl, name)(knl, **DRAWERS[name](rng, knl))
    assert min(counts.values()) > 10


@pytest.mark.parametrize("seed", range(12))
def test_sums_of_digits_determine_their_axes_as_isl_finds(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(seed)
    steps = rng.sample([1, 2, 3, 4, 8, 12, 16, 32, 64], 3)
    index = " + ".join(f"{step}*{name}" for step, name in zip(steps, rng.sample("ijk", 3), strict=True))
    sizes = [rng.choice([2, 3, 4, 8]) for _ in range(2)]
    knl = pl.make_kernel(
        f"{{[i, j, k]: 0 <= i < n and 0 <= j < {sizes[0]} and 0 <= k < {sizes[1]}}}",
        f"for i, j, k\n  a[{index}] = i {{id=one}}\n  b[i] = b[i] + a[{index}] {{id=two, dep=one}}\nend",
        [pl.GlobalArg("a", np.float32, shape="2048*n"), pl.GlobalArg("b", np.float32, shape="n"), ...],
        assumptions="n >= 1",
    )
    knl = pl.unchecked(knl, "races are looked at")
    knl = pl.tag_inames(pl.split_iname(knl, "i", 4), {"i_outer": "g.0", "i_inner": "l.0", "j": "l.1"})
    found = [(need.scope, need.conflict.loop) for need in needs(place(knl), "a")]
    monkeypatch.setattr(race, "_determined", lambda *_: frozenset())
    fresh = pl.tag_inames(knl, {"k": "unr"})
    assert [(need.scope, need.conflict.loop) for need in needs(place(fresh), "a")] == found


@pytest.mark.parametrize("also", ["j < 1 - n", "j < 3 - n", "i + j >= 2*n"])
def test_what_one_block_writes_is_seen_where_no_other_statement_needs_a_block(also: str) -> None:
    knl = pl.make_kernel(
        ["{[i, j]: 0 <= i, j < n and " + also + "}", "{[k]: 0 <= k < i}"],
        """
        y[i] = sum(k, y[i + 1] + a[k])  {id=shift}
        o[i, j] = i
        """,
        [
            pl.GlobalArg("y", np.float64, shape="n + 1"),
            pl.GlobalArg("a", np.float64, shape="n"),
            pl.GlobalArg("o", np.float64, shape="n, n"),
        ],
    )
    knl = pl.tag_inames(pl.split_iname(knl, "i", 4, inner_tag="l.0"), {"j": "g.0"})
    found = {(n.conflict.first.name, n.conflict.second.name, n.scope) for n in all_needs(knl)}
    assert ("shift_update", "shift", Scope.BLOCK) in found


def test_updates_that_commute_still_have_to_be_waited_for() -> None:
    knl = pl.make_kernel(
        "{[b, i, j, k]: 0 <= b < n and 0 <= i, j, k < 32}",
        """
        for b
            h[k] = 0 {id=zero}
            h[x[b, i]] = h[x[b, i]] + 1 {id=add, atomic}
            y[b, j] = h[31 - j] {id=get}
        end
        """,
        [
            pl.GlobalArg("x, y", np.int32, shape="n, 32"),
            pl.TemporaryVariable("h", np.int32, shape=(32,), address_space="local"),
            ...,
        ],
        seq_dependencies=True,
        silenced_warnings="*",
    )
    knl = pl.tag_inames(knl, "b:g.0, i:l.0, j:l.0, k:l.0")
    found = {(n.conflict.first.name, n.conflict.second.name, n.scope) for n in all_needs(knl)}
    assert found >= {("zero", "add", Scope.BLOCK), ("add", "get", Scope.BLOCK)}
