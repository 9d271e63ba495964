"""Quick answers about synchronization: the general way finds the same, with the same instances."""

from __future__ import annotations

import random
from collections.abc import Callable

import islpy as isl
import pytest

import polyloop as pl
from polyloop.cost import bank_conflicts
from polyloop.dataflow import value_flow
from polyloop.dataflow.address_spaces import place
from polyloop.dataflow.last_writes import seen_by_definition
from polyloop.dataflow.times import earlier, time_forms
from polyloop.errors import VerificationError
from polyloop.kernel.domains import domain_for, iname_range
from polyloop.mapping.thread_mapping import Placed, Placement
from polyloop.memo import forgotten
from polyloop.optimize import zero_fill
from polyloop.poly.sets import constant_bounds, map_from_forms, parameter_space
from polyloop.program.expand_lanes import with_lanes
from polyloop.sync import async_copy, async_product, races, storage_aliasing
from polyloop.sync.async_copy import copy_pairs, copy_violations
from polyloop.sync.storage_aliasing import pool_obligations
from polyloop.transform.loops.auto_local import assign_auto
from tests.gallery import GALLERY
from tests.sync.test_async_copies import changed
from tests.sync.test_shared_storage import Sample
from tests.transform.test_wgmma import TARGET, inames, product, tiled
from tests.transform.test_wgmma_lag import of_several

NAMES = sorted(name for name, entry in GALLERY.items() if not entry.refused)


def no(*_: object) -> bool:
    return False


def yes(*_: object) -> bool:
    return True


def judged(make: Callable[[], pl.LoopKernel]) -> object:
    """Return the text of a kernel, or why it has none."""
    try:
        return pl.generate_code(make(), target=TARGET).device_code
    except (pl.TransformError, VerificationError) as error:
        return str(error), [finding.witness for finding in error.found]


def one_after_the_other() -> pl.LoopKernel:
    """Return three products in a loop, which fetch their tiles."""
    knl = of_several(1)
    knl = pl.add_prefetch(knl, "a", f"{inames(knl, 'i')}, kk, ki", temporary_name="a_tile", vec=8)
    knl = pl.add_prefetch(knl, "b", f"{inames(knl, 'j')}, kk, ki", temporary_name="b_tile", vec=8)
    for name in ("a_tile", "b_tile"):
        knl = pl.swizzle(knl, name, bits=3, base=3, shift=3)
    return pl.pipeline(knl, "ko", stages=3, via="cp.async")


PRODUCTS: dict[str, Callable[[], pl.LoopKernel]] = {
    "three stages": lambda: tiled.__wrapped__(product.__wrapped__(64, lag=1), 3),
    "a tile that is filled again too early": lambda: tiled.__wrapped__(product.__wrapped__(64, lag=1), 1),
    "one sum after the other": one_after_the_other,
    "a sum that is read too early": lambda: of_several(1, terms=128, tag="unr"),
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_products_that_run_on(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is complete by its place in the loop tree, and operands that nothing writes meanwhile."""
    found = judged(PRODUCTS[name])
    monkeypatch.setattr(async_product, "is_untouched", no)
    monkeypatch.setattr(async_product, "_is_complete", no)
    assert judged(PRODUCTS[name]) == found
    monkeypatch.setattr(value_flow, "seen", seen_by_definition)
    assert judged(PRODUCTS[name]) == found


@pytest.mark.parametrize("seed", range(30))
def test_sources_of_copies(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def found() -> list[pl.Diagnostic]:
        placement = place(changed(random.Random(seed)))
        return [finding for arrival, starts in copy_pairs(placement)
                for finding in copy_violations(placement, arrival, starts)]  # fmt: skip

    quick = found()
    monkeypatch.setattr(async_copy, "is_untouched", no)
    assert found() == quick


@pytest.mark.filterwarnings("ignore:dead-instruction")
@pytest.mark.parametrize("seed", range(30))
def test_members_of_a_storage(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def found() -> list[pl.Diagnostic]:
        kernel = Sample.draw(random.Random(seed)).kernel()
        return [finding for obligation in pool_obligations(place(kernel)) for finding in obligation.find()]

    quick = found()
    monkeypatch.setattr(storage_aliasing, "_may_come_between", yes)
    assert found() == quick


def after_times(placement: Placement, first: Placed, second: Placed, *, or_equal: bool) -> isl.Map:
    """Return pairs of instances of which the first is earlier, by their times as a whole."""
    depth = max(len(placement.program.places[s.name]) for s in (first, second))
    one, other = (map_from_forms(s.domain, s.dims, time_forms(placement, s, depth)) for s in (first, second))
    order = (isl.Map.lex_le if or_equal else isl.Map.lex_lt)(one.range().get_space())
    return one.apply_range(order).apply_range(other.reverse())


@pytest.mark.parametrize("name", NAMES[::7])
def test_the_order_of_two_statements(name: str) -> None:
    placement = place(GALLERY[name].build())
    statements = list(placement.statements.values())
    for first in statements:
        for second in statements:
            for or_equal in (False, True):
                pairs = earlier(placement, first, second, or_equal=or_equal)
                pairs = pairs.intersect_domain(first.domain).intersect_range(second.domain)
                assert pairs.is_equal(after_times(placement, first, second, or_equal=or_equal))


@pytest.mark.parametrize("name", NAMES[::5])
def test_needs_on_axes_with_one_index(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def found() -> list[tuple[object, ...]]:
        placement = place(GALLERY[name].build())
        return [
            (array, need.first.indices, need.second.indices, need.scope, conflict.loop, conflict.first.name,
             conflict.second.name)
            for array in races.shared_arrays(placement) for need in races.needs(placement, array)
            for conflict in (need.conflict,)
        ]  # fmt: skip

    quick = found()
    monkeypatch.setattr(races, "joint_extent", lambda *_: None)
    with forgotten():
        assert found() == quick


@pytest.mark.parametrize("name", NAMES[::3])
def test_the_range_of_an_iname_that_others_bound(name: str) -> None:
    kernel = with_lanes(assign_auto(GALLERY[name].build()))
    for iname in kernel.inames:
        home = next(domain for domain in kernel.domains if iname in domain.inames)
        if not {home.set.get_dim_name(isl.dim_type.param, n) for n in range(home.set.dim(isl.dim_type.param))} & {
            *kernel.inames
        }:
            continue
        whole = domain_for(kernel.domains, (iname,), parameter_space(kernel.parameters))
        whole = whole.intersect_params(kernel.assumptions)
        instances = [(i.inames, i.domain) for i in kernel.instructions if iname in i.inames]
        terms = [term for i in kernel.instructions for term in i.terms if iname in term.inames]
        instances += [(term.inames, term.domain) for term in terms]
        ends = [constant_bounds(whole, 0)] + [
            constant_bounds(domain.intersect_params(kernel.assumptions), inames.index(iname))
            for inames, domain in instances
        ]
        lows, highs = [low for low, _ in ends], [high for _, high in ends]
        wanted = (None if None in lows else min(x for x in lows if x is not None),
                  None if None in highs else max(x for x in highs if x is not None))  # fmt: skip
        if not whole.is_empty():
            assert iname_range(kernel, iname) == wanted, iname


SHARED = [name for name in NAMES if any(word in name for word in ("matmul", "tile", "transpose", "tensor", "mma"))]


@pytest.mark.parametrize("name", SHARED[::2])
def test_warps_with_the_same_addresses_are_counted_once(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found = pl.get_bank_conflicts(GALLERY[name].build())
    monkeypatch.setattr(bank_conflicts, "_warp_axes", lambda _: set())
    assert pl.get_bank_conflicts(GALLERY[name].build()) == found


def test_some_warps_have_the_same_addresses() -> None:
    counted = [entry for name in SHARED[::6] for entry in pl.get_bank_conflicts(GALLERY[name].build())]
    assert any(entry.requests for entry in counted)


def test_boxes_are_not_started_beyond_the_last_arrival(monkeypatch: pytest.MonkeyPatch) -> None:
    def text() -> str:
        knl = tiled.__wrapped__(product.__wrapped__(64, lag=1, assume=_EDGES), 3, via="tma")
        return pl.generate_code(knl, target=TARGET).device_code

    found = text()
    monkeypatch.setattr(zero_fill, "_runs_longer", no)
    assert text() == found


_EDGES = "m >= 1 and n >= 1 and p >= 1 and p mod 8 = 0 and n mod 8 = 0"
