"""Sums of digits determine their digits: against all points of random boxes."""

import itertools
import random

import pytest

from polyloop.poly.affine import Affine, Floor
from polyloop.poly.radix import separates


def _form(**terms: int) -> Affine:
    return Affine.make(terms.items())


def test_digits() -> None:
    sizes = {"a": 4, "b": 8}
    assert separates([_form(a=1, b=4)], "ab", sizes.get)
    assert separates([_form(a=-8, b=1)], "ab", sizes.get)
    assert not separates([_form(a=1, b=3)], "ab", sizes.get)


def test_the_leading_digit_may_have_any_number_of_values() -> None:
    assert separates([_form(a=1, b=4, n=7)], "ab", {"a": 4}.get)
    assert not separates([_form(a=1, b=4)], "ab", {"b": 4}.get)


def test_a_variable_with_one_value_is_a_constant() -> None:
    assert separates([_form(a=1, b=1)], "ab", {"a": 1}.get)
    assert not separates([_form(a=1, b=1)], "ab", {"a": 2}.get)


def test_what_one_form_determines_is_a_constant_in_the_others() -> None:
    assert separates([_form(a=1, b=1), _form(a=1)], "ab", lambda _: None)
    assert not separates([_form(a=1, b=1)], "ab", lambda _: None)


def test_a_quotient_is_a_digit() -> None:
    tile = _form(a=1, b=16)
    quotient = Affine.variable(Floor(tile.terms, tile.const, 64))
    sizes = {"a": 16, "b": 40}
    assert separates([quotient, tile.add(quotient, -64)], "ab", sizes.get)
    assert not separates([tile.add(quotient, -64)], "ab", sizes.get)
    assert not separates([quotient], "ab", sizes.get)


def _random_form(rng: random.Random) -> Affine:
    """Return a form with a quotient, whose variables may be in it outside of the quotient too."""
    form = _form(**{x: rng.choice((0, 0, 1, 2, 4)) for x in "abc"})
    inner = rng.choice((_form(a=1), _form(a=1, b=4), _form(b=1, c=2), _form(c=1)))
    quotient = Affine.variable(Floor(inner.terms, rng.randint(-1, 1), rng.choice((2, 4))))
    return form.add(quotient, rng.choice((-4, -2, 1, 8)))


@pytest.mark.parametrize("seed", range(300))
def test_no_two_points_have_the_same_values_of_forms_with_quotients(seed: int) -> None:
    rng = random.Random(seed)
    sizes = {x: rng.randint(1, 4) for x in "abc"}
    forms = [rng.choice((_random_form(rng), _form(**{rng.choice("abc"): 1}))) for _ in range(rng.randint(2, 4))]
    quotients = [Affine.variable(var) for form in forms for var, _ in form.terms if isinstance(var, Floor)]
    forms += [quotient for quotient in quotients if rng.random() < 0.5]
    points = [
        dict(zip("abc", values, strict=True)) for values in itertools.product(*(range(sizes[x]) for x in "abc"))
    ]
    if separates(forms, "abc", sizes.get):
        assert len({tuple(form.evaluate(point) for form in forms) for point in points}) == len(points)


@pytest.mark.parametrize("seed", range(200))
def test_no_two_points_have_the_same_values(seed: int) -> None:
    rng = random.Random(seed)
    sizes = {x: rng.randint(1, 4) for x in "abc"}
    starts = {x: rng.randint(-2, 2) for x in "abc"}
    forms = [_form(**{x: rng.choice((0, 1, 1, 2, 3, 4, -4, 8)) for x in "abc"}) for _ in range(rng.randint(1, 3))]
    points = [
        dict(zip("abc", values, strict=True))
        for values in itertools.product(*(range(starts[x], starts[x] + sizes[x]) for x in "abc"))
    ]
    values = {tuple(form.evaluate(point) for form in forms) for point in points}
    if separates(forms, "abc", sizes.get):
        assert len(values) == len(points)


def test_random_forms_are_seen_to_separate() -> None:
    found = 0
    for seed in range(200):
        rng = random.Random(seed)
        order = rng.sample("abc", 3)
        sizes = {x: rng.randint(2, 4) for x in "abc"}
        coefficients, reach = {}, 1
        for x in order:
            coefficients[x] = reach
            reach *= sizes[x]
        found += separates([_form(**coefficients)], "abc", sizes.get)
    assert found == 200
