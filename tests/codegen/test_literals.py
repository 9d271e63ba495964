"""Constants in the type of what they meet: as text, and as computed on every target."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import polyloop as pl
from polyloop.runtime.fibres import run_on_fibres

Array = np.ndarray[Any, Any]
DATA = {
    "uint8": [0, 1, 5, 77, 255], "uint16": [0, 1, 5, 65533, 65535], "uint32": [0, 1, 5, 2**31 + 9, 2**32 - 1],
    "uint64": [2**40 + 13, 2**63 + 9, 0, 5, 2**64 - 1], "int8": [-128, -1, 0, 5, 127],
    "int32": [-(2**31), -1, 0, 5, 2**31 - 1], "int64": [-(2**63), -1, 0, 2**40 + 13, 2**63 - 1],
}  # fmt: skip


def kernel_of(text: str, dtype: str) -> pl.LoopKernel:
    return pl.make_kernel("{[i]: 0 <= i < n}", f"y[i] = {text}", [pl.GlobalArg("x, y", dtype, shape="n"), ...])


def check(text: str, dtype: str, expected: Callable[[Array], Array]) -> None:
    knl, x = kernel_of(text, dtype), np.array(DATA[dtype], dtype)
    want = expected(x)
    assert want.dtype == x.dtype
    np.testing.assert_array_equal(pl.interpret(knl, x=x).y, want)
    np.testing.assert_array_equal(pl.compile(knl, target=pl.CTarget())(x=x).y, want)
    threads = pl.split_iname(knl, "i", 2, outer_tag="g.0", inner_tag="l.0")
    program = pl.generate_code(threads, target=pl.CudaTarget())
    np.testing.assert_array_equal(run_on_fibres(program, {"x": x}, orders=("forward",))["forward"].y, want)


MASKS: dict[str, Callable[[Array], Array]] = {
    "x[i] & ~7": lambda x: x & ~x.dtype.type(7),
    "~7 & x[i]": lambda x: x & ~x.dtype.type(7),
    "x[i] ^ ~0": lambda x: ~x,
    "x[i] | ~(1 << 3)": lambda x: x | ~x.dtype.type(8),
    "x[i] & (~7 & ~(1 << 4))": lambda x: x & ~x.dtype.type(23),
    "x[i] & (~0 << 3)": lambda x: x & ~x.dtype.type(7),
    "min(x[i], ~0)": lambda x: np.minimum(x, ~x.dtype.type(0)),
    "if(x[i] == 5, ~0, x[i])": lambda x: np.where(x == 5, ~x.dtype.type(0), x),
    "~0": lambda x: np.full_like(x, ~x.dtype.type(0)),
}


@pytest.mark.few(15)
@pytest.mark.parametrize("dtype", DATA)
@pytest.mark.parametrize("text", MASKS)
def test_complements_have_all_bits_of_the_type_that_they_meet(text: str, dtype: str) -> None:
    check(text, dtype, MASKS[text])


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "uint32", "uint64"])
def test_a_negative_difference_of_constants_is_subtracted(dtype: str) -> None:
    check("x[i] + (3 - 5)", dtype, lambda x: x - x.dtype.type(2))


@pytest.mark.parametrize("dtype", ["uint64", "int64"])
@pytest.mark.parametrize("text", ["x[i] | (1 << 40)", "x[i] | 2**40", "x[i] ^ (2**41 - 2**40)", "x[i] & (3 << 39)"])
def test_wide_constants_beside_wide_types(text: str, dtype: str) -> None:
    check(text, dtype, lambda x: eval(text.replace("x[i]", "x"), {"x": x}))


def test_a_choice_of_constants_is_computed_in_the_type_that_it_meets() -> None:
    check("x[i] + (if(x[i] > 5, 2, 1) << 20)", "uint64", lambda x: x + np.where(x > 5, 2, 1).astype(x.dtype) * 2**20)


@pytest.mark.few(6)
@pytest.mark.parametrize("bits", [8, 16, 32, 64])
@pytest.mark.parametrize("text", ["x[i] - {}", "x[i] + -{}", "(x[i] - {}) % 7", "(x[i] - {}) >> 1"])
def test_the_largest_constant_is_subtracted(text: str, bits: int) -> None:
    def expected(x: Array) -> Array:
        found: Array = x + x.dtype.type(1)
        if "%" in text:
            found = found % x.dtype.type(7)
        elif ">>" in text:
            found = found >> x.dtype.type(1)
        return found

    check(text.format(2**bits - 1), f"uint{bits}", expected)


@pytest.mark.parametrize(("text", "expected"), [
    ("-(u[i]*v[i])", [-(2**20), -(2**40), 0]), ("-(cast(uint64, u[i])*(d[i]*2))", [-2.0 * 2**20, -(2.0**42), -0.0]),
    ("-(u[i]*d[i])", [-(2.0**20), -(2.0**41), -0.0]),
])  # fmt: skip
def test_a_product_is_negated_in_its_own_type(text: str, expected: list[float]) -> None:
    given: dict[str, Array] = {"u": np.array([2**20, 2**31, 0], np.uint32), "v": np.array([1, 512, 7], np.uint64)}
    given["d"] = np.array([1, 1024, 5], np.float64)
    dtype = np.float64 if "d[" in text else np.uint64
    arguments = [pl.GlobalArg(name, value.dtype, shape="n") for name, value in given.items() if f"{name}[" in text]
    knl = pl.make_kernel("{[i]: 0 <= i < n}", f"y[i] = {text}", [*arguments, pl.GlobalArg("y", dtype, shape="n"), ...])
    passed = {name: value for name, value in given.items() if f"{name}[" in text}
    want = [float(x) for x in expected] if dtype == np.float64 else [int(x) % 2**64 for x in expected]
    assert pl.compile(knl, target=pl.CTarget())(**passed).y.tolist() == want
    assert pl.interpret(knl, **passed).y.tolist() == want


@pytest.mark.parametrize(("text", "expected"), [
    ("x[i]*(1 << 40)", 2.0**40), ("x[i]*2**70", 2.0**70), ("x[i]*(7 // 2)", 3.0), ("x[i]*~7", -8.0),
    ("x[i]*(3 - 5)", -2.0), ("x[i]*((if(x[i] > 6, 1, 2) | 4)/2)", 2.5), ("x[i]*1e300", np.inf),
])  # fmt: skip
def test_constants_beside_floats(text: str, expected: float) -> None:
    knl, x = kernel_of(text, "float32"), np.array([7, 9, 31], np.float32)
    want = x * np.float32(expected)
    np.testing.assert_array_equal(pl.interpret(knl, x=x).y, want)
    np.testing.assert_array_equal(pl.compile(knl, target=pl.CTarget())(x=x).y, want)


@pytest.mark.parametrize(("text", "dtype", "message"), [
    ("x[i] & -8", "uint64", "the constant -8 does not fit uint64, the type of x[i] & -8"),
    ("x[i] + 2**64", "uint64", "the constant 18446744073709551616 does not fit uint64, the type of x[i] + 2**64"),
    ("x[i] + 2**4000", "int32", "the constant of 4001 bits does not fit int32, the type of x[i] + 2**4000"),
    ("x[i] & ~300", "uint8", "the constant -301 does not fit uint8, the type of x[i] & ~300"),
    ("x[i] + 300", "int8", "the constant 300 does not fit int8, the type of x[i] + 300"),
    ("x[i] + if(x[i] > 5, -1, 1)", "uint64",
     "the constant -1 does not fit uint64, the type of if(x[i] > 5, -1, 1)"),
    ("max(x[i], 1 - 2)", "uint32", "the constant -1 does not fit uint32, the type of max(x[i], 1 - 2)"),
    ("300", "uint8", "the constant 300 does not fit uint8, in which it is stored"),
    ("-1", "uint32", "the constant -1 does not fit uint32, in which it is stored"),
    ("1 << 40", "int32", "the constant 1099511627776 does not fit int32, in which it is stored"),
    ("if(x[i] > 5, 2**31, 0)", "int32",
     "the constant 2147483648 does not fit int32, the type of if(x[i] > 5, 2**31, 0)"),
    ("x[i] // (7 - 7)", "int32", "an integer is divided by zero: x[i] // (7 - 7)"),
    ("cast(int32, 2**64)", "int32", "cast(int32, 2**64) converts an integer of more than 64 bits"),
])  # fmt: skip
def test_what_does_not_fit_is_refused(text: str, dtype: str, message: str) -> None:
    with pytest.raises(pl.KernelError) as err:
        kernel_of(text, dtype)
    assert err.value.codes == ("bad-constant",)
    assert err.value.found[0].message == message
