"""Deep halos: several iterations for an exchange, what is computed twice, and its proof."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import polyloop as pl
from polyloop.distributed.completeness import incompleteness
from polyloop.distributed.deep import Deep
from tests.distributed import programs
from tests.distributed.programs import compare


@pytest.mark.few(3)
@pytest.mark.parametrize(("case", "mesh", "every"), [
    (programs.heat_1d_mesh(n=17, steps=7), (3,), 3),
    (programs.heat_1d_mesh(n=10, steps=5), (3,), 5),         # halos wider than blocks
    (programs.heat_1d_mesh(n=5, steps=3), (4,), 2),          # the last rank has nothing
    (programs.heat(n=9, steps=5), (2, 2), 2),                # corners come from the rank across
    (programs.history(n=19, steps=6), (3,), 2),
], ids=str)
def test_results_are_the_same_in_every_bit(case: programs.Case, mesh: tuple[int, ...], every: int) -> None:
    sent = compare(case, mesh, deep={"t": every})
    links = case.divided(mesh, deep={"t": every}).explain(**case.sizes).links
    assert sent == [sum(size for (source, _), size in links.items() if source == rank) for rank in range(len(sent))]


def test_there_are_fewer_messages_with_the_same_bytes() -> None:
    case = programs.heat_1d_mesh(n=20, steps=8)
    each, fourth = (case.divided((2,), deep={"t": every}).explain(**case.sizes) for every in (1, 4))
    assert [entry.messages for entry in each.exchanges] == [16]
    assert [entry.messages for entry in fourth.exchanges] == [4]
    assert fourth.bytes == 4*4*20*20*8


def test_work_that_is_too_little_is_found_by_the_proof() -> None:
    plan = programs.heat_1d_mesh(n=17, steps=6).divided((3,), deep={"t": 3}).plan(n=17, steps=6)
    deep = plan.regions.deep
    assert deep is not None
    assert not incompleteness(plan)
    for number, reach in deep.reach.items():  # the first iteration computes one coordinate less
        (low, high), *rest = reach[0]
        less = Deep(deep.iname, deep.every, {**deep.reach, number: (((low - 1, high), *rest), *reach[1:])}, deep.widths)
        other = replace(plan, regions=replace(plan.regions, deep=less))
        found = incompleteness(other)
        assert found, number
        assert found[0].code == "incomplete-exchange"


@pytest.mark.parametrize(("case", "deep", "message"), [
    (programs.heat_1d_mesh(), {"i": 2}, "names no outermost loop of the host"),
    (programs.heat_1d_mesh(), {"t": 0}, "names no outermost loop of the host"),
    (programs.conjugate_gradients(), {"it": 2}, "cannot run for the coordinates of another rank"),
])
def test_loops_that_have_no_deep_halos(case: programs.Case, deep: dict[str, int], message: str) -> None:
    with pytest.raises(pl.KernelError) as err:
        case.divided((2,), deep=deep)
    assert err.value.codes == ("bad-distribution",)
    assert message in str(err.value)


def test_another_depth_on_a_rank_is_found() -> None:
    case = programs.heat_1d_mesh()

    def program(engine: pl.Engine) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
        found: np.ndarray[tuple[int, ...], np.dtype[np.float64]] = case.on_rank(
            case.divided((2,), deep={"t": 1 + engine.rank}).compile(engine, pl.CTarget()))["u"]
        return found

    with pytest.raises(pl.ArgumentError) as err:
        pl.run_ranks(2, program, timeout=20)
    assert err.value.codes == ("ranks-disagree",)
