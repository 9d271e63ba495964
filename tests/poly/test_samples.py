"""Points of sets and relations, which refusals name."""

from __future__ import annotations

from collections.abc import Sequence

import islpy as isl
import pytest

import polyloop as pl
from polyloop.errors import TransformError
from polyloop.poly.sets import sample_pair, sample_set

CST, PARAM, SET, DIV = isl.dim_type.cst, isl.dim_type.param, isl.dim_type.set, isl.dim_type.div

EQUAL = ((0, 0, -1, 0, 2), (0, -1, 0, 2, 0))
AT_LEAST = ((4, -1, 0, 0, 0), (0, 0, 1, 0, 0), (1, -1, 2, 0, 0), (0, 1, -2, 0, 0), (-1, 1, 0, 0, 0))


def matrix(rows: Sequence[Sequence[int]]) -> isl.Mat:
    found = isl.Mat.alloc(isl.DEFAULT_CONTEXT, len(rows), len(rows[0]))
    for number, row in enumerate(rows):
        for column, value in enumerate(row):
            found = found.set_element_val(number, column, isl.Val(value))
    return found


def halves() -> isl.Set:
    """Return ``{[i, j]: 0 < i <= 4 and i - 1 <= 2j <= i}`` of even numbers, in rows as of seed 412200188."""
    space = isl.Space.create_from_names(isl.DEFAULT_CONTEXT, set=["i", "j"])
    return isl.Set.from_basic_set(
        isl.BasicSet.from_constraint_matrices(space, matrix(EQUAL), matrix(AT_LEAST), CST, PARAM, SET, DIV)
    )


def test_a_set_without_a_first_point_by_isl_has_one() -> None:
    assert halves().is_equal(isl.Set("{ [4, 2] }"))
    assert sample_set(halves(), ("i", "j")) == {"i": 4, "j": 2}
    relation = isl.Map.from_domain_and_range(isl.Set("{ [0] }"), halves())
    assert sample_pair(relation, ("k",), ("i", "j")) == ({}, {"k": 0}, {"i": 4, "j": 2})


def test_a_conflict_is_named_where_isl_finds_no_first_instance() -> None:
    knl = pl.make_kernel(
        "{[i]: 0 <= i < n and i mod 2 = 0}",
        ["o[i + 3] = o[i + 3] - o[i//2 + 3] {id=first}", "o[i + 3] = 2*i {id=second}"],
        [pl.GlobalArg("o", "uint32", shape="2*n + 8"), ...],
    )
    with pytest.raises(TransformError) as err:
        pl.add_nosync(knl, "global", "first", "second")
    assert err.value.codes == ("proven-conflict",)
    assert "instance (i=4) of 'first' and instance (i=2) of 'second' touch o[5]" in str(err.value)
