"""Reductions of which each rank needs its block alone: reduce-scatter in place of all-reduce."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import polyloop as pl
from polyloop.distributed.completeness import incompleteness
from polyloop.distributed.plan import Combine
from tests.distributed import programs
from tests.distributed.programs import Case, compare

D = np.float64
LENGTHS = [1, 2, 3, 4]


@pytest.mark.parametrize("ranks", LENGTHS)
@pytest.mark.parametrize("case", [
    programs.columns(), programs.columns(m=8, n=8), programs.columns(m=2, n=9), programs.columns(m=5, n=1),
    programs.cells(), programs.cells(m=3, n=2),
], ids=str)
def test_results_are_those_of_the_undivided_kernel(case: Case, ranks: int) -> None:
    compare(case, (ranks,), exact=False)


def gram(divided: str, over: str, blocks: str) -> Case:
    kernel = pl.make_kernel(
        "{[i, j, k]: 0 <= i, j < m and 0 <= k < n}", "y[i, j] = sum(k, a[i, k]*a[j, k])",
        [pl.GlobalArg("a", D, shape="m, n"), pl.GlobalArg("y", D, shape="m, m"), ...], name="gram",
        assumptions="m >= 1 and n >= 1")
    return Case(kernel, {"a": blocks, "y": divided}, over, {"m": 7, "n": 5})


@pytest.mark.parametrize(("case", "mesh", "scattered"), [
    (gram("block, *", "k:mesh.0", "*, block"), (3,), (0, None)),
    (gram("*, block", "k:mesh.0", "*, block"), (3,), (None, 0)),                 # pieces are packed
    (gram("block, block", "i:mesh.0, k:mesh.1", "block, block"), (2, 2), (0, 1)),  # rows are divided already
    (gram("block, *", "i:mesh.0, k:mesh.1", "block, block"), (2, 2), ()),        # all along mesh.1 need the row
], ids=["rows", "columns", "plane", "everywhere"])
def test_the_division_of_the_result_decides(case: Case, mesh: tuple[int, ...], scattered: tuple[Any, ...]) -> None:
    plan = case.divided(mesh).plan(**case.sizes)
    found, = (node for node in plan.nodes if isinstance(node, Combine))
    assert found.scattered == scattered
    compare(case, mesh, exact=False)


@pytest.mark.parametrize("text", [
    "y[i] = sum(k, a[i, k])\nz[i] = y[i] + sum(k, a[i, k]*a[i, k])", "s[i] = sum(k, a[i, k])\ny[i] = s[i]"])
def test_a_result_that_all_ranks_need_goes_to_all(text: str) -> None:
    kernel = pl.make_kernel(
        "{[i, k]: 0 <= i < m and 0 <= k < n}", text,
        [pl.GlobalArg("a", D, shape="m, n"), pl.GlobalArg("s, y, z", D, shape="m"), ...], name="both",
        assumptions="m >= 1 and n >= 1", silenced_warnings="*")
    case = Case(kernel, {"a": "*, block", "y": "block"}, "k:mesh.0", {"m": 6, "n": 7})
    nodes = [node for node in case.divided((2,)).plan(m=6, n=7).nodes if isinstance(node, Combine)]
    assert [node.scattered for node in nodes] == ([(0,), ()] if "z" in text.partition("[")[2] else [()])
    compare(case, (2,), exact=False)


def test_the_proof_finds_a_read_of_what_went_to_another_rank() -> None:
    case = gram("block, *", "i:mesh.0, k:mesh.1", "block, block")
    plan = case.divided((2, 2)).plan(**case.sizes)
    wrong = tuple(replace(node, scattered=(0, 1)) if isinstance(node, Combine) else node for node in plan.nodes)
    assert incompleteness(plan) == ()
    found, = incompleteness(replace(plan, nodes=wrong))
    assert found.code == "incomplete-exchange"
    assert found.notes[0] == "instance (i=0, j=3) of 'insn' reads y_sum[0, 3]"


def test_it_takes_half_the_time_of_an_all_reduce_and_says_so() -> None:
    case, link = programs.columns(m=4096, n=4096), pl.Link(latency=0.0, bandwidth=8.0)
    found = case.divided((4,)).explain(None, link, **case.sizes)
    assert found.scattered == {"y_sum"}
    assert found.seconds == 3*1024
    assert "'y_sum' combined and scattered: 32768 bytes by 4 ranks, 1 times" in str(found)
    assert "sum of 'h' over mesh.0, to each rank its block" in str(programs.cells().divided((2,)))
