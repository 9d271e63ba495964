"""Terms that may fail, under conditions: where the program does not evaluate a term, no target does."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import polyloop as pl
from polyloop.expr.parser import parse_expression
from polyloop.kernel.domains import data_inames
from polyloop.program.conditions import may_fail
from tests.transform.checking import check, cuda, refused

I4 = np.int32
N, K = 6, 4
B = np.array([0, 2, -3, 0, 1, 0], I4)
JUMP = np.where(B == 0, np.array([10**9, 0, 0, -(10**9), 0, 10**9]), np.arange(N)).astype(I4)
X = np.arange(1, N + K + 1, dtype=I4)
DATA = (
    pl.GlobalArg("x", I4, shape=N + K), pl.GlobalArg("b, c, jump, y", I4, shape=N), pl.GlobalArg("z", I4, shape=N), ...
)  # fmt: skip
DOMAIN = f"{{[i, k, m]: 0 <= i < {N} and 0 <= k, m < {K}}}"
SCAN = f"{{[i, k]: 0 <= i < {N} and 0 <= k <= i}}"
EXCLUSIVE = f"{{[i, k]: 0 <= i < {N} and 0 <= k < i}}"


def kernel(text: str, domain: str = DOMAIN, *more: object) -> pl.LoopKernel:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", pl.PolyloopWarning)
        return pl.make_kernel(domain, text, [*more, *DATA])


def agree(knl: pl.LoopKernel) -> np.ndarray[Any, Any]:
    """Return ``y``, which all targets must give as the interpreter does."""
    values: dict[str, Any] = {"x": X, "b": B, "c": np.arange(N, dtype=I4) - 2, "jump": JUMP, "n": N}
    values |= dict.fromkeys(("y", "z"), np.full(N, -7, I4))
    given = {a.name: values[a.name] for a in knl.arguments}
    expected = pl.interpret(knl, **{name: np.copy(value) for name, value in given.items()})
    check(knl, given, expected)
    return expected["y"]


def body(knl: pl.LoopKernel) -> str:
    return pl.generate_code(knl, target=pl.CTarget()).device_code


# {{{ untransformed


@pytest.mark.few(8)
@pytest.mark.parametrize(
    "text",
    [
        "y[i] = sum(k, x[k]//b[i]) {if=b[i] != 0}",
        "y[i] = sum(k, x[k] % b[i]) {if=b[i] != 0}",
        "y[i] = sum(k, x[jump[i] + k]) {if=b[i] != 0}",
        "y[i] = if(b[i] != 0, sum(k, x[k]//b[i]), 0)",
        "y[i] = if(b[i] == 0, c[i], 1 + sum(k, x[k]//b[i]))",
        "y[i] = if(b[i] != 0 and max(k, x[k]//b[i]) > 1, 1, 0)",
        "y[i] = if(b[i] == 0 or max(k, x[k]//b[i]) > 1, 1, 0)",
        "y[i] = min(k, x[jump[i] + k]//b[i]) {if=b[i] != 0}",
        "y[i] = product(k, x[jump[i]] + k) {if=b[i] != 0}",
        "y[i] = if(any(k, x[k]//b[i] > 2), 1, 2) {if=b[i] != 0}",
        "y[i] = if(all(k, x[jump[i] + k] > 2), 1, 2) {if=b[i] != 0}",
        "y[i] = argmin(k, x[k]//b[i], k).index {if=b[i] != 0}",
        "y[i], z[i] = argmax(k, x[k]//b[i], k) {if=b[i] != 0}",
        "y[i] = reduce(ordered(sum), k, x[k]//b[i]) {if=b[i] != 0}",
        "y[i] = sum(k, x[k]//b[i]) {if=c[i] > -5 and b[i] != 0}",
        "y[i] = if(c[i] > 0, sum(k, x[k]//b[i]), 0) {if=b[i] != 0}",
        "y[i] = sum(k, if(b[k] != 0, sum(m, x[m]//b[k]), i))",
        "y[i] = sum(k, c[k] + sum(m, x[m]//b[i])) {if=b[i] != 0}",
        "y[i] = sum(k, if(b[k] != 0, sum(m, x[m]//b[k]//b[i]), 1)) {if=b[i] != 0}",
        "y[i] = sum([k, m], x[k]//b[i] + m) {if=b[i] != 0}",
        "y[i] = if(i > 0, sum(k, x[k]//i), 0)",
        "y[i] = if(i > 2, 0, sum(k, x[k]//(3 - i)))",
        "f(p) := sum(k, x[k]//b[p])\ny[i] = if(b[i] != 0, f(i), 0)",
        "g(p, q) := x[p]//q\ny[i] = sum(k, g(k, b[i])) {if=b[i] != 0}",
        "for i\n  if b[i] != 0\n    y[i] = sum(k, x[k]//b[i])\n  else\n    y[i] = sum(k, x[k])\n  end\nend",
    ],
)
def test_a_term_that_may_fail_is_evaluated_under_the_conditions_around_its_reduction(text: str) -> None:
    y = agree(kernel(text))
    assert len(set(y.tolist())) > 1


def test_the_condition_becomes_part_of_the_term() -> None:
    text = body(kernel("y[i] = sum(k, x[k]//b[i]) {if=b[i] != 0}"))
    assert "acc += (unsigned int)(b[i] != 0 ? divide_int32(x[k], b[i]) : 0);" in text
    assert "if (b[i] != 0)" in text


@pytest.mark.parametrize(
    "text",
    [
        "y[i] = sum(k, x[k + i]) {if=b[i] != 0}",
        "y[i] = sum(k, x[(k + i)//2]//4 % 3) {if=b[i] != 0}",
        "y[i] = if(b[i] != 0, max(k, x[min(k, i)]), 0)",
        "y[i] = sum(k, if(b[i] != 0, x[k]//b[i], 0)) {if=c[i] > 0}",
        "y[i] = sum(k, if(b[i] < 0 or 0 < b[i], 1, 0)) {if=c[i] > 0}",
    ],
)
def test_a_term_that_cannot_fail_stays_as_it_is(text: str) -> None:
    value = text.split(" = ", maxsplit=1)[1].split(" {if", maxsplit=1)[0]
    bare = value.split("0, ", maxsplit=1)[1].rsplit(", 0)", maxsplit=1)[0] if value.startswith("if") else value
    one, other = (
        [line.strip() for line in body(kernel(f"y[i] = {x}")).splitlines() if "acc" in line and "[" in line]
        for x in (value, bare)
    )
    assert one[0] == other[0]
    under = [line.strip() for line in body(kernel(text)).splitlines() if "acc" in line and "[" in line]
    assert under[0].split("  //")[0] == one[0].split("  //")[0]


def test_a_condition_that_is_written_into_the_term_is_not_repeated() -> None:
    text = body(kernel("y[i] = sum(k, if(b[i] != 0, x[jump[i] + k], 0)) {if=b[i] != 0}"))
    assert "acc += (unsigned int)(b[i] != 0 ? x[jump[i] + k] : 0);" in text


@pytest.mark.parametrize(
    ("expression", "wanted"),
    [
        ("x[i]//b[i]", True), ("x[i]//3", False), ("x[i] % n", True), ("x[i % 3]", False), ("x[b[i]]", True),
        ("x[n - 1 - i]", False), ("x[i*i]", False), ("if(b[i] != 0, x[i]//b[i], 0)", False),
        ("if(b[i] == 0, x[i]//b[i], 0)", True), ("if(b[i] == 0, 0, x[i]//b[i])", False),
        ("if(b[i] > 0, x[i]//b[i], 0)", False), ("if(b[i] >= 0, x[i]//b[i], 0)", True),
        ("if(0 < b[i], x[i]//b[i], 0)", False), ("if(-1 < b[i], x[i]//b[i], 0)", True),
        ("if(b[i] > 0 or b[i] < 0, x[i]//b[i], 0)", False), ("if(b[i] > 0 or c[i] < 0, x[i]//b[i], 0)", True),
        ("if(not (b[i] == 0 or c[i] > 0), x[i]//b[i], 0)", False), ("if(c[i] != 0, x[i]//b[i], 0)", True),
        ("b[i] != 0 and x[i]//b[i] > 0", False), ("b[i] == 0 or x[i]//b[i] > 0", False),
        ("b[i] != 0 or x[i]//b[i] > 0", True), ("if(b[i] == 3, x[i]//b[i], 0)", False), ("x[i]/b[i]", False),
    ],
)  # fmt: skip
def test_what_may_fail(expression: str, wanted: bool) -> None:
    knl = kernel("y[i] = x[i] + c[i]", "[n] -> {[i]: 0 <= i < n and n <= 6}")
    assert may_fail(knl, parse_expression(expression, inames=frozenset("i"), operation="test")) is wanted


def test_terms_that_a_loop_around_collects_are_evaluated_as_it_runs() -> None:
    """The condition is tested after the loop, in which each iteration evaluates a term (rule 4 of the order)."""
    knl = kernel("for i\n  for k\n    <> t = b[i]*b[i] + k + 1\n  end\n  y[i] = sum(k, x[k]//t) {if=t > 4}\nend")
    assert "?" not in body(knl).split("void ")[1]
    agree(knl)


def test_a_condition_with_a_reduction_in_it_is_refused() -> None:
    with pytest.raises(pl.KernelError) as caught:
        kernel("y[i] = if(sum(m, b[m]) != 0, sum(k, x[k]//b[k]), 0)")
    assert str(caught.value) == """\
make_kernel on kernel 'loop_kernel': the terms of 'sum(k, x[k] // b[k])' may fail where a condition with a reduction in it does not hold [condition-of-terms]
  y[i] = if(sum(m, b[m]) != 0, sum(k, x[k]//b[k]), 0)  (line 1, instruction 'insn')
  Note: the condition is sum(m, b[m]) != 0
  Note: each term would have to compute it
  Hint: compute it ahead, into a temporary: <> t = sum(m, b[m]) != 0"""  # noqa: E501
    agree(kernel("<> t = sum(m, b[m]) > 0\ny[i] = if(t, sum(k, x[k]//b[k]), 0)"))
    agree(kernel("y[i] = if(sum(m, b[m]) != 0, sum(k, x[k]), 0)"))


# }}}
# {{{ reductions on threads, in parts, and as scans

GUARDED = "y[i] = sum(k, x[k]//b[i] + x[jump[i]]) {if=b[i] != 0}"
IN_BRANCH = "y[i] = if(b[i] != 0, sum(k, x[k]//b[i] + x[jump[i]]), 0)"


def _threads(knl: pl.LoopKernel) -> pl.LoopKernel:
    return pl.tag_inames(knl, "k:l.0, i:g.0")


def _warps(knl: pl.LoopKernel) -> pl.LoopKernel:
    return pl.split_iname(pl.tag_inames(knl, "i:l.1"), "k", 2, inner_tag="l.0")


def _lanes(knl: pl.LoopKernel) -> pl.LoopKernel:
    return pl.split_iname(knl, "i", 2, inner_tag="vec")


def _in_stages(knl: pl.LoopKernel) -> pl.LoopKernel:
    return pl.split_reduction_outward(pl.split_iname(knl, "k", 2), "k_outer")


def _stored(knl: pl.LoopKernel) -> pl.LoopKernel:
    return pl.stage_reduction(pl.split_iname(knl, "k", 2), "k_outer")


def _two_launches(knl: pl.LoopKernel) -> pl.LoopKernel:
    return pl.realize_reduction(pl.split_iname(knl, "k", 2), grid="two launches", grid_inames="k_outer")


@pytest.mark.few(4)
@pytest.mark.parametrize("text", [GUARDED, IN_BRANCH])
@pytest.mark.parametrize("transform", [_threads, _warps, _lanes, _in_stages, _stored, _two_launches])
def test_no_transform_takes_terms_out_of_their_condition(
    text: str, transform: Callable[[pl.LoopKernel], pl.LoopKernel]
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", pl.PolyloopWarning)
        agree(transform(kernel(text)))


@pytest.mark.parametrize("inner", ["k_inner", "k_outer"])
def test_parts_of_a_reduction_with_fields_are_under_its_condition(inner: str) -> None:
    text = "y[i] = if(b[i] != 0, argmax(k, x[k]//b[i], k).index, -1)"
    knl = pl.split_iname(kernel(text), "k", 2)
    before = agree(knl)
    np.testing.assert_array_equal(agree(pl.split_reduction_inward(knl, inner)), before)


def test_atomic_updates_have_the_condition_of_the_instruction() -> None:
    knl = pl.split_iname(kernel(GUARDED), "k", 2)
    agree(pl.realize_reduction(knl, grid="atomics", grid_inames="k_outer"))


def test_threads_combine_under_no_condition_on_data() -> None:
    text = cuda(_threads(kernel(GUARDED)))
    lines = [line.strip() for line in text.split("loop_kernel(")[-1].splitlines()]
    assert "acc = loop_kernel_sum_over_x_int32(acc);" in lines
    assert "if (tx == 0 && b[bx] != 0)" in lines


@pytest.mark.parametrize("divisor", ["b[0]", "b[1]"])
def test_a_scan_whose_results_share_a_condition(divisor: str) -> None:
    knl = kernel(f"y[i] = sum(k, x[k]//{divisor}) {{if={divisor} != 0}}", SCAN)
    agree(pl.realize_scan(knl))
    agree(pl.split_scan(knl, "i", 2))
    agree(pl.realize_scan(pl.split_scan(knl, "i", 2, inner_tag="l.0")))


def test_a_scan_whose_results_have_conditions_of_their_own_is_refused() -> None:
    """A running total has all terms, also those that no result under its condition has."""
    knl = kernel("y[i] = sum(k, x[k]//b[k]) {if=c[i] > 5}", SCAN)
    text = refused(knl, pl.realize_scan, "not-a-scan")
    assert "Note: its terms may fail where a condition that uses 'i' does not hold" in text
    agree(pl.realize_scan(kernel("y[i] = sum(k, if(b[k] != 0, x[k]//b[k], 0)) {if=c[i] > 0}", SCAN)))


def test_the_last_term_of_an_exclusive_scan_is_no_term() -> None:
    """The divisor behind the last result is 0: it is divided by nowhere."""
    knl = kernel("y[i] = sum(k, x[k]//(5 - k))", EXCLUSIVE)
    for made in (pl.realize_scan(knl), pl.split_scan(knl, "i", 4), pl.split_scan(knl, "i", 4, carry_iname="tile")):
        agree(made)
    harmless = kernel("y[i] = sum(k, x[k])", EXCLUSIVE)
    assert "y[i] = acc;\n        acc += x[i]" in body(pl.realize_scan(harmless)).replace("(unsigned int)", "")


# }}}
# {{{ values that are computed ahead


def test_a_rule_is_not_computed_ahead_of_a_condition_on_data() -> None:
    knl = kernel("f(p) := 7//b[p]\ny[i] = if(b[i] != 0, f(i), 0)")
    assert refused(knl, lambda k: pl.precompute(k, "f", "i"), "may-fail") == """\
precompute on kernel 'loop_kernel': 'compute_f' would compute '7 // b[f_dim_0]', which may fail, where the program does not [may-fail]
  f_value[f_dim_0] = 7 // b[f_dim_0]                   (instruction 'compute_f')
  Note: one instance is (f_dim_0=0): 'insn' uses it where a condition on data holds
  Hint: write the condition into the rule or the term, if(b[j] != 0, a[j]//b[j], 0), and use it under none; or leave it where it is"""  # noqa: E501


@pytest.mark.parametrize(
    "text",
    [
        "f(p) := 7//b[p]\ny[i] = 7//f(i) {if=b[i] != 0}",
        "f(p) := x[jump[p]]\ny[i] = if(b[i] != 0, f(i), 0)",
        "f(p) := 7//b[p]\ny[i] = sum(k, f(i)) {if=b[i] != 0}",
        "f(p) := 7//b[p]\ny[i] = if(b[i] != 0 and f(i) > 2, 1, 0)",
        "f(p) := sum(k, x[k]//b[p])\ny[i] = if(b[i] != 0, f(i), 0)",
        "f(p) := sum(k, x[k]//b[p])\ny[i] = f(i) {if=b[i] != 0}",
    ],
)
def test_values_that_may_fail_stay_under_their_condition(text: str) -> None:
    text = refused(kernel(text), lambda k: pl.precompute(k, "f", "i"), "may-fail")
    assert "which may fail, where the program does not" in text


@pytest.mark.parametrize(
    "text",
    [
        "f(p) := if(b[p] != 0, 7//b[p], 0)\ny[i] = f(i)",
        "f(p) := if(b[p] != 0, 7//b[p], 0)\ny[i] = f(i) {if=c[i] > 0}",
        "f(p) := sum(k, if(b[p] != 0, x[k]//b[p], 0))\ny[i] = if(c[i] > 0, f(i), 0)",
        "f(p) := if(b[p] != 0, x[jump[p]], 0)\ny[i] = f(i)",
        "f(p) := 2*b[p]\ny[i] = if(b[i] != 0, f(i), 0)",
        "f(p) := 12//(p + 1)\ny[i] = f(i) + if(b[i] != 0, f(i), 0)",
        "f(p) := 12//p\ny[i] = if(i > 0, f(i), 0)",
        "f(p) := 12//p\ny[i] = if(i > 0, sum(k, f(i)*x[k]), 0)",
        "f(p) := x[p]//(7 - p)\ny[i] = f(2*(i//2)) + f(3)",
        "f(p) := 12//(p - 3)\ny[i] = f(2*i)",
    ],
)
def test_what_is_computed_ahead_is_what_the_program_computes(text: str) -> None:
    agree(pl.precompute(kernel(text), "f", "i"))


def test_a_box_around_values_that_may_fail_is_not_computed() -> None:
    knl = kernel("f(p, q) := x[p]//(p + 1 - q)\ny[i] = sum(k, f(i, k))", SCAN)
    agree(pl.precompute(knl, "f", "i, k"))
    text = refused(knl, lambda k: pl.precompute(k, "f", "i, k", fetch_bounding_box=True), "may-fail")
    assert "Note: one instance is (f_dim_0=0, f_dim_1=1): no instance of the program uses it" in text
    harmless = kernel("f(p, q) := x[p]*(p + 1 - q)\ny[i] = sum(k, f(i, k))", SCAN)
    assert "f_dim_1 < 6" in body(pl.precompute(harmless, "f", "i, k"))


def test_a_value_that_a_value_ahead_uses() -> None:
    """A fill that reads another one under a condition, or is itself computed for nothing, evaluates no more than it."""
    text = "g(p) := 7//b[p]\nf(p) := if(b[p] != 0, g(p), 1)\ny[i] = f(i)"
    knl = pl.precompute(kernel(text), "f", "i")
    agree(knl)
    refused(knl, lambda k: pl.precompute(k, "g", "f_dim_0"), "may-fail")
    text = "g(p) := 7//(p + 1)\nf(p) := 2*g(p)\ny[i] = f(i)"
    agree(pl.precompute(pl.precompute(kernel(text), "f", "i"), "g", "f_dim_0"))


def test_what_never_fails_may_be_said() -> None:
    knl = kernel("f(p) := 7//c[p]\ny[i] = if(b[i] != 0, f(i), 0)")
    made = pl.unchecked(knl, "no element of c is 0", claims="values").precompute("f", "i")
    assert "f_value[f_dim_0] = divide_int32(7, c[f_dim_0]);" in body(made)


def test_a_certificate_says_where_values_may_fail() -> None:
    knl = pl.precompute(kernel("f(p) := 12//(p + 1)\ny[i] = f(i)"), "f", "i")
    says = [proof.says for proof in pl.verify(knl).proofs]
    assert "each value of 'f_value' that may fail is one that the program computes" in says


def test_a_factor_that_may_fail_stays_in_its_increments() -> None:
    """Where no increment runs, the program does not divide."""
    text = "<float32> t = 0 {id=z}\nt = t + (6//m)*x[k] {dep=z, if=b[0] != 0}\ny[0] = t"
    knl = kernel(text, f"{{[k]: 0 <= k < {K}}}", pl.ValueArg("m", I4))
    refused(knl, lambda k: pl.collect_common_factors_on_increment(k, "t"), "no-common-factor")
    found = kernel(text.replace("6//m", "m"), f"{{[k]: 0 <= k < {K}}}", pl.ValueArg("m", I4))
    assert "y[0] = m*t" in str(pl.collect_common_factors_on_increment(found, "t"))


# }}}
# {{{ inames whose bounds depend on data


def test_an_element_in_a_row_whose_ends_are_data_may_fail() -> None:
    """The row is garbage where the condition does not hold."""
    knl = kernel(
        "for i\n  <> begin = jump[i]\n  y[i] = sum(j, x[j]) {if=b[i] != 0}\nend",
        (f"{{[i]: 0 <= i < {N}}}", "[begin] -> {[j]: begin <= j < begin + 3}"),  # type: ignore[arg-type]
    )
    assert data_inames(knl) == {"j"}
    assert "b[i] != 0 ? x[j] : 0" in body(knl)
    agree(knl)


# }}}
