"""Sets in a state that no question to ISL changes."""

from __future__ import annotations

import islpy as isl
import numpy as np
import pytest

import polyloop as pl
from polyloop.poly.sets import settled

TEXTS = [
    "[n] -> { [j, i] : 0 <= j < n and 0 <= i < n and n >= -4 }",
    "[n] -> { [i, j] : 0 <= j <= i and j <= 4 and i - n < j }",
    "[n] -> { [i] : 0 <= i < n and i mod 2 = 0 or i = n + 3 }",
    "[n] -> { [i, j] : (i + j) mod 2 = 0 and 0 <= i < n and (i mod 2 = 0 or j > 3) }",
    "[n] -> { [i] : 2n + 8 >= 0 and i = 0 and n < 0 and n > 0 }",
]


def rows(found: isl.Set) -> list[list[str]]:
    return [[str(row) for row in piece.get_constraints()] for piece in found.get_basic_sets()]


def asked(found: isl.Set) -> None:
    """Ask what is known to write the rows of a set anew."""
    found.is_empty()
    found.detect_equalities()
    found.remove_redundancies()
    found.plain_is_equal(found.copy().remove_redundancies())
    found.coalesce()
    found.is_subset(isl.Set.universe(found.get_space()))
    found.is_equal(isl.Set.empty(found.get_space()))
    str(found)
    hash(found)


@pytest.mark.parametrize("text", TEXTS)
def test_questions_do_not_change_it(text: str) -> None:
    plain = isl.Set(text)
    found = settled(plain)
    before = rows(found)
    assert found.is_equal(isl.Set(text))
    asked(found)
    assert rows(found) == before
    assert settled(found) is found, "it is settled"
    assert settled(plain) is found, "it is shared by those who share the other"
    asked(plain)
    assert rows(settled(isl.Set(text))) == before


def test_the_sets_of_a_kernel_are_settled() -> None:
    knl = pl.make_kernel("{[i, j]: 0 <= i, j < n and (i + j) mod 2 = 0}", "y[i, j] = 2*x[j, i]",
                         [pl.GlobalArg("x, y", np.float32, shape="n, n"), ...], assumptions="2*n >= 7")  # fmt: skip
    for kernel in (knl, pl.split_iname(knl, "i", 4, outer_tag="g.0"), pl.assume(knl, "3*n <= 100")):
        sets = [kernel.assumptions, *(d.set for d in kernel.domains), *(i.domain for i in kernel.instructions)]
        assert [settled(found) is found for found in sets] == [True] * len(sets)
