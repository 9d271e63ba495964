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
    expected = {(*s, *t) for at, s in enumerate(points) for t in points[at + 1 :] if s[0] + s[1] == t[0] + t[1]}
    (waw,) = dependences(knl).of(kind=WAW)
    assert _pairs(waw.relation, n) == expected


PROGRAMS = [
    [("i + j", "2*j")],
    [("i", "j")],
    [("i", "i + 1"), ("i + 1", "j")],
    [("2*i", "i"), ("j", "2*i"), ("i", "i + j")],
    [("0", "i"), ("i", "0")],
    [("i", "0"), ("0", "0"), ("i", "i")],
    [("n - i", "i"), ("j", "n - j")],
]
"""Programs of statements, each with the elements that it writes and reads."""


@pytest.mark.parametrize("n", [1, 3])
@pytest.mark.parametrize("program", PROGRAMS)
def test_dependences_of_each_kind_are_those_of_brute_force(program: list[tuple[str, str]], n: int) -> None:
    lines = [f"a[{w}] = a[{r}] + {k} {{id=s{k}}}" for k, (w, r) in enumerate(program)]
    text = "\n".join(["for i, j", *lines, "end"])
    data = [pl.GlobalArg("a", np.int32, shape="2*n + 2"), ...]
    knl = pl.make_kernel("{[i, j]: 0 <= i, j < n}", text, data, seq_dependencies=True, silenced_warnings="*")
    expected = _enumerated(program, n)
    found: dict[tuple[DependenceKind, str, str], set[tuple[int, ...]]] = {}
    for entry in dependences(knl):
        assert entry.is_exact
        assert not entry.is_reorderable
        if pairs := _pairs(entry.relation, n):
            found.setdefault((entry.kind, entry.source, entry.sink), set()).update(pairs)
    assert found == expected


def _enumerated(program: list[tuple[str, str]], n: int) -> dict[tuple[DependenceKind, str, str], set[tuple[int, ...]]]:
    """Return the pairs of instances of each dependence, by running the program."""
    found: dict[tuple[DependenceKind, str, str], set[tuple[int, ...]]] = {}
    done: list[tuple[str, tuple[int, int], int, int]] = []
    for i in range(n):
        for j in range(n):
            for number, subscripts in enumerate(program):
                name, at = f"s{number}", (i, j)
                write, read = (eval(index, {"i": i, "j": j, "n": n}) for index in subscripts)
                last = next((before for before in reversed(done) if before[2] == read), None)
                for before in done:
                    source, instance, written, seen = before
                    kinds = [(RAW, before is last), (WAR, seen == write), (WAW, written == write)]
                    for kind in (kind for kind, holds in kinds if holds):
                        found.setdefault((kind, source, name), set()).add((*instance, *at))
                done.append((name, at, write, read))
    return found


@pytest.mark.parametrize("guarded", [0, 1])
def test_a_dependence_is_a_may_dependence_if_data_decides_on_either_side(guarded: int) -> None:
    ends = [" {id=first}", " {id=second, dep=first}"]
    ends[guarded] = ends[guarded].replace("}", ", if=x[i] > 0}")
    text = f"a[i] = 1{ends[0]}\na[i] = 2{ends[1]}"
    data = [pl.GlobalArg("x, a", np.float32, shape="n"), ...]
    (found,) = dependences(pl.make_kernel("{[i]: 0 <= i < n}", text, data, silenced_warnings="*")).of(kind=WAW)
    assert (found.source, found.sink, found.is_exact) == ("first", "second", False)


def test_only_the_order_of_two_updates_is_free() -> None:
    text = "a[0] = a[0] + x[i] {id=add, atomic}"
    found = dependences(pl.make_kernel("{[i]: 0 <= i < n}", text, [pl.GlobalArg("x, a", np.float32, shape="n"), ...]))
    assert {entry.kind: entry.is_reorderable for entry in found}[WAW]
    assert not any(entry.is_reorderable for entry in found if entry.kind is not WAW)


def _pairs(relation: isl.Map, n: int) -> set[tuple[int, ...]]:
    """Return the instances of a dependence between statements of two loops, for one size."""
    found: list[tuple[int, ...]] = []
    pairs = relation.fix_val(isl.dim_type.param, 0, n).wrap().flatten().project_out(isl.dim_type.param, 0, 1)
    pairs.foreach_point(lambda point: found.append(tuple(_coordinate(point, at) for at in range(4))))
    return set(found)


def _coordinate(point: isl.Point, position: int) -> int:
    return int(point.get_coordinate_val(isl.dim_type.set, position).to_python())
