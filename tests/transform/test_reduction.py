from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import islpy as isl
import numpy as np
import pymbolic.primitives as p
import pytest

import polyloop as pl
from polyloop.expr.nodes import Reduction
from polyloop.kernel.instruction import Term
from polyloop.kernel.tags import GroupAxis
from polyloop.runtime.nvrtc import compile_cuda
from polyloop.verification.values import value_violations
from tests.transform.checking import check, cuda, refused, same_after_replay
from tests.transform.kernels import F

Golden = Callable[[str, str], None]
Change = Callable[[pl.LoopKernel], pl.LoopKernel]


def rows() -> pl.LoopKernel:
    return pl.make_kernel(
        ["{[i]: 0 <= i < m}", "{[k]: 0 <= k < n}"],
        "s[i] = sum(k, a[i, k])",
        [pl.GlobalArg("a", F, shape="m, n"), ...],
        name="rows",
        assumptions="m >= 1 and n >= 0",
    )


def check_rows(knl: pl.LoopKernel) -> None:
    for m, n in ((1, 0), (5, 1), (17, 7), (16, 8), (3, 9), (33, 26)):
        a = np.random.default_rng(n).integers(-3, 4, (m, n)).astype(F)
        check(knl, {"a": a}, {"s": a.sum(1)})


def split_rows() -> pl.LoopKernel:
    knl = pl.split_iname(rows(), "k", 8)
    return pl.split_iname(knl, "i", 16, outer_tag="g.0", inner_tag="l.0")


def test_the_inner_reduction_is_partial(golden: Golden) -> None:
    knl = pl.split_reduction_inward(split_rows(), "k_inner")
    check_rows(knl)
    assert "sum(k_outer, sum(k_inner, a[" in str(knl)
    golden("golden/two_stages.cu", cuda(knl))
    same_after_replay(rows(), knl)
    assert "combines each partial result exactly once" in str(pl.verify(knl))


def test_outward() -> None:
    knl = pl.split_reduction_outward(split_rows(), "k_inner")
    assert "sum(k_inner, sum(k_outer, a[" in str(knl)
    check_rows(knl)
    same_after_replay(rows(), knl)
    both = (pl.split_reduction_inward(split_rows(), "k_outer"), pl.split_reduction_outward(split_rows(), "k_inner"))
    assert cuda(both[0]) == cuda(both[1])


def test_three_stages() -> None:
    knl = pl.split_iname(pl.split_reduction_inward(split_rows(), "k_inner"), "k_outer", 2)
    knl = pl.split_iname(pl.split_reduction_outward(knl, "k_outer_outer"), "k_inner", 4)
    knl = pl.split_reduction_inward(knl, ["k_inner_inner"])
    check_rows(knl)
    assert "sum(k_outer_outer, sum(k_outer_inner, sum(k_inner_outer, sum(k_inner_inner, " in str(knl)


def test_loops_change_after_the_split() -> None:
    knl = pl.split_reduction_inward(split_rows(), "k_inner")
    knl = pl.reverse(pl.shift(knl, "k_outer", 3), "k_inner")
    check_rows(pl.tag_inames(knl, "k_inner:unr"))


def test_the_stages_are_a_program_of_their_own() -> None:
    """After a transform that changes the meaning, both stages are in the reference program, and can be split again."""
    knl = pl.assume(pl.split_reduction_inward(split_rows(), "k_inner"), "n mod 8 = 0")
    knl = pl.split_iname(knl, "k_inner", 2)
    knl = pl.split_reduction_inward(knl, "k_inner_inner")
    for m, n in ((1, 0), (5, 8), (17, 24)):
        a = np.random.default_rng(n).integers(-3, 4, (m, n)).astype(F)
        check(knl, {"a": a}, {"s": a.sum(1)})


def test_only_some_instructions() -> None:
    knl = pl.make_kernel(
        "{[i, j, k]: 0 <= i < n and 0 <= j, k < 5}",
        ["x[i] = sum([j, k], a[i, j, k]) {id=x}", "y[i] = sum([j, k], 2*a[i, j, k]) + sum(j, a[i, j, 0]) {id=y}"],
        [pl.GlobalArg("a", F, shape="n, 5, 5"), ...],
    )
    knl = pl.split_reduction_inward(knl, "k", within="id:y")
    shown = str(knl)
    assert "sum((j, k), a[i, j, k])" in shown
    assert "sum(j, sum(k, 2*a[i, j, k])) + sum(j, a[i, j, 0])" in shown
    a = np.random.default_rng(0).integers(-3, 4, (3, 5, 5)).astype(F)
    check(knl, {"a": a}, {"x": a.sum((1, 2)), "y": 2 * a.sum((1, 2)) + a[:, :, 0].sum(1)})


def test_a_reduction_in_a_reduction() -> None:
    knl = pl.make_kernel(
        "{[i, j, k]: 0 <= i, j < n and 0 <= k <= j}",
        "x[i] = max(j, sum(k, a[i, k]))",
        [pl.GlobalArg("a", F, shape="n, n"), ...],
        assumptions="n >= 1",
    )
    knl = pl.split_iname(pl.split_iname(knl, "j", 4), "k", 2)
    knl = pl.split_reduction_inward(pl.split_reduction_inward(knl, "j_inner"), "k_inner")
    assert "max(j_outer, max(j_inner, sum(k_outer, sum(k_inner, " in str(knl)
    for n in (1, 4, 7):
        a = np.random.default_rng(n).integers(-3, 4, (n, n)).astype(F)
        check(knl, {"a": a}, {"x": a.cumsum(1).max(1)})


def test_a_sum_that_is_collected_in_a_loop_around() -> None:
    """Rule 4 of the reference program: what the terms read is set in the loop over them."""
    knl = pl.make_kernel(
        "{[i, k]: 0 <= i < n and 0 <= k < m}",
        "<> t = 2*a[i, k] + 1\ns[i] = sum(k, t*t)",
        [pl.GlobalArg("a", F, shape="n, m"), ...],
        assumptions="n >= 1 and m >= 1",
    )
    knl = pl.split_reduction_inward(pl.split_iname(knl, "k", 4), "k_inner")
    for n, m in ((1, 1), (5, 9)):
        a = np.random.default_rng(n).integers(-3, 4, (n, m)).astype(F)
        check(knl, {"a": a}, {"s": ((2 * a + 1) ** 2).sum(1)})


NORM = pl.ReductionOperation("norm", "sqrt(a*a + b*b)", neutral=0)
SPREAD = pl.ReductionOperation(
    "spread", ("min(a.low, b.low)", "max(a.high, b.high)"), neutral=("greatest", "least"), fields=("low", "high")
)


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("s[i] = max(k, a[i, k])", lambda a: a.max(1)),
        ("s[i] = product(k, a[i, k])", lambda a: a.prod(1)),
        ("s[i] = argmin(k, abs(a[i, k]), k).index", lambda a: abs(a).argmin(1)),
        ("s[i] = reduce(spread, k, a[i, k], a[i, k]).high", lambda a: a.max(1)),
        ("s[i] = if(any(k, a[i, k] > 2), 1, 0)", lambda a: (a > 2).any(1)),
    ],
)
def test_operations(text: str, want: Callable[[Any], Any]) -> None:
    knl = pl.make_kernel(
        "{[i, k]: 0 <= i < m and 0 <= k < n}",
        text,
        [pl.GlobalArg("a", F, shape="m, n"), pl.GlobalArg("s", F, shape="m"), ...],
        reductions=[SPREAD],
        assumptions="m >= 1 and n >= 1",
    )
    knl = pl.split_reduction_inward(pl.split_iname(knl, "k", 4), "k_inner")
    knl = pl.split_reduction_outward(pl.split_iname(knl, "k_inner", 2), "k_inner_inner")
    for m, n in ((3, 1), (4, 4), (7, 9)):
        a = np.random.default_rng(n).integers(-3, 4, (m, n)).astype(F)
        check(knl, {"a": a}, {"s": want(a).astype(F)})


def test_an_operation_of_the_users(golden: Golden) -> None:
    knl = pl.make_kernel(
        "{[i, k]: 0 <= i < m and 0 <= k < n}",
        "s[i] = norm(k, a[i, k])",
        [pl.GlobalArg("a", np.float64, shape="m, n"), ...],
        reductions=[NORM],
    )
    knl = pl.split_reduction_inward(pl.split_iname(knl, "k", 4), "k_inner")
    for m, n in ((3, 1), (7, 9)):
        a = np.random.default_rng(n).normal(size=(m, n))
        check(knl, {"a": a}, {"s": np.linalg.norm(a, axis=1)}, rtol=1e-12)


def test_half_numbers_are_collected_in_float32() -> None:
    knl = pl.make_kernel(
        "{[i, k]: 0 <= i < 3 and 0 <= k < 4096}",
        "s[i] = sum(k, a[i, k])",
        [pl.GlobalArg("a", np.float16, shape="3, 4096"), ...],
    )
    knl = pl.split_reduction_inward(pl.split_iname(knl, "k", 64), "k_inner")
    assert "float part = 0.0f;" in cuda(knl)
    a = np.ones((3, 4096), np.float16)
    check(knl, {"a": a}, {"s": np.full(3, 4096, np.float16)})


# {{{ refusals


def test_ordered_terms_stay_in_one_reduction() -> None:
    knl = pl.make_kernel("{[k]: 0 <= k < n}", "s = reduce(ordered(sum), k, a[k])", [pl.GlobalArg("a", F), ...])
    knl = pl.split_iname(knl, "k", 8)
    assert refused(knl, lambda k: pl.split_reduction_inward(k, "k_inner"), "ordered-reduction") == (
        "split_reduction_inward on kernel 'loop_kernel': the terms of 'ordered(sum)' are combined in their order "
        "[ordered-reduction]\n"
        "  s = reduce(ordered(sum), k, a[k])                    (line 1, instruction 'insn')\n"
        "  Note: two stages would combine them in groups\n"
        "  Hint: reduce without 'ordered' if any grouping of the terms will do"
    )


def test_data_decides_how_many_terms_there_are() -> None:
    knl = pl.make_kernel(
        ["{[i]: 0 <= i < n}", "{[j]: begin <= j < stop}"],
        """
        for i
            <> begin = rowptr[i]
            <> stop = rowptr[i + 1]
            y[i] = sum(j, values[j]) {id=row}
        end
        """,
        [
            pl.GlobalArg("rowptr", np.int32, shape="n + 1"),
            pl.GlobalArg("values", F, shape="nnz"),
            pl.GlobalArg("y", F, shape="n"),
            ...,
        ],
        name="rows",
    )
    knl = pl.split_iname(knl, "j", 4)
    text = refused(knl, lambda k: pl.split_reduction_inward(k, "j_inner"), "data-decides")
    assert text.endswith("  Note: its bounds use 'begin', 'stop', which the kernel computes\n"
                         "  Hint: leave the terms in one reduction")


def test_nothing_is_left_for_the_other_stage() -> None:
    assert refused(rows(), lambda k: pl.split_reduction_inward(k, "k"), "reduction-not-split") == (
        "split_reduction_inward on kernel 'rows': no reduction is over 'k' and another iname [reduction-not-split]\n"
        "  s[i] = sum(k, a[i, k])                               (line 1, instruction 'insn')\n"
        "  Note: there would be nothing left to reduce over in the other stage\n"
        "  Hint: split 'k' with split_iname first, and name one of the two halves"
    )


def test_no_reduction_over_the_iname() -> None:
    assert refused(rows(), lambda k: pl.split_reduction_outward(k, "i"), "reduction-not-split") == (
        "split_reduction_outward on kernel 'rows': no reduction is over 'i' [reduction-not-split]\n"
        "  Note: there are reductions over k"
    )
    refused(rows(), lambda k: pl.split_reduction_outward(k, ""), "reduction-not-split")
    refused(rows(), lambda k: pl.split_reduction_outward(k, "j"), "unknown-iname")
    refused(split_rows(), lambda k: pl.split_reduction_outward(k, "k_inner", within="id:x"), "unknown-instruction")


@pytest.mark.parametrize(
    "made",
    [
        lambda k: pl.add_prefetch(k, "a", []),
        lambda k: pl.buffer_array(k, "s", []),
        lambda k: k,
    ],
    ids=["prefetch", "buffer", "nothing"],
)
@pytest.mark.parametrize(
    "apart",
    [
        lambda k: pl.tile(k, {"k": 3}, outer_tags={"k": "g.0"}),
        lambda k: pl.tile(k, {"i": 4, "k": 3}, outer_tags={"k": "g.1"}, within="*"),
        lambda k: pl.split_iname(k, "k", 3, outer_tag="g.0"),
        lambda k: pl.split_iname(k, "k", 3, inner_tag="g.0", within="*"),
        lambda k: pl.tag_inames(k, "k:g.0"),
        lambda k: pl.duplicate_inames(k, "k", "*", tags={"k": "g.0"}),
    ],
    ids=["tile", "tile within", "split", "split within", "tag", "duplicate"],
)
def test_terms_on_blocks(made: Change, apart: Change) -> None:
    """Seed 34201207: ``tile`` did not look at its tags where something was fetched ahead."""
    refused(made(rows()), apart, "parallel-reduction")


@pytest.mark.parametrize("lanes", ["ilp", "vec"])
def test_terms_on_blocks_and_lanes(lanes: str) -> None:
    knl = pl.fix_parameters(rows(), n=8)
    refused(knl, lambda k: pl.split_iname(k, "k", 2, outer_tag="g.0", inner_tag=lanes), "parallel-reduction")


def test_a_partial_reduction_on_blocks() -> None:
    knl = pl.split_reduction_inward(split_rows(), "k_inner")
    refused(knl, lambda k: pl.tag_inames(k, "k_inner:g.1"), "parallel-reduction")


# }}}
# {{{ what is wrong is found: kernels as a wrong transform might leave them


def _tampered(change: Callable[[Any], Any]) -> pl.LoopKernel:
    knl = pl.split_reduction_inward(split_rows(), "k_inner")
    (instruction,) = knl.instructions
    return replace(knl, instructions=(change(instruction),))


def _codes(knl: pl.LoopKernel) -> list[str]:
    return [finding.code for finding in value_violations(knl)]


def test_untouched() -> None:
    assert not _codes(_tampered(lambda i: i))


@pytest.mark.parametrize("iname", ["k_inner", "k_outer"])
def test_terms_that_are_spread_over_blocks(iname: str) -> None:
    for knl in (split_rows(), _tampered(lambda i: i)):
        assert _codes(replace(knl, iname_tags={**knl.iname_tags, iname: GroupAxis(1)})) == ["parallel-reduction"]
    (finding,) = value_violations(replace(split_rows(), iname_tags={"k_outer": GroupAxis(0)}))
    assert finding.message == "the terms of 'sum' over k_outer, k_inner cannot be spread over 'g.0'"
    assert finding.notes == ("each index of the axis has an accumulator of its own, and these are not combined",)


def test_a_partial_result_that_nobody_combines() -> None:
    def change(i: Any) -> Any:
        outer, inner = i.terms
        fewer = outer.domain.lower_bound_val(isl.dim_type.set, outer.inames.index("k_outer"), 2)
        return replace(i, terms=(Term(outer.inames, fewer), inner))

    assert _codes(_tampered(change)) == ["term-twice"]


def test_a_partial_result_that_lacks_terms() -> None:
    def change(i: Any) -> Any:
        outer, inner = i.terms
        fewer = inner.domain.lower_bound_val(isl.dim_type.set, inner.inames.index("k_inner"), 2)
        return replace(i, terms=(outer, Term(inner.inames, fewer)))

    assert _codes(_tampered(change)) == ["instance-lost"]


def test_a_partial_result_that_is_changed() -> None:
    def change(i: Any) -> Any:
        outer = i.expression
        return replace(i, expression=Reduction(outer.operation, outer.inames, p.Product((2, outer.expr))))

    assert "not-proven" in _codes(_tampered(change))


def test_partial_results_of_another_operation() -> None:
    def change(i: Any) -> Any:
        outer = i.expression
        other = replace(outer.operation, name="max", of_states=False)
        inner = Reduction(other, outer.expr.inames, outer.expr.expr)
        return replace(i, expression=Reduction(outer.operation, outer.inames, inner))

    assert "not-proven" in _codes(_tampered(change))


# }}}


@pytest.mark.nvrtc
def test_nvrtc() -> None:
    program = pl.generate_code(pl.split_reduction_inward(split_rows(), "k_inner"), target=pl.CudaTarget())
    for architecture in ("sm_80", "sm_90"):
        assert compile_cuda(program.device_code, architecture).cubin
