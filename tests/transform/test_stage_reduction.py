from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import polyloop as pl
from polyloop.runtime.nvrtc import compile_cuda
from tests.transform.checking import check, cuda, refused, same_after_replay, vectors
from tests.transform.kernels import F

Golden = Callable[[str, str], None]


def dot() -> pl.LoopKernel:
    return pl.make_kernel(
        "{[k]: 0 <= k < n}",
        "out = sum(k, a[k]*b[k])",
        [pl.GlobalArg("a, b", F, shape="n"), ...],
        name="dot",
        assumptions="n >= 1",
    )


def check_dot(knl: pl.LoopKernel, sizes: tuple[int, ...] = (1, 7, 8, 31, 32, 33, 100)) -> None:
    for n in sizes:
        a, b = vectors(n, 2)
        check(knl, {"a": a, "b": b}, {"out": np.asarray(a @ b)})


def two_launches() -> pl.LoopKernel:
    """A block has 32 terms, a thread four of them."""
    knl = pl.split_iname(dot(), "k", 32)
    knl = pl.stage_reduction(
        knl, "k_outer", default_tag="g.0", temporary_name="part", temporary_address_space="global"
    )
    knl = pl.split_iname(knl, "k_inner", 8)
    return pl.stage_reduction(
        knl, "k_inner_inner", "id:compute_part", default_tag="l.0", temporary_name="mine", new_inames="t"
    )


def test_each_block_has_a_partial_result(golden: Golden) -> None:
    knl = two_launches()
    check_dot(knl)
    golden("golden/dot_two_launches.cu", cuda(knl))
    same_after_replay(dot(), knl)
    assert "part[(n + 31) // 32] filled for each block (k_outer_part)" in str(knl.trace)
    assert "launch 'dot_0' ends before 'dot_1' begins" in str(pl.verify(knl))


def on_all_threads() -> pl.LoopKernel:
    """Both stages on the threads of a block; each thread collects two sums at once."""
    knl = pl.split_iname(dot(), "k", 64)
    knl = pl.stage_reduction(
        knl, "k_outer", default_tag="g.0", temporary_name="part", temporary_address_space="global"
    )
    knl = pl.split_iname(knl, "k_inner", 32)
    knl = pl.split_iname(knl, "k_inner_inner", 16, inner_tag="l.0", outer_tag="ilp")
    return pl.split_iname(knl, "k_outer", 16, inner_tag="l.0")


def test_threads_combine_what_they_have_in_both_stages(golden: Golden) -> None:
    knl = on_all_threads()
    check_dot(knl, (1, 16, 64, 65, 300, 1100))
    golden("golden/dot_on_threads.cu", cuda(knl))
    same_after_replay(dot(), knl)


def test_atomic_updates_of_what_threads_have_together() -> None:
    knl = pl.reduce_atomically(pl.split_iname(dot(), "k", 64), "k_outer")
    knl = pl.split_iname(pl.tag_inames(knl, "k_outer:g.0"), "k_inner", 16, inner_tag="l.0")
    check_dot(knl, (1, 16, 64, 65, 130))


@pytest.mark.few(2)
@pytest.mark.parametrize("space", ["auto", "private", "local", "global"])
def test_in_any_memory(space: str) -> None:
    knl = pl.split_iname(pl.split_iname(dot(), "k", 4), "k_inner", 2)
    knl = pl.stage_reduction(knl, "k_inner_inner", temporary_name="part", temporary_address_space=space)
    check_dot(knl)


def test_partial_results_of_rows() -> None:
    base = pl.make_kernel(
        "{[i, k]: 0 <= i < m and 0 <= k < n}",
        "s[i] = max(k, a[i, k])",
        [pl.GlobalArg("a", F, shape="m, n"), ...],
        name="rows",
        assumptions="m >= 1 and n >= 1",
    )
    knl = pl.split_iname(base, "k", 8)
    knl = pl.stage_reduction(
        knl, "k_outer", sweep_inames="i", new_inames="row, b", temporary_name="part", temporary_address_space="global"
    )
    knl = pl.tag_inames(knl, "row:g.1, b:g.0")
    knl = pl.split_iname(knl, "i", 4, outer_tag="g.0", inner_tag="l.0")
    for m, n in ((1, 1), (5, 8), (3, 17)):
        a = np.random.default_rng(n).integers(-9, 9, (m, n)).astype(F)
        check(knl, {"a": a}, {"s": a.max(1)})
    same_after_replay(base, knl)
    assert "part[row, b] = " in str(knl) or "part[row, b]" in str(knl)


def test_argmin_in_two_launches(golden: Golden) -> None:
    base = pl.make_kernel(
        "{[k]: 0 <= k < n}",
        "least, where = argmin(k, abs(a[k]), k)",
        [pl.GlobalArg("a", F, shape="n"), ...],
        name="least",
        assumptions="n >= 1",
    )
    knl = pl.split_iname(base, "k", 8)
    knl = pl.stage_reduction(
        knl, "k_outer", default_tag="g.0", temporary_name="part", temporary_address_space="global"
    )
    for n in (1, 8, 9, 40):
        (a,) = vectors(n, 1)
        a[n // 2 :: 7] = 0
        want = {"least": np.asarray(abs(a).min()), "where": np.asarray(abs(a).argmin(), np.int32)}
        check(knl, {"a": a}, want)
    golden("golden/argmin_two_launches.cu", cuda(knl))


LSE = pl.ReductionOperation(
    "logsumexp",
    ("max(a.top, b.top)", "a.rest*exp(a.top - max(a.top, b.top)) + b.rest*exp(b.top - max(a.top, b.top))"),
    neutral=(-1e30, 0),
    fields=("top", "rest"),
)


def test_an_operation_of_the_users_with_other_fields() -> None:
    """The state of a term differs from the state of a stage: the second stage combines states."""
    knl = pl.make_kernel(
        "{[i, k]: 0 <= i < m and 0 <= k < n}",
        "<> t, r = logsumexp(k, x[i, k], 1)\ny[i] = t + log(r)",
        [pl.GlobalArg("x", np.float64, shape="m, n"), ...],
        reductions=[LSE],
        assumptions="m >= 1 and n >= 1",
    )
    knl = pl.split_iname(knl, "k", 4)
    knl = pl.stage_reduction(knl, "k_inner", temporary_name="part", default_tag="l.0")
    for m, n in ((1, 1), (3, 9)):
        x = np.random.default_rng(n).normal(size=(m, n))
        check(knl, {"x": x}, {"y": np.log(np.exp(x).sum(1))}, rtol=1e-12)


def test_partial_results_of_half_numbers_are_kept_in_float32() -> None:
    knl = pl.make_kernel("{[k]: 0 <= k < 4096}", "s = sum(k, a[k])", [pl.GlobalArg("a", np.float16, shape="4096"), ...])
    knl = pl.stage_reduction(pl.split_iname(knl, "k", 64), "k_inner", temporary_name="part")
    assert "float part[64];" in cuda(knl)
    a = np.ones(4096, np.float16)
    a[0] = 0.5
    check(knl, {"a": a}, {"s": np.asarray(4095.5, np.float16)})


def test_what_the_kernel_wrote_itself() -> None:
    """The terms are written before; the partial results are computed after that."""
    knl = pl.make_kernel(
        "{[i, k]: 0 <= i, k < n}",
        "a[i] = 2*b[i]\nout = sum(k, a[k])",
        [pl.GlobalArg("b", F, shape="n"), pl.GlobalArg("a", F, shape="n"), ...],
        assumptions="n >= 1",
    )
    knl = pl.split_iname(knl, "k", 8)
    knl = pl.stage_reduction(knl, "k_outer", default_tag="g.0", temporary_address_space="global")
    for n in (1, 9, 20):
        (b,) = vectors(n, 1)
        check(knl, {"b": b}, {"out": np.asarray(2 * b.sum())})


# {{{ refusals


def test_several_reductions() -> None:
    knl = pl.make_kernel(
        "{[k]: 0 <= k < n}",
        ["x = sum(k, a[k]) {id=x}", "y = sum(k, a[k]*a[k]) {id=y}"],
        [pl.GlobalArg("a", F, shape="n"), ...],
        name="two",
    )
    knl = pl.split_iname(knl, "k", 8)
    assert refused(knl, lambda k: pl.stage_reduction(k, "k_inner"), "several-reductions") == (
        "stage_reduction on kernel 'two': 2 reductions have partial results for 'k_inner' [several-reductions]\n"
        "  x = sum(k, a[k]) {id=x}                              (line 1, instruction 'x')\n"
        "  y = sum(k, a[k]*a[k]) {id=y}                         (line 2, instruction 'y')\n"
        "  Note: a temporary holds those of one\n"
        "  Hint: name one instruction: within='id:x'"
    )
    pl.stage_reduction(knl, "k_inner", within="id:y")


def test_names() -> None:
    knl = pl.split_iname(dot(), "k", 8)
    refused(knl, lambda k: pl.stage_reduction(k, "j"), "unknown-iname")
    refused(knl, lambda k: pl.stage_reduction(k, "k_inner", temporary_name="a"), "name-taken")
    refused(knl, lambda k: pl.stage_reduction(k, "k_inner", new_inames="p, q"), "wrong-rank")
    refused(knl, lambda k: pl.stage_reduction(k, "k_inner", sweep_inames="k_outer"), "sweep-unused")
    refused(dot(), lambda k: pl.stage_reduction(k, "k"), "reduction-not-split")


def test_threads_that_would_share_one_partial_result() -> None:
    knl = pl.make_kernel(
        "{[i, k]: 0 <= i < 5 and 0 <= k < n}",
        "s[i] = min(k, a[i, k])",
        [pl.GlobalArg("a", F, shape="5, n"), ...],
        name="rows",
        assumptions="n >= 1",
    )
    knl = pl.split_iname(pl.tag_inames(knl, "i:l.0"), "k", 3)
    with pytest.raises(pl.TransformError) as caught:
        pl.stage_reduction(knl, "k_inner", temporary_address_space="local")
    assert caught.value.codes == ("copy-wrong-element",)
    assert "keep partial results for more inames at once (sweep_inames)" in str(caught.value)
    knl = pl.stage_reduction(knl, "k_inner", temporary_address_space="local", sweep_inames="i")
    a = np.random.default_rng(0).integers(-9, 9, (5, 7)).astype(F)
    check(knl, {"a": a}, {"s": a.min(1)})


def test_private_partial_results_of_unknown_number() -> None:
    knl = pl.split_iname(dot(), "k", 8)
    with pytest.raises(pl.TransformError) as caught:
        pl.stage_reduction(knl, "k_outer")
    assert str(caught.value) == (
        "stage_reduction on kernel 'dot': the footprint of 'partial results' along axis 0 has no constant extent "
        "[footprint-not-constant]\n"
        "  out = sum(k, a[k]*b[k])                              (line 1, instruction 'insn')\n"
        "  Note: over the swept inames k_outer it is [n] -> { [x0'] : x0' >= 0 and 8x0' < n }\n"
        "  Hint: split an iname and sweep only its inner part, or leave an iname out of the sweep"
    )


# }}}


@pytest.mark.parametrize("sweep", [None, [], ["i_inner"]])
def test_terms_with_a_factor_fetched_before(sweep: list[str] | None) -> None:
    """Found by the fuzzer, seed 91062: what is the same for all terms may be fetched for another one of them."""
    knl = pl.make_kernel(
        "{[i, k]: 0 <= i < n and 0 <= k < 5}",
        "o[i] = sum(k, y[i]*x[k])",
        [pl.GlobalArg("y, o", F, shape="n"), pl.GlobalArg("x", F, shape=5), ...],
        name="scaled",
    )
    knl = pl.split_iname(pl.split_iname(knl, "i", 4), "k", 4)
    if sweep is not None:
        knl = pl.add_prefetch(knl, "y", sweep)
    knl = pl.stage_reduction(knl, "k_inner")
    for n in (1, 4, 9):
        y, x = vectors(n, 1)[0], vectors(5, 1)[0]
        check(knl, {"y": y, "x": x}, {"o": y * x.sum()})


def test_terms_fetched_for_another_iteration_are_refused() -> None:
    knl = pl.make_kernel("{[i, k]: 0 <= i < n and 0 <= k < 5}", "o[i] = sum(k, y[i + k])",
                         [pl.GlobalArg("y", F, shape="n + 4"), pl.GlobalArg("o", F, shape="n"), ...], name="window")
    knl = pl.add_prefetch(pl.split_iname(knl, "k", 4), "y", [])
    text = refused(knl, lambda k: pl.stage_reduction(k, "k_inner"), "copy-wrong-element")
    assert "a read of 'y' would see another element" in text


@pytest.mark.nvrtc
def test_nvrtc() -> None:
    program = pl.generate_code(two_launches(), target=pl.CudaTarget())
    for architecture in ("sm_80", "sm_90"):
        assert compile_cuda(program.device_code, architecture).cubin


@pytest.mark.parametrize("length", [3, 6])
def test_threads_of_which_every_third_has_terms(length: int) -> None:
    """The axis begins where the first term is; the C target's loop over the threads must not begin before."""
    knl = pl.make_kernel(
        ["{[i]: 0 <= i < n}", "{[k]: 0 <= k < n and k mod 3 = 1}"],
        "o[i] = sum(k, y[k])",
        [pl.GlobalArg("y, o", F, shape="n"), ...],
        name="thirds",
        assumptions="n >= 1",
    )
    knl = pl.split_iname(knl, "i", 5, outer_tag="g.0", inner_tag="l.0")
    knl = pl.split_iname(pl.split_iname(knl, "k", length, inner_tag="l.2"), "k_outer", 2)
    for n in (1, 7, 20):
        (y,) = vectors(n, 1)
        check(knl, {"y": y}, {"o": np.full(n, y[1::3].sum(), F)})


@pytest.mark.parametrize(
    "step",
    [
        lambda knl: pl.stage_reduction(knl, "b"),
        lambda knl: pl.reduce_atomically(knl, "b"),
        lambda knl: pl.realize_reduction(knl, grid="atomics", grid_inames="b"),
        lambda knl: pl.realize_reduction(knl, grid="two launches", grid_inames="b"),
    ],
)
def test_a_variable_of_partial_results_needs_the_type_of_the_terms(step: Callable[[pl.LoopKernel], object]) -> None:
    knl = pl.make_kernel("{[b, k]: 0 <= b < 8 and 0 <= k < 64}", "s = sum([b, k], a[b, k])")
    assert "add_dtypes" in refused(knl, step, "unknown-dtype")
    step(pl.add_dtypes(knl, {"a": np.float32}))
