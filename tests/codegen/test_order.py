"""Generated text does not depend on what ISL, which rearranges sets in place, was asked before."""

from __future__ import annotations

from collections.abc import Sequence

import islpy as isl
import pytest

import polyloop as pl
from polyloop.codegen.loops.rows import rows_of
from polyloop.kernel.kernel import LoopKernel
from polyloop.poly.sets import rows_of as rows_in_order
from polyloop.poly.sets import set_text
from polyloop.program.lower import lower
from tests.gallery import GALLERY

KERNELS = (
    "diamond_tiles",
    "heat_step",
    "matmul_in_registers",
    "nested_conditions",
    "transpose_through_a_swizzled_tile",
    "two_ranges",
)


def _stir(sets: Sequence[isl.Set]) -> None:
    """Ask what makes ISL sort, simplify and merge the sets in place."""
    for one in sets:
        one.remove_redundancies()
        one.detect_equalities()
        one.coalesce()
        one.compute_divs()
        hash(one)
        one.is_empty()
        for other in sets:
            if one.get_space().is_equal(other.get_space()):
                one.gist(other)
                one.is_equal(other)
                one.plain_is_equal(other)
                one.subtract(other)


def _sets(kernel: LoopKernel) -> list[isl.Set]:
    sets = [kernel.assumptions, *(domain.set for domain in kernel.domains), *(c.set for c in kernel.conditions)]
    return [*sets, *(statement.domain for statement in lower(kernel).statements.values())]


@pytest.mark.parametrize("name", KERNELS)
def test_the_text_of_a_kernel_does_not_depend_on_what_isl_was_asked(name: str) -> None:
    fresh, stirred = GALLERY[name].make(), GALLERY[name].make()
    _stir(_sets(stirred))
    texts = [pl.generate_code(knl, target=pl.CudaTarget()).device_code for knl in (fresh, stirred)]
    assert texts[0] == texts[1]
    assert str(fresh) == str(stirred)


ORDERS = (
    "0 <= i and i < n and 0 <= j and j < m and i <= j",
    "i <= j and j < m and i < n and j >= 0 and i >= 0",
    "j < m and i >= 0 and i <= j and 0 <= j and n > i",
)


@pytest.mark.parametrize("text", ORDERS)
def test_rows_come_in_one_order(text: str) -> None:
    (basic,) = isl.Set(f"[n, m] -> {{ [i, j] : {text} }}").get_basic_sets()
    (first,) = isl.Set(f"[n, m] -> {{ [i, j] : {ORDERS[0]} }}").get_basic_sets()
    for dims in (("i", "j"), ("l.0", "l.1"), ("g.0", "i"), ("l.0", "g.1")):
        assert rows_in_order(basic, dims) == rows_in_order(first, dims)
        assert list(rows_of(basic, dims, {}).items()) == list(rows_of(first, dims, {}).items())


def test_rows_come_before_columns_and_lower_bounds_before_upper_ones() -> None:
    (basic,) = isl.Set("[n] -> { [x, y, k] : 1 <= x < n and 0 <= y < n and 0 <= k < 4 and x + y < n }").get_basic_sets()
    forms = [list(terms) for terms in rows_of(basic, ("l.0", "l.1", "k"), {})]
    assert forms == [
        [("k", 1)],
        [("k", -1)],
        [("l.1", 1)],
        [("l.1", -1), ("n", 1)],
        [("l.0", 1)],
        [("l.0", -1), ("n", 1)],
        [("l.0", -1), ("l.1", -1), ("n", 1)],
    ]


def test_the_text_of_a_set_has_no_superfluous_constraints() -> None:
    domain = isl.Set("[n, i] -> { [j] : 0 <= i and i < n and 0 <= j <= 3 and j < n - i }")
    text = set_text(domain)
    domain.remove_redundancies()
    assert set_text(domain) == text
