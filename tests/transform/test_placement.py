"""Places of copies and of distributed instructions that leave loops whole."""

from __future__ import annotations

import numpy as np
import pytest

import polyloop as pl
from tests.transform.checking import check

F = np.float64


def test_groups_go_behind_what_stands_between_them() -> None:
    knl = pl.make_kernel(
        "{[t]: 0 <= t < n}",
        """
        for t
            x[t + 1] = x[t] + 1 {id=a}
            y[t + 1] = 2*y[t] + x[t] {id=b}
            x[t + 1] = x[t + 1]*0.5 {id=c}
            y[t + 1] = y[t + 1] - x[t + 1] {id=d}
        end
        """,
        [pl.GlobalArg("x, y", F, shape="n + 1"), ...], name="pairs", assumptions="n >= 1")  # fmt: skip
    done = pl.distribute_loops(knl, "t", "id:b or id:d")
    assert [i.id for i in done.instructions] == ["a", "c", "b", "d"]
    assert str(done.loops).count("for t") == 2
    x, y = np.arange(6.0), np.ones(6)
    found = pl.interpret(knl, x=x.copy(), y=y.copy(), n=5)
    check(done, {"x": x, "y": y}, {"x": found["x"], "y": found["y"]})


def test_groups_that_depend_on_one_another_are_refused_as_before() -> None:
    knl = pl.make_kernel("{[t]: 0 <= t < n}", """
        for t
            x[t + 1] = y[t] {id=a}
            y[t + 1] = x[t + 1] {id=b}
            x[t + 1] = x[t + 1] + y[t + 1] {id=c}
        end""", [pl.GlobalArg("x, y", F, shape="n + 1"), ...], name="ring", assumptions="n >= 1")  # fmt: skip
    with pytest.raises(pl.TransformError, match="cannot-distribute"):
        pl.distribute_loops(knl, "t", "id:a or id:c")


def test_a_copy_for_one_statement_of_a_loop_stands_in_front_of_the_loop() -> None:
    knl = pl.make_kernel(
        "{[t]: 0 <= t < 8}",
        """
        weight(j) := m[j]
        for t
            m[t + 8] = m[t + 8] + v[t] {id=a}
            v[t + 1] = m[t + 8]*weight(t) {id=b}
        end
        """,
        [pl.GlobalArg("m", F, shape=16), pl.GlobalArg("v", F, shape=9), ...], name="recurrence")  # fmt: skip
    done = pl.precompute(knl, "weight", "t", within="id:b", temporary_name="weights")
    assert next(i.id for i in done.instructions) == "compute_weight"
    assert str(done.loops).count("for t ") == 1
    m, v = np.linspace(0.5, 1, 16), np.ones(9)
    found = pl.interpret(knl, m=m.copy(), v=v.copy())
    check(done, {"m": m, "v": v}, {"m": found["m"], "v": found["v"]})


def test_a_loop_that_an_instruction_leaves_is_none_that_it_is_written_in() -> None:
    knl = pl.make_kernel("{[j, i]: 0 <= j < n and 0 <= i < j}", """
        for j, i
            b[j, i] = 2*a[j, i] {id=one}
            c[i] = 3 {id=two}
        end""", [pl.GlobalArg("a, b", F, shape="n, n"), pl.GlobalArg("c", F, shape="n"), ...], name="left",
        silenced_warnings="*")  # fmt: skip
    knl = pl.remove_inames_from_insn(pl.distribute_loops(knl, "j", "id:two"), "j", "id:two")
    assert knl.instruction("two").inames == ("i",)
    assert {name for name, _ in knl.instruction("two").blocks} == {"i"}
    a = np.arange(25.0).reshape(5, 5)
    found = pl.compile(knl, target=pl.CTarget())(a=a, b=np.zeros((5, 5)), c=np.zeros(5), n=5)
    np.testing.assert_array_equal(found["b"], np.tril(2 * a, -1))
    assert found["c"].tolist() == [3, 3, 3, 3, 0]


def test_a_branch_without_instances_is_no_last_writer() -> None:
    knl = pl.make_kernel("{[k]: 0 <= k < n}", """
        for k
            if k < 0
                if a[k] > 25
                    t[k] = a[k]
                else
                    t[k] = 2
                end
                b[k] = t[k] {if=a[k] > 25}
            end
            c[k] = a[k] + 1
        end""", [pl.GlobalArg("a, b, c, t", F, shape="n"), ...], name="never", silenced_warnings="*")  # fmt: skip
    a = np.arange(5.0)
    found = pl.compile(knl, target=pl.CTarget())(a=a, b=np.zeros(5), t=np.zeros(5))
    np.testing.assert_array_equal(found["c"], a + 1)
