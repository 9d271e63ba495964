"""Functions: steps on them before and after they are merged, and barriers inside of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import polyloop as pl
from polyloop import loopy as lp
from tests.transform.checking import check

F = np.float32
A = np.arange(16, dtype=F)


def function() -> lp.TranslationUnit:
    text = "<> t[i] = 2*x[i] {id=set}\n... lbarrier {id=wait}\ny[i] = t[15 - i] {id=get, dep=wait}"
    return lp.make_function("{[i]: 0 <= i < 16}", text, [lp.GlobalArg("x, y", F, shape=16), ...], name="turn")


def caller() -> lp.TranslationUnit:
    data = [lp.GlobalArg("a, b, c", F, shape=16), ...]
    return lp.make_kernel("{:}", "b[:] = turn(a[:])\nc[:] = turn(b[:])", data)


def check_calls(unit: Any) -> None:
    check(unit.default_entrypoint.kernel, {"a": A}, {"b": 2 * A[::-1], "c": 4 * A})


def test_steps_on_a_function_are_done_in_each_call() -> None:
    turn = lp.split_iname(function(), "i", 4, inner_tag="l.0")
    turn = lp.set_temporary_address_space(turn, "t", "local")
    assert [*turn["turn"].inames] == ["i_outer", "i_inner"]
    unit = lp.merge([caller(), turn])
    assert [*unit.default_entrypoint.inames] == ["turn_i_outer", "turn_i_inner", "turn_i_1_outer", "turn_i_1_inner"]
    check_calls(unit)
    assert "barrier(CLK_LOCAL_MEM_FENCE)" in str(lp.generate_code_v2(unit))


def test_a_function_is_changed_behind_the_merge() -> None:
    unit = lp.merge([caller(), function()])
    unit = unit.with_kernel(lp.split_iname(unit["turn"], "i", 4))
    unit = unit.with_kernel(lp.tag_inames(unit["turn"], "i_inner:l.0"))
    tags = {name: str(tag) for name, tag in unit.default_entrypoint.kernel.iname_tags.items()}
    assert tags == {"turn_i_inner": "l.0", "turn_i_1_inner": "l.0"}
    check_calls(unit)


def test_a_step_names_an_argument_by_what_the_call_passes() -> None:
    turn = lp.add_prefetch(function(), "x", "i", fetch_outer_inames="", default_tag=None)
    unit = lp.merge([caller(), turn])
    reads = [name for insn in unit.default_entrypoint.instructions for name in insn.reads]
    assert reads.count("a") == reads.count("b") == 1
    check_calls(unit)


def test_a_step_that_does_not_fit_is_refused_at_the_function() -> None:
    with pytest.raises(lp.LoopyError, match="unknown-iname"):
        lp.split_iname(function(), "j", 4)


def test_steps_on_a_function_with_two_loops_find_the_inames_of_each() -> None:
    """Those of the first loop were taken for the iname of the caller's subscript."""
    text = "<> t[k] = u[k]*2 {id=s}\n... lbarrier {id=b, dep=s}\nv[l] = t[15 - l] {dep=b}"
    turn = lp.make_function("{[k, l]: 0 <= k, l < 16}", text, [lp.GlobalArg("u, v", F, shape=16), ...], name="turn")
    turn = lp.tag_inames(turn, {"k": "l.0", "l": "l.0"})
    data = [lp.GlobalArg("x, y", F, shape="n, 16"), ...]
    unit = lp.merge([lp.make_kernel("{[i]: 0 <= i < n}", "y[i, :] = turn(x[i, :])", data), turn])
    knl = lp.tag_inames(unit, {"i": "g.0"}).default_entrypoint.kernel
    x = np.arange(48, dtype=F).reshape(3, 16)
    np.testing.assert_array_equal(pl.interpret(knl, x=x)["y"], 2 * x[:, ::-1])


def test_a_kernel_that_waits_for_a_function_is_tagged() -> None:
    knl = lp.make_kernel("{[i]: 0 <= i < 4}", "y[:, i] = twice(x[:, i])",
                         [lp.GlobalArg("x, y", np.float64, shape=(4, 4))], target=lp.CTarget())  # fmt: skip
    knl = lp.tag_inames(knl, {"i": "unr"})
    knl = lp.merge([knl, lp.make_function("{[j]: 0 <= j < 4}", "v[j] = 2*u[j]", name="twice")])
    x = np.arange(16.0).reshape(4, 4)
    _, (y,) = knl(x=x)
    np.testing.assert_array_equal(y, 2 * x)
    assert [str(tag) for tag in knl.default_entrypoint.iname_tags("i")] == ["unr"]
