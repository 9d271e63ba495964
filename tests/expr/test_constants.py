"""Expressions of constants are Python's integers, and take the type that they meet, or are refused."""

from __future__ import annotations

import random
import time

import numpy as np
import pymbolic.primitives as p
import pytest

import polyloop as pl
from polyloop.expr.constants import MOST_BITS, ConstantError, constant_of, folded, is_mask
from polyloop.expr.parser import parse_expression
from polyloop.expr.promotion import Weak
from polyloop.expr.typing import infer_type
from polyloop.poly.affine import Affine, affine_of


def _text(rng: random.Random, depth: int) -> str:
    if not depth:
        return str(rng.randint(0, 9))
    a, b = _text(rng, depth - 1), _text(rng, depth - 1)
    form = rng.choice(("({a} + {b})", "({a} - {b})", "({a} * {b})", "({a} // {b})", "({a} % {b})", "({a} & {b})",
                       "({a} | {b})", "({a} ^ {b})", "~{a}", "-{a}", "({a} << abs({b}) % 9)", "({a} >> abs({b}) % 9)",
                       "abs({a})", "min({a}, {b})", "max({a}, {b})", "({a})**(abs({b}) % 4)"))  # fmt: skip
    return form.format(a=a, b=b)


def test_constants_are_what_python_computes() -> None:
    rng = random.Random(1)
    seen = 0
    for _ in range(2000):
        text = _text(rng, rng.randint(1, 4))
        try:
            expected = eval(text, {"abs": abs, "min": min, "max": max})
        except ZeroDivisionError:
            continue
        assert folded(parse_expression(text)) == expected, text
        seen += 1
    assert seen > 1000


@pytest.mark.parametrize("text", ["i", "x[1] + 1", "1.5", "True + 1", "1/2", "2**-1", "exp(1)"])
def test_other_expressions_are_no_constants(text: str) -> None:
    assert folded(parse_expression(text)) is None


@pytest.mark.parametrize("text", [
    "2**100000000", "1 << 10**9", "10**10**10", "2**(2**(2**(2**2)))", "(1 << 4000)**200", "2**4000*2**4000",
    "(-2)**(10**9)", "abs(2**10**9)", "~(2**10**9)", "7 // 0", "7 % 0", "1 << -1", "1 >> -1",
])  # fmt: skip
@pytest.mark.parametrize("kernel", ["y[{}] = x[i]", "y[i] = x[{}]", "y[i] = x[i]*({})", "y[i] = x[i] {{if=i < {}}}"])
def test_numbers_that_cannot_be_computed_are_refused_at_once(text: str, kernel: str) -> None:
    begin = time.perf_counter()
    with pytest.raises(pl.KernelError) as err:
        pl.make_kernel("{[i]: 0 <= i < n}", kernel.format(text), [pl.GlobalArg("x, y", np.float32, shape="n"), ...])
    assert err.value.codes == ("bad-constant",)
    assert time.perf_counter() - begin < 5


@pytest.mark.parametrize("text", ["2**10**9", "9" * 5000, "0x" + "f" * 5000, "n + (1 << 10**9)"])
def test_so_they_are_in_shapes(text: str) -> None:
    with pytest.raises(pl.KernelError):
        pl.make_kernel("{[i]: 0 <= i < n}", "y[i] = 1.0", [pl.GlobalArg("y", np.float32, shape=text), ...])


def test_a_parameter_that_becomes_a_number_makes_none_that_fills_the_memory() -> None:
    arguments = [pl.GlobalArg("x, y", np.float32, shape="n"), ...]
    knl = pl.make_kernel("{[i]: 0 <= i < n}", "y[i] = x[i]*2**n", arguments)
    with pytest.raises(pl.PolyloopError) as err:
        pl.generate_code(pl.fix_parameters(knl, n=10**9), target=pl.CTarget())
    assert err.value.codes == ("bad-constant",)


def test_a_large_number_is_said_to_be_too_large() -> None:
    with pytest.raises(ConstantError) as err:
        folded(p.Power(2, 10**12))
    assert err.value.diagnostic.message == f"an integer of more than {MOST_BITS} bits"
    assert constant_of(p.Power(2, 10**12)) is None


@pytest.mark.parametrize("text", ["~7", "~7 & ~(1 << 4)", "~0 << 3", "~1 | 3", "~7 ^ 1"])
def test_patterns_of_bits(text: str) -> None:
    assert is_mask(parse_expression(text))


@pytest.mark.parametrize("text", ["-8", "~7 - 1", "~0 >> 1", "~7 & -8", "3 - 5"])
def test_other_negative_numbers_are_no_patterns(text: str) -> None:
    assert not is_mask(parse_expression(text))


@pytest.mark.parametrize(("text", "kind"), [
    ("1 << 20", Weak.INT), ("~0", Weak.INT), ("2**31", Weak.WORD), ("1 << 40", Weak.LONG), ("-(2**40)", Weak.LONG),
    ("2**63", np.dtype("uint64")), ("2**64", Weak.HUGE), ("2**70 // 2**60", Weak.INT), ("2**70*x", np.dtype("float32")),
    ("(1 << 40)*x", np.dtype("float32")), ("(1 << 40) | u", np.dtype("uint64")), ("~7 & u", np.dtype("uint64")),
    ("1 << 40 | b", np.dtype("int64")),
])  # fmt: skip
def test_types_of_constants(text: str, kind: object) -> None:
    types: dict[str, np.dtype[np.generic]] = {
        "x": np.dtype("float32"), "u": np.dtype("uint64"), "b": np.dtype("int64"),
    }  # fmt: skip
    assert infer_type(parse_expression(text), lambda name: types[name]) == kind


@pytest.mark.parametrize(("text", "form"), [
    ("2**3", Affine((), 8)), ("i << 1", Affine((("i", 2),), 0)), ("i**1", Affine((("i", 1),), 0)),
    ("(i + 1) << (1 + 1)", Affine((("i", 4),), 4)), ("i*2**3", Affine((("i", 8),), 0)),
])  # fmt: skip
def test_operations_with_constants_are_affine(text: str, form: Affine) -> None:
    assert affine_of(parse_expression(text)) == form


@pytest.mark.parametrize("text", ["i >> 2", "i & 7", "7 & i", "i // -2", "i % -3", "i << 3", "(i & 3) + (i >> 1)"])
def test_affine_forms_have_the_values_of_the_operations(text: str) -> None:
    form = affine_of(parse_expression(text))
    assert form is not None
    for i in range(-20, 20):
        assert form.evaluate({"i": i}) == eval(text, {"i": i})


@pytest.mark.parametrize("text", ["i**2", "i & 6", "i ^ 1", "i << i", "i << 100", "i*i", "i // j", "i // 0"])
def test_others_are_not(text: str) -> None:
    assert affine_of(parse_expression(text)) is None
