"""Scaling on paper: bytes as they are sent, times that grow and shrink as the model says, and refusals."""

from __future__ import annotations

from functools import cache

import pytest

import polyloop as pl
from polyloop.distributed.scaling import MeshExplanation
from tests.distributed import programs
from tests.distributed.programs import compare

SIZES = {"n": 40, "steps": 3}
LINK = pl.Link(latency=1e-6, bandwidth=1e11)


@cache
def told() -> MeshExplanation:
    return pl.explain(programs.heat_1d_mesh().divided((2,)), SIZES, "H100", link=LINK)


def test_the_bytes_of_each_link_and_step_are_those_that_are_sent() -> None:
    case = programs.heat_1d_mesh(**SIZES)
    assert told().steps == 3
    assert told().links == {(0, 1): 38*38*8, (1, 0): 38*38*8}
    assert compare(case, (2,)) == [told().traffic.links[0, 1], told().traffic.links[1, 0]]


def test_the_time_of_messages_is_that_of_the_model() -> None:
    once = LINK.latency + 38*38*8/LINK.bandwidth
    assert told().here.communicating == pytest.approx(3*once)
    assert told().here.total == pytest.approx(max(3*once, told().here.computing))


def test_more_ranks_compute_less_and_are_less_efficient() -> None:
    strong, weak = told().strong, told().weak
    assert [row.mesh for row in strong] == [(8,), (64,), (1024,)]
    assert strong[0].computing > strong[1].computing
    assert strong[0].efficiency > strong[1].efficiency > strong[2].efficiency
    assert [row.sizes["n"] for row in weak] == [round(40*(count/2)**(1/3)) for count in (8, 64, 1024)]


def test_messages_take_longer_up_to_a_size() -> None:
    limit = told().dominated
    assert limit is not None
    assert limit["steps"] == 3
    divided = programs.heat_1d_mesh().divided((2,))
    below, above = (divided.explain((2,), LINK, "H100", n=round(limit["n"]*factor), steps=3) for factor in (0.9, 1.15))
    assert below.seconds > below.computing
    assert above.seconds < above.computing


def test_the_explanation_is_a_table() -> None:
    lines = str(told()).splitlines()
    assert lines[0] == "'heat' on 2 NVIDIA H100 SXM, steps=3, n=40"
    assert "    rank 0 to rank 1: 11552 bytes a step" in lines
    assert sum("efficiency" in line for line in lines) == 6


def test_a_kernel_that_is_not_divided_has_no_mesh() -> None:
    with pytest.raises(pl.ArgumentError) as err:
        pl.explain(programs.heat().kernel, {"n": 9, "steps": 1}, mesh=(2,))  # type: ignore[call-overload]
    assert err.value.codes == ("not-divided",)


def test_another_mesh_is_refused() -> None:
    with pytest.raises(pl.ArgumentError) as err:
        pl.explain(programs.heat_1d_mesh().divided((2,)), SIZES, mesh=(2, 2))
    assert err.value.codes == ("mesh-mismatch",)
