from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import polyloop as pl
from tests.transform.checking import check, cuda, refused, same_after_replay
from tests.transform.kernels import blur, check_blur, check_matmul, matmul, spread, sweep

Golden = Callable[[str, str], None]


@pytest.mark.parametrize(
    "steps",
    [
        [("i", 16, {})],
        [("i", 1, {})],
        [("i", 100, {})],
        [("i", 16, {"slabs": (0, 1)})],
        [("i", 16, {"slabs": (1, 1)})],
        [("i", 16, {"slabs": (2, 0), "outer_tag": "g.0", "inner_tag": "l.0"})],
        [("i", 16, {"slabs": (1, 1), "outer_tag": "g.0", "inner_tag": "l.0"})],
        [("i", 16, {"outer_tag": "g.0", "inner_tag": "l.0"})],
        [("i", 16, {"inner_tag": "l.0"})],
        [("i", 16, {"outer_tag": "g.2", "inner_tag": "l.2"})],
        [("i", 4, {"inner_tag": "unr_hint"})],
        [("i", 24, {"outer_tag": "g.0"}), ("i_inner", 5, {"inner_tag": "l.0"})],
        [("i", 5, {"outer_iname": "block", "inner_iname": "lane"}), ("block", 3, {"slabs": (0, 1)})],
    ],
)
def test_a_split_loop_computes_the_same(steps: list[tuple[str, int, dict[str, Any]]]) -> None:
    base = knl = blur()
    for iname, length, options in steps:
        knl = pl.split_iname(knl, iname, length, **options)
    check_blur(knl)
    same_after_replay(base, knl)


def test_an_unrolled_inner_loop_need_not_divide_the_outer_one() -> None:
    check_blur(pl.split_iname(blur(), "i", 4, inner_tag="unr"))


def test_a_reduction_is_split_as_well() -> None:
    check_matmul(pl.split_iname(matmul(), "k", 4))
    check_matmul(pl.split_iname(matmul(), "k", 4, slabs=(0, 1)))


def test_slabs_take_the_conditionals_out_of_the_bulk(golden: Golden) -> None:
    golden("golden/split_slabs.cu", cuda(pl.split_iname(blur(), "i", 16, slabs=(1, 1))))
    golden("golden/split_blocks.cu", cuda(spread(blur())))


def test_the_method_is_the_function() -> None:
    knl = blur().split_iname("i", 16, inner_tag="l.0")
    assert cuda(knl) == cuda(pl.split_iname(blur(), "i", 16, inner_tag="l.0"))


def test_the_trace_shows_what_differs_from_the_defaults() -> None:
    knl = pl.split_iname(blur(), "i", 16, slabs=(0, 1), inner_tag="l.0")
    assert str(knl.trace) == (
        "knl = pl.split_iname(knl, split_iname='i', inner_length=16, inner_tag='l.0', slabs=[0, 1])"
    )


@pytest.mark.parametrize("length", [0, -1, -16, 2.5, True, "16", None])
def test_the_length_is_a_positive_integer(length: object) -> None:
    text = refused(matmul(), lambda knl: pl.split_iname(knl, "i", length), "bad-factor")  # type: ignore[arg-type]
    assert text == (
        f"split_iname on kernel 'matmul': cannot split by {length!r} [bad-factor]\n"
        "  Hint: inner_length is the extent of the inner loop: an integer of at least 1"
    )


@pytest.mark.parametrize("slabs", [(1,), (0, -1), (0, 1.5), (1, 2, 3)])
def test_slabs_are_two_counts(slabs: Any) -> None:
    text = refused(blur(), lambda knl: pl.split_iname(knl, "i", 16, slabs=slabs), "bad-slabs")
    assert text == (
        f"split_iname on kernel 'blur': slabs={slabs!r} is not a pair of counts [bad-slabs]\n"
        "  Hint: slabs=(front, back): iterations of the outer loop to separate at either end"
    )


REFUSALS: dict[str, tuple[Callable[[], pl.LoopKernel], Callable[[pl.LoopKernel], pl.LoopKernel], str]] = {
    "unknown_iname": (matmul, lambda knl: pl.split_iname(knl, "ii", 16), "unknown-iname"),
    "consumed_iname": (
        lambda: pl.split_iname(matmul(), "i", 16),
        lambda knl: pl.split_iname(knl, "i", 16),
        "unknown-iname",
    ),
    "outer_name_taken": (matmul, lambda knl: pl.split_iname(knl, "i", 4, outer_iname="j"), "name-taken"),
    "default_name_taken": (
        lambda: pl.rename_iname(matmul(), "j", "i_inner"),
        lambda knl: pl.split_iname(knl, "i", 4),
        "name-taken",
    ),
    "reserved_name": (matmul, lambda knl: pl.split_iname(knl, "i", 4, inner_iname="int"), "reserved-name"),
    "bad_name": (matmul, lambda knl: pl.split_iname(knl, "i", 4, inner_iname="i-1"), "bad-identifier"),
    "one_name_twice": (
        matmul,
        lambda knl: pl.split_iname(knl, "i", 4, inner_iname="x", outer_iname="x"),
        "name-taken",
    ),
    "tagged": (
        lambda: spread(blur()),
        lambda knl: pl.split_iname(knl, "i_inner", 4),
        "iname-tagged",
    ),
    "no_such_tag": (matmul, lambda knl: pl.split_iname(knl, "i", 4, outer_tag="g.3"), "bad-tag"),
    "recurrence_on_threads": (sweep, lambda knl: pl.split_iname(knl, "i", 16, inner_tag="l.0"), "illegal-parallel"),
    "recurrence_on_blocks": (sweep, lambda knl: pl.split_iname(knl, "i", 16, outer_tag="g.0"), "illegal-parallel"),
    "reduction_on_blocks": (matmul, lambda knl: pl.split_iname(knl, "k", 16, outer_tag="g.2"), "parallel-reduction"),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_refusals(case: str, golden: Golden) -> None:
    make, call, code = REFUSALS[case]
    golden(f"messages/split_iname_{case}.txt", refused(make(), call, code))


def test_a_tagged_loop_is_split_on_request() -> None:
    tagged = pl.tag_inames(blur(), "i:g.0")
    refused(tagged, lambda knl: pl.split_iname(knl, "i", 16), "iname-tagged")
    knl = pl.split_iname(tagged, "i", 16, inner_tag="l.0", do_tagged_check=False)
    assert "i" not in knl.iname_tags
    assert "i_outer" not in knl.iname_tags
    check_blur(knl)


def test_quotients_that_the_inner_loop_does_not_change_are_divided_out() -> None:
    data = [pl.GlobalArg("a, b", np.float32, shape="n"), ...]
    base = pl.make_kernel("{[i]: 0 <= i < n}", "b[i] = 2*a[i] + i // 6 + i % 3", data, assumptions="n mod 24 = 0")
    base = pl.split_array_axis(base, "a", 0, 4)
    knl = pl.split_iname(base, "i", 4)
    assert "a[i_outer, i_inner]" in str(knl)
    twice = pl.split_iname(pl.split_iname(base, "i", 24), "i_inner", 4)
    assert "a[i_inner_outer + 6*i_outer, i_inner_inner]" in str(twice)
    for variant in (knl, twice, pl.split_iname(base, "i", 3), pl.split_iname(base, "i", 8)):
        for n in (24, 48):
            a = np.arange(n, dtype=np.float32)
            want = 2 * a + np.arange(n) // 6 + np.arange(n) % 3
            check(variant, {"a": a.reshape(-1, 4), "n": n}, {"b": want.astype(np.float32)}, fibres=False)
