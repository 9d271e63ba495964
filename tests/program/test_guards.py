"""Reads under conditions: what a condition shuts out does not happen."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import islpy as isl
import numpy as np
import pytest

import polyloop as pl
from polyloop.expr.nodes import Expression
from polyloop.expr.parser import parse_expression
from polyloop.kernel.arrays import ArrayArg
from polyloop.program.guards import guarded_domain
from polyloop.runtime.fibres import run_on_fibres
from polyloop.verification.order import order_violations
from polyloop.verification.values import value_violations

F = np.float32
DATA = [pl.GlobalArg("a, b", F, shape="n"), ...]
LINE = ("{[i]: 0 <= i < n}", "{[j]: 0 <= j < 3}")


def kernel(text: str, data: Sequence[object] = DATA) -> pl.LoopKernel:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", pl.PolyloopWarning)
        return pl.make_kernel(LINE, text, data)


def refusal(attempt: Callable[[], object]) -> str:
    with pytest.raises(pl.PolyloopError) as caught:
        attempt()
    return str(caught.value)


def agree(knl: pl.LoopKernel, **arguments: Any) -> np.ndarray[tuple[int, ...], np.dtype[F]]:
    """Return output ``b``, which all targets must give alike."""
    b: np.ndarray[tuple[int, ...], np.dtype[F]] = pl.interpret(knl, **arguments).b
    np.testing.assert_array_equal(pl.compile(knl, target=pl.CTarget())(**arguments).b, b)
    for result in run_on_fibres(pl.generate_code(knl), arguments).values():
        np.testing.assert_array_equal(result.b, b)
    return b


# {{{ bounds


@pytest.mark.few(4)
@pytest.mark.parametrize(
    "expression",
    [
        "if(i > 0, a[i-1], 0)",
        "a[i-1] if i > 0 else 0",
        "0 if i == 0 else a[i-1]",
        "if(i > 0 and a[i-1] > 2, 1, 0)",
        "if(i == 0 or a[i-1] > 2, 1, 0)",
        "if(a[i] > 2 and i > 0, a[i-1], 0)",
        "if(not (i < 1 or a[i] < 2), a[i-1], 0)",
        "if(i % 2 == 1, a[i-1], 0)",
        "if(i >= n - 1, 0, if(i > 0, a[i-1] + a[i+1], 0))",
        "max(if(i > 0, a[i-1], 0), a[i])",
        "sum(j, if(i - j >= 0, a[i-j], 0))",
        "sum(j, if(i + j < n and j > 0, a[i+j], 0))",
    ],
)
def test_a_read_under_a_condition_stays_inside(expression: str) -> None:
    knl = pl.split_iname(kernel(f"b[i] = {expression}"), "i", 4, outer_tag="g.0", inner_tag="l.0")
    for n in (1, 2, 4, 5, 9):
        agree(knl, a=np.arange(n, dtype=F))


def test_a_condition_that_is_not_enough_is_refused_with_an_instance() -> None:
    assert refusal(lambda: kernel("b[i] = if(i > 0, a[i-2], 0)")) == (
        "make_kernel on kernel 'loop_kernel': 'a' is accessed outside of its shape (n) [out-of-bounds]\n"
        "  b[i] = if(i > 0, a[i-2], 0)                          (line 1, instruction 'insn')\n"
        "                   ^^^^^^\n"
        "  Note: instance (i=1) with n=2 touches a[-1] (axis 0)\n"
        "  Hint: shrink the domain, enlarge the array, or state what holds with assumptions="
    )


@pytest.mark.parametrize(
    "expression",
    [
        "if(i > 0, 0, a[i-1])",
        "if(i > 0 or a[i] > 0, a[i-1], 0)",
        "if(a[i-1] > 2 and i > 0, 1, 0)",
        "if(not (i > 0), 0, 1) * a[i-1]",
        "if(a[i] > 0, a[i-1], 0)",
        "if(i % 2 == 0, a[i-1], 0)",
    ],
)
def test_a_condition_that_does_not_shut_it_out_is_refused(expression: str) -> None:
    assert "instance (i=0)" in refusal(lambda: kernel(f"b[i] = {expression}"))


def test_a_reduction_is_computed_whatever_the_condition_around_it_says() -> None:
    text = refusal(lambda: kernel("b[i] = if(i > 0, sum(j, a[i-1]), 0)"))
    assert "Note: a condition around a reduction does not keep it from reading: its value is computed first" in text
    assert "Hint: put the condition into the reduction: sum(j, if(i > 0, a[i-1, j], 0))" in text
    agree(kernel("b[i] = sum(j, if(i > 0, a[i-1], 0))"), a=np.arange(5, dtype=F))


def test_a_predicate_that_data_decides_about_guards_with_what_is_affine_in_it() -> None:
    knl = kernel("b[i] = 0 {id=z}\nb[i] = a[i-1] {if=a[i] > 1:i > 0, dep=z}")
    agree(knl, a=np.arange(6, dtype=F))
    assert "instance (i=0)" in refusal(lambda: kernel("b[i] = a[i-1] {if=a[i] > 1 or i > 0}"))
    both = kernel("b[i] = 0 {id=z}\nb[i] = a[i-1] {if=a[i] > 1 and i > 0, dep=z}")
    agree(both, a=np.arange(6, dtype=F))


def test_a_condition_on_parameters() -> None:
    data = [pl.GlobalArg("a", F, shape="m"), pl.GlobalArg("b", F, shape="n"), ...]
    knl = kernel("b[i] = if(m > 3, a[3], 0) + if(i < m, a[i], 0)", data)
    assert not knl.conditions
    for m in (0, 3, 4):
        agree(knl, a=np.arange(m, dtype=F), n=5)


@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.uint32])
def test_a_condition_whose_arithmetic_may_wrap_around_guards_nothing(dtype: type[np.integer]) -> None:
    data = [pl.GlobalArg("a", F, shape="m"), pl.GlobalArg("b", F, shape="n"), pl.ValueArg("m", dtype), ...]
    text = "b[i] = if(m - 4 >= 0, a[m-4], 0)"
    assert [condition.access for condition in kernel(text, data).conditions] == ["a[m - 4]"]
    assert not kernel(text, [*data[:2], ...]).conditions


def test_shapes_follow_from_what_is_read() -> None:
    knl = kernel("b[i] = if(i < n - 1, a[i+1], 0) + if(i < 0, c[7], 0)", [pl.GlobalArg("a, c", F), *DATA[1:]])
    shapes = {name: array.shape for name, array in knl.arrays().items()}
    assert str(shapes["a"]) == str(kernel("b[i] = a[i]", [pl.GlobalArg("a", F), ...]).arrays()["a"].shape)
    assert shapes["c"] == (0,)


def test_a_condition_that_overflows_32_bits_is_computed_in_64() -> None:
    knl = pl.split_iname(kernel("b[i] = if(131072*i <= n, a[i], 0)"), "i", 32, outer_tag="g.0", inner_tag="l.0")
    messages = [check.message for check in pl.generate_code(knl, target=pl.CudaTarget()).index_checks]
    assert "131072*n + 8257536 does not fit into 32 bits" in messages
    assert pl.compile(knl, target=pl.CTarget())(a=np.ones(40000, F)).b.sum() == 1


# }}}
# {{{ dataflow


def test_a_value_that_only_a_condition_keeps_from_being_read_is_no_input() -> None:
    knl = kernel("for i\n b[i] = a[i] + if(i > 0, b[i-1], 0)\nend")
    (b,) = [argument for argument in knl.arguments if argument.name == "b"]
    assert isinstance(b, ArrayArg)
    assert not b.is_input
    np.testing.assert_array_equal(agree(knl, a=np.ones(5, F)), np.arange(1, 6))
    assert "[illegal-parallel]" in refusal(lambda: pl.tag_inames(knl, "i:l.0"))


def test_a_temporary_read_only_where_it_is_written() -> None:
    text = "<> t[i] = a[i] {{if=i > 0}}\nb[i] = if({}, t[i], 0)"
    knl = pl.split_iname(kernel(text.format("i > 0")), "i", 4, outer_tag="g.0", inner_tag="l.0")
    agree(knl, a=np.arange(6, dtype=F))
    assert "instance (i=0) with n=1 reads t[0]" in refusal(lambda: kernel(text.format("i >= 0")))


def test_a_condition_takes_the_dependence_away() -> None:
    text = "b[i] = if(i >= 2*m, b[i - m], 1) + a[i] {{if=i < {}*m}}"
    data = [*DATA[:1], pl.ValueArg("m", np.int32), ...]
    free = pl.make_kernel("[m, n] -> {[i]: 0 <= i < n and m >= 1}", text.format(2), data)
    assert not pl.dependences(free)
    pl.split_iname(free, "i", 32, outer_tag="g.0", inner_tag="l.0")
    tied = pl.make_kernel("[m, n] -> {[i]: 0 <= i < n and m >= 1}", text.format(4), data)
    assert pl.dependences(tied)
    with pytest.raises(pl.TransformError, match="illegal-parallel"):
        pl.split_iname(tied, "i", 32, outer_tag="g.0", inner_tag="l.0")


# }}}
# {{{ copies ahead of their use


def tiled(text: str) -> pl.LoopKernel:
    return pl.split_iname(kernel(text), "i", 4, outer_tag="g.0", inner_tag="l.0")


@pytest.mark.parametrize(
    "text",
    [
        "b[i] = if(i > 0, a[i-1], 0) + a[i] + if(i + 1 < n, a[i+1], 0)",
        "b[i] = sum(j, if(i + j >= 1 and i + j <= n, a[i+j-1], 0))",
        "b[i] = if(a[i] > 0 and i > 0, a[i-1], 0)",
        "b[i] = if(i >= 5, a[i-5], 0) + if(i < 3, a[i], 0)",
        "b[i] = if(i < 0, a[i-1], 7) + a[i]",
    ],
)
def test_a_prefetch_takes_what_the_conditions_let_be_read(text: str) -> None:
    knl = tiled(text)
    swept = "i_inner, j" if "sum" in text else "i_inner"
    copied = pl.add_prefetch(knl, "a", swept)
    assert not [*value_violations(copied), *order_violations(copied)]
    for n in (1, 2, 3, 4, 5, 8, 9, 13):
        a = np.arange(1, n + 1, dtype=F)
        np.testing.assert_array_equal(agree(copied, a=a), pl.interpret(knl, a=a).b)


@pytest.mark.parametrize(
    "text",
    [
        "f(x) := if(x >= 0, a[x]**2, 0)\nb[i] = f(i) + f(i-1)",
        "f(x) := a[x]**2\nb[i] = f(i) + if(i > 0, f(i-1), 0)",
        "f(x) := if(x > 0 and a[x] > 2, a[x-1], 1)\nb[i] = f(i) + if(i + 1 < n, f(i+1), 0)",
    ],
)
def test_a_rule_computed_ahead_under_conditions(text: str) -> None:
    knl = tiled(text)
    ahead = pl.precompute(knl, "f", "i_inner")
    assert not [*value_violations(ahead), *order_violations(ahead)]
    for n in (1, 3, 4, 5, 9):
        a = np.arange(1, n + 1, dtype=F)
        np.testing.assert_array_equal(agree(ahead, a=a), pl.interpret(knl, a=a).b)


def test_both_ahead() -> None:
    knl = tiled("f(x) := if(x > 0, a[x-1], 0) + a[x]\nb[i] = f(i) + if(i > 0, f(i-1), 0)")
    ahead = pl.add_prefetch(pl.precompute(knl, "f", "i_inner"), "a", "f_dim_0_inner, f_dim_0_outer")
    assert not [*value_violations(ahead), *order_violations(ahead)]
    for n in (1, 4, 9):
        a = np.arange(1, n + 1, dtype=F)
        np.testing.assert_array_equal(agree(ahead, a=a), pl.interpret(knl, a=a).b)


def test_what_no_condition_lets_be_read_is_not_fetched() -> None:
    assert refusal(lambda: pl.add_prefetch(tiled("b[i] = if(i < 0, a[i-1], 7)"), "a", "i_inner")) == (
        "add_prefetch on kernel 'loop_kernel': no instance reads 'a' inside the swept loops [not-used]\n"
        "  b[i] = if(i < 0, a[i-1], 7)                          (line 1, instruction 'insn')\n"
        "  Note: the domains and the conditions around the uses leave no instance\n"
        "  Hint: there is nothing to compute ahead"
    )


def test_a_reduction_under_a_condition_is_fetched_for_as_a_whole() -> None:
    knl = tiled("b[i] = if(i > 0, sum(j, a[0*j + i]), 0)")
    copied = pl.add_prefetch(knl, "a", "i_inner, j")
    for n in (1, 4, 5):
        np.testing.assert_array_equal(agree(copied, a=np.ones(n, F)), np.where(np.arange(n) > 0, 3, 0))


# }}}
# {{{ against enumeration

_ATOMS = ("i > {}", "i + {} <= k", "k == {}", "i != {}", "(i + k) % 3 == {}", "i < k - {}")


def _condition(rng: random.Random, depth: int) -> str:
    if depth == 0:
        return rng.choice(_ATOMS).format(rng.randrange(3))
    left, right = (_condition(rng, depth - 1) for _ in range(2))
    return rng.choice([f"({left}) and ({right})", f"({left}) or ({right})", f"not ({left})"])


@pytest.mark.parametrize("seed", range(12))
def test_the_narrowed_domain_has_just_the_points_where_the_conditions_hold(seed: int) -> None:
    rng = random.Random(seed)
    texts = [_condition(rng, rng.randrange(3)) for _ in range(2)]
    guards: list[tuple[Expression, bool]] = [(parse_expression(text), rng.random() < 0.5) for text in texts]
    points = [(i, k) for i in range(5) for k in range(5)]
    domain = isl.Set("{ [i, k] : 0 <= i, k < 5 }")
    narrowed = guarded_domain(domain, ("i", "k"), guards, ())
    for i, k in points:
        holds = all(eval(text, {"i": i, "k": k}) is value for text, (_, value) in zip(texts, guards, strict=True))
        point = domain.fix_val(isl.dim_type.set, 0, i).fix_val(isl.dim_type.set, 1, k)
        assert point.is_subset(narrowed) is holds, (texts, guards, i, k)


# }}}


def test_a_prefetch_of_an_array_some_of_whose_reads_never_happen() -> None:
    """Found by a random chain: reads that no instance makes have no value to compare."""
    knl = pl.make_kernel(
        ["{[i, j]: 0 <= i <= j < n}"],
        "f(p) := 2*x[p] + y[p]\nz[i, j] = if(i < 0, f(j) + f(i), y[i])",
        [pl.GlobalArg("x, y", np.float64, shape="n"), pl.GlobalArg("z", np.float64, shape="n, n"), ...],
    )
    knl = pl.add_prefetch(knl, "y")
    x, z = np.arange(5.0), np.zeros((5, 5))
    result = pl.compile(knl, target=pl.CTarget())(x=x, y=x, z=z)
    np.testing.assert_array_equal(result["z"], np.triu(np.repeat(x[:, None], 5, 1)))
