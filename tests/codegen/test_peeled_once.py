"""Iterations that are peeled and always there: blocks in place of loops that run once."""

from __future__ import annotations

import numpy as np
import pytest

import polyloop as pl
from tests.generated import flat


def build(bound: str, assumptions: str) -> pl.LoopKernel:
    data = [pl.GlobalArg("x, y", np.float32, shape="n"), ...]
    knl = pl.make_kernel(f"{{[t]: {bound}}}", "y[t] = 2*x[t] + t", data, assumptions=assumptions)
    return pl.peel(knl, "t", front=0, back=2)


@pytest.mark.parametrize(("bound", "assumptions", "once"), [
    ("0 <= t < n", "n >= 0", 0), ("0 <= t < n", "n >= 1", 1), ("0 <= t < n", "n >= 2", 2),
    ("2 <= t < n", "n >= 3", 1), ("2 <= t < n", "n >= 2", 0),
])  # fmt: skip
def test_a_peeled_iteration_is_a_block_where_it_is_there(bound: str, assumptions: str, once: int) -> None:
    knl = build(bound, assumptions)
    text = flat(pl.generate_code(knl, target=pl.CTarget()).device_code)
    assert text.count("const int t = n - ") == once
    assert text.count("for (int t = ") == 3 - once
    least, first = int(assumptions[-1]), int(bound[0])
    for n in range(max(least, 1), least + 4):
        x = np.arange(n, dtype=np.float32)
        wanted = np.where(np.arange(n) >= first, 3 * x, -1)
        np.testing.assert_array_equal(pl.compile(knl, target=pl.CTarget())(x=x, y=np.full(n, -1, np.float32)).y, wanted)
