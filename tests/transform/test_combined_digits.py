"""Threads of a warp combine terms along digits of the thread number, beside other digits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import polyloop as pl
from polyloop.errors import TransformError
from polyloop.runtime.fibres import run_on_fibres
from polyloop.runtime.nvrtc import compile_cuda

SHAPE = (3, 2, 2, 8, 4, 2)
TAGS = "b:g.0, g:l/64, w:l/32%2, i:l/4%8, l:l%4, r:unr"


def rows(value: str, tags: str = TAGS) -> pl.LoopKernel:
    """Return a kernel in which each element becomes a value of its row, whose elements four lanes have."""
    knl = pl.make_kernel(
        "{[b, g, w, i, l, r]: 0 <= b < n and 0 <= g, w, r < 2 and 0 <= i < 8 and 0 <= l < 4}",
        f"""
        for b
            <> t[g, w, i, l, r] = a[b, g, w, i, l, r]
            <> of_row[g, w, i] = {value}
            o[b, g, w, i, l, r] = t[g, w, i, l, r] - of_row[g, w, i]
        end
        """,
        [pl.GlobalArg("a, o", np.float32, shape="n, 2, 2, 8, 4, 2"), ...], name="rows", assumptions="n >= 1",
    )  # fmt: skip
    return pl.tag_inames(knl, tags)


def check(knl: pl.LoopKernel, of_rows: Any) -> str:
    a = np.random.default_rng(0).integers(-99, 99, SHAPE).astype(np.float32)
    wanted = a - of_rows(a)
    program = pl.generate_code(knl, target=pl.CudaTarget())
    for order, found in run_on_fibres(program, {"a": a, "o": np.zeros_like(a)}).items():
        np.testing.assert_array_equal(found["o"], wanted, err_msg=order)
    np.testing.assert_array_equal(pl.compile(knl, target=pl.CTarget())(a=a).o, wanted)
    assert compile_cuda(program.device_code).cubin
    return program.device_code


def test_lanes_of_a_row_exchange_values() -> None:
    text = check(rows("max((l, r), t[g, w, i, l, r])"), lambda a: a.max((4, 5), keepdims=True))
    assert "for (int step = 1; step <= 2; step *= 2)" in text
    assert "__shared__" not in text
    assert "__sync" not in text


def test_along_a_digit_that_is_not_the_lowest() -> None:
    knl = rows("sum((l, r), t[g, w, i, l, r])", "b:g.0, g:l/64, w:l/32%2, i:l%8, l:l/8%4, r:unr")
    assert "step = 8; step <= 16" in check(knl, lambda a: a.sum((4, 5), keepdims=True))


def test_along_two_digits() -> None:
    knl = pl.make_kernel(
        "{[b, g, w, i, l]: 0 <= b < n and 0 <= g, w < 2 and 0 <= i < 8 and 0 <= l < 4}",
        "o[b, g, w] = sum((i, l), a[b, g, w, i, l])",
        [pl.GlobalArg("a", np.float32, shape="n, 2, 2, 8, 4"), pl.GlobalArg("o", np.float32, shape="n, 2, 2"), ...],
        name="sums", assumptions="n >= 1",
    )  # fmt: skip
    knl = pl.tag_inames(knl, "b:g.0, g:l/64, w:l/32%2, i:l/4%8, l:l%4")
    a = np.random.default_rng(1).integers(-9, 9, (2, 2, 2, 8, 4)).astype(np.float32)
    program = pl.generate_code(knl, target=pl.CudaTarget())
    for order, found in run_on_fibres(program, {"a": a, "o": np.zeros((2, 2, 2), np.float32)}).items():
        np.testing.assert_array_equal(found["o"], a.sum((3, 4)), err_msg=order)


def test_digits_that_reach_beyond_a_warp_are_refused() -> None:
    knl = pl.make_kernel(
        "{[b, g, w, i, l]: 0 <= b < n and 0 <= g, w < 2 and 0 <= i < 8 and 0 <= l < 4}",
        "o[b, i] = sum((g, w, l), a[b, g, w, i, l])",
        [pl.GlobalArg("a", np.float32, shape="n, 2, 2, 8, 4"), pl.GlobalArg("o", np.float32, shape="n, 8"), ...],
        name="sums", assumptions="n >= 1",
    )  # fmt: skip
    with pytest.raises(TransformError, match="along digits of the lane") as refused:
        pl.tag_inames(knl, "b:g.0, g:l/64, w:l/32%2, i:l/4%8, l:l%4")
    assert "parallel-reduction" in str(refused.value)


def test_the_proof_names_the_digit() -> None:
    text = str(pl.verify(rows("max((l, r), t[g, w, i, l, r])")))
    assert "partial results of the threads along l.0001.4" in " ".join(text.split())
