from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import polyloop as pl
from polyloop.expr.parser import parse_expression
from polyloop.expr.printer import show
from tests.transform.checking import check, cuda, refused, same_after_replay, vectors
from tests.transform.kernels import F, check_rule, rule, spread

Golden = Callable[[str, str], None]


def nested() -> pl.LoopKernel:
    return pl.make_kernel(
        "{[i]: 1 <= i < n - 1}",
        "g(x) := 3*a[x]\nf(x) := g(x) + g(x+1)\nout[i] = f(i) + f(i-1)",
        [pl.GlobalArg("a, out", F, shape="n"), ...],
        name="nested",
        assumptions="n >= 3",
    )


def check_nested(knl: pl.LoopKernel) -> None:
    for n in (3, 17, 18, 19, 34):
        a, out = vectors(n, 2)
        want = out.copy()
        want[1:-1] = 3 * (a[1:-1] + a[2:] + a[:-2] + a[1:-1])
        check(knl, {"a": a, "out": out}, {"out": want})


def with_reduction() -> pl.LoopKernel:
    return pl.make_kernel(
        "{[i, k]: 0 <= i < n - 1 and 0 <= k < m}",
        "s(x) := sum(k, a[x, k])\nout[i] = s(i) + s(i+1)",
        [pl.GlobalArg("a", F, shape="n, m"), pl.GlobalArg("out", F, shape="n - 1"), ...],
        name="sums",
        assumptions="n >= 2 and m >= 1",
    )


def check_with_reduction(knl: pl.LoopKernel) -> None:
    for n, m in ((2, 1), (17, 3), (18, 5), (40, 4)):
        a = np.random.default_rng(n).integers(-3, 4, (n, m)).astype(F)
        s = a.sum(1)
        check(knl, {"a": a}, {"out": s[:-1] + s[1:]})


def once() -> pl.LoopKernel:
    return pl.split_iname(rule(), "i", 16)


def test_values_used_at_two_offsets(golden: Golden) -> None:
    base = rule()
    knl = pl.precompute(spread(base), "f", "i_inner")
    check_rule(knl)
    golden("golden/precompute.cu", cuda(knl))
    same_after_replay(base, knl)
    assert "f_value[18] filled for each block (i_outer)" in str(knl.trace)
    assert cuda(spread(base).precompute("f", ["i_inner"])) == cuda(knl)


def test_without_threads() -> None:
    check_rule(pl.precompute(once(), "f", "i_inner"))


def test_without_a_sweep() -> None:
    check_rule(pl.precompute(spread(rule()), "f"))


def test_names_and_places_can_be_chosen() -> None:
    knl = pl.precompute(
        spread(rule()),
        "f",
        ["i_inner"],
        precompute_inames=["p"],
        precompute_outer_inames=["i_outer"],
        default_tag=None,
        temporary_name="values",
        temporary_address_space=pl.AddressSpace.LOCAL,
        compute_insn_id="fill",
    )
    check_rule(knl, (3, 18))
    assert "__shared__ float values[18]" in cuda(knl)
    same_after_replay(rule(), knl)


def test_rules_inside_rules() -> None:
    check_nested(pl.precompute(spread(nested()), "f", "i_inner"))
    check_nested(pl.precompute(spread(nested()), "g", "i_inner"))
    check_nested(pl.precompute(pl.precompute(spread(nested()), "f", "i_inner"), "g", "f_dim_0_inner"))


def test_a_prefetch_for_a_precomputed_rule(golden: Golden) -> None:
    knl = pl.precompute(pl.split_iname(nested(), "i", 16), "f", "i_inner")
    knl = pl.add_prefetch(knl, "a", "f_dim_0")
    check_nested(knl)
    golden("golden/precompute_prefetch.cu", cuda(knl))


def test_a_type_that_the_rule_widens() -> None:
    knl = pl.make_kernel(
        "{[i]: 0 <= i < n}",
        "f(x) := 2.0d*a[x] + x\nout[i] = f(i)",
        [pl.GlobalArg("a", F, shape="n"), pl.GlobalArg("out", np.float64, shape="n"), ...],
        assumptions="n >= 1",
    )
    knl = pl.precompute(pl.split_iname(knl, "i", 16), "f", "i_inner")
    assert knl.temporaries["f_value"].dtype == np.float64
    (a,) = vectors(20, 1)
    check(knl, {"a": a}, {"out": 2 * a.astype(np.float64) + np.arange(20)})


def test_two_arguments() -> None:
    knl = pl.make_kernel(
        "{[i, j]: 0 <= i, j < n}",
        "f(x, y) := 2*a[x, y]\nout[i, j] = f(j, i)",
        [pl.GlobalArg("a, out", F, shape="n, n"), ...],
        assumptions="n >= 1",
    )
    knl = pl.split_iname(knl, "i", 8, outer_tag="g.1", inner_tag="l.1")
    knl = pl.split_iname(knl, "j", 8, outer_tag="g.0", inner_tag="l.0")
    knl = pl.precompute(knl, "f", "i_inner, j_inner")
    for n in (1, 8, 9, 20):
        a = np.random.default_rng(n).integers(-4, 5, (n, n)).astype(F)
        check(knl, {"a": a}, {"out": 2 * a.T})


def test_a_rule_beside_one_with_a_reduction() -> None:
    data = [pl.GlobalArg("out", F, shape="n"), pl.GlobalArg("a", F, shape="n + 1"), pl.GlobalArg("b", F, shape="n, 4")]
    knl = pl.make_kernel(
        "{[i, k]: 0 <= i < n and 0 <= k < 4}",
        "s(x) := sum(k, b[x, k])\nf(x) := 2*a[x]\nout[i] = s(i) + f(i) + f(i+1)",
        [*data, ...],
        assumptions="n >= 1",
    )
    for staged in (
        pl.precompute(spread(knl, "i", 8), "f", "i_inner"),
        pl.add_prefetch(spread(knl, "i", 8), "b", "i_inner, k"),
    ):
        for n in (1, 7, 8, 17):
            b = np.random.default_rng(n).integers(-3, 4, (n, 4)).astype(F)
            (a,) = vectors(n + 1, 1)
            check(staged, {"a": a, "b": b}, {"out": b.sum(1) + 2 * a[1:] + 2 * a[:-1]})


@pytest.mark.parametrize("threads", [False, True])
def test_a_rule_with_a_reduction(threads: bool) -> None:
    knl = spread(with_reduction()) if threads else pl.split_iname(with_reduction(), "i", 16)
    check_with_reduction(pl.precompute(knl, "s", "i_inner"))
    check_with_reduction(pl.split_iname(pl.precompute(knl, "s", "i_inner"), "k", 4))


def scan() -> pl.LoopKernel:
    data: list[Any] = [pl.GlobalArg("b", F, shape="n"), ...]
    knl = pl.make_kernel("{[i]: 1 <= i < n}", "f(x) := b[x]\nb[i] = f(i-1) + 1", data, name="scan")
    return pl.split_iname(knl, "i", 16)


def gathered() -> pl.LoopKernel:
    data: list[Any] = [pl.GlobalArg("a, out", F, shape="n"), pl.GlobalArg("p", np.int32, shape="n"), ...]
    knl = pl.make_kernel("{[i]: 0 <= i < n}", "f(x) := 2*a[x]\nout[i] = f(p[i])", data, name="gathered")
    return pl.split_iname(knl, "i", 16)


Case = tuple[Callable[[], pl.LoopKernel], Callable[[pl.LoopKernel], pl.LoopKernel], str]
REFUSALS: dict[str, Case] = {
    "unknown_rule": (rule, lambda knl: pl.precompute(knl, "ff", "i"), "unknown-substitution-rule"),
    "unknown_iname": (rule, lambda knl: pl.precompute(knl, "f", "ii"), "unknown-iname"),
    "not_constant": (rule, lambda knl: pl.precompute(knl, "f", "i"), "footprint-not-constant"),
    "not_affine": (gathered, lambda knl: pl.precompute(knl, "f", "i_inner"), "not-affine"),
    "outer_missing": (
        once, lambda knl: pl.precompute(knl, "f", "i_inner", precompute_outer_inames=""), "outer-missing"),
    "temporary_name_taken": (once, lambda knl: pl.precompute(knl, "f", "i_inner", temporary_name="a"), "name-taken"),
    "too_many_inames": (
        once, lambda knl: pl.precompute(knl, "f", "i_inner", precompute_inames="p, q"), "wrong-rank"),
    "no_such_space": (
        once, lambda knl: pl.precompute(knl, "f", "i_inner", temporary_address_space="shared"), "bad-address-space"),
    "no_such_tag": (once, lambda knl: pl.precompute(knl, "f", "i_inner", default_tag="x"), "bad-tag"),
    "not_used_any_more": (
        lambda: pl.precompute(once(), "f", "i_inner"),
        lambda knl: pl.precompute(knl, "f", "i_inner", temporary_name="again", compute_insn_id="again"),
        "not-used",
    ),
    "recurrence": (scan, lambda knl: pl.precompute(knl, "f", "i_inner"), "illegal-order"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSALS)
def test_refusals(case: str, golden: Golden) -> None:
    make, call, code = REFUSALS[case]
    golden(f"messages/precompute_{case}.txt", refused(make(), call, code))


def offsets() -> pl.LoopKernel:
    return pl.make_kernel(
        "{[i]: 0 <= i < n}", "f(x) := 3*a[x]\nout[i] = f(i) + f(i+2)",
        [pl.GlobalArg("a", F, shape="n + 2"), pl.GlobalArg("out", F, shape="n")], name="offsets",
    )  # fmt: skip


def check_offsets(knl: pl.LoopKernel) -> None:
    for n in (0, 1, 15, 16, 17, 40):
        a = np.random.default_rng(n).integers(-3, 4, n + 2).astype(F)
        check(knl, {"a": a}, {"out": 3 * (a[:-2] + a[2:])})


def test_values_of_all_iterations_in_global_memory() -> None:
    base = offsets()
    knl = pl.precompute(base, "f", "i", temporary_address_space="global")
    assert "f_value: float32[n + 2] (global)" in str(knl)
    check_offsets(knl)
    for iname in ("i", "f_dim_0"):
        knl = pl.split_iname(knl, iname, 16, outer_tag="g.0", inner_tag="l.0")
        check_offsets(knl)
    assert cuda(knl).count("__global__") == 2
    same_after_replay(base, knl)


def test_rows_in_global_memory_inside_a_loop() -> None:
    knl = pl.make_kernel(
        "{[s, i]: 0 <= s < m and 0 <= i < n}", "f(y, x) := 3*a[y, x]\nout[s, i] = f(s, i) + f(s, n-1-i)",
        [pl.GlobalArg("a, out", F, shape="m, n")],
    )  # fmt: skip
    a = np.random.default_rng(0).integers(-3, 4, (3, 7)).astype(F)
    rows = pl.precompute(knl, "f", "i", temporary_address_space="global")
    everything = pl.precompute(knl, "f", "s, i", temporary_address_space="global")
    for staged in (rows, everything):
        check(staged, {"a": a}, {"out": 3 * (a + a[:, ::-1])})
    assert "f_value: float32[m, n] (global)" in str(everything)
    with pytest.raises(pl.VerificationError):
        pl.generate_code(pl.tag_inames(rows, {"s": "g.0"}))
    with pytest.raises(pl.TransformError, match="footprint-not-constant"):
        pl.precompute(knl, "f", "i", temporary_address_space="local")


def _with_a_free_iname() -> pl.LoopKernel:
    data = [pl.GlobalArg("y", np.int32, shape="4, 4")]
    return pl.make_kernel("{[i, j]: 0 <= i, j < 4}", "f(x) := 2*x + 10*i\ny[i, j] = f(j)", data, name="offsets")


@pytest.mark.parametrize(("sweep", "outer"), [("j", []), ("i, j", ["i"])])
def test_an_iname_in_the_value_of_a_rule_stays_outside(sweep: str, outer: list[str] | None) -> None:
    """Such a value was computed where the iname had none: the compiler refused the source."""
    with pytest.raises(pl.TransformError) as error:
        pl.precompute(_with_a_free_iname(), "f", sweep, precompute_outer_inames=outer)
    assert str(error.value) == (
        "precompute on kernel 'offsets': the value of rule 'f' depends on iname 'i', which is not an outer iname "
        "[outer-missing]\n"
        "  y[i, j] = f(j)                                       (line 2, instruction 'insn')\n"
        "  Note: f(x) := 2*x + 10*i has 'i' in it, and not among its arguments\n"
        "  Hint: keep 'i' out of the sweep and among the outer inames, or make it an argument of the rule"
    )


def test_a_swept_iname_in_the_value_of_a_rule_is_an_argument() -> None:
    knl = pl.precompute(_with_a_free_iname(), "f(j)", "i, j", default_tag=None)
    assert knl.temporaries["f_value"].shape == (4, 4)
    expected = 2 * np.arange(4) + 10 * np.arange(4)[:, None]
    np.testing.assert_array_equal(pl.interpret(knl)["y"], expected)


@pytest.mark.parametrize("tag", ["for", "l.0", "g.0"])
def test_an_iname_in_the_value_of_a_rule_is_an_outer_one(tag: str) -> None:
    knl = pl.precompute(pl.tag_inames(_with_a_free_iname(), {"i": tag}), "f", "j")
    expected = 2 * np.arange(4) + 10 * np.arange(4)[:, None]
    np.testing.assert_array_equal(pl.compile(knl, target=pl.CTarget())()["y"], expected)


def spectral() -> pl.LoopKernel:
    """Return an operator of which two rules have sums in their values, and are used inside of sums."""
    text = """
        ur(a, b) := sum(k, d[a, k]*u[e, k, b])
        us(a, b) := sum(k, d[b, k]*u[e, a, k])
        gr(a, b) := g[e, 0, a, b]*ur(a, b) + g[e, 1, a, b]*us(a, b)
        gs(a, b) := g[e, 1, a, b]*ur(a, b) + g[e, 2, a, b]*us(a, b)
        v[e, i, j] = sum(m, d[m, i]*gr(m, j)) + sum(m, d[m, j]*gs(i, m))
        """
    data = [
        pl.GlobalArg("d", F, shape="4, 4"),
        pl.GlobalArg("u, v", F, shape="n, 4, 4"),
        pl.GlobalArg("g", F, shape="n, 3, 4, 4"),
        ...,
    ]
    knl = pl.make_kernel("{[e, i, j, m, k]: 0 <= e < n and 0 <= i, j, m, k < 4}", text, data, name="spectral")
    return pl.tag_inames(knl, "e:g.0, i:l.0, j:l.1")


def check_spectral(knl: pl.LoopKernel, count: int = 3) -> None:
    rng = np.random.default_rng(count)
    d, u, g = (rng.integers(-2, 3, shape).astype(F) for shape in ((4, 4), (count, 4, 4), (count, 3, 4, 4)))
    ur, us = np.einsum("ak,ekb->eab", d, u), np.einsum("bk,eak->eab", d, u)
    gr, gs = g[:, 0] * ur + g[:, 1] * us, g[:, 1] * ur + g[:, 2] * us
    v = np.einsum("mi,emj->eij", d, gr) + np.einsum("mj,eim->eij", d, gs)
    check(knl, {"d": d, "u": u, "g": g}, {"v": v})


def test_rules_with_sums_that_are_used_inside_of_sums() -> None:
    """The terms of a value ahead are those of one term around it; a rule beside it stays a rule."""
    knl = pl.precompute(spectral(), "gr", "m, j")
    check_spectral(knl)
    assert "gs(" in str(knl)
    knl = pl.precompute(knl, "gs", "i, m")
    check_spectral(knl)
    assert "gr_value[4][4]" in cuda(knl)


def test_a_use_is_found_inside_the_sum_that_it_is_in() -> None:
    """The first value has a sum of its own, which counts when the reductions of the statement are numbered."""
    knl = pl.make_kernel(
        ["{[i, p, q]: 0 <= i < n and 0 <= p < 3 and 0 <= q < 5}", "{[k]: 0 <= k < 4}"],
        "f(x) := sum(k, a[x, k])\ny[i] = sum(p, f(p)) + i*sum(q, f(q))",
        [pl.GlobalArg("a", F, shape="5, 4"), pl.GlobalArg("y", F, shape="n"), ...],
        name="two_sums",
    )
    a = np.arange(20, dtype=F).reshape(5, 4)
    y = a[:3].sum() + np.arange(6) * a.sum()
    check(knl, {"a": a, "n": 6}, {"y": y})
    for sweep in ("p", "q"):
        staged = pl.precompute(knl, "f", sweep)
        check(staged, {"a": a, "n": 6}, {"y": y})
        other = "q" if sweep == "p" else "p"
        names: dict[str, Any] = {"precompute_inames": "x", "temporary_name": "rest", "compute_insn_id": "compute_rest"}
        check(pl.precompute(staged, "f", other, **names), {"a": a, "n": 6}, {"y": y})


def sweeps() -> pl.LoopKernel:
    """A product with one matrix along each axis, whose sums are nested in rules."""
    return pl.make_kernel(
        "{[e, a, b, c, i, j, k]: 0 <= e < n and 0 <= a, b, c < 3 and 0 <= i, j, k < 2}",
        """
        first(a_, j_, k_) := sum(i, p[a_, i]*u[e, i, j_, k_])
        second(a_, b_, k_) := sum(j, p[b_, j]*first(a_, j, k_))
        v[e, a, b, c] = sum(k, p[c, k]*second(a, b, k))
        """,
        [pl.GlobalArg("p", F, shape="3, 2"), pl.GlobalArg("u", F, shape="n, 2, 2, 2"), ...],
        name="sweeps",
        assumptions="n >= 1",
    )


def in_sweeps() -> pl.LoopKernel:
    knl = pl.tag_inames(sweeps(), "e:g.0, a:l.2, b:l.1, c:l.0")
    knl = pl.precompute(knl, "second", "a, b, k", precompute_inames="a_, b_, k_")
    return pl.precompute(knl, "first", "a_, j, k_", precompute_inames="a2, j2, k2")


def test_sums_inside_of_sums_inside_of_sums() -> None:
    base, knl = sweeps(), in_sweeps()
    for n in (1, 3):
        p, u = np.random.default_rng(n).integers(-3, 4, (3, 2)), np.random.default_rng(n).integers(-3, 4, (n, 2, 2, 2))
        v = np.einsum("ai,bj,ck,eijk->eabc", p, p, p, u)
        check(knl, {"p": p.astype(F), "u": u.astype(F)}, {"v": v})
    same_after_replay(base, knl)


@pytest.mark.parametrize(
    ("instruction", "old", "new", "code"),
    [
        ("compute_first", "u[e, i, j2, k2]", "u[e, i, k2, j2]", "copy-wrong-element"),
        ("compute_first", "u[e, i, j2, k2]", "u[e, 0, j2, k2]", "copy-wrong-element"),
        ("compute_first", "p[a2, i]", "p[a2, 1 - i]", "copy-wrong-element"),
        ("compute_second", "p[b_, j]", "p[b_, k_]", "copy-wrong-element"),
        ("compute_second", "first_value[a_, j, k_]", "first_value[a_, k_, j]", "copy-wrong-element"),
        ("insn", "second_value[a, b, k]", "second_value[a, b, 0]", "copy-wrong-element"),
    ],
)
def test_a_wrong_step_of_nested_sums_is_found(instruction: str, old: str, new: str, code: str) -> None:
    knl = in_sweeps()
    found = [i for i in knl.instructions if i.id == instruction]
    assert old in str(found[0])
    expression = parse_expression(show(found[0].expression).replace(old, new))
    changed = [replace(i, expression=expression) if i.id == instruction else i for i in knl.instructions]
    with pytest.raises(pl.VerificationError) as refusal:
        pl.generate_code(replace(knl, instructions=tuple(changed)))
    assert code in refusal.value.codes


def smoothed() -> pl.LoopKernel:
    """Return a rule that is used by two statements."""
    return pl.make_kernel(
        "{[i]: 1 <= i < n - 1}",
        "f(x) := 2*a[x] + 1\nout[i] = f(i-1) + f(i+1) {id=x}\nmore[i] = f(i) {id=y}",
        [pl.GlobalArg("a, out, more", F, shape="n"), ...],
        name="smoothed",
        assumptions="n >= 3",
    )


def check_smoothed(knl: pl.LoopKernel) -> None:
    for n in (3, 17, 18, 19, 40):
        a, out, more = vectors(n, 3)
        f, want_out, want_more = 2 * a + 1, out.copy(), more.copy()
        want_out[1:-1], want_more[1:-1] = f[:-2] + f[2:], f[1:-1]
        check(knl, {"a": a, "out": out, "more": more}, {"out": want_out, "more": want_more})


def test_the_uses_of_one_instruction_and_then_those_of_another() -> None:
    knl = pl.precompute(spread(smoothed()), "f", "i_inner", within="id:x")
    assert "= f(16*i_outer + i_inner)" in str(knl)
    knl = pl.precompute(knl, "f", "i_inner", within="id:y")
    assert {"f_value", "f_value_0"} <= knl.temporaries.keys()
    check_smoothed(knl)


@pytest.mark.parametrize("at", ["i_outer", "i_inner"])
def test_a_place_in_the_nest(at: str) -> None:
    knl = pl.precompute(once(), "f", compute_at=at)
    check_rule(knl, (3, 18, 19))
    assert f"float f_value[{18 if at == 'i_outer' else 3}];" in cuda(knl)


def test_everything_before_all_loops() -> None:
    knl = pl.precompute(offsets(), "f", compute_at="root", temporary_address_space="global")
    assert "f_value: float32[n + 2] (global)" in str(knl)
    check_offsets(knl)


def turned() -> pl.LoopKernel:
    knl = pl.make_kernel(
        "{[i, j]: 0 <= i, j < n}", "f(x, y) := 2*a[x, y]\nout[i, j] = f(j, i)",
        [pl.GlobalArg("a, out", F, shape="n, n"), ...], name="turned", assumptions="n >= 1",
    )  # fmt: skip
    knl = pl.split_iname(knl, "i", 8, outer_tag="g.1", inner_tag="l.1")
    return pl.split_iname(knl, "j", 16, outer_tag="g.0", inner_tag="l.0")


def check_turned(knl: pl.LoopKernel) -> None:
    for n in (1, 8, 17):
        a = np.random.default_rng(n).integers(-4, 5, (n, n)).astype(F)
        check(knl, {"a": a}, {"out": 2 * a.T})


@pytest.mark.parametrize(("axes", "extents"), [("x, y", "[16][8]"), ("y, x", "[8][16]"), ("1, 0", "[8][16]")])
def test_storage_axes_order_the_arguments(axes: str, extents: str) -> None:
    knl = pl.precompute(turned(), "f", "i_inner, j_inner", storage_axes=axes)
    assert f"f_value{extents}" in cuda(knl)
    check_turned(knl)


def test_storage_axes_can_be_swept_inames() -> None:
    knl = pl.precompute(turned(), "f", "i_inner, j_inner", storage_axes="i_inner, j_inner", default_tag=None)
    assert knl.temporaries["f_value"].shape == (8, 16)
    check_turned(knl)
    assert "f_value[8][20]" in cuda(pl.precompute(turned(), "f", "i_inner, j_inner", storage_axes="y, x", pad=4))


def test_loops_that_exist_compute() -> None:
    """The loop over threads that use the values computes them as well."""
    knl = pl.make_kernel(
        "{[i]: 0 <= i < n}", "f(x) := 3*a[x]\nout[i] = f(i) + 1",
        [pl.GlobalArg("a, out", F, shape="n"), ...], name="own", assumptions="n >= 1",
    )  # fmt: skip
    knl = pl.precompute(spread(knl), "f", "i_inner", precompute_inames="i_inner")
    assert knl.instruction("compute_f").inames == ("i_outer", "i_inner")
    for n in (1, 16, 17):
        (a,) = vectors(n, 1)
        check(knl, {"a": a}, {"out": 3 * a + 1})
    text = refused(
        once(), lambda k: pl.precompute(k, "f", "i_inner", precompute_inames="i_inner"), "inames-too-short"
    )
    assert "the loops over 'i_inner' do not have all values that are to be computed" in text


def two_rules() -> pl.LoopKernel:
    data = [pl.GlobalArg("a, b", F, shape="n + 1"), pl.GlobalArg("x, y", F, shape="n"), ...]
    text = "f(p) := 2*a[p]\ng(p) := 3*b[p]\nx[i] = f(i) + f(i+1)\ny[j] = g(j) + g(j+1)"
    knl = pl.make_kernel("{[i, j]: 0 <= i, j < n}", text, data, name="two_rules", assumptions="n >= 1")
    return spread(spread(knl, "i", 16), "j", 16)


def check_two_rules(knl: pl.LoopKernel) -> None:
    for n in (1, 16, 33):
        a, b = vectors(n + 1, 2)
        check(knl, {"a": a, "b": b}, {"x": 2 * (a[:-1] + a[1:]), "y": 3 * (b[:-1] + b[1:])})


def test_values_go_where_older_ones_were() -> None:
    knl = pl.precompute(two_rules(), "f", "i_inner")
    knl = pl.precompute(knl, "g", "j_inner", temporary_name="f_value")
    assert "union" in cuda(knl)
    assert {"f_value", "f_value_0"} <= knl.temporaries.keys()
    check_two_rules(knl)


def test_storage_that_is_in_use_is_refused() -> None:
    data = [pl.GlobalArg("a, b", F, shape="n + 1"), pl.GlobalArg("x", F, shape="n"), ...]
    text = "f(p) := 2*a[p]\ng(p) := 3*b[p]\nx[i] = f(i) + f(i+1) + g(i) + g(i+1)"
    knl = pl.make_kernel("{[i]: 0 <= i < n}", text, data, name="both", assumptions="n >= 1")
    knl = pl.precompute(spread(knl), "f", "i_inner")
    refused(knl, lambda k: pl.precompute(k, "g", "i_inner", temporary_name="f_value"), "storage-in-use")


@pytest.mark.parametrize("axes", ["x", "x, x", "x, y, 1"])
def test_storage_axes_that_leave_arguments_out(axes: str) -> None:
    text = refused(turned(), lambda k: pl.precompute(k, "f", "i_inner, j_inner", storage_axes=axes), "wrong-rank")
    assert "do not name each argument of 'f' once" in text


def test_uses_inside_of_another_rule_are_replaced() -> None:
    knl = pl.make_kernel(
        "{[i]: 1 <= i < n - 1}",
        """
        f(k) := a[k]*a[k]
        both(k) := f(k - 1) + f(k + 1)
        b[i] = both(i)
        """,
        [pl.GlobalArg("a, b", np.float32, shape="n"), ...],
        name="inside",
        assumptions="n >= 3",
    )
    knl = pl.split_iname(pl.shift(knl, "i", -1), "i", 16, outer_tag="g.0", inner_tag="l.0")
    knl = pl.precompute(knl, "f", ["i_inner"])
    text = pl.generate_code(knl, target=pl.CudaTarget()).device_code
    assert "f_value[tx] + f_value[tx + 2]" in text
    assert text.count("a[i + 16 * ") == text.count("f_value[16 *") * 2


def test_a_loop_around_cannot_run_over_the_values_too() -> None:
    knl = pl.make_kernel(
        "{[i, j]: 0 <= i, j < n}",
        """
        f(x) := 2*x
        out[i, j] = f(j + 1)
        """,
        [pl.GlobalArg("out", np.int32, shape="n, n"), ...],
    )
    text = refused(knl, lambda k: pl.precompute(k, "f", precompute_inames="j"), "name-taken")
    assert "iname 'j' is a loop around what is computed ahead, and cannot run over its values as well" in text
    assert "Hint: sweep 'j', so that it is no loop around it, or give a new name" in text
    swept = pl.precompute(knl, "f", "j", precompute_inames="j", temporary_address_space="global")
    for n in (1, 2, 5):
        check(swept, {"out": np.zeros((n, n), np.int32)}, {"out": np.tile(2 * np.arange(1, n + 1), (n, 1))})
