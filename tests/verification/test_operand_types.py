"""Operations keep the types that they have in the program, or the step is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import polyloop as pl
from tests.transform.checking import check, refused

U8, I32, I64, F64 = np.uint8, np.int32, np.int64, np.float64


def program(domain: str | list[str], text: str, *arrays: tuple[str, type, str], **scalars: type) -> pl.LoopKernel:
    data = [pl.GlobalArg(names, dtype, shape=shape) for names, dtype, shape in arrays]
    return pl.make_kernel(domain, text, [*data, *(pl.ValueArg(n, dtype) for n, dtype in scalars.items()), ...])


def rule(text: str, dtype: type) -> pl.LoopKernel:
    return program("{[i]: 0 <= i < 4}", text, ("u", U8, "1"), ("x", F64, "1"), ("y", dtype, "4"))


LONG = program("{[i]: 0 <= i < n}", "y[i] = v[0]*i", ("v", I32, "1"), ("y", I64, "n"), n=I64)
TWO = program(
    ["{[i]: 0 <= i < n}", "{[j]: 0 <= j < n}", "{[k]: 0 <= k < m}"],
    "y[i] = v[0]*i\nz[k] = v[0]*k",
    ("v", I32, "1"), ("y", I64, "n"), ("z", I64, "m"), n=I64, m=I32,
)  # fmt: skip
NARROW = program("{[i]: 0 <= i < n}", "y[i] = u[0]*i", ("u", U8, "1"), ("y", I64, "n"), n=U8)
ONE = program("{[i, k]: 0 <= i < 4 and k = 100}", "y[i] = u[i]*k", ("u", U8, "4"), ("y", I32, "4"))


@pytest.mark.parametrize(
    ("knl", "step"),
    [
        (ONE, lambda k: pl.join_inames(k, ["i", "k"])),
        (rule("f(k) := u[0]*k\ny[i] = f(100)", I32), lambda k: pl.precompute(k, "f", "i")),
        (rule("f(i) := 200\ny[i] = f(i)*u[0]", I32), lambda k: pl.precompute(k, "f", "i")),
        (LONG, lambda k: pl.assume(k, "n <= 100")),
        (LONG, lambda k: pl.fix_parameters(k, n=4)),
        (program("{[i]: 0 <= i < n}", "y[i] = u[i]*n", ("u", U8, "n"), ("y", I32, "n"), n=I32),
         lambda k: pl.fix_parameters(k, n=4)),
        (pl.assume(TWO, "n = m"), lambda k: pl.rename_inames(k, ["i", "k"], "c")),
    ],
)  # fmt: skip
def test_a_step_that_changes_a_type_is_refused(
    knl: pl.LoopKernel, step: Callable[[pl.LoopKernel], pl.LoopKernel]
) -> None:
    text = refused(knl, step, "type-changed")
    assert "cast(" in text


def test_the_note_has_both_types() -> None:
    text = refused(ONE, lambda k: pl.join_inames(k, ["i", "k"]), "type-changed")
    assert "its type would be uint8, and is int32" in text


def test_a_shift_by_a_narrow_size_is_no_index_value() -> None:
    refused(NARROW, lambda k: pl.shift(k, "i", "2*n"), "expression-changed")


CASTS = program("{[i]: 0 <= i < n}", "y[i] = v[0]*cast(int64, i)", ("v", I32, "1"), ("y", I64, "n"), n=I64)


@pytest.mark.parametrize(
    "step", [lambda k: pl.assume(k, "n <= 100"), lambda k: pl.split_iname(k, "i", 4), lambda k: pl.shift(k, "i", "n")]
)
def test_types_that_the_program_states_are_kept(step: Callable[[pl.LoopKernel], pl.LoopKernel]) -> None:
    v = np.array([2**30], I32)
    check(step(CASTS), {"v": v, "n": 4}, {"y": 2**30 * np.arange(4)}, fibres=False)


@pytest.mark.parametrize(
    ("text", "dtype", "expected"),
    [
        ("f(j) := j*1000000000\ny[i] = f(i)", I64, 10**9 * np.arange(4)),
        ("f(i) := 100\ny[i] = f(i) + x[0]", F64, np.full(4, 100.5)),
        ("f(i) := u[0]*i\ny[i] = f(i)", I32, 200 * np.arange(4)),
        ("f(i) := u[0] + 200\ny[i] = f(i)", I32, np.full(4, 144)),
        ("f(i) := 1/3\ny[i] = f(i)*x[0]", F64, np.full(4, 1 / 3 * 0.5)),
        ("f(p) := 12//(7 - p)\ny[i] = f(2*(i//2)) + f(3)", F64, np.array([4, 4, 5, 5])),
    ],
)
def test_rules_of_a_type_of_their_own_are_computed_ahead(text: str, dtype: type, expected: Any) -> None:
    given = {"u": np.array([200], U8), "x": np.array([0.5])}
    used = {name: value for name, value in given.items() if f"{name}[0]" in text}
    check(pl.precompute(rule(text, dtype), "f", "i"), used, {"y": expected.astype(dtype)}, fibres=False)


@pytest.mark.parametrize("step", [lambda k: pl.split_iname(k, "i", 4), lambda k: pl.assume(k, "n >= 2")])
def test_multiples_of_unsigned_numbers_are_subtracted(step: Callable[[pl.LoopKernel], pl.LoopKernel]) -> None:
    """A term ``-2*x[i]`` has no type of its own: 2*x[i] is subtracted."""
    knl = program("{[i]: 0 <= i < n}", "y[i] = u[i] - 2*x[i]*i - 3*x[i]", ("u", U8, "n"), ("x, y", np.uint32, "n"))
    u, x, i = np.full(5, 200, U8), np.full(5, 7, np.uint32), np.arange(5, dtype=np.uint32)
    check(step(knl), {"u": u, "x": x}, {"y": u - 2 * x * i - 3 * x}, fibres=False)
    with pytest.raises(pl.TransformError, match="type-changed"):
        pl.fix_parameters(program("{[i]: 0 <= i < n}", "y[i] = u[i] - 2*u[i]*n", ("u, y", U8, "n")), n=5)


def test_a_subscript_is_computed_in_the_type_of_indices() -> None:
    text = "f(i) := u[i] + 200\ny[i] = x[f(i)]"
    knl = program("{[i]: 0 <= i < 4}", text, ("u", U8, "4"), ("x", F64, "500"), ("y", F64, "4"))
    refused(knl, lambda k: pl.precompute(k, "f", "i"), "type-changed")
    text = text.replace("u[i]", "u[i]//1")
    wide = program("{[i]: 0 <= i < 4}", text, ("u", I32, "4"), ("x", F64, "500"), ("y", F64, "4"))
    u, x = np.array([100, 0, 7, 255], I32), np.arange(500.0)
    check(pl.precompute(wide, "f", "i"), {"u": u, "x": x}, {"y": x[u + 200]}, fibres=False)


def test_a_number_that_does_not_fit_is_said_to_be_a_bad_constant() -> None:
    knl = program("{[i, k]: 0 <= i < 4 and k = 1000}", "y[i] = u[i]*k", ("u", U8, "4"), ("y", I32, "4"))
    refused(knl, lambda k: pl.join_inames(k, ["i", "k"]), "bad-constant")
