"""``remove_inames_from_insn``, ``remove_predicates_from_insn``, ``reduction_arg_to_subst_rule``."""

from __future__ import annotations

import numpy as np
import pytest

import polyloop as pl
from tests.transform.checking import check, refused

F = np.float32


def guarded() -> pl.LoopKernel:
    data = [pl.GlobalArg("a, b", F, shape="n"), ...]
    return pl.make_kernel("{[i]: 0 <= i < n}", "b[i] = a[i] {if=i > 2 and a[i] > 1, id=copy}\nc[i] = 1", data)


def test_without_conditions_an_instruction_runs_for_all_values() -> None:
    knl = guarded().split_iname("i", 4, outer_tag="g.0", inner_tag="l.0").remove_predicates_from_insn("id:copy")
    a = np.arange(7, dtype=F)
    check(knl, {"a": a}, {"b": a})
    assert "if a" not in str(knl.reference)


def test_conditions_of_reductions_go_as_well() -> None:
    data = [pl.GlobalArg("a", F, shape="n, n"), ...]
    knl = pl.make_kernel("{[i, j]: 0 <= i, j < n}", "s[i] = sum(j, a[i, j]) {if=i > 1, id=s}", data)
    a = np.arange(9, dtype=F).reshape(3, 3)
    check(knl.remove_predicates_from_insn("writes:s"), {"a": a}, {"s": a.sum(axis=1)})


def test_a_condition_that_keeps_an_access_inside_stays() -> None:
    data = [pl.GlobalArg("a, b", F, shape="n"), ...]
    knl = pl.make_kernel("{[i]: 0 <= i < n}", "b[i] = a[i - 1] {if=i > 0, id=s}", data)
    assert "touches a[-1]" in refused(knl, lambda k: k.remove_predicates_from_insn("id:s"), "out-of-bounds")
    assert "'id:t'" in refused(knl, lambda k: k.remove_predicates_from_insn("id:t"), "unknown-instruction")


def repeated() -> pl.LoopKernel:
    text = "t[i] = 2*x[i] {id=set, inames=+j}\ny[i, j] = t[i] {id=get}"
    return pl.make_kernel("{[i, j]: 0 <= i < n and 0 <= j < 8}", text, [pl.GlobalArg("x", F, shape="n"), ...])


def test_a_loop_that_repeats_work_goes() -> None:
    knl = repeated().remove_inames_from_insn("j", "id:set").split_iname("i", 4, outer_tag="g.0", inner_tag="l.0")
    assert knl.instruction("set").inames == ("i_outer", "i_inner")
    x = np.arange(6, dtype=F)
    check(knl, {"x": x}, {"t": 2 * x, "y": np.repeat(2 * x[:, None], 8, axis=1)})


def test_a_loop_that_a_rule_mentions_cannot_go() -> None:
    text = "row() := x[i]\ny[i] = row()\nz = row() {id=last}"
    knl = pl.make_kernel("{[i]: 0 <= i < n}", text, silenced_warnings="*")
    message = refused(knl, lambda k: k.remove_inames_from_insn("i", "id:last"), "iname-in-use")
    assert "'last' mentions iname 'i'" in message


def test_loops_that_cannot_go() -> None:
    knl = repeated()
    message = refused(knl, lambda k: k.remove_inames_from_insn("i", "id:set"), "iname-in-use")
    assert "'set' mentions iname 'i'" in message
    assert refused(knl, lambda k: k.remove_inames_from_insn("k", "id:set"), "unknown-iname")
    split = knl.split_iname("j", 4)
    message = refused(split, lambda k: k.remove_inames_from_insn("j_inner", "id:set"), "bad-instructions")
    assert "the loop 'j_inner' around 'set' was made by a transform" in message


def test_the_terms_of_reductions_become_a_rule() -> None:
    text = "s[i] = sum(k, a[i, k]*x[k]) + sum(k, x[k])\nt[i] = sum(k, a[i, k]*x[k])"
    data = [pl.GlobalArg("a", F, shape="n, 8"), pl.GlobalArg("x", F, shape=8), ...]
    knl = pl.make_kernel("{[i, k]: 0 <= i < n and 0 <= k < 8}", text, data).reduction_arg_to_subst_rule("k")
    assert [str(rule) for rule in knl.substitutions.values()] == [
        "red_k_arg(k_arg) := a[i, k_arg]*x[k_arg]", "red_k_arg_0(k_arg) := x[k_arg]"]
    staged = knl.precompute("red_k_arg_0", "k", default_tag=None)
    a, x = np.arange(24, dtype=F).reshape(3, 8), np.arange(8, dtype=F)
    check(staged, {"a": a, "x": x}, {"s": a @ x + x.sum(), "t": a @ x})


def test_reductions_that_give_no_rule() -> None:
    text = "s[i] = sum(k, a[i, k])\nt = sum((i, k), a[i, k])\nbest[i], at[i] = argmax(k, a[i, k], k)"
    knl = pl.make_kernel("{[i, k]: 0 <= i < 4 and 0 <= k < 8}", text, [pl.GlobalArg("a", F, shape="4, 8"), ...])
    rules = knl.reduction_arg_to_subst_rule("i, k", "term").substitutions
    assert [str(rule) for rule in rules.values()] == ["term(i_arg, k_arg) := a[i_arg, k_arg]"]
    assert refused(knl, lambda k: k.reduction_arg_to_subst_rule("i"), "not-used")
    assert refused(knl, lambda k: k.reduction_arg_to_subst_rule("k", "a"), "name-taken")
    assert refused(knl, lambda k: k.reduction_arg_to_subst_rule("j"), "unknown-iname")
    assert refused(knl, lambda k: k.reduction_arg_to_subst_rule("k", within="id:other"), "unknown-instruction")


def test_a_step_of_floyd_and_warshall_runs_on_the_grid_on_the_word_of_the_user() -> None:
    data = [pl.GlobalArg("d", F, shape="n, n"), ...]
    text = "d[i, j] = min(d[i, j], d[i, k] + d[k, j]) {id=relax}"
    knl = pl.make_kernel("{[k, i, j]: 0 <= k, i, j < n}", text, data).prioritize_loops("k, i, j").split_iname("j", 4)
    refused(knl, lambda k: k.tag_inames("i:g.0, j_inner:l.0"), "illegal-parallel")
    reason = "no negative cycles: d[k, k] >= 0"
    knl = knl.add_predicate_to_insn("id:relax", "i != k and j != k", reason).tag_inames("i:g.0, j_inner:l.0")
    (step,) = pl.verify(knl).rewrites
    assert reason in step
    d = np.random.default_rng(0).integers(1, 50, (7, 7)).astype(F)
    np.fill_diagonal(d, 0)
    expected = d
    for k in range(7):
        expected = np.minimum(expected, expected[:, k : k + 1] + expected[k])
    check(knl, {"d": d}, {"d": expected})


def test_conditions_that_cannot_be_added() -> None:
    knl = guarded()
    for condition, reason, code in [
        ("i > 1", " ", "no-reason"), ("q > 1", "true", "unknown-iname"), ("i*i > 1", "true", "not-affine"),
        ("i >", "true", "syntax"),
    ]:  # fmt: skip
        with pytest.raises(pl.TransformError, match=code):
            knl.add_predicate_to_insn("id:copy", condition, reason)
    refused(knl, lambda k: k.add_predicate_to_insn("id:none", "i > 1", "true"), "unknown-instruction")

