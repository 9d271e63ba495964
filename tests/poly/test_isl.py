"""The operations of ISL that proofs rest on, against enumeration, for sets with quantified variables.

ISL's ``lexmin`` and ``lexmax`` are not among them: of 5000 such sets, they gave no element or a wrong one for 35 (islpy
2026.2.2). They name witnesses (``poly.sets.sample_set``), the ends of a scan (``split_scan``) and shapes
(``dim_max``), all of which are proven afterwards.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Final, TypeAlias

import islpy as isl
import numpy as np
import pytest

CST, PARAM, SET, DIV = isl.dim_type.cst, isl.dim_type.param, isl.dim_type.set, isl.dim_type.div
IN, OUT = isl.dim_type.in_, isl.dim_type.out
NAMES: Final = ("x", "y")
MOST: Final = 7
"""The largest value of a dimension."""
GRID: Final = {
    count: np.array(list(product([1], *[range(-1, MOST + 2)] * 2, *[range(-9, 10)] * count))) for count in (1, 2)
}

Rows: TypeAlias = list[list[int]]
Points: TypeAlias = frozenset[tuple[int, int]]


@dataclass(frozen=True)
class Drawn:
    """Rows of a set over (1, x, y, quotients), in an order of their own; ``exists`` leaves the quotients unknown."""

    equal: Rows
    at_least: Rows
    quotients: int
    exists: bool

    def set(self) -> isl.Set:
        names = [f"q{number}" for number in range(self.quotients)]
        space = isl.Space.create_from_names(isl.DEFAULT_CONTEXT, set=[*NAMES, *names] if self.exists else NAMES)
        width = 3 + self.quotients
        sides = (_matrix(self.equal, width), _matrix(self.at_least, width))
        found = isl.Set.from_basic_set(isl.BasicSet.from_constraint_matrices(space, *sides, CST, PARAM, SET, DIV))
        return found.project_out(SET, 2, self.quotients) if self.exists else found

    def points(self) -> Points:
        grid = GRID[self.quotients]
        inside = np.ones(len(grid), bool)
        for rows, holds in ((self.equal, np.equal), (self.at_least, np.greater_equal)):
            for row in rows:
                inside &= holds(grid @ np.array(row), 0)
        return frozenset((int(x), int(y)) for _, x, y, *_ in grid[inside])


def _matrix(rows: Rows, width: int) -> isl.Mat:
    found = isl.Mat.alloc(isl.DEFAULT_CONTEXT, len(rows), width)
    for number, row in enumerate(rows):
        for column, value in enumerate(row):
            found = found.set_element_val(number, column, isl.Val(value))
    return found


def drawn(rng: random.Random) -> Drawn:
    """Return rows of a bounded set: boxes, remainders and quotients, and slanted rows in pairs or alone."""
    count = rng.choice((1, 2, 2))
    equal, at_least = list[list[int]](), list[list[int]]()
    for number in range(count):
        form = rng.choice(((0, 1), (1, 0), (1, 1), (1, -1), (-1, 0)))
        by = rng.choice((2, 2, 3, 4))
        row = [rng.choice((0, 0, 1, -1)), *form, *(by if q == number else 0 for q in range(count))]
        if rng.random() < 0.8:
            equal.append(row)
        else:
            at_least += [[-value for value in row], [row[0] + by - 1, *row[1:]]]
    for axis in (1, 2):
        unit = [int(column == axis) for column in range(3 + count)]
        at_least += [[rng.choice((0, 0, -1)), *unit[1:]], [rng.randint(3, MOST), *(-value for value in unit[1:])]]
    for _ in range(rng.randint(0, 2)):
        slope = rng.choice(((1, -2), (-1, 2), (2, -1), (1, 1), (1, -1), (3, -1)))
        row = [rng.randint(-2, 3), *slope, *[0] * count]
        at_least.append(row)
        if rng.random() < 0.6:
            at_least.append([rng.randint(0, 2) - row[0], *(-value for value in row[1:])])
    rng.shuffle(equal)
    rng.shuffle(at_least)
    return Drawn(equal, at_least, count, rng.random() < 0.5)


def of_points(points: Collection[tuple[int, ...]], names: Sequence[str] = NAMES) -> isl.Set:
    space = isl.Space.create_from_names(isl.DEFAULT_CONTEXT, set=names)
    texts = [" and ".join(f"{n} = {v}" for n, v in zip(names, point, strict=True)) for point in sorted(points)]
    found = isl.Set.empty(space)
    for text in texts:
        found = found.union(isl.Set(f"{{ [{', '.join(names)}]: {text} }}"))
    return found


def along(points: Points, axis: int) -> isl.Set:
    return of_points({(point[axis],) for point in points}, NAMES[axis : axis + 1])


@pytest.mark.parametrize("start", range(4))
def test_sets_with_quotients(start: int) -> None:
    rng = random.Random(start)
    for _ in range(25):
        first, second = drawn(rng), drawn(rng)
        p, q = first.points(), second.points()

        def a(first: Drawn = first) -> isl.Set:
            return first.set()  # anew for each question: questions change how a set is kept

        def b(second: Drawn = second) -> isl.Set:
            return second.set()

        same: list[tuple[isl.Set, isl.Set]] = [
            (a(), of_points(p)), (a().subtract(b()), of_points(p - q)), (a().union(b()).coalesce(), of_points(p | q)),
            (a().compute_divs(), of_points(p)), (a().union(b()).make_disjoint(), of_points(p | q)),
            (a().gist(b()).intersect(b()), of_points(p & q)),
            (a().detect_equalities().remove_redundancies(), of_points(p)),
            *((a().project_out(SET, 1 - axis, 1).compute_divs(), along(p, axis)) for axis in (0, 1)),
        ]  # fmt: skip
        assert all(found.is_equal(expected) for found, expected in same), (first, second)
        assert a().is_empty() == (not p), first
        assert a().is_subset(b()) == (p <= q), (first, second)
        assert a().is_disjoint(b()) == p.isdisjoint(q), (first, second)
        assert a().count_val().to_python() == len(p), first
        if p:
            extremes: list[Callable[[isl.Set, int], isl.Val]] = [isl.Set.dim_min_val, isl.Set.dim_max_val]
            for axis, (extreme, choose) in product((0, 1), zip(extremes, (min, max), strict=True)):
                assert extreme(a(), axis).to_python() == choose(point[axis] for point in p), first


@pytest.mark.parametrize("start", range(4))
def test_relations_with_quotients(start: int) -> None:
    rng = random.Random(start)
    for _ in range(25):
        first = drawn(rng)
        points = first.points()
        relation = isl.Map.from_range(first.set()).move_dims(IN, 0, OUT, 0, 1)
        assert relation.is_single_valued() == (len({x for x, _ in points}) == len(points)), first
        assert relation.is_injective() == (len({y for _, y in points}) == len(points)), first
        if relation.is_single_valued():
            assert isl.Map.from_pw_multi_aff(isl.PwMultiAff.from_map(relation)).is_equal(relation), first
