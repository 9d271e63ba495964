"""Scopes against enumeration: random small kernels in which threads pass elements to each other."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pytest

import polyloop as pl
from polyloop.dataflow.address_spaces import place
from polyloop.kernel.tags import parse_tag
from polyloop.kernel.tree import Scope
from polyloop.sync.races import needs
from tests.verification.kernels import exchange, on_threads

Found = tuple[str, str, str | None, Scope | None, bool]
"""First statement, second one, the loop that orders them, scope, and whether neighbouring iterations meet."""


@dataclass(frozen=True)
class Subscript:
    """``(k*K + y*Y + x*X + c) % m``, or without the remainder where m is 0."""

    k: int
    y: int
    x: int
    constant: int
    modulus: int

    def text(self) -> str:
        form = f"{self.k}*k + {self.y}*y + {self.x}*x + {self.constant}"
        return f"({form}) % {self.modulus}" if self.modulus else form

    def value(self, k: int, y: int, x: int) -> int:
        value = self.k * k + self.y * y + self.x * x + self.constant
        return value % self.modulus if self.modulus else value


@dataclass(frozen=True)
class Sample:
    """``t[write] = ..`` and ``.. = t[read]`` in *steps* iterations of k, for ny x nx threads."""

    write: Subscript
    read: Subscript
    steps: int
    ny: int
    nx: int
    warp: int

    @staticmethod
    def draw(rng: random.Random) -> Sample:
        ny, nx = rng.randint(1, 4), rng.randint(2, 5)

        def subscript() -> Subscript:
            k, y, x = rng.choice((0, 0, nx, 1)), rng.choice((nx, nx, 1, 0, -nx)), rng.choice((1, 1, 1, -1, 0, 2))
            return Subscript(k, y, x, 40 + rng.choice((0, 0, 1, nx)), rng.choice((0, 0, nx, 2 * nx, 3)))

        return Sample(subscript(), subscript(), rng.randint(1, 3), ny, nx, rng.choice((2, 3, 4, 8)))

    def kernel(self) -> pl.LoopKernel:
        kernel = pl.make_kernel(
            f"{{[k, y, x]: 0 <= k < {self.steps} and 0 <= y < {self.ny} and 0 <= x < {self.nx}}}",
            f"""
            for k
                for y, x
                    t[{self.write.text()}] = g[k, y, x] {{id=put}}
                end
                for y, x
                    o[k, y, x] = t[{self.read.text()}] {{id=get}}
                end
            end
            """,
            [pl.GlobalArg("t", np.float32, shape="200"), pl.GlobalArg("g, o", np.float32), ...],
        )
        tags = {"y": parse_tag("l.1"), "x": parse_tag("l.0")}
        return replace(kernel, iname_tags={name: tag for name, tag in tags.items() if tag is not None})

    def _scope(self, pairs: Callable[[], Iterator[tuple[int, int]]], ordered: bool) -> Scope | None:
        """Return the scope for pairs of threads, numbered with x fastest."""
        if not ordered:
            return None
        return Scope.WARP if all(a // self.warp == b // self.warp for a, b in pairs()) else Scope.BLOCK

    def _meetings(
        self, one: Subscript, other: Subscript, gaps: set[int]
    ) -> Iterator[tuple[int, int]]:
        """Yield pairs of different threads that touch one cell, the second so many steps after the first."""
        threads = [*itertools.product(range(self.ny), range(self.nx))]
        for k, gap in itertools.product(range(self.steps), gaps):
            if k + gap < self.steps:
                for (y1, x1), (y2, x2) in itertools.product(threads, threads):
                    if (y1, x1) != (y2, x2) and one.value(k, y1, x1) == other.value(k + gap, y2, x2):
                        yield y1 * self.nx + x1, y2 * self.nx + x2

    def by_enumeration(self) -> set[Found]:
        found: set[Found] = set()
        sides = {"put": self.write, "get": self.read}
        later = set(range(1, self.steps))
        for first, second in (("put", "put"), ("put", "get"), ("get", "put")):
            for loop, gaps in (("k", later), (None, {0})):
                if loop is None and (first, second) == ("get", "put"):
                    continue
                pairs = partial(self._meetings, sides[first], sides[second], gaps)
                if any(True for _ in pairs()):
                    ordered = loop is not None or first != second
                    near = loop is None or any(True for _ in self._meetings(sides[first], sides[second], {1}))
                    found.add((first, second, loop, self._scope(pairs, ordered), near))
        return found

    def by_the_library(self) -> set[Found]:
        return {
            (n.conflict.first.name, n.conflict.second.name, n.conflict.loop, n.scope, n.conflict.adjacent)
            for n in needs(place(self.kernel()), "t", self.warp)
        }


@pytest.mark.parametrize("seed", range(150))
def test_scopes_are_those_of_enumeration(seed: int) -> None:
    sample = Sample.draw(random.Random(seed))
    assert sample.by_the_library() == sample.by_enumeration(), sample


def test_the_samples_have_every_scope() -> None:
    seen = {entry[3] for seed in range(150) for entry in Sample.draw(random.Random(seed)).by_enumeration()}
    assert seen == {Scope.WARP, Scope.BLOCK, None}


@pytest.mark.parametrize(
    ("reader", "scope"),
    [
        ("y, x", None),
        ("y, 31 - x", Scope.WARP),
        ("y, (x + 1) % 32", Scope.WARP),
        ("7 - y, x", Scope.BLOCK),
        ("7 - y, 31 - x", Scope.BLOCK),
    ],
)
def test_a_warp_is_a_row_of_32_threads(reader: str, scope: Scope | None) -> None:
    knl = pl.set_temporary_address_space(on_threads(exchange(reader)), "t", "local")
    found = {(n.conflict.first.name, n.conflict.second.name, n.scope) for n in needs(place(knl), "t", 32)}
    assert found == (set() if scope is None else {("put", "get", scope)})


@pytest.mark.parametrize(
    ("ny", "nx", "scope"), [(4, 16, Scope.WARP), (2, 8, Scope.WARP), (3, 24, Scope.BLOCK), (2, 33, Scope.BLOCK)]
)
def test_rows_that_warps_cut_need_the_block(ny: int, nx: int, scope: Scope) -> None:
    knl = on_threads(exchange(f"y, {nx - 1} - x", ny=ny, nx=nx))
    assert {need.scope for need in needs(place(knl), "t", 32)} == {scope}
