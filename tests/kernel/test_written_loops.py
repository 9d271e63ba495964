"""A written ``for`` block is one loop, whatever its statements read: rule 3a goes before rule 3c."""

from __future__ import annotations

import numpy as np

import polyloop as pl

FLIPPED = """
for i
    y[i] = a[i]
    x[i] = y[n - 1 - i]
end
"""


def test_a_written_block_is_not_opened_again() -> None:
    data = [pl.GlobalArg("a, x, y", np.float32, shape="n"), ...]
    knl = pl.make_kernel("{[i]: 0 <= i < n}", FLIPPED, data)
    assert str(knl.reference).count("for i") == 1
    result = pl.interpret(knl, a=np.arange(4, dtype=np.float32), y=np.full(4, 9, dtype=np.float32))
    np.testing.assert_array_equal(result.x, [9, 9, 1, 0])


def test_without_a_block_the_loop_is_opened_again() -> None:
    data = [pl.GlobalArg("a, x, y", np.float32, shape="n"), ...]
    knl = pl.make_kernel("{[i]: 0 <= i < n}", "y[i] = a[i]\nx[i] = y[n - 1 - i]", data)
    assert str(knl.reference).count("for i") == 2
