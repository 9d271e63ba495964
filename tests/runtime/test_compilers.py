"""Loops of several stores under every C compiler that is found; ``tests/test_gallery.py`` has the whole gallery."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import polyloop as pl
from tests.compilers import COMPILERS


def _several_rows(body: str) -> pl.LoopKernel:
    return pl.make_kernel(
        "{[i, k]: 0 <= i < n and 0 <= k < 3}", body,
        [pl.GlobalArg("a, b, c, d", np.float32, shape="3, n + 2"), ...], name="rows", assumptions="n >= 1")


# GCC 12 carried out the second of two such copies before the first.
ROWS = {
    "a row copied twice": "for i\n for k\n  c[k, i] = a[k, i+1]\n end\n for k\n  d[k, i] = c[k, i]\n end\nend",
    "rows written in turn": "for i\n for k\n  b[k, i] = a[k, i+2]\n end\n for k\n  c[k, i+1] = b[2-k, i]\n end\n"
    " for k\n  d[k, i] = c[k, i+1] + b[0, i]\n end\nend",
    "rows cleared, then filled": "for i\n for k\n  b[k, i] = 0\n end\n for k\n  c[k, i] = b[k, i] + a[k, i]\n end\n"
    " for k\n  b[2-k, i] = c[k, i]\n end\nend",
    "one row from all": "for i\n for k\n  b[k, i] = a[2-k, i]\n end\n for k\n  c[0, i+k] = b[k, i]\n end\nend",
}


def _compare(knl: pl.LoopKernel, arrays: dict[str, np.ndarray[Any, Any]]) -> None:
    run = pl.compile(knl, target=pl.CTarget())
    wanted = pl.interpret(knl, **{name: value.copy() for name, value in arrays.items()})
    got = run(**{name: value.copy() for name, value in arrays.items()})
    for name, values in wanted.items():
        np.testing.assert_array_equal(got[name], values, err_msg=name)


@pytest.mark.parametrize("compiler", COMPILERS)
def test_loops_of_several_stores_keep_their_order(compiler: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", compiler)
    for body in ROWS.values():
        knl = _several_rows(body)
        for n in (1, 5, 40):
            rng = np.random.default_rng(n)
            _compare(knl, {name: rng.random((3, n + 2), dtype=np.float32) for name in "abcd" if name in knl.arrays()})
