"""Over-executed instances against enumeration: programs run with them and without, instance by instance."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping
from dataclasses import replace as with_fields
from itertools import permutations
from typing import Any

import islpy as isl
import numpy as np
import pytest

import polyloop as pl
from polyloop.dataflow.address_spaces import place
from polyloop.errors import PolyloopError
from polyloop.frozen import replace
from polyloop.kernel.instruction import CopyStep
from polyloop.optimize.over_execution import Edges, at_edges
from polyloop.schedule.build import prepared
from polyloop.testing import brute
from polyloop.testing.symbols import Symbols, Value
from tests.optimize import test_over_execution as registers
from tests.optimize import test_zero_fill as copies


class Machine(brute._Machine):
    """Runs a program with its over-executed instances; starts of copies deliver at their waits alone."""

    def __init__(self, edges: Edges, sizes: Mapping[str, int], data: brute.Data, own: Mapping[str, Any]) -> None:
        super().__init__(edges.placement, sizes, data, Symbols(), 20_000, recording=False)
        self.edges = edges
        self.own = own
        self.under_way: dict[Any, tuple[str, float]] = {}

    def initial(self, array: str, index: tuple[int, ...]) -> Value:
        if array in self.kernel.temporaries:
            if array not in self.edges.cleared:
                self.problem("undefined", f"{self.now} reads {array}{list(index)}, which nothing has written")
            return Value(0, 0.0 if array in self.edges.cleared else math.nan)
        return super().initial(array, index)

    def step(self, time: Any, thread: Any, code: Any, point: Any) -> Callable[[], None] | None:
        name, lowered = code.placed.name, code.placed.lowered
        if name in self.edges.filled and point not in self.own[name]:
            code = with_fields(code, rhs=lambda: Value(0, 0.0))
        if lowered.instruction.step is not None:
            code = with_fields(code, rhs=self.delivered(code, lowered.instruction.step is CopyStep.START, thread))
        return super().step(time, thread, code, point)

    def delivered(self, code: Any, is_start: bool, thread: Any) -> Callable[[], Value]:
        """Return what a start or a wait stores: nothing that may be used, or the value that was on its way."""

        def value() -> Value:
            index = tuple(int(subscript().number) for subscript in code.subscripts)
            cell = (self.cell(code.target, index), thread)
            if not is_start:
                return Value(0, self.under_way.pop(cell, ("", math.nan))[1])
            if cell in self.under_way:
                self.problem("again", f"{self.now} starts a copy to an element with another one on its way")
            self.under_way[cell] = (code.placed.name, code.rhs().number)
            return Value(0, math.nan)

        return value


def run(edges: Edges, sizes: Mapping[str, int], data: brute.Data, own: Mapping[str, Any]) -> tuple[Any, set[str]]:
    """Return what the arguments hold in the end, and the starts without a wait."""
    machine = Machine(edges, sizes, data, own)
    violations = machine.execute().violations
    assert not violations, [str(found) for found in violations[:3]]
    found = {}
    for cell, held in machine.memory.items():
        if cell[0] == "c":
            value = held.number if isinstance(held, Value) else held.value(machine.symbols).number
            found[cell] = value
    return found, {name for name, _ in machine.under_way.values()}


def points(placement: Any, sizes: Mapping[str, int]) -> dict[str, Any]:
    machine = Machine(Edges(placement), sizes, {}, {})
    return {name: set(machine.points(placed)[0]) for name, placed in placement.statements.items()}


def compare(kernel: pl.LoopKernel, size: tuple[int, int, int], seed: int) -> Edges:
    """Compare the program with over-executed instances to that without; infinities show whatever is added."""
    placement = place(prepared(kernel))
    edges = at_edges(placement)
    rng = np.random.default_rng(seed)
    m, n, depth = size
    data = {"a": rng.integers(1, 5, (m, depth)).astype(float), "b": rng.integers(1, 5, (depth, n)).astype(float)}
    for array in data.values():
        array[rng.random(array.shape) < 0.15] = math.inf
    sizes = {"m": m, "n": n, "p": depth}
    own = points(placement, sizes)
    wanted, _ = run(Edges(placement), sizes, data, own)
    found, late = run(edges, sizes, data, own)
    assert found.keys() == wanted.keys()
    for cell, value in wanted.items():
        np.testing.assert_equal(found[cell], value, str(cell))
    assert late <= edges.unawaited
    return edges


DOMAINS = (
    "true", "true", "true", "k <= i", "k <= j", "i <= j", "j <= i + 2", "k >= 1", "k mod 2 = 0", "i >= 3", "j + k >= 4",
    "i + j < 9", "i + k < p", "k < 6",
)  # fmt: skip
TERMS = (
    "a[i, k]*b[k, j]", "a[i, k]*b[k, j]*2", "a[i, k]*b[k, j] + a[i, k]*b[k, j]",
    "a[i, k]*b[k, j] + 1", "(a[i, k] + a[i, k])*b[k, j]", "a[i, k]*(b[k, j] + 1)", "a[i, k]/b[k, j]",
    "2*a[i, k] + b[k, j]*3", "a[i, k] - b[k, j]", "a[i, k]*b[k, j]*k", "a[i, k]*b[k, j]/2", "a[i, k]*b[k, j] + 2*3",
)  # fmt: skip
RESULTS = (
    "sum(k, {0})", "sum(k, {0})", "3 + sum(k, {0})", "max(k, {0})", "2*sum(k, {0}) + sum(k, {1})",
)  # fmt: skip


def draw(seed: int) -> pl.LoopKernel:
    """Return a product or the like, with tiles that are copied ahead, and with its instructions in a legal order."""
    rng = random.Random(seed)
    text = "c[i, j] = " + rng.choice(RESULTS).format(TERMS[seed % len(TERMS)], rng.choice(TERMS))
    domain = f"{{[i, j, k]: 0 <= i < m and 0 <= j < n and 0 <= k < p and {rng.choice(DOMAINS)}}}"
    knl = copies.program(text, domain)
    if rng.random() < 0.6:
        knl = copies.tiled(knl, parts=rng.random() < 0.5, stages=rng.choice((2, 3, 4)))
    else:
        knl = registers.tiled(knl, ahead=rng.random() < 0.9)
    if rng.random() < 0.2:
        knl = pl.assume(knl, rng.choice(("m mod 8 = 0", "n mod 8 = 0", "p mod 4 = 0", "p >= 5", "n <= 8")))
    orders = list(permutations(range(len(knl.instructions))))[:200]
    for order in rng.sample(orders, 3):
        other = replace(knl, instructions=tuple(knl.instructions[k] for k in order))
        try:
            pl.verify(other)
        except PolyloopError:
            continue
        return other
    return knl


def is_allowed(kernel: pl.LoopKernel, sizes: Mapping[str, int]) -> bool:
    given = kernel.assumptions
    for name, value in sizes.items():
        position = given.find_dim_by_name(isl.dim_type.param, name)
        given = given if position < 0 else given.fix_val(isl.dim_type.param, position, value)
    return not given.is_empty()


SIZES = [(9, 3, 5), (1, 8, 4), (5, 9, 2), (8, 1, 9), (8, 8, 8)]


@pytest.mark.few(12)
@pytest.mark.parametrize("seed", range(36))
def test_over_executed_instances_change_no_result(seed: int) -> None:
    kernel = draw(seed)
    size = random.Random(seed).choice(
        [size for size in SIZES if is_allowed(kernel, dict(zip("mnp", size, strict=True)))]
    )
    compare(kernel, size, seed)


def test_the_samples_have_zeros_of_every_kind() -> None:
    found = [at_edges(place(prepared(draw(seed)))) for seed in range(12)]
    assert any(edges.cleared for edges in found)
    assert any(edges.filled and edges.unawaited for edges in found)
    assert any(not edges.placement.phantoms for edges in found)
