"""Affine forms with quotients."""

from __future__ import annotations

import pytest

from polyloop.poly.affine import Affine

X = Affine.variable("x")


@pytest.mark.parametrize("den", [2, 3, 8])
def test_a_quotient_of_a_form_with_its_own_quotient(den: int) -> None:
    """floor((x - d*floor(x/d))/d) is 0: both quotients are one variable, which lost a term."""
    rest = X.add(X.floordiv(den), -den)
    assert rest.floordiv(den) == Affine((), 0)
    assert rest.add(Affine((), den)).floordiv(den) == Affine((), 1)
    assert X.add(X.floordiv(den), den).floordiv(den) == X.floordiv(den).scale(2)
