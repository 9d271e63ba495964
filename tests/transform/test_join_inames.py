from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import polyloop as pl
from tests.transform.checking import check, cuda, refused, same_after_replay, vectors
from tests.transform.kernels import (
    F,
    blur,
    check_blur,
    check_matmul,
    check_normalise,
    check_triangle,
    matmul,
    normalise,
    sweep,
    triangle,
)

Golden = Callable[[str, str], None]


def table(width: int = 5, low: int = 0) -> pl.LoopKernel:
    return pl.make_kernel(
        f"{{[i, j]: 0 <= i < n and {low} <= j < {width}}}",
        "b[i, j] = 2*a[i, j] + j",
        [pl.GlobalArg("a, b", F, shape=f"n, {width}"), ...],
        name="table",
        assumptions="n >= 1",
    )


def check_table(knl: pl.LoopKernel, width: int = 5, low: int = 0) -> None:
    for n in (1, 2, 7):
        a, b = np.random.default_rng(n).integers(-3, 4, (2, n, width)).astype(F)
        want = b.copy()
        want[:, low:] = (2 * a + np.arange(width, dtype=F))[:, low:]
        check(knl, {"a": a, "b": b}, {"b": want})


def test_one_loop_of_two(golden: Golden) -> None:
    knl = pl.join_inames(table(), "i, j")
    assert knl.instructions[0].inames == ("i_and_j",)
    golden("golden/joined.cu", cuda(knl))
    check_table(knl)
    same_after_replay(table(), knl)
    knl = table().join_inames(["i", "j"], new_iname="x")
    check_table(pl.split_iname(knl, "x", 8, outer_tag="g.0", inner_tag="l.0"))
    check_table(pl.join_inames(table(5, 2), "i, j"), 5, 2)
    check_table(pl.join_inames(pl.join_inames(pl.split_iname(table(), "i", 3), "i_inner, j"), "i_outer, i_inner_and_j"))
    check_table(pl.join_inames(table(), "i, j", tag="g.0"))
    check_table(pl.join_inames(table(), "i, j", within="id:insn"))


def test_split_and_joined_again() -> None:
    check_blur(pl.join_inames(pl.split_iname(blur(), "i", 8), "i_outer, i_inner", "i"))
    check_triangle(pl.join_inames(pl.fix_parameters(triangle(), n=8), "i, j"), (8,))
    check_matmul(pl.join_inames(pl.split_iname(matmul(), "k", 4), "k_outer, k_inner"))
    check_matmul(pl.join_inames(pl.fix_parameters(matmul(), n=5), "i, j"), (5,))
    check_normalise(pl.join_inames(pl.split_iname(normalise(), "j", 4), "j_outer, j_inner"))


def test_a_tile_whose_bound_has_its_own_iname_in_a_floor() -> None:
    data = [pl.GlobalArg("a, b", np.int32, shape="6, 6"), ...]
    text = "b[i, j] = 2*a[i, j]"
    knl = pl.make_kernel("{[i, j]: 0 <= i < n and 0 <= j <= i}", text, data, name="floors", assumptions="0 <= n <= 6")
    knl = pl.split_iname(pl.join_inames(knl, "i, j"), "i_and_j", 2)
    for n in (0, 1, 6):
        a, b = np.random.default_rng(n).integers(-3, 4, (2, 6, 6)).astype(np.int32)
        want = b.copy()
        where = np.tril_indices(n)
        want[where] = 2 * a[where]
        check(knl, {"a": a, "b": b, "n": n}, {"b": want})


def ten(low: int = 0) -> pl.LoopKernel:
    data = [pl.GlobalArg("a, b", F, shape="10"), ...]
    return pl.make_kernel(f"{{[i]: {low} <= i < 10}}", "b[i] = 2*a[i] {id=only}", data, name="ten")


def test_chunks() -> None:
    (a,) = vectors(10, 1)
    for low in (0, 3):
        for count in (1, 2, 3, 4, 7, 10, 12):
            knl = pl.chunk_iname(ten(low), "i", count)
            want = np.where(np.arange(10) >= low, 2 * a, 0)
            check(knl, {"a": a, "b": np.zeros(10, F)}, {"b": want}, fibres=count == 4)
    knl = ten().chunk_iname("i", 4, outer_tag="g.0", inner_tag="l.0", slabs=(0, 1))
    check(knl, {"a": a}, {"b": 2 * a})
    same_after_replay(ten(), knl)
    named = pl.chunk_iname(ten(), "i", 3, "part", "x", within="writes:b")
    assert named.instructions[0].inames == ("part", "x")


def test_a_split_for_some_instructions() -> None:
    text = "b[i] = 2*a[i] {id=first}\nc[i] = b[i] + 1 {id=second}"
    data = [pl.GlobalArg("a, b, c", F, shape="n"), ...]
    base = pl.make_kernel("{[i]: 0 <= i < n}", text, data, name="partly", assumptions="n >= 1")
    knl = pl.split_iname(base, "i", 4, within="id:second")
    assert [i.inames for i in knl.instructions] == [("i",), ("i_outer", "i_inner")]
    for n in (1, 3, 4, 5, 9):
        (a,) = vectors(n, 1)
        check(knl, {"a": a}, {"b": 2 * a, "c": 2 * a + 1})
    same_after_replay(base, knl)
    refused(base, lambda knl: pl.split_iname(knl, "i", 4, within="id:third"), "unknown-instruction")


def test_names_of_other_loops() -> None:
    text = "b[i] = 2*a[i] {id=first}\nc[j] = b[j] + 1 {id=second}"
    data = [pl.GlobalArg("a, b, c", F, shape="n"), ...]
    base = pl.make_kernel("{[i, j]: 0 <= i, j < n}", text, data, name="names", assumptions="n >= 1")
    shared = pl.rename_inames(base, "j", "i", existing_ok=True)
    assert shared.inames == ("i",)
    named = base.rename_inames(["i", "j"], "x")
    assert named.inames == ("x",)
    apart = pl.rename_iname(pl.fuse_loops(base, "i, j"), "i", "q", within="id:second")
    assert [i.inames for i in apart.instructions] == [("i",), ("q",)]
    back = pl.rename_iname(apart, "q", "i", existing_ok=True)
    for knl in (shared, named, apart, back):
        for n in (1, 5):
            (a,) = vectors(n, 1)
            check(knl, {"a": a}, {"b": 2 * a, "c": 2 * a + 1})
        same_after_replay(base, knl)
    refused(base, lambda knl: pl.rename_inames(knl, "j", "i"), "name-taken")
    refused(base, lambda knl: pl.rename_inames(knl, "i, i", "x"), "bad-inames")
    refused(normalise(), lambda knl: pl.rename_inames(knl, "j", "i", existing_ok=True), "same-nest")


def test_interchange(golden: Golden) -> None:
    knl = pl.interchange(table(), "i", "j")
    assert knl.instructions[0].inames == ("j", "i")
    check_table(knl)
    same_after_replay(table(), knl)
    again = knl.interchange("i", "j")
    assert again.instructions[0].inames == ("i", "j")
    stated = pl.interchange(pl.prioritize_loops(matmul(), "i, j"), "i", "j")
    assert stated.instructions[0].inames == ("j", "i")
    check_matmul(stated)
    message = refused(sweep(), lambda knl: pl.interchange(knl, "j", "i"), "illegal-order")
    golden("messages/interchange_sweep.txt", message)
    refused(matmul(), lambda knl: pl.interchange(knl, "i", "i"), "bad-priority")
    refused(matmul(), lambda knl: pl.interchange(knl, "i", "z"), "unknown-iname")


def test_equations_between_inames() -> None:
    knl = pl.affine_map_inames(table(), "i, j", "t, u", ["t = i + j", ("u", "j")])
    assert str(knl) == str(pl.affine_map_inames(table(), "i, j", "t, u", "t = i + j, u = j"))
    assert knl.instructions[0].inames == ("t", "u")
    check_table(knl)
    same_after_replay(table(), knl)
    assert cuda(table().affine_map_inames("i", "k", "k == i + 1")).count("for (") == 2
    refused(table(), lambda knl: pl.affine_map_inames(knl, "i", "k", "k = 2*z"), "bad-map")


Case = tuple[Callable[[], pl.LoopKernel], Callable[[pl.LoopKernel], pl.LoopKernel], str]
REFUSALS: dict[str, Case] = {
    "join_parametric": (matmul, lambda knl: pl.join_inames(knl, "i, j"), "extent-not-constant"),
    "join_order": (lambda: pl.fix_parameters(sweep(), n=6), lambda knl: pl.join_inames(knl, "j, i"), "illegal-order"),
    "join_one": (table, lambda knl: pl.join_inames(knl, "i"), "bad-inames"),
    "join_taken": (table, lambda knl: pl.join_inames(knl, "i, j", "a"), "name-taken"),
    "join_tagged": (lambda: pl.tag_inames(table(), "j:l.0"), lambda knl: pl.join_inames(knl, "i, j"), "iname-tagged"),
    "join_partly": (
        lambda: pl.fix_parameters(normalise(), n=4), lambda knl: pl.join_inames(knl, "i, j"), "partly-mapped",
    ),
    "join_reduction": (
        lambda: pl.fix_parameters(matmul(), n=4), lambda knl: pl.join_inames(knl, "i, k"), "partly-mapped",
    ),
    "chunk_parametric": (blur, lambda knl: pl.chunk_iname(knl, "i", 4), "extent-not-constant"),
    "chunk_none": (ten, lambda knl: pl.chunk_iname(knl, "i", 0), "bad-factor"),
    "chunk_tagged": (lambda: pl.tag_inames(ten(), "i:l.0"), lambda knl: pl.chunk_iname(knl, "i", 2), "iname-tagged"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSALS)
def test_refusals(case: str, golden: Golden) -> None:
    make, call, code = REFUSALS[case]
    golden(f"messages/{case.replace('_', '_inames_' if case.startswith('join') else '_iname_', 1)}.txt",
           refused(make(), call, code))  # fmt: skip


def test_the_loops_of_a_copy_that_was_spread_become_one() -> None:
    data = [pl.GlobalArg("x, y", np.float32, shape="8, 8")]
    knl = pl.make_kernel("{[i, j]: 0 <= i, j < 8}", "y[i, j] = x[j, i]", data)
    knl = pl.tag_inames(knl, "i:l.1, j:l.0").add_prefetch("x", "i, j").join_inames("x_dim_0, x_dim_1", "place")
    x = np.arange(64, dtype=np.float32).reshape(8, 8)
    np.testing.assert_array_equal(pl.interpret(knl, x=x)["y"], x.T)
    assert knl.instruction("fetch_x").inames == ("place",)


def test_l_auto_of_loops_with_parametric_extents() -> None:
    text = ["y[j, i] = x[i, j]", "z[q] = 2*w[q]"]
    knl = pl.make_kernel("{[i, j, q]: 0 <= i < 8 and 1 <= j < n and 0 <= q < 32}", text,
                         [pl.GlobalArg("x", np.float64, shape="8, n"), pl.GlobalArg("y", np.float64, shape="n, 8"),
                          pl.GlobalArg("z, w", np.float64, shape=32)])  # fmt: skip
    knl = pl.tag_inames(knl, {"q": "l.0", "i": "l.auto", "j": "l.auto"})
    assert "for (int j_outer" in cuda(knl) or "for (int j" in cuda(knl)
    assert max(launch.block[0] for launch in pl.generate_code(knl).launches) == 32
