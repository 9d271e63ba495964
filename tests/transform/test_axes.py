"""``set_array_axis_names``: axes by their names."""

from __future__ import annotations

import numpy as np
import pytest

import polyloop as pl
from tests.transform.checking import check, cuda, refused, same_after_replay
from tests.transform.kernels import F, spread


def plain() -> pl.LoopKernel:
    data = [pl.GlobalArg("a, b", F, shape="n, 8"), ...]
    return pl.make_kernel("{[i, j]: 0 <= i < n and 0 <= j < 8}", "b[i, j] = 2*a[i, j]", data, name="table")


def table() -> pl.LoopKernel:
    return pl.set_array_axis_names(plain(), "a, b", "row, col")


def test_axes_are_named() -> None:
    base = table()
    by_number = pl.set_array_axis_names(base, "a", ["x", "y"])
    assert cuda(by_number) == cuda(base)
    turned = pl.tag_array_axes(base, "a", "col:N1, row:N0")
    assert cuda(turned) == cuda(pl.tag_array_axes(base, "a", {"row": "N0", "col": "N1"}))
    assert cuda(turned) == cuda(pl.tag_array_axes(base, "a", "N0,N1"))
    strided = pl.tag_array_axes(base, "a", "col:stride:1, row:stride:9")
    assert cuda(strided) == cuda(pl.tag_array_axes(base, "a", "stride:9,stride:1"))
    both = pl.split_array_axis(base, "a, b", "col", 4)
    assert cuda(both) == cuda(pl.split_array_axis(base, "a, b", 1, 4))
    moved = pl.tag_array_axes(both, "a", "col_outer:N2, row:N1, col_inner:N0")
    assert "tag_array_axes(knl, ary_names=['a'], dim_tags='N1,N2,N0')" in str(moved.trace)
    joined = pl.concatenate_arrays(base, "a, b", "ab", axis_nr="col")
    assert cuda(joined) == cuda(pl.concatenate_arrays(base, "a, b", "ab", axis_nr=1))
    batched = pl.tag_array_axes(pl.to_batched(base, 3, "a, b"), "a", "row:N0, col:N1, ibatch:N2")
    same_after_replay(plain(), pl.add_padding(spread(base), "a", "row", 64))
    for n in (1, 5):
        a = np.zeros((3, 8, n), F).transpose(0, 2, 1)
        a[...] = np.arange(24 * n).reshape(3, n, 8)
        check(batched, {"a": a}, {"b": 2 * a})


@pytest.mark.parametrize(
    ("names", "axes", "code"),
    [
        ("c", "x, y", "unknown-array"),
        ("a", "x", "wrong-rank"),
        ("a", "x, x", "name-taken"),
        ("a", "x, for", "reserved-name"),
        ("a", "x, stride", "name-taken"),
    ],
)
def test_names_that_cannot_be(names: str, axes: str, code: str) -> None:
    refused(table(), lambda k: pl.set_array_axis_names(k, names, axes), code)


def test_axes_that_are_not_there() -> None:
    knl = table()
    text = refused(knl, lambda k: pl.split_array_axis(k, "a", "rows", 4), "unknown-axis")
    assert "'a' has no axis called 'rows'" in text
    assert "axes of 'a': row, col" in text
    refused(knl, lambda k: pl.tag_array_axes(k, "a", "row:N0"), "unknown-axis")
    other = pl.set_array_axis_names(knl, "b", "col, row")
    refused(other, lambda k: pl.split_array_axis(k, "a, b", "row", 4), "unknown-axis")
    data = [pl.GlobalArg("x", F, shape="n"), ...]
    bare = pl.make_kernel("{[i]: 0 <= i < n}", "x[i] = 1", data)
    assert "set_array_axis_names" in refused(bare, lambda k: pl.split_array_axis(k, "x", "i", 4), "unknown-axis")
    refused(knl, lambda k: pl.add_padding(k, "c", "row", 64), "unknown-array")


def test_an_array_with_an_axis_of_its_own_is_no_part_of_another() -> None:
    """Seed 71001992: the program's array has no such axis."""
    data = [pl.GlobalArg("y", np.float32, shape="8"), pl.TemporaryVariable("t", np.float32, shape="8"), ...]
    knl = pl.make_kernel("{[i]: 0 <= i < 8}", "<> s = y[i]\nz[i] = s", data, silenced_warnings="*")
    knl = pl.privatize_temporaries_with_inames(knl, "i", ["s"])
    with pytest.raises(pl.TransformError) as refused:
        pl.concatenate_arrays(knl, ["s", "t"])
    assert refused.value.codes == ("bad-layout",)
