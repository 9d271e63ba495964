from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import polyloop as pl
from polyloop.runtime.fibres import run_on_fibres
from tests.transform.checking import check, cuda, refused, same_after_replay
from tests.transform.kernels import F, check_matmul, check_triangle, matmul, sweep, triangle

Golden = Callable[[str, str], None]


def blocked() -> pl.LoopKernel:
    """Return a matrix product in blocks: the outer loop of the sum lies outside of the loops over a block."""
    knl = matmul()
    for iname in ("i", "j", "k"):
        knl = pl.split_iname(knl, iname, 4)
    return pl.prioritize_loops(knl, "i_outer, j_outer, k_outer, i_inner, j_inner, k_inner")


def test_interchange() -> None:
    base = pl.make_kernel(
        "{[i, j]: 0 <= i < n and 0 <= j < m}",
        "a[i, j] = 10*i + j",
        [pl.GlobalArg("a", F, shape="n, m"), ...],
        name="fill",
        assumptions="n >= 1 and m >= 1",
    )
    knl = pl.prioritize_loops(base, "j, i")
    text = cuda(knl)
    assert text.index("int j = 0") < text.index("int i = 0")
    for n, m in ((1, 1), (3, 7)):
        check(knl, {"n": n, "m": m}, {"a": 10 * np.arange(n, dtype=F)[:, None] + np.arange(m, dtype=F)})
    same_after_replay(base, knl)
    assert cuda(base.prioritize_loops(["j", "i"])) == text


def test_a_bound_is_rewritten_with_the_order() -> None:
    check_triangle(pl.prioritize_loops(triangle(), "j, i"))


def test_an_accumulator_for_each_element_of_a_block(golden: Golden) -> None:
    knl = blocked()
    check_matmul(knl)
    golden("golden/blocked_matmul.cu", cuda(knl))
    same_after_replay(matmul(), knl)
    check_matmul(pl.tag_inames(knl, "i_outer:g.1, j_outer:g.0"))
    check_matmul(pl.tag_inames(knl, "i_outer:g.1, j_outer:g.0, i_inner:unr_hint, j_inner:unr_hint"))


def test_accumulators_of_empty_sums() -> None:
    """Those rows have accumulators too, although no term says so."""
    data = [pl.GlobalArg("a", np.int32, shape="6, 6"), ...]
    knl = pl.make_kernel(["{[i]: 0 <= i < 6}", "{[k]: 1 <= k < i}"], "s[i] = sum(k, a[i, k])", data)
    knl = pl.prioritize_loops(knl, "k, i")
    a = np.arange(36, dtype=np.int32).reshape(6, 6)
    for result in run_on_fibres(pl.generate_code(knl, target=pl.CudaTarget()), {"a": a}).values():
        np.testing.assert_array_equal(result["s"], [a[i, 1:i].sum() for i in range(6)])


def test_unrolled_accumulators() -> None:
    knl = pl.tag_inames(blocked(), "i_outer:g.1, j_outer:g.0, i_inner:unr, j_inner:unr")
    knl = pl.assume(knl, "n mod 4 = 0")
    check_matmul(knl, (4, 8))
    assert cuda(knl).count("#pragma unroll") >= 2


def test_the_order_that_is_there_may_be_stated() -> None:
    for order in ("i, j", "i", ""):
        pl.prioritize_loops(sweep(), order)


Case = tuple[Callable[[], pl.LoopKernel], Callable[[pl.LoopKernel], pl.LoopKernel], str]
REFUSALS: dict[str, Case] = {
    "interchange": (sweep, lambda knl: pl.prioritize_loops(knl, "j, i"), "illegal-order"),
    "unknown_iname": (matmul, lambda knl: pl.prioritize_loops(knl, "i, kk"), "unknown-iname"),
    "twice": (matmul, lambda knl: pl.prioritize_loops(knl, "i, j, i"), "bad-priority"),
    "contradiction": (
        lambda: pl.prioritize_loops(matmul(), "i, j"),
        lambda knl: pl.prioritize_loops(knl, "j, i"),
        "priority-conflict",
    ),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_refusals(case: str, golden: Golden) -> None:
    make, call, code = REFUSALS[case]
    golden(f"messages/prioritize_loops_{case}.txt", refused(make(), call, code))


def test_an_accumulator_needs_a_constant_number_of_elements(golden: Golden) -> None:
    text = refused(matmul(), lambda knl: pl.prioritize_loops(knl, "k, i, j"), "accumulator-not-constant")
    golden("messages/prioritize_accumulator_not_constant.txt", text)
