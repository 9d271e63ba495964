"""What a user is told of the dependences of a kernel."""

from __future__ import annotations

import islpy as isl
import numpy as np
import pytest

import polyloop as pl
from polyloop.verification.dependences import DependenceKind, dependences

RAW, WAR, WAW = DependenceKind


def test_a_recurrence_depends_on_its_last_value() -> None:
    knl = pl.make_kernel("{[i]: 1 <= i < n}", "a[i] = a[i - 1] + b[i]", [pl.GlobalArg("a", shape="n"), ...])
    assert str(pl.dependences(knl)) == "RAW on 'a': [n] -> { insn[i] -> insn[i' = 1 + i] : 0 < i <= -2 + n }"


def test_a_shift_to_the_left_is_an_anti_dependence() -> None:
    knl = pl.make_kernel("{[i]: 0 <= i < n}", "a[i] = a[i + 1]", [pl.GlobalArg("a", np.int32, shape="n + 1"), ...])
    (found,) = dependences(knl)
    assert (found.kind, found.source, found.sink) == (WAR, "insn", "insn")
    assert str(found.relation) == "[n] -> { insn[i] -> insn[i' = 1 + i] : 0 <= i <= -2 + n }"


def test_flow_is_by_value() -> None:
    """The second write hides the first from the read."""
    text = "a[i] = 1 {id=first}\na[i] = 2 {id=second, dep=first}\nb[i] = a[i] {id=use, dep=second}"
    found = dependences(pl.make_kernel("{[i]: 0 <= i < n}", text, [pl.GlobalArg("a, b", np.int32, shape="n"), ...]))
    assert [entry.source for entry in found.of(kind=RAW)] == ["second"]
    assert [(entry.source, entry.sink) for entry in found.of(kind=WAW)] == [("first", "second")]
    assert all(entry.is_exact for entry in found)
    assert found.of(array="b") == ()


def test_what_depends_on_data_may_meet() -> None:
    text = "a[i] = 1 {id=write}\nb[i] = a[idx[i]] {id=read, dep=write}"
    data = [pl.GlobalArg("a, b", np.float32, shape="n"), pl.GlobalArg("idx", np.int32, shape="n"), ...]
    found = dependences(pl.make_kernel("{[i]: 0 <= i < n}", text, data))
    assert {(entry.kind, entry.is_exact) for entry in found.of(array="a")} == {(RAW, False)}
    assert "RAW on 'a' (may)" in str(found)


@pytest.mark.parametrize(
    ("condition", "is_exact"), [("x[i] > 0", False), ("i > 3 and x[i] > 0", False), ("i > 3", True)]
)
def test_a_read_that_data_shuts_out_may_meet(condition: str, is_exact: bool) -> None:
    data = [pl.GlobalArg("x", np.float32, shape="n"), pl.GlobalArg("a", np.float32, shape="n + 1"), ...]
    knl = pl.make_kernel("{[i]: 0 <= i < n}", f"a[i] = if({condition}, a[i + 1], 0)", data)
    (found,) = dependences(knl).of(array="a")
    assert (found.kind, found.is_exact) == (WAR, is_exact)


def test_a_read_in_a_reduction_is_told_with_its_inames() -> None:
    text = "t[i] = 2*x[i] {id=fill}\ny[0] = sum(k, t[k]) {id=use, dep=fill}"
    data = [pl.GlobalArg("x, t", np.float32, shape="n"), ...]
    (found,) = dependences(pl.make_kernel("{[i, k]: 0 <= i, k < n}", text, data)).of(source="fill")
    assert str(found.relation) == "[n] -> { fill[i] -> use[k = i] : 0 <= i < n }"


def test_transforms_change_nothing() -> None:
    knl = pl.make_kernel("{[i, j]: 1 <= i, j < n}", "a[i, j] = a[i - 1, j]", [pl.GlobalArg("a", shape="n, n"), ...])
    split = pl.split_iname(knl, "j", 16, outer_tag="g.0", inner_tag="l.0")
    assert str(dependences(split)) == str(dependences(knl)) != ""


def test_the_graph_has_an_edge_a_dependence() -> None:
    text = "a[i] = x[i] {id=first}\nb[i] = a[i] {id=second, dep=first, if=x[i] > 0}"
    knl = pl.make_kernel("{[i]: 0 <= i < n}", text, [pl.GlobalArg("x", np.float32, shape="n"), ...])
    assert dependences(knl).to_dot() == 'digraph dependences {\n    "first" -> "second" [label="RAW a"];\n}'


@pytest.mark.parametrize("n", [2, 5])
def test_pairs_are_those_of_brute_force(n: int) -> None:
    knl = pl.make_kernel(
        "{[i, j]: 0 <= i < n and 0 <= j <= i}",
        "a[i + j] = a[2*j] + 1",
        [pl.GlobalArg("a", np.int32, shape="2*n"), ...],
        loop_priority=["i, j"],
    )
    points = [(i, j) for i in range(n) for j in range(i + 1)]
    expected = {
        (*s, *t) for at, s in enumerate(points) for t in points[at + 1 :] if s[0] + s[1] == t[0] + t[1]
    }
    (waw,) = dependences(knl).of(kind=WAW)
    found: list[tuple[int, ...]] = []
    pairs = waw.relation.fix_val(isl.dim_type.param, 0, n).wrap().flatten().project_out(isl.dim_type.param, 0, 1)
    pairs.foreach_point(lambda point: found.append(tuple(_coordinate(point, at) for at in range(4))))
    assert set(found) == expected


def _coordinate(point: isl.Point, position: int) -> int:
    return int(point.get_coordinate_val(isl.dim_type.set, position).to_python())
