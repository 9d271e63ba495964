"""Asynchronous copies against enumeration: links of waits to starts, sources that change, and groups in flight."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from itertools import pairwise
from math import gcd
from typing import Any, NamedTuple

import islpy as isl
import numpy as np
import pymbolic.primitives as p
import pytest

import polyloop as pl
from polyloop.dataflow.address_spaces import place
from polyloop.expr.rewrite import substitute
from polyloop.frozen import replace
from polyloop.mapping.thread_mapping import Placed, Placement
from polyloop.program.ir import Access
from polyloop.schedule.build import prepared
from polyloop.sync.async_copy import Arrival, arrivals, copy_pairs, copy_violations

F = np.float32
THREADS = 3


class Step(NamedTuple):
    """One instance of a statement: the time in the order of the loop tree, the thread, and the values of its loops."""

    time: tuple[int, ...]
    thread: tuple[int | None, ...]
    loops: tuple[int, ...]
    values: dict[str, int]


def steps(placement: Placement, statement: Placed, sizes: dict[str, int]) -> list[Step]:
    """Return the instances of a statement, in the order of the loop tree."""
    domain = statement.exact
    for name, value in sizes.items():
        position = domain.find_dim_by_name(isl.dim_type.param, name)
        domain = domain if position < 0 else domain.fix_val(isl.dim_type.param, position, value)
    points: list[dict[str, int]] = []

    def note(point: isl.Point) -> None:
        found = [point.get_coordinate_val(isl.dim_type.set, k).to_python() for k in range(len(statement.dims))]
        points.append({**sizes, **dict(zip(statement.dims, found, strict=True))})

    domain.foreach_point(note)
    path = placement.program.places[statement.name]
    found = [
        Step(
            tuple(values[entry] if isinstance(entry, str) else entry for entry in path),
            tuple(values.get(axis) for axis in placement.axes.all),
            tuple(values[entry] for entry in path if isinstance(entry, str)),
            values,
        )
        for values in points
    ]
    return sorted(found, key=lambda step: (step.time, step.thread))


def element(statement: Placed, access: Access, step: Step) -> tuple[int, ...]:
    forms = statement.indices(access)
    assert None not in forms, "subscripts are affine"
    return tuple(form.evaluate(step.values) for form in forms if form is not None)


def source(statement: Placed) -> Access:
    (read,) = (access for access in statement.lowered.reads if access.leaf is not None)
    return read


def links(placement: Placement, arrival: Placed, start: Placed, sizes: dict[str, int]) -> Iterator[tuple[Step, Step]]:
    """Yield each wait with the last start, in the order of the loop tree, of a copy into its element, if there is one.

    A wait without a start is its own.
    """
    begun = [(step, element(start, start.lowered.write, step)) for step in steps(placement, start, sizes)]
    for wait in steps(placement, arrival, sizes):
        cell = element(arrival, arrival.lowered.write, wait)
        before = [step for step, into in begun if into == cell and step.time < wait.time]
        yield wait, max(before, default=wait, key=lambda step: step.time)


# {{{ groups in flight


def rows(domain: str, loops: str, tags: str, subscripts: str, ahead: str, stages: int) -> pl.LoopKernel:
    shape = "n, 12, 3" if "s" in loops else "24, 3"
    data = [pl.GlobalArg("x, y", F, shape=shape), ...]
    knl = pl.make_kernel(domain, f"y[{subscripts}, i] = 2*x[{subscripts}, 2 - i]", data, assumptions="n <= 12")
    knl = pl.add_prefetch(pl.tag_inames(pl.prioritize_loops(knl, loops), tags), "x", "i")
    return pl.pipeline(knl, ahead, stages, via="cp.async")


def one_loop(stages: int) -> pl.LoopKernel:
    return rows("[n] -> {[t, i]: 0 <= t < n and 0 <= i < 3}", "t", "i:l.0", "t", "t", stages)


def every_other(stages: int) -> pl.LoopKernel:
    return rows("[n] -> {[t, i]: 0 <= t < n and t mod 2 = 0 and 0 <= i < 3}", "t", "i:l.0", "t", "t", stages)


def every_third_of_each_row(stages: int) -> pl.LoopKernel:
    domain = "[n] -> {[s, t, i]: 0 <= s < n and 0 <= t < n and (t + s) mod 3 = 0 and 0 <= i < 3}"
    return rows(domain, "s, t", "i:l.0", "s, t", "t", stages)


def inner_loop(stages: int) -> pl.LoopKernel:
    return rows("[n] -> {[s, t, i]: 0 <= s, t < n and 0 <= i < 3}", "s, t", "i:l.0", "s, t", "t", stages)


def triangle(stages: int) -> pl.LoopKernel:
    return rows("[n] -> {[s, t, i]: 0 <= s <= t < n and 0 <= i < 3}", "s, t", "s:g.0, i:l.0", "s, t", "t", stages)


def start_first(stages: int) -> pl.LoopKernel:
    knl = one_loop(stages)
    return replace(knl, instructions=tuple(sorted(knl.instructions, key=lambda found: found.id != "fetch_x")))


def divided(build: Callable[[int], pl.LoopKernel], length: int) -> Callable[[int], pl.LoopKernel]:
    def split(stages: int) -> pl.LoopKernel:
        return pl.split_iname(build(stages), "t", length)

    split.__name__ = f"{build.__name__}_in_{length}"
    return split


GROUPS = [
    one_loop, start_first, every_other, every_third_of_each_row, inner_loop, triangle,
    *(divided(build, length) for build in (one_loop, inner_loop) for length in (1, 2, 3)),
    divided(every_other, 4),
]  # fmt: skip


def iterations(values: list[list[int]], strides: list[int]) -> set[int]:
    """Return the values of a loop from the first to the last one, given those of each statement, and their strides."""
    every = [value for own in values for value in own]
    found = set(every)
    for own, stride in zip(values, strides, strict=True):
        found.update(v for v in range(min(every), max(every) + 1) if own and (v - own[0]) % stride == 0)
    return found


def groups_behind(placement: Placement, copy: Arrival, n: int) -> Iterator[int]:
    """Yield, for each wait, the number of iterations that end between that with its start and the wait."""
    paths = [placement.program.places[statement.name] for statement in (copy.start, copy.arrival)]
    depth = next(k for k, (a, b) in enumerate(zip(*paths, strict=False)) if a != b) // 2
    strides = []
    for statement in (copy.start, copy.arrival):
        each = sorted({step.loops[depth - 1] for step in steps(placement, statement, {"n": 12})})
        strides.append(gcd(*(b - a for a, b in pairwise(each))) or 1)
    runs: dict[Any, list[list[int]]] = {}
    for number, statement in enumerate((copy.start, copy.arrival)):
        for step in steps(placement, statement, {"n": n}):
            *outer, inner = step.loops[:depth]
            runs.setdefault((step.thread, *outer), [[], []])[number].append(inner)
    ended = {key: iterations(values, strides) for key, values in runs.items()}
    for wait, begun in links(placement, copy.arrival, copy.start, {"n": n}):
        assert begun is not wait, wait
        own, now = begun.loops[:depth], wait.loops[:depth]
        later = [(*key[1:], inner) for key, values in ended.items() if key[0] == wait.thread for inner in values]
        yield sum(own < at < now for at in later) + (own <= now and now in later and paths[0] < paths[1])


EXACT = (one_loop, start_first, inner_loop, triangle)
"""Programs whose groups are counted exactly: start and wait are in one iteration of the outer loop."""


@pytest.mark.parametrize("stages", [2, 3, 4])
@pytest.mark.parametrize("build", GROUPS)
def test_no_group_that_is_waited_for_is_in_flight(build: Callable[[int], pl.LoopKernel], stages: int) -> None:
    """Each iteration of the innermost loop around start and wait ends one group."""
    placement = place(prepared(build(stages)))
    (found,) = arrivals(placement)
    least = min(behind for n in range(1, 8) for behind in groups_behind(placement, found, n))
    assert found.pending <= least
    if build in EXACT:
        assert found.pending == least


# }}}
# {{{ copies that are started in time


def changed(rng: random.Random) -> pl.LoopKernel:
    """Return rows that are copied ahead, with starts, waits and writes that are no longer those of the transform."""
    data = [pl.GlobalArg("x, y", F, shape="40, 4"), ...]
    knl = pl.make_kernel(
        "[n] -> {[t, i]: 0 <= t < n and 0 <= i < 4}", "y[t, i] = 2*x[t, 3 - i] {id=use}", data, assumptions="n <= 20"
    )
    knl = pl.add_prefetch(pl.tag_inames(pl.prioritize_loops(knl, "t"), "i:l.0"), "x", "i")
    stages = rng.choice((2, 3))
    knl = pl.pipeline(knl, "t", stages, via="cp.async")
    start, arrival, use = (knl.instruction(name) for name in ("fetch_x", "arrival_x_fetch", "use"))
    change = rng.choice(("start", "source", "threads", "rows", "wait", "none", "none", "none", "none"))
    later = {"t": p.Sum((p.Variable("t"), rng.choice((1, stages))))}
    back = {"x_dim_1": p.Sum((3, p.Product((-1, p.Variable("x_dim_1")))))}
    if change in {"start", "threads"}:
        start = replace(start, assignee=substitute(start.assignee, later if change == "start" else back))
    if change in {"source", "threads", "rows"}:
        start = replace(start, expression=substitute(start.expression, later if change == "source" else back))
    if change == "wait":
        arrival = replace(arrival, assignee=substitute(arrival.assignee, later))
    if rng.random() < 0.7:
        ahead = rng.choice((-1, 0, 1, 1, 2, 2, 3))
        column = rng.choice((p.Variable("i"), p.Sum((3, p.Product((-1, p.Variable("i")))))))
        use = replace(use, assignee=p.Subscript(p.Variable("x"), (p.Sum((p.Variable("t"), 5 + ahead)), column)))
        shift = {"t": p.Sum((p.Variable("t"), 5))}
        start = replace(start, expression=substitute(start.expression, shift))
        arrival = replace(arrival, expression=substitute(arrival.expression, shift))
    instructions = [arrival, start, use]
    if rng.random() < 0.4:
        rng.shuffle(instructions)
    return replace(knl, instructions=tuple(instructions))


def is_wrong(placement: Placement, arrival: Placed, start: Placed, n: int) -> bool:
    """Return whether a wait has no start by its thread, or one of another element or before that is written."""
    sizes = {"n": n}
    read = source(arrival).array
    writes = [
        (step.time, (read, *element(writer, write, step)))
        for writer in placement.statements.values()
        for write in writer.lowered.writes
        if write.array == read
        for step in steps(placement, writer, sizes)
    ]
    for wait, begun in links(placement, arrival, start, sizes):
        if begun is wait or begun.thread != wait.thread:
            return True
        cell = element(arrival, source(arrival), wait)
        if element(start, source(start), begun) != cell:
            return True
        if any(begun.time < time < wait.time and into == (read, *cell) for time, into in writes):
            return True
    return False


REFUSED = {"copy-not-started", "illegal-order"}


@pytest.mark.parametrize("seed", range(120))
def test_waits_are_for_copies_that_were_started_after_the_last_write(seed: int) -> None:
    placement = place(changed(random.Random(seed)))
    ((arrival, (start,)),) = copy_pairs(placement)
    found = {finding.code for finding in copy_violations(placement, arrival, [start])}
    assert found <= REFUSED
    assert bool(found) == any(is_wrong(placement, arrival, start, n) for n in range(1, 8)), found


# }}}
