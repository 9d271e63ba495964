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
