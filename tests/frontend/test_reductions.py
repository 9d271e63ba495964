"""Reductions with several results, and with operations of the user's, in Python functions."""
# mypy: ignore-errors
# ruff: noqa: ANN001, ANN201, ANN202, F821
# Inside of a kernel the name of a type stands for an array with extents, which no type checker knows.

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import polyloop as pl
from tests.transform.checking import check

longest = pl.ReductionOperation("longest", "hypot(a, b)", neutral=0)
last = pl.ReductionOperation("last", "if(b.seen, b, a)", (0, False), ("value", "seen"), ordered=True)


@pl.kernel
def several(x: pl.Array[np.float32, m, n], size, place, norm, late, total):
    for i in range(m):
        size[i], place[i] = pl.reduce("argmax", ((abs(x[i, j]), j) for j in range(n)))
        norm[i] = pl.reduce(longest, (x[i, j] for j in range(n)))
        late[i] = pl.reduce(last, ((x[i, j], x[i, j] > 0) for j in range(n))).value
        total[i] = pl.reduce("ordered(sum)", (x[i, j] for j in range(n)))


def _expected(x: Any) -> dict[str, Any]:
    late = [row[row > 0][-1] if (row > 0).any() else 0 for row in x]
    return {
        "size": abs(x).max(1), "place": abs(x).argmax(1), "norm": np.sqrt((x * x).sum(1)),
        "late": np.array(late), "total": x.sum(1),
    }  # fmt: skip


def test_reductions_with_several_results() -> None:
    x = np.random.default_rng(2).integers(-5, 6, (6, 9)).astype(np.float32)
    check(several, {"x": x}, _expected(x), rtol=1e-6)


def test_the_script_has_them() -> None:
    script = pl.kernel_to_python(several)
    assert "size[i], place[i] = argmax(j, abs(x[i, j]), j)" in script
    names: dict[str, Any] = {}
    exec(script, names)
    x = np.random.default_rng(3).integers(-5, 6, (4, 3)).astype(np.float32)
    again = pl.interpret(names["knl"], x=x)
    for name, values in _expected(x).items():
        np.testing.assert_allclose(again[name], values, rtol=1e-6)


def test_another_number_of_results_is_refused() -> None:
    def one(x: pl.Array[np.float32, n], out):
        a, b, c = pl.reduce("argmax", ((x[j], j) for j in range(n)))
        out[0] = a + b + c

    with pytest.raises(pl.KernelError, match="3 variables are assigned, and this reduction has 2 results"):
        pl.kernel(one)


def test_another_number_of_terms_is_refused() -> None:
    def one(x: pl.Array[np.float32, n], out):
        out[0] = pl.reduce("argmax", (x[j] for j in range(n))).index

    with pytest.raises(pl.KernelError, match="'argmax' takes 2 values: value, index"):
        pl.kernel(one)


def test_an_unknown_operation_is_refused() -> None:
    def one(x: pl.Array[np.float32, n], out):
        out[0] = pl.reduce("segmented(argmax)", (x[j] for j in range(n)))

    with pytest.raises(pl.KernelError, match="this is no reduction operation"):
        pl.kernel(one)
