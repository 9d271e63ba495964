from __future__ import annotations

import random

import islpy as isl
import pytest

from polyloop.poly.barvinok import by_barvinok, has_barvinok
from polyloop.poly.counting import UncountableError, count_points
from polyloop.poly.polynomial import PiecewisePolynomial, Polynomial, power_sum


@pytest.mark.parametrize(
    ("domain", "context", "text"),
    [
        ("{ [i, j, k]: 0 <= i, j, k < n }", "n >= 1", "n**3"),
        ("{ [i, j]: 0 <= i <= j < n }", "n >= 1", "(n**2 + n)/2"),
        ("{ [i, j, k]: 0 <= i < j < k < n }", "n >= 3", "(n**3 - 3*n**2 + 2*n)/6"),
        ("{ [i]: 0 <= i < n }", "", "(n if n >= 1)"),
        ("{ [o, i]: 0 <= i < 16 and 0 <= 16o + i < n }", "n >= 1", "n"),
        ("{ [o]: exists i: 0 <= i < 16 and 0 <= 16o + i < n }", "n >= 1", "floor((n + 15)/16)"),
        ("{ [o]: exists i: 0 <= i < 16 and 0 <= 16o + i < n }", "n >= 1 and n mod 16 = 0", "n/16"),
        ("{ [o]: exists i: 0 <= i < 16 and 0 <= 16o + i < n }", "n >= 1 and n mod 32 = 3", "(n + 13)/16"),
        ("{ [i]: 0 <= i < n and i mod 3 = 0 }", "n >= 1", "floor((n + 2)/3)"),
        ("{ [t, w]: 0 <= t < n and 32w <= t < 32w + 32 }", "n >= 1", "n"),
        ("{ [i, j]: 0 <= i, j < n and 2i = 3j }", "n >= 1", "floor((n + 2)/3)"),
        ("{ [i, j]: 0 <= i < n and i <= j < i + m }", "n >= 1 and m >= 1", "m*n"),
        ("{ [i]: 0 <= i < n and n < 0 }", "", "0"),
        ("{ [b, t, j]: 0 <= t < 32 and 0 <= 32b + t < n and 0 <= j <= 32b + t }", "n >= 1", "(n**2 + n)/2"),
        (
            "{ [g, l, u]: 0 <= l <= 15 and 0 <= u and 16u + l <= 17 and 0 <= 16g <= n - 3 and 16u + l + 16g < n }",
            "n >= 3",
            "n + 2*floor((n + 13)/16) - 2",
        ),
        ("{ [i]: i = 0 or i = 5 or i = 77 }", "", "3"),
        ("{ [i]: i = 0 or i = n }", "n >= 1", "2"),
        ("{ [] : n >= 4 }", "", "(1 if n >= 4)"),
    ],
)
def test_the_text_of_a_count(domain: str, context: str, text: str) -> None:
    known = isl.Set(f"[n, m] -> {{ : {context or 'true'} }}")
    assert str(count_points(isl.Set(f"[n, m] -> {domain}"), known)) == text


def _random_domain(rng: random.Random) -> isl.Set:
    dims = ["i", "j", "k"][: rng.randint(1, 3)]
    ends = ["n", "m", "7", "n + m", "2n", "n + 3"]
    parts = [f"{rng.randint(-3, 2)} <= {dim} < {rng.choice(ends)}" for dim in dims]
    for _ in range(rng.randint(0, 3)):
        names = [rng.choice(dims), *rng.sample([*dims, "n", "m"], rng.randint(0, 2))]
        form = " + ".join(f"{rng.choice([-3, -2, -1, -1, 1, 1, 2, 3, 4])}*{name}" for name in names)
        kinds = [
            f"{form} + {rng.randint(-5, 5)} >= 0",
            f"{form} = {rng.randint(-3, 3)}",
            f"({form}) mod {rng.randint(2, 4)} = {rng.randint(0, 1)}",
            f"exists q: {form} = {rng.randint(2, 5)}*q + {dims[0]}",
            f"{form} >= 0 or {dims[0]} = {rng.randint(0, 4)}",
        ]
        parts.append(rng.choices(kinds, (6, 1, 2, 1, 1))[0])
    return isl.Set(f"[n, m] -> {{ [{', '.join(dims)}]: {' and '.join(f'({part})' for part in parts)} }}")


_CONTEXTS = [None, "n >= 1 and m >= 2", "n mod 4 = 0 and n >= 0"]


def _disagreements(domain: isl.Set, counted: PiecewisePolynomial, context: isl.Set | None) -> list[tuple[int, int]]:
    found = []
    for n in range(-1, 10):
        for m in (0, 2, 5):
            sizes = isl.Set(f"[n, m] -> {{ : n = {n} and m = {m} }}")
            if context is not None and sizes.is_disjoint(context):
                continue
            if domain.intersect_params(sizes).count_val().to_python() != counted.eval_with_dict({"n": n, "m": m}):
                found.append((n, m))
    return found


@pytest.mark.parametrize("seed", range(6))
def test_counts_are_those_of_enumeration(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(40):
        domain, text = _random_domain(rng), rng.choice(_CONTEXTS)
        context = None if text is None else isl.Set(f"[n, m] -> {{ : {text} }}")
        counted = count_points(domain, context)
        assert _disagreements(domain, counted, context) == [], domain


@pytest.mark.skipif(not has_barvinok(), reason="islpy-barvinok is not installed")
def test_counts_are_those_of_barvinok() -> None:
    rng = random.Random(77)
    for _ in range(100):
        domain = _random_domain(rng)
        assert _disagreements(domain, by_barvinok(domain, None), None) == [], domain


def test_an_unbounded_set_is_not_counted() -> None:
    with pytest.raises(UncountableError, match="unbounded"):
        count_points(isl.Set("[n] -> { [i]: i >= n }"))


@pytest.mark.skipif(has_barvinok(), reason="islpy-barvinok counts it")
def test_what_falls_into_too_many_cases_is_not_counted() -> None:
    with pytest.raises(UncountableError, match="remainders"):
        count_points(isl.Set("[n] -> { [i, j, k]: 0 <= 997i + 1009j <= 1013k <= n and 991i >= 499j and i, j, k >= 0 }"))


@pytest.mark.parametrize("power", range(7))
def test_sums_of_powers(power: int) -> None:
    formula = power_sum(power, Polynomial.variable("n"))
    assert [formula.evaluate({"n": n}) for n in range(8)] == [sum(k**power for k in range(n + 1)) for n in range(8)]


def test_sums_and_products_of_counts() -> None:
    n = count_points(isl.Set("[n] -> { [i]: 0 <= i < n }"))
    square = n * n + 3
    assert str(square) == "(n**2 if n >= 1) + 3"
    assert [square.eval_with_dict({"n": value}) for value in (-4, 0, 5)] == [3, 3, 28]
    assert (n - n).is_zero
    assert n.names() == {"n"}
