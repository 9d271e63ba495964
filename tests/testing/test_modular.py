"""Floating-point numbers as integers modulo 2^32: which integers, and what becomes of expressions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import polyloop as pl
from polyloop.expr.printer import show
from polyloop.testing.drawing.words import NoIntegersError
from polyloop.testing.integers import integer_dtype, integer_of, integers_of
from polyloop.testing.modular import has_real_numbers, with_integers

F = np.float32
ADD = pl.ReductionOperation("add", "a + b", 0)


def changed(text: str, data: list[Any] | None = None, **options: Any) -> str:
    """Return what becomes of the right side of one instruction."""
    given = data or [pl.GlobalArg("x, z, y", F, shape="n"), pl.GlobalArg("k", np.int32, shape="n"), ...]
    knl = pl.make_kernel("{[i, j]: 0 <= i, j < n}", text, given, silenced_warnings="*", **options)
    return show(with_integers(knl).instructions[0].expression)


@pytest.mark.parametrize(
    ("number", "integer"),
    [(0.0, 0), (1.0, 1), (-1.0, 2**32 - 1), (6.0, 6), (-0.0, 0), (2.0**31, 2**31)],
)
def test_whole_numbers_stand_for_themselves(number: float, integer: int) -> None:
    assert integer_of(number) == integer


def test_other_numbers_are_odd_and_a_negative_is_the_negative() -> None:
    numbers = np.array([0.5, 0.1, 1e-30, 2.0**32, 1e30, np.inf, 3.25])
    found = integers_of(numbers)
    assert (found % 2 == 1).all()
    assert len(set(found.tolist())) == len(numbers)
    assert (integers_of(-numbers) + found == 0).all()
    assert integer_of(0.1) == integers_of(np.array([0.1], F))[0]
    assert integers_of(np.array([np.nan])).dtype == np.uint32


def test_complex_numbers_keep_their_sums() -> None:
    assert integer_of(2 + 0j) == 2
    one, three = map(int, integers_of(np.array([1j, 3j])))
    assert three == 3 * one % 2**32


def test_types_of_fields_are_replaced_one_by_one() -> None:
    inner = pl.record("inner", [("small", np.float16), ("flag", np.bool_)])
    outer = pl.record("outer", [("v", pl.vec.double3), ("z", np.complex64), ("n", np.int16), ("in_", inner)])
    found = integer_dtype(outer)
    fields = [("v", pl.vec.uint3), ("z", np.uint32), ("n", np.int16), ("in_", integer_dtype(inner))]
    assert found == pl.record("outer", fields)
    assert integer_dtype(inner) == pl.record("inner", [("small", np.uint32), ("flag", np.bool_)])
    assert integer_dtype(pl.vec.int2) is pl.vec.int2


@pytest.mark.parametrize(
    ("text", "becomes"),
    [
        ("y[i] = x[i] + z[i]*x[i] - 2*z[i]", "x[i] + z[i]*x[i] - 1*(2*z[i])"),
        ("y[i] = -x[i] + k[i]", "-x[i] + cast(uint32, k[i])"),
        ("y[i] = 3.0*x[i]**2", "3u*x[i]**2"),
        ("y[i] = k[i]", "cast(uint32, k[i])"),
        ("y[i] = -3", "4294967293u"),
        ("y[i] = sum(j, x[j])", "sum(j, x[j])"),
        ("y[i] = max(x[i], z[i])", "max(x[i], z[i])"),
        ("y[i] = fma(x[i], z[i], x[i])", "x[i]*z[i] + x[i]"),
        ("y[i] = cast(float64, x[i])", "x[i]"),
        ("y[i] = x[i] if x[i] < z[i] else 1", "if(cast(int32, x[i]) < cast(int32, z[i]), x[i], 1)"),
        ("y[i] = x[i] if k[i] < 3 else 1", "if(k[i] < 3, x[i], 1)"),
        ("k[i] = 1 if x[i] == 2.0 else 0", "if(x[i] == 2u, 1, 0)"),
    ],
)
def test_an_expression_becomes(text: str, becomes: str) -> None:
    assert changed(text) == becomes


def test_a_function_is_a_hash_of_its_name_and_its_arguments() -> None:
    assert changed("y[i] = exp(x[i])") == "hashed(1923516200u, x[i])"
    quotient = changed("y[i] = x[i]/z[i]")
    assert quotient == "hashed(hashed(1712342672u, x[i]), z[i])"
    assert changed("y[i] = x[i]/k[i]") == quotient.replace("z[i]", "cast(uint32, k[i])")
    assert changed("y[i] = x[i]**0.5").startswith("hashed(hashed(")
    halve = pl.ForeignFunction("halve", (F,), preamble="float halve(float x) { return x/2; }")
    assert changed("y[i] = halve(x[i])", functions=[halve]).startswith("hashed(")
    assert changed("k[i] = 1 if isnan(x[i]) else 0").endswith(" & 1 != 0, 1, 0)")


def test_names_of_the_user_are_kept_apart_from_the_hash() -> None:
    knl = pl.make_kernel("{[hashed]: 0 <= hashed < n}", "y[hashed] = exp(x[hashed])", [pl.GlobalArg("x", F), ...])
    assert "hashed1(1923516200u, x[hashed])" in str(with_integers(knl))


def test_tables_and_scalars_take_part() -> None:
    table = pl.TemporaryVariable("w", initializer=np.array([0.5, 2.0], F), read_only=True)
    data = [pl.GlobalArg("x", F, shape="n"), pl.ValueArg("alpha", np.float64), table, ...]
    knl = pl.make_kernel("{[i, j]: 0 <= i < n and 0 <= j < 2}", "y[i] = alpha*sum(j, w[j]*x[i])", data)
    exact = with_integers(knl)
    x, alpha = np.array([3, 2**31], np.uint32), np.uint32(7)
    expected = np.array([7 * (integer_of(0.5) + 2) * int(value) % 2**32 for value in x])
    assert (pl.compile(exact, target=pl.CTarget())(x=x, alpha=alpha).y == expected).all()
    assert (pl.interpret(exact, x=x, alpha=alpha).y == expected).all()


def test_operations_of_reductions_are_taken_along_where_they_stay_associative() -> None:
    data = [pl.GlobalArg("x", F, shape="n"), ...]
    knl = pl.make_kernel("{[i, j]: 0 <= i, j < n}", "y[i] = add(j, x[j])", data, reductions=[ADD])
    x = np.array([2**31, 2**31, 5], np.uint32)
    assert (pl.interpret(with_integers(knl), x=x).y == 5).all()
    for body, neutral, why in (
        ("sqrt(a*a + b*b)", 0, "combines with sqrt"),
        ("a + b + 0.5*a*b", 0, "combines with the constant 0.5"),
        ("a + b if a < b else a*b", 0, "adds and compares"),
    ):
        other = pl.ReductionOperation("other", body, neutral)
        knl = pl.make_kernel("{[i, j]: 0 <= i, j < n}", "y[i] = other(j, x[j])", data, reductions=[other])
        with pytest.raises(NoIntegersError, match=why):
            with_integers(knl)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("y[i] = x[cast(int32, z[i])]", "'z', whose values come from floating-point numbers"),
        ("y[i] = x[cast(int32, i/2)]", "is computed from floating-point numbers"),
        (["<int32> m = cast(int32, z[i])", "y[i] = x[m]"], "the subscript in x\\[m\\] depends on 'z'"),
        (["<int32> m = cast(int32, i/2)", "y[i] = x[m]"], "the subscript in x\\[m\\] depends on 'm'"),
    ],
)
def test_subscripts_from_floating_point_numbers_are_refused(text: Any, why: str) -> None:
    names = "x, y, z" if "z" in str(text) else "x, y"
    knl = pl.make_kernel("{[i]: 0 <= i < n}", text, [pl.GlobalArg(names, F, shape="n"), ...])
    with pytest.raises(NoIntegersError, match=why):
        with_integers(knl)


def test_a_kernel_of_integers_has_nothing_to_replace() -> None:
    data = [pl.GlobalArg("k", np.int64, shape="n"), ...]
    assert not has_real_numbers(pl.make_kernel("{[i]: 0 <= i < n}", "m[i] = 2*k[i]", data))
    assert has_real_numbers(pl.make_kernel("{[i]: 0 <= i < n}", "m[i] = k[i]/2", data))


@pytest.mark.nvrtc
def test_nvrtc_takes_the_kernel_with_integers() -> None:
    text = "y[i] = exp(x[i])/z[i] + sum(j, x[j]*z[j])"
    knl = pl.make_kernel("{[i, j]: 0 <= i, j < n}", text, [pl.GlobalArg("x, z", np.float16, shape="n"), ...])
    knl = pl.split_iname(knl, "i", 32, outer_tag="g.0", inner_tag="l.0")
    assert pl.compile(with_integers(knl), target=pl.CudaTarget("sm_90")).cubin
