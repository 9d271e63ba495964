"""Inames tagged ``ilp`` or ``vec``: each statement runs for all lanes before the next one does."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import polyloop as pl
from tests.transform.checking import check, cuda, refused, same_after_replay, vectors
from tests.transform.kernels import F, check_blur, check_matmul, check_triangle, matmul, triangle

pytestmark = pytest.mark.filterwarnings("ignore:not-vectorized")

Golden = Callable[[str, str], None]
LANES = ["ilp", "ilp.unr", "ilp.seq", "vec"]


def chained(text: str = "<> t = 2*x[i]\n<> u = t + x[i]\ny[i] = t*u") -> pl.LoopKernel:
    return pl.make_kernel(
        "{[i]: 0 <= i < n}", text, [pl.GlobalArg("x, y", F, shape="n"), ...], name="chained", assumptions="n >= 0"
    )


def check_chained(knl: pl.LoopKernel) -> None:
    for n in (0, 1, 3, 4, 5, 16, 33):
        (x,) = vectors(n, 1)
        check(knl, {"x": x}, {"y": 2 * x * 3 * x})


def tiled(tag: str = "ilp") -> pl.LoopKernel:
    """A matrix product with 2 x 2 results for each thread, as it is written for Loopy: lanes first, order left open."""
    knl = pl.split_iname(matmul(), "i", 8, outer_tag="g.1")
    knl = pl.split_iname(knl, "i_inner", 4, outer_tag=tag, inner_tag="l.1")
    knl = pl.split_iname(knl, "j", 8, outer_tag="g.0")
    knl = pl.split_iname(knl, "j_inner", 4, outer_tag=tag, inner_tag="l.0")
    knl = pl.split_iname(knl, "k", 4)
    knl = pl.add_prefetch(knl, "a", ["i_inner_outer", "i_inner_inner", "k_inner"])
    return pl.add_prefetch(knl, "b", ["k_inner", "j_inner_outer", "j_inner_inner"])


@pytest.mark.few(2)
@pytest.mark.parametrize("tag", LANES)
def test_temporaries_are_kept_once_per_lane(tag: str) -> None:
    knl = pl.split_iname(chained(), "i", 4, inner_tag=tag)
    check_chained(knl)
    check_chained(pl.split_iname(knl, "i_outer", 8, outer_tag="g.0", inner_tag="l.0"))
    same_after_replay(chained(), knl)


def test_the_lanes_of_a_chain(golden: Golden) -> None:
    knl = pl.split_iname(chained(), "i", 4, inner_tag="ilp")
    knl = pl.split_iname(knl, "i_outer", 64, outer_tag="g.0", inner_tag="l.0")
    golden("golden/lanes.cu", cuda(knl))


@pytest.mark.few(2)
@pytest.mark.parametrize("tag", LANES)
def test_a_register_tiled_product_needs_no_priority(tag: str) -> None:
    check_matmul(tiled(tag), (1, 7, 8, 9, 16))


def test_a_register_tiled_product_reads_as_with_unrolled_loops(golden: Golden) -> None:
    golden("golden/register_tiled.cu", cuda(pl.assume(tiled(), "n mod 8 = 0")))


@pytest.mark.few(2)
@pytest.mark.parametrize("tag", LANES)
def test_the_terms_of_a_reduction_are_added_lane_after_lane(tag: str) -> None:
    check_matmul(pl.split_iname(matmul(), "k", 4, inner_tag=tag), (1, 4, 5))


@pytest.mark.few(2)
@pytest.mark.parametrize("tag", LANES)
def test_loops_inside_a_lane_lie_around_the_lanes(tag: str) -> None:
    check_triangle(pl.split_iname(triangle(), "i", 4, inner_tag=tag))
    knl = pl.make_kernel(
        "{[i, j]: 0 <= i < n and 0 <= j < m}",
        """
        for i
            <> s = u[i, 0]
            for j
                s = 2*s + u[i, j]   {id=step}
            end
            o[i] = s
        end
        """,
        [pl.GlobalArg("u", F, shape="n, m"), pl.GlobalArg("o", F, shape="n"), ...],
        assumptions="n >= 1 and m >= 1",
    )
    knl = pl.split_iname(knl, "i", 4, inner_tag=tag)
    for n, m in ((1, 1), (4, 3), (5, 2), (9, 4)):
        u = np.random.default_rng(n).integers(-3, 4, (n, m)).astype(F)
        want = u[:, 0].copy()
        for j in range(m):
            want = 2 * want + u[:, j]
        check(knl, {"u": u}, {"o": want})


@pytest.mark.parametrize("tag", LANES)
def test_a_tile_that_needs_no_lane_is_fetched_once(tag: str) -> None:
    knl = pl.split_iname(matmul(), "i", 4, inner_tag=tag)
    knl = pl.split_iname(pl.split_iname(knl, "j", 8, outer_tag="g.0", inner_tag="l.0"), "k", 8)
    knl = pl.add_prefetch(knl, "b", ["k_inner", "j_inner"])
    check_matmul(knl, (1, 8, 9))
    (statement,) = {line.strip() for line in cuda(knl).splitlines() if "= b[" in line}
    assert "i_inner" not in statement


@pytest.mark.parametrize("tag", LANES)
def test_what_is_fetched_for_each_lane_has_an_element_for_each(tag: str) -> None:
    knl = pl.split_iname(matmul(), "i", 4, inner_tag=tag)
    knl = pl.split_iname(pl.split_iname(knl, "j", 8, outer_tag="g.0", inner_tag="l.0"), "k", 8)
    check_matmul(pl.add_prefetch(knl, "a", ["k_inner"]), (1, 4, 9))


@pytest.mark.few(2)
@pytest.mark.parametrize("tag", LANES)
def test_data_decides_about_each_lane_by_itself(tag: str) -> None:
    knl = chained("<> t = 2*x[i]\nif t > 0\n    y[i] = t\nend")
    knl = pl.split_iname(knl, "i", 4, inner_tag=tag)
    for n in (1, 4, 7):
        x, y = vectors(n, 2)
        check(knl, {"x": x, "y": y}, {"y": np.where(x > 0, 2 * x, y)})


@pytest.mark.few(2)
@pytest.mark.parametrize("tag", LANES)
def test_a_temporary_with_axes_gets_another_one(tag: str) -> None:
    knl = pl.make_kernel(
        "{[i, j, k]: 0 <= i < n and 0 <= j, k < 3}",
        "<> t[j] = x[i]*j {id=fill}\ny[i] = sum(k, t[k]) {dep=fill}",
        [pl.GlobalArg("x, y", F, shape="n"), ...],
        assumptions="n >= 0",
    )
    knl = pl.split_iname(knl, "i", 4, inner_tag=tag)
    for n in (0, 3, 4, 6):
        (x,) = vectors(n, 1)
        check(knl, {"x": x}, {"y": 3 * x})


@pytest.mark.parametrize("tag", ["ilp", "vec"])
def test_a_rule_uses_the_lane_of_its_caller(tag: str) -> None:
    knl = chained("f(k) := t*x[k]\n<> t = 2*x[i]\ny[i] = f(i)")
    check_knl = pl.split_iname(knl, "i", 4, inner_tag=tag)
    for n in (1, 4, 9):
        (x,) = vectors(n, 1)
        check(check_knl, {"x": x}, {"y": 2 * x * x})


def test_lanes_may_read_what_later_ones_write() -> None:
    knl = pl.make_kernel("{[i]: 0 <= i < n}", "a[i] = a[i+1] + 1", [pl.GlobalArg("a", F, shape="n + 1"), ...])
    for tag in ("ilp", "vec"):
        for n in (1, 4, 6):
            a, want = vectors(n + 1, 2)
            want = a.copy()
            want[:-1] = a[1:] + 1
            check(pl.split_iname(knl, "i", 4, inner_tag=tag), {"a": a}, {"a": want})


# {{{ refusals


@pytest.mark.parametrize("tag", ["ilp", "ilp.seq", "vec"])
def test_a_recurrence_has_no_lanes(tag: str) -> None:
    knl = pl.make_kernel("{[i]: 1 <= i < n}", "a[i] = a[i-1] + 1", [pl.GlobalArg("a", F, shape="n"), ...], name="scan")
    text = refused(knl, lambda k: pl.split_iname(k, "i", 4, inner_tag=tag), "illegal-parallel")
    assert text == (
        f"split_iname on kernel 'scan': iname 'i_inner' cannot be '{tag}' [illegal-parallel]\n"
        "  a[i] = a[i-1] + 1                                    (line 1, instruction 'insn')\n"
        "  Note: instance (i=1) writes a[1]; instance (i=2) reads it\n"
        "  Note: the lanes of a statement run together: all read before any of them writes\n"
        "  Hint: keep the loop sequential, or let it be unrolled: 'unr'"
    )
    unrolled = pl.split_iname(knl, "i", 4, inner_tag="unr")
    check(unrolled, {"a": np.zeros(7, F)}, {"a": np.arange(7, dtype=F)})


def test_a_value_of_the_iteration_before_has_no_lanes() -> None:
    data = [pl.GlobalArg("a, b", F, shape="n + 1"), ...]
    knl = pl.make_kernel("{[i]: 0 <= i < n}", "b[i] = a[i]\na[i+1] = 2", data, name="passed")
    text = refused(knl, lambda k: pl.split_iname(k, "i", 4, inner_tag="ilp"), "illegal-parallel")
    assert text == (
        "split_iname on kernel 'passed': cannot run 'i_inner' as 'ilp': 'a' would be read before it is written "
        "[illegal-parallel]\n"
        "  a[i+1] = 2                                           (line 2, instruction 'insn_1')\n"
        "  b[i] = a[i]                                          (line 1, instruction 'insn')\n"
        "  Note: instance (i=0) writes a[1]; instance (i=1) reads it and would run first\n"
        "  Hint: keep the loop sequential, or run another loop of the nest in parallel"
    )


def test_a_sum_in_a_variable_has_no_lanes() -> None:
    knl = pl.make_kernel(
        "{[i]: 0 <= i < n}", "s = s + a[i]", [pl.GlobalArg("a", F, shape="n"), pl.GlobalArg("s", F, shape=()), ...]
    )
    refused(knl, lambda k: pl.split_iname(k, "i", 4, inner_tag="ilp"), "illegal-parallel")


def test_lanes_have_a_constant_number() -> None:
    text = refused(chained(), lambda k: pl.tag_inames(k, "i:ilp"), "bad-lanes")
    assert text == (
        "tag_inames on kernel 'chained': "
        "iname 'i' cannot be 'ilp': its number of values is not a constant [bad-lanes]\n"
        "  Note: each of its values becomes a lane of every statement\n"
        "  Hint: split it: pl.split_iname(knl, \"i\", 4, inner_tag=\"ilp\")"
    )


def test_vectors_have_2_3_4_8_or_16_lanes() -> None:
    text = refused(chained(), lambda k: pl.split_iname(k, "i", 5, inner_tag="vec"), "bad-lanes")
    assert text == (
        "split_iname on kernel 'chained': iname 'i_inner' cannot be 'vec': it has 5 values [bad-lanes]\n"
        "  Note: vectors have 2, 3, 4, 8 or 16 lanes\n"
        "  Hint: split by one of these lengths"
    )
    check_chained(pl.split_iname(chained(), "i", 3, inner_tag="ilp"))


# }}}


def test_lanes_of_a_stencil() -> None:
    blur = pl.make_kernel(
        "{[i]: 1 <= i < n - 1}",
        "out[i] = a[i-1] + a[i] + a[i+1]",
        [pl.GlobalArg("a, out", F, shape="n"), ...],
        assumptions="n >= 3",
    )
    for tag in ("ilp", "vec"):
        check_blur(pl.split_iname(blur, "i", 4, inner_tag=tag), (3, 4, 6, 18))


def test_staging_after_lanes_looks_at_the_temporaries_with_their_lanes() -> None:
    knl = chained("f(k) := 2*x[k]\n<> t = f(i)\ny[i] = t*f(i)")
    knl = pl.add_prefetch(pl.split_iname(knl, "i", 4, inner_tag="vec"), "x", default_tag=None)
    for n in (1, 4, 9):
        (x,) = vectors(n, 1)
        check(knl, {"x": x}, {"y": 4 * x * x})


def test_a_kernel_with_lanes_is_proven_once() -> None:
    knl = pl.split_iname(pl.split_iname(chained(), "i", 4, inner_tag="vec"), "i_outer", 2, outer_tag="g.0")
    check_chained(pl.tag_inames(pl.split_iname(knl, "i_outer_inner", 1, inner_tag="l.0"), "i_outer_inner_outer:vec"))


def rows_in_lanes(tag: str = "ilp") -> pl.LoopKernel:
    knl = pl.make_kernel(
        "{[i, k]: 0 <= i < m and 0 <= k < n}",
        "s[i] = sum(k, a[i, k])",
        [pl.GlobalArg("a", F, shape="m, n"), ...],
        name="rows",
        assumptions="m >= 1 and n >= 1",
    )
    return pl.split_iname(pl.split_iname(knl, "k", 4, inner_tag=tag), "i", 8, outer_tag="g.0", inner_tag="l.0")


@pytest.mark.parametrize("tag", ["ilp", "ilp.seq"])
def test_each_lane_collects_terms_of_its_own(tag: str) -> None:
    knl = rows_in_lanes(tag)
    for m, n in ((1, 1), (3, 3), (9, 4), (8, 5), (2, 23)):
        a = np.random.default_rng(n).integers(-3, 4, (m, n)).astype(F)
        check(knl, {"a": a}, {"s": a.sum(1)})


def test_the_text_of_a_reduction_over_lanes(golden: Golden) -> None:
    golden("golden/rows_in_lanes.cu", cuda(rows_in_lanes()))


def test_lanes_of_other_reductions() -> None:
    knl = pl.make_kernel(
        "{[i, j, k]: 0 <= i < n and 0 <= j < 6 and 0 <= k < n}",
        "at[i] = argmin(k, max(j, a[j, k] - i), k).index",
        [pl.GlobalArg("a", F, shape="6, n"), pl.GlobalArg("at", np.int32, shape="n"), ...],
        assumptions="n >= 1",
    )
    knl = pl.split_iname(pl.split_iname(knl, "k", 3, inner_tag="ilp"), "j", 2, inner_tag="ilp")
    for n in (1, 3, 7):
        a = np.random.default_rng(n).integers(-9, 9, (6, n)).astype(F)
        want = np.full(n, a.max(0).argmin(), np.int32)
        check(knl, {"a": a}, {"at": want})


def test_ordered_terms_have_one_accumulator() -> None:
    knl = pl.make_kernel("{[k]: 0 <= k < n}", "s = reduce(ordered(sum), k, a[k])", [pl.GlobalArg("a", F), ...])
    assert "part" not in cuda(pl.split_iname(knl, "k", 4, inner_tag="ilp.seq"))


def test_a_reduction_over_lanes_alone_beside_another_one() -> None:
    knl = pl.make_kernel(
        ["{[i]: 0 <= i < 3}", "{[k]: 0 <= k < n}", "[i] -> {[j]: 0 <= j < 4 and j <= i}"],
        "s[i] = sum(k, a[i, k]) + sum(j, b[j])",
        [pl.GlobalArg("a", F, shape="3, n"), pl.GlobalArg("b", F, shape="4"), ...],
        assumptions="n >= 1",
    )
    knl = pl.tag_inames(pl.split_iname(knl, "k", 2, inner_tag="ilp"), "j:ilp")
    a, b = np.arange(15, dtype=F).reshape(3, 5), np.arange(1, 5, dtype=F)
    check(knl, {"a": a, "b": b}, {"s": a.sum(1) + b.cumsum()[:3]})
