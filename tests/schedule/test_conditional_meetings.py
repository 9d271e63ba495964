"""Sums over the threads of a block under conditions: their barriers separate nothing where they do not run."""

from __future__ import annotations

import re

import numpy as np
import pytest

import polyloop as pl
from polyloop.runtime.fibres import agree, run_on_fibres
from polyloop.runtime.invoke import load


def _two_sums(first: str, second: str, length: int = 64) -> pl.LoopKernel:
    knl = pl.make_kernel(
        "[n] -> {[i, k]: 0 <= i < n and 0 <= k < LENGTH}".replace("LENGTH", str(length)),
        f"""
        for i
            a[i] = sum(k, x[i, k])  {{if={first}}}
            b[i] = sum(k, y[i, k])  {{if={second}}}
        end
        """,
        [pl.GlobalArg("a, b", np.int32, "n"), pl.GlobalArg("x, y", np.int32, f"n, {length}")],
    )
    return knl.tag_inames("k:l.0")


def _barriers(text: str) -> int:
    body = text[text.index("__global__") :]
    return len(re.findall("__syncthreads", body))


_CASES = [
    ("i < 2", "i >= 0", True),
    ("i >= 0", "i < 2", True),
    ("i % 2 == 0", "i % 2 == 1", True),
    ("i % 3 == 0", "i % 3 <= 1", True),
    ("i >= 0", "i >= 0", False),
    ("i < 4", "i < 4", False),
]


@pytest.mark.parametrize(("first", "second", "asks"), _CASES)
def test_two_sums_in_one_loop(first: str, second: str, asks: bool) -> None:
    knl = _two_sums(first, second)
    program = pl.generate_code(knl, target=pl.CudaTarget())
    assert (_barriers(program.device_code) > 0) == asks, program.device_code
    rng, n = np.random.default_rng(3), 9
    given = {name: rng.integers(-99, 99, (n, 64)).astype(np.int32) for name in ("x", "y")}
    out = {name: np.zeros(n, np.int32) for name in ("a", "b")}
    found = run_on_fibres(program, {**given, **out, "n": n})
    assert agree(found)
    wanted = pl.interpret(knl, **given, **out)
    for name in ("a", "b"):
        np.testing.assert_array_equal(found["reverse"][name], wanted[name])


@pytest.mark.gpu
@pytest.mark.parametrize(("first", "second", "asks"), _CASES)
def test_two_sums_in_one_loop_on_a_gpu(first: str, second: str, asks: bool) -> None:
    knl = _two_sums(first, second, 512)
    program = pl.generate_code(knl, target=pl.CudaTarget())
    assert (_barriers(program.device_code) > 0) == asks
    rng, n = np.random.default_rng(3), 500
    given = {name: rng.integers(-99, 99, (n, 512)).astype(np.int32) for name in ("x", "y")}
    out = {name: np.zeros(n, np.int32) for name in ("a", "b")}
    wanted = pl.interpret(knl, **given, **out)
    load(program)(**given, **out)
    for name in ("a", "b"):
        np.testing.assert_array_equal(out[name], wanted[name])
