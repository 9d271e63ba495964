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


def test_a_copy_ahead_does_not_part_two_sums() -> None:
    """The copies of ``pipeline`` run in iterations of their own, in front of those of both sums."""
    knl = pl.make_kernel(
        "{[i, k, j]: 0 <= i < 40 and 0 <= k, j < 64}",
        """
        for i
            <> total = sum(k, x[i, k])
            <> squares = sum(k, x[i, k]*x[i, k])
            y[i, j] = total*squares
        end
        """,
        [pl.GlobalArg("x, y", np.int32, "40, 64"), pl.TemporaryVariable("total, squares", np.int32)],
    )
    knl = knl.tag_inames("k:l.0, j:l.0").add_prefetch("x", "k", temporary_name="row", temporary_address_space="local")
    knl = knl.pipeline("i", 3, via="cp.async")
    program = pl.generate_code(knl, target=pl.CudaTarget())
    assert _barriers(program.device_code) == 0, program.device_code
    x, y = np.random.default_rng(3).integers(-99, 99, (2, 40, 64)).astype(np.int32)
    given = {"x": x, "y": y}
    found = run_on_fibres(program, given)
    assert agree(found)
    np.testing.assert_array_equal(found["reverse"]["y"], pl.interpret(knl, **given)["y"])


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
