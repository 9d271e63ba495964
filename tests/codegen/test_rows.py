"""Rows of domains and of their projections."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations, permutations
from pathlib import Path

import islpy as isl
import numpy as np
import pytest

import polyloop as pl
from polyloop.codegen.loops import rows
from polyloop.codegen.loops.rows import pieces_of
from polyloop.kernel.limits import DeviceLimits
from polyloop.poly.affine import Affine
from polyloop.poly.residues import residues
from polyloop.schedule.build import build_schedule
from tests.codegen.running import needs_compiler
from tests.codegen.test_fuzz import check


@needs_compiler
def test_that_a_remainder_is_one_is_said(tmp_path: Path) -> None:
    """One of these domains has ``i - 2*floor(i/2) = 1``: the coefficients are those of a bound on any remainder."""
    check(107, 30, tmp_path)


def strided_tiles(assumption: str) -> pl.LoopKernel:
    knl = pl.make_kernel(
        "[n] -> {[i, j]: 0 <= i, j < n and (i + j) mod 2 = 0}", "y[i + 3, j + 3] = y[i + 3, j + 3] + a[j + 3, i + 3]",
        [pl.GlobalArg("y, a", np.float64, shape="2*n + 8, 2*n + 8"), ...],
    )  # fmt: skip
    knl = pl.split_iname(pl.split_iname(knl, "j", 4), "i", 2)
    return pl.assume(pl.add_prefetch(knl, "y", ["j_inner", "i_inner"], default_tag=None), assumption)


@pytest.mark.parametrize("assumption", ["n >= 0", "n mod 2 = 0", "n mod 4 = 0", "n mod 3 = 1"])
def test_projections_hold_what_is_kept_alone(assumption: str) -> None:
    """A bound of ``i_outer`` held ``floor((1 - y_dim_0)/2)``, which is independent in the domain, not in its shadow."""
    schedule = build_schedule(strided_tiles(assumption), DeviceLimits())
    divisibility = residues(schedule.contract.assumptions)
    known = {*schedule.contract.parameters, *(f"{name}#" for name in schedule.contract.parameters)}
    for statement in schedule.statements.values():
        for count in range(len(statement.dims) + 1):
            for kept in combinations(statement.dims, count):
                for piece in pieces_of(statement, frozenset(kept), divisibility):
                    names = {name for terms in piece for name in Affine(terms).names()}
                    assert names <= known.union(kept), (statement.name, kept, piece)


@needs_compiler
@pytest.mark.parametrize("n", [0, 2, 4, 6, 10])
def test_strided_tiles_with_a_divisible_size(n: int) -> None:
    y, a = np.random.default_rng(n).random((2, 2 * n + 8, 2 * n + 8))
    inner = slice(3, n + 3)
    is_even = np.add.outer(range(n), range(n)) % 2 == 0
    expected = y.copy()
    expected[inner, inner] += np.where(is_even, a[inner, inner].T, 0)
    found = pl.compile(strided_tiles("n mod 2 = 0"), target=pl.CTarget())(y=y, a=a, n=n).y
    np.testing.assert_array_equal(found, expected)


QUESTIONS: list[Callable[[isl.Set], object]] = [
    isl.Set.detect_equalities,
    isl.Set.remove_redundancies,
    isl.Set.coalesce,
    isl.Set.lexmin,
    lambda asked: asked.subtract(asked).is_empty(),
]
"""Questions whose answers ISL keeps in the set itself."""
ASKED = [
    ("{[b, i]: 0 <= 64*b + i < 37 and 0 <= i < 64 and b >= 0}", ("b", "i")),
    (
        "[n] -> {[b, t, i, u]: 0 <= 4*b + t < n and 0 <= t, u < 4 and 0 <= 4*i + u <= 4*b + t and 4*i + u < n}",
        ("b", "t", "i", "u"),
    ),
    ("[n] -> {[i, j]: 0 <= i, j < n and (i + j) mod 2 = 0 and i + j <= 3*n and 2*i <= 2*n + 7}", ("i", "j")),
    ("[n] -> {[i, j]: 0 <= i < n and 0 <= j <= i or 0 <= i < 4 and i = 2*j and j < n}", ("i", "j")),
]


@pytest.mark.parametrize(("text", "dims"), ASKED)
def test_rows_do_not_depend_on_the_questions_that_were_asked_of_a_set(text: str, dims: tuple[str, ...]) -> None:
    kept = [frozenset(chosen) for count in range(len(dims) + 1) for chosen in combinations(dims, count)]
    expected = {keep: rows._pieces(isl.Set(text), dims, keep, ()) for keep in kept}
    for first, second in permutations(QUESTIONS, 2):
        for keep in kept:
            asked = isl.Set(text)
            first(asked)
            second(asked)
            assert rows._pieces(asked, dims, keep, ()) == expected[keep], keep
