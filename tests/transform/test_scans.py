"""``realize_scan`` and ``split_scan``: their text, numbers at edge sizes, refusals, and what the checker refuses."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import polyloop as pl
from polyloop.expr.nodes import Reduction
from polyloop.kernel.instruction import Term
from polyloop.poly.affine import Affine
from polyloop.poly.sets import Row, add_rows
from polyloop.runtime.nvrtc import compile_cuda
from polyloop.testing.brute import judge
from polyloop.transform.staging.staging import assign_auto
from polyloop.verification.order import order_violations
from polyloop.verification.values import value_violations
from tests.transform.checking import check, cuda, refused, same_after_replay, vectors

Golden = Callable[[str, str], None]
F = np.float32
INCLUSIVE = "{[i, j]: 0 <= i < n and 0 <= j <= i}"
BEFORE = ["{[i]: 0 <= i < n}", "{[j]: 0 <= j < i}"]


def prefix(text: str = "b[i] = sum(j, a[j])", domains: Any = INCLUSIVE, **more: Any) -> pl.LoopKernel:
    return pl.make_kernel(domains, text, [pl.GlobalArg("a, b", F, shape="n"), ...], name="prefix", **more)


def check_prefix(knl: pl.LoopKernel, sizes: tuple[int, ...]) -> None:
    for n in sizes:
        (a,) = vectors(n, 1)
        check(knl, {"a": a}, {"b": np.cumsum(a)})


def body(knl: pl.LoopKernel) -> str:
    return cuda(knl).split("{", 1)[1]


def test_one_running_total() -> None:
    knl = pl.realize_scan(prefix())
    assert body(knl) == """
    float acc = 0.0f;
    for (int i = 0; i < n; ++i) {
        acc += a[i];
        b[i] = acc;
    }
}
"""
    check_prefix(knl, (1, 2, 9))
    same_after_replay(prefix(), knl)


def test_an_exclusive_scan_adds_after_the_use() -> None:
    knl = pl.realize_scan(prefix("b[i] = sum(j, a[j])", BEFORE))
    assert body(knl) == """
    float acc = 0.0f;
    for (int i = 0; i < n; ++i) {
        b[i] = acc;
        acc += a[i];
    }
}
"""
    for n in (1, 2, 9):
        (a,) = vectors(n, 1)
        check(knl, {"a": a}, {"b": np.concatenate([[0], np.cumsum(a)[:-1]])})


def test_a_term_that_cannot_be_read_for_nobody_is_not_read() -> None:
    """An array without the last term: it is added only where a result follows."""
    knl = pl.make_kernel(
        BEFORE, "b[i] = sum(j, a[j])", [pl.GlobalArg("a", F, shape="n - 1"), pl.GlobalArg("b", F, shape="n")],
        assumptions="n >= 1",
    )  # fmt: skip
    knl = pl.realize_scan(knl)
    assert "acc += a[i - 1];" in cuda(knl)
    for n in (1, 2, 9):
        (a,) = vectors(n, 1)
        check(knl, {"a": a[:-1]}, {"b": np.concatenate([[0], np.cumsum(a)[:-1]])})


def test_several_new_terms_for_each_result() -> None:
    knl = pl.make_kernel(
        "{[i, j]: 0 <= i < n and 0 <= j <= 2*i + 1}",
        "b[i] = max(j, a[j])",
        [pl.GlobalArg("a", F, shape="2*n"), pl.GlobalArg("b", F, shape="n")],
    )
    knl = pl.realize_scan(knl)
    assert "for (int j = 2 * i; j < 2 * i + 2; ++j)" in cuda(knl)
    for n in (1, 5):
        (a,) = vectors(2 * n, 1)
        check(knl, {"a": a}, {"b": np.maximum.accumulate(a)[1::2]})


def test_a_scan_inside_of_which_rows_run_has_a_total_for_each() -> None:
    knl = pl.make_kernel(
        ["{[i]: 0 <= i < n}", "{[r]: 0 <= r < 4}", "{[j]: 0 <= j <= i}"],
        "b[i, r] = sum(j, a[j, r])",
        [pl.GlobalArg("a, b", F, shape="n, 4")],
        loop_priority=["i, r"],
    )
    knl = pl.realize_scan(knl)
    assert "float acc[4];" in cuda(knl)
    a = np.arange(20, dtype=F).reshape(5, 4)
    check(knl, {"a": a}, {"b": np.cumsum(a, 0)})


def test_a_realized_scan_is_split_as_any_loop() -> None:
    check_prefix(pl.split_iname(pl.realize_scan(prefix()), "i", 4), (1, 3, 4, 5, 9))


@pytest.mark.parametrize("length", [1, 4])
def test_tiles(length: int) -> None:
    knl = pl.split_scan(prefix(), "i", length)
    same_after_replay(prefix(), knl)
    check_prefix(knl, (1, 3, 4, 5))
    check_prefix(pl.realize_scan(knl), (1, 3, 4, 5, 9))


def test_tiles_of_tiles() -> None:
    knl = pl.split_scan(pl.split_scan(prefix(), "i", 6, carry_iname="tile"), "i_inner", 3)
    knl = pl.split_scan(knl, "tile", 2, within="id:b_carry")
    check_prefix(pl.realize_scan(knl), (1, 2, 3, 5, 6, 7, 12, 13, 25))


def test_three_launches(golden: Golden) -> None:
    """Sums of tiles, a scan of these, tiles: the plan of a scan over a large array."""
    knl = pl.split_scan(prefix(), "i", 4, outer_iname="tile", carry_iname="before")
    knl = pl.split_iname(knl, "tile", 8, outer_tag="g.0", inner_tag="l.0")
    knl = pl.realize_scan(knl)
    program = pl.generate_code(knl, target=pl.CudaTarget())
    assert len(program.launches) == 3
    golden("golden/prefix_three_launches.cu", program.device_code)
    check_prefix(knl, (1, 3, 4, 5, 32, 33, 70))


def test_ordered_sums_have_one_total_and_are_not_divided() -> None:
    knl = prefix("b[i] = reduce(ordered(sum), j, a[j])")
    check_prefix(pl.realize_scan(knl), (1, 5))
    assert refused(knl, lambda k: pl.split_scan(k, "i", 4), "ordered-reduction") == (
        "split_scan on kernel 'prefix': 'ordered(sum)' combines one term after the other, so its scan cannot be "
        "divided [ordered-reduction]\n"
        "  b[i] = reduce(ordered(sum), j, a[j])                 (line 1, instruction 'insn')\n"
        "  Note: the sum of a tile would be combined of the terms of 'insn' in another grouping\n"
        "  Hint: leave out 'ordered', or keep one running total: pl.realize_scan(knl)"
    )


@pytest.mark.parametrize(
    ("domain", "text", "why"),
    [
        ("{[i, j]: 0 <= i < n and i <= j < n}", "b[i] = sum(j, a[j])",
         "instance (i=0) has the term j=0, and instance (i=1) has not with n=2"),
        ("{[i, j]: 0 <= i < n and 0 <= j <= i and j >= i - 3}", "b[i] = sum(j, a[j])",
         "instance (i=0) has the term j=0, and instance (i=4) has not with n=5"),
        ("{[i, j]: 0 <= i < n and 0 <= j < n}", "b[i] = sum(j, a[j])",
         "each result has the terms of the one before it, and no more"),
        (INCLUSIVE, "b[i] = sum(j, a[i]*a[j])", "its terms use 'i': no result shares terms with another one"),
    ],
)  # fmt: skip
def test_what_is_no_scan(domain: str, text: str, why: str) -> None:
    message = refused(prefix(text, domain), pl.realize_scan, "not-a-scan")
    assert f"  Note: {why}\n" in message
    assert "the reduction in 'insn' is no scan along 'i' [not-a-scan]" in message


def test_terms_in_the_wrong_order() -> None:
    """Each result has a new term in front of the others: fine for a sum, not for segments."""
    arguments = [pl.GlobalArg("a, b", F, shape="n"), pl.GlobalArg("f", np.bool_, shape="n")]
    domain = "{[i, j]: 0 <= i < n and n - 1 - i <= j < n}"
    knl = pl.make_kernel(domain, "b[i] = sum(j, a[j])", [pl.GlobalArg("a, b", F, shape="n")])
    (a,) = vectors(5, 1)
    check(pl.realize_scan(knl), {"a": a}, {"b": np.cumsum(a[::-1])})
    knl = pl.make_kernel(domain, "b[i] = reduce(segmented(sum), j, a[j], f[j]).value", arguments)
    assert "its terms are combined in their order, and term j=" in refused(knl, pl.realize_scan, "not-a-scan")


def test_a_term_that_changes_between_results() -> None:
    """In place: each result overwrites a term of the ones after it."""
    knl = pl.make_kernel(INCLUSIVE, "a[i] = sum(j, a[j])", [pl.GlobalArg("a", F, shape="n")], name="in_place")
    message = refused(knl, pl.realize_scan, "scan-changing-term")
    assert "a term of 'insn' changes from result to result" in message


def test_terms_computed_before() -> None:
    knl = prefix("c[k] = a[k]*a[k]\nb[i] = sum(j, c[j])", [INCLUSIVE, "{[k]: 0 <= k < n}"])
    for scanned in (pl.realize_scan(knl), pl.realize_scan(pl.split_scan(knl, "i", 4))):
        for n in (1, 5, 9):
            (a,) = vectors(n, 1)
            check(scanned, {"a": a}, {"b": np.cumsum(a * a), "c": a * a})


def test_what_scans_pass_on_is_staged_as_any_array() -> None:
    knl = pl.split_scan(prefix(), "i", 4, carry_iname="c")
    check_prefix(pl.add_prefetch(knl, "b_sum", [], default_tag=None, temporary_address_space="private"), (1, 5, 13))
    realized = pl.realize_scan(pl.split_scan(prefix(), "i", 4))
    staged = pl.add_prefetch(realized, "a", "i_inner", default_tag=None)
    check_prefix(staged, (1, 4, 5, 13))


def test_split_scan_asks_for_the_loop_of_one_scan() -> None:
    knl = prefix("b[i] = sum(j, a[j])\nc[i] = max(j, a[j])")
    assert "several scans: 'insn', 'insn_1'" in refused(knl, lambda k: pl.split_scan(k, "i", 4), "several-scans")
    split = pl.realize_scan(pl.split_scan(knl, "i", 4, within="writes:c"))
    (a,) = vectors(9, 1)
    check(split, {"a": a}, {"b": np.cumsum(a), "c": np.maximum.accumulate(a)})
    refused(knl, lambda k: pl.split_scan(k, "j", 4), "not-a-scan")
    refused(knl, lambda k: pl.split_scan(k, "i", 0, within="writes:c"), "bad-factor")
    refused(prefix("b[i] = 2*a[i]", "{[i]: 0 <= i < n}"), pl.realize_scan, "not-a-scan")


def test_results_that_lag_behind_are_not_split() -> None:
    knl = prefix("b[i] = sum(j, a[j])", ["{[i]: 0 <= i < n}", "{[j]: 0 <= j < i - 1}"])
    refused(knl, lambda k: pl.split_scan(k, "i", 4), "scan-not-split")
    for n in (1, 2, 3, 9):
        (a,) = vectors(n, 1)
        check(pl.realize_scan(knl), {"a": a}, {"b": np.concatenate([[0, 0], np.cumsum(a)])[:n]})


def test_a_running_total_on_threads_or_blocks_is_refused() -> None:
    knl = pl.split_iname(pl.realize_scan(prefix()), "i", 4)
    assert refused(knl, lambda k: pl.tag_inames(k, "i_outer:g.0"), "parallel-scan") == (
        "tag_inames on kernel 'prefix': iname 'i_outer' carries the running total of 'insn' and cannot be 'g.0' "
        "[parallel-scan]\n"
        "  b[i] = sum(j, a[j])                                  (line 1, instruction 'insn')\n"
        "  Note: each iteration goes on from the total of the one before it\n"
        "  Hint: divide the scan before it is realized: pl.split_scan(knl, 'i_outer', 256, outer_tag='g.0')"
    )
    refused(knl, lambda k: pl.tag_inames(k, "i_inner:ilp"), "illegal-parallel")
    check_prefix(pl.tag_inames(knl, "i_inner:unr"), (1, 4, 5))


def test_a_scan_in_each_block_may_leave_the_totals_to_sums() -> None:
    knl = pl.split_scan(prefix(), "i", 4, outer_tag="g.0")
    check_prefix(pl.realize_scan(knl, "writes:b"), (1, 4, 5, 13))  # each block adds up the sums before its own
    knl = pl.split_iname(prefix("b[i] = reduce(ordered(sum), j, a[j])"), "i", 4, inner_tag="l.0")
    refused(knl, pl.realize_scan, "ordered-reduction")


def _spoilt(knl: pl.LoopKernel, change: Callable[[Any], Any]) -> pl.LoopKernel:
    """Return *knl* with another reduction in its last instruction."""
    *others, last = knl.instructions
    return replace(knl, instructions=(*others, replace(last, expression=change(last.expression))))


def test_the_checker_finds_wrong_scans() -> None:
    """What a wrong transform would leave: no start, an update too late, a loop that begins anew."""
    split = pl.split_scan(prefix(), "i", 4)
    lost = _spoilt(split, lambda e: replace(e, start=None))
    assert "scan-terms" in [finding.code for finding in value_violations(lost)]
    late = _spoilt(pl.realize_scan(prefix()), lambda e: replace(e, after=True))
    assert [finding.code for finding in value_violations(late)] == ["scan-terms"]
    for wrong in (lost, late):
        assert {entry.kind for entry in judge(wrong, {"n": 9}, {})} == {"value"}
    for right in (split, pl.realize_scan(split), pl.realize_scan(prefix())):
        assert not list(judge(right, {"n": 9}, {}))
    early = _spoilt(pl.realize_scan(prefix(domains=BEFORE)), lambda e: replace(e, after=False))
    assert [finding.code for finding in value_violations(early)] == ["scan-terms"]


def _random_scan(rng: random.Random) -> pl.LoopKernel:
    knl = pl.split_scan(
        prefix(domains=rng.choice((INCLUSIVE, BEFORE))), "i", rng.choice((2, 3, 4)),
        carry_iname=rng.choice((None, "c")), inner_tag=rng.choice((None, None, "l.0")),
    )  # fmt: skip
    if "i_inner" not in knl.iname_tags and rng.random() < 0.5:
        knl = pl.split_scan(knl, "i_inner", 2, outer_tag="l.0")
    return pl.realize_scan(knl)


def spoilt(knl: pl.LoopKernel, rng: random.Random) -> pl.LoopKernel:
    """Return *knl* with something of one scan changed: its start, when it adds, its loops, or its terms."""
    number, old = rng.choice([(n, i) for n, i in enumerate(knl.instructions) if isinstance(i.expression, Reduction)])
    reduction, term = old.expression, old.terms[0]
    match rng.choice(("start", "after", "along", "terms")):
        case "start":
            reduction = replace(reduction, start=None)
        case "after":
            reduction = replace(reduction, after=not reduction.after)
        case "along":
            reduction = replace(reduction, along=rng.choice(((), old.inames, old.inames[:1])))
        case _:
            row = Row(Affine(((rng.choice(term.inames), rng.choice((1, -1))),), rng.choice((-1, 0, 1, 2))))
            term = Term(term.inames, add_rows(term.domain, term.inames, [row]))
    new = replace(old, expression=reduction, terms=(term,))
    return replace(knl, instructions=tuple(new if n == number else i for n, i in enumerate(knl.instructions)))


def check_spoilt(draw: Callable[[random.Random], pl.LoopKernel], seeds: int) -> None:
    """Spoil scans that *draw* makes: what brute force finds wrong, and that is more than 15, the checker finds."""
    found = 0
    for seed in range(seeds):
        rng = random.Random(seed)
        knl = spoilt(draw(rng), rng)
        try:
            codes = [finding.code for finding in (*value_violations(knl), *order_violations(knl))]
            kinds = {entry.kind for n in (1, 4, 5, 9) for entry in judge(assign_auto(knl), {"n": n}, {})}
        except pl.VerificationError:  # no program at all: an axis twice, an accumulator without a size
            continue
        if kinds & {"value", "accumulator"}:
            found += 1
            assert codes, f"seed {seed}"
    assert found > 15


@pytest.mark.slow
def test_what_brute_force_finds_wrong_the_checker_finds() -> None:
    check_spoilt(_random_scan, 40)


@pytest.mark.nvrtc
def test_nvrtc_takes_scans() -> None:
    for arch in ("sm_80", "sm_90"):
        knl = pl.realize_scan(pl.split_scan(prefix(), "i", 4))
        compile_cuda(pl.generate_code(knl, target=pl.CudaTarget()).device_code, arch)


def on_threads(text: str = "b[i] = sum(j, a[j])", domains: Any = INCLUSIVE, **more: Any) -> pl.LoopKernel:
    """A scan of tiles of 64 in three launches, with two results for each of 32 threads."""
    knl = pl.split_scan(prefix(text, domains, **more), "i", 64, outer_tag="g.0", carry_iname="tile")
    return pl.realize_scan(pl.split_scan(knl, "i_inner", 2, outer_tag="l.0"))


@pytest.mark.few(3)
@pytest.mark.parametrize("threads", [1, 2, 3, 6, 8, 12, 32, 48, 64])
def test_a_scan_over_threads(threads: int) -> None:
    """Exclusive over the sums of threads, inclusive where each thread has one result."""
    knl = pl.split_scan(prefix(), "i", threads, inner_tag="l.0")
    check_prefix(pl.realize_scan(knl), (1, threads, threads + 1, 2 * threads + 1))
    knl = pl.split_scan(prefix(), "i", 2 * threads)
    knl = pl.split_scan(knl, "i_inner", 2, outer_tag="l.0")
    check_prefix(pl.realize_scan(knl), (1, 2 * threads, 2 * threads + 1, 4 * threads + 3))


def test_a_scan_over_a_large_array() -> None:
    check_prefix(on_threads(), (1, 63, 64, 65, 200))


def test_segments_over_threads() -> None:
    """Not commutative: threads have to be combined in their order."""
    domain = "{[i, j]: 0 <= i < n and 0 <= j <= i}"
    arguments = [pl.GlobalArg("x, b", F, shape="n"), pl.GlobalArg("starts", np.bool_, shape="n")]
    knl = pl.make_kernel(domain, "b[i] = reduce(segmented(sum), j, x[j], starts[j]).value", arguments)
    knl = pl.split_scan(knl, "i", 24, outer_tag="g.0", carry_iname="tile")
    spread = pl.split_iname(knl, "j_inner", 12, inner_tag="l.0")
    with pytest.raises(pl.TransformError) as caught:  # each thread has terms that are 12 apart
        pl.realize_scan(spread)
    assert caught.value.codes == ("illegal-order",)
    knl = pl.split_iname(knl, "j_inner", 2, outer_tag="l.0")
    knl = pl.realize_scan(pl.split_scan(knl, "i_inner", 2, outer_tag="l.0"))
    for n in (1, 24, 25, 70):
        (x,) = vectors(n, 1)
        starts = np.random.default_rng(n).random(n) < 0.1
        expected = x.copy()
        for i in range(1, n):
            expected[i] += 0 if starts[i] else expected[i - 1]
        check(knl, {"x": x, "starts": starts}, {"b": expected})


def test_rows_by_blocks(golden: Golden) -> None:
    """One block a row: tiles one after the other, each by all threads."""
    knl = pl.make_kernel(
        ["{[r]: 0 <= r < m}", INCLUSIVE],
        "b[r, i] = sum(j, a[r, j])",
        [pl.GlobalArg("a, b", F, shape="m, n"), ...],
        name="row_scan",
    )
    knl = pl.tag_inames(knl, "r:g.0")
    knl = pl.split_scan(knl, "i", 128, outer_iname="tile", sum_name="tile_sum", carry_name="before_tile")
    knl = pl.split_scan(knl, "i_inner", 2, outer_iname="t", inner_iname="k", outer_tag="l.0")
    knl = pl.split_iname(knl, "j_inner", 64, inner_tag="l.0")
    knl = pl.realize_scan(knl)
    golden("golden/row_scan.cu", cuda(knl))
    for n in (1, 127, 128, 129, 300):
        a = np.random.default_rng(n).integers(-4, 5, (3, n)).astype(F)
        check(knl, {"a": a}, {"b": np.cumsum(a, 1)})


def test_two_rows_of_threads() -> None:
    """Groups of threads with totals of their own."""
    knl = pl.make_kernel(
        ["{[r]: 0 <= r < m}", INCLUSIVE], "b[r, i] = sum(j, a[r, j])", [pl.GlobalArg("a, b", F, shape="m, n"), ...]
    )
    for across, along in (("l.0", "l.1"), ("l.1", "l.0")):
        rows = pl.split_iname(knl, "r", 3, outer_tag="g.0", inner_tag=along)
        scanned = pl.realize_scan(pl.split_scan(rows, "i", 8, inner_tag=across))
        for n in (1, 8, 9, 20):
            a = np.random.default_rng(n).integers(-4, 5, (4, n)).astype(F)
            check(scanned, {"a": a}, {"b": np.cumsum(a, 1)})


@pytest.mark.parametrize("first", [0, 1, 2])
@pytest.mark.parametrize("names", [{}, {"local_iname": "e"}])
def test_tiles_of_an_exclusive_scan_that_begins_later(first: int, names: dict[str, str]) -> None:
    knl = pl.make_kernel(
        ["[n] -> {[i]: 0 <= i < n}", f"[n, i] -> {{[j]: {first} <= j < i}}"],
        "b[i] = sum(j, a[j])",
        [pl.GlobalArg("a, b", np.float32, shape="n"), ...],
    )
    knl = pl.split_scan(knl, "i", 4, **names)
    for n in (1, 2, 4, 5, 11):
        (a,) = vectors(n, 1)
        wanted = np.array([a[first:i].sum() for i in range(n)], np.float32)
        check(knl, {"a": a}, {"b": wanted})


def test_a_scan_beside_another_reduction() -> None:
    knl = pl.make_kernel(
        ["[n] -> {[i, k]: 0 <= i < n and 0 <= k < 3}", "[n, i] -> {[j]: 0 <= j < i}"],
        "b[i] = sum(k, a[k]) + max(0, 2*argmax(j, c[j], j).index)",
        [pl.GlobalArg("a", np.float32, shape="3"), pl.GlobalArg("b, c", np.float32, shape="n"), ...],
    )
    knl = pl.split_scan(knl, "i", 4, local_iname="e")
    for n in (2, 4, 9):
        c = np.random.default_rng(n).permutation(n).astype(np.float32)
        a = np.array([1, 2, 3], np.float32)
        wanted = [6 + max(0, 2 * int(np.argmax(c[:i]))) if i else None for i in range(n)]
        got = pl.interpret(knl, a=a, c=c, b=np.zeros(n, np.float32))
        assert [*map(float, got["b"][1:])] == wanted[1:]


ROWS = ["{[i, j]: 0 <= i, j < n}", "{[k]: 0 <= k <= i}"]


def of_rows(term: str) -> pl.LoopKernel:
    data = [pl.GlobalArg("a", np.float64, shape="n, n"), pl.GlobalArg("b", np.float64, shape="n"), ...]
    knl = pl.make_kernel(ROWS, f"o[i, j] = {term}", data, silenced_warnings="*")
    return pl.split_scan(knl, "i", 2)


@pytest.mark.parametrize(
    "term", ["sum(k, a[j, k])", "sum(k, j)", "max(k, b[k] + j)", "argmax(k, a[j, k], k).index", "sum(k, a[j, k]) + j"]
)
def test_partial_sums_of_another_loop_are_no_parts(term: str) -> None:
    """Seed 71500246: the terms of a sum were told apart along its own loops alone."""
    message = refused(of_rows(term), lambda k: pl.unprivatize_temporaries_with_inames(k, ["j"]), "scan-terms")
    assert "would not combine just its own terms" in message


@pytest.mark.parametrize("term", ["sum(k, b[k])", "sum(k, k)*j", "max(k, a[k, k]) + j"])
def test_partial_sums_that_no_loop_changes_are_shared(term: str) -> None:
    knl = pl.unprivatize_temporaries_with_inames(of_rows(term), ["j"])
    rng = np.random.default_rng(3)
    given = {"a": rng.integers(0, 9, (5, 5)).astype(np.float64), "b": rng.integers(0, 9, 5).astype(np.float64), "n": 5}
    expected = pl.interpret(knl, **given)["o"]
    np.testing.assert_array_equal(pl.compile(knl, target=pl.CTarget())(**given)["o"], expected)


def test_a_sum_in_stages_beside_a_scan() -> None:
    """Seed 81801898: the sum combines partial results, as no statement of the program does."""
    text = "s[0] = sum(j, a[j])\n<> t = sum(k, a[k]) {inames=i}\nb[i] = t"
    data = [pl.GlobalArg("a, b", F, shape="n"), pl.GlobalArg("s", F, shape="1"), ...]
    knl = pl.make_kernel(["{[i]: 0 <= i < n}", "{[j]: 0 <= j < n}", "{[k]: 0 <= k <= i}"],
                         text, data)  # fmt: skip
    knl = pl.split_reduction_inward(pl.split_iname(knl, "j", 2), "j_inner")
    knl = pl.realize_scan(knl)
    for n in (1, 2, 9):
        (a,) = vectors(n, 1)
        check(knl, {"a": a}, {"b": np.cumsum(a), "s": a.sum().reshape(1)})
