"""Point counts by Barvinok's algorithm, if the ISL that is installed has it (``islpy-barvinok``)."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import reduce
from typing import Any, Final

import islpy as isl

from polyloop.poly.affine import Var
from polyloop.poly.polynomial import Guarded, PiecewisePolynomial, Polynomial
from polyloop.poly.sets import apart, floor_of, rows_of

__all__ = ["by_barvinok", "has_barvinok"]

_PARAM: Final = isl.dim_type.param
_DIV: Final = isl.dim_type.div


def has_barvinok() -> bool:
    """Return whether the ISL that is installed counts by Barvinok's algorithm."""
    return hasattr(isl.Set, "card")


def by_barvinok(domain: isl.Set, context: isl.Set | None) -> PiecewisePolynomial:
    """Return the count of ``islpy-barvinok``."""
    counter: Any = domain
    pieces: list[tuple[isl.Set, Polynomial]] = []
    counter.card().foreach_piece(lambda where, quasi: pieces.append((where.copy(), _polynomial_of(quasi))))
    parts = []
    for where, polynomial in pieces:
        own = where if context is None else where.gist_params(context)
        parts += [PiecewisePolynomial((Guarded(rows_of(basic, ()), polynomial),)) for basic in apart(own)]
    return PiecewisePolynomial.total(parts)


def _polynomial_of(quasi: Any) -> Polynomial:  # noqa: ANN401 - an isl.QPolynomial
    space = quasi.get_space()
    parameters = [space.get_dim_name(_PARAM, k) for k in range(space.dim(_PARAM))]
    found: list[Polynomial] = []
    quasi.foreach_term(lambda term: found.append(_term_of(term, parameters)))
    return reduce(Polynomial.__add__, found, Polynomial({}))


def _term_of(term: Any, parameters: Sequence[str]) -> Polynomial:  # noqa: ANN401 - an isl.Term
    value = term.get_coefficient_val()
    den = value.get_den_val()
    factor = Fraction(value.mul(den).to_python(), den.to_python())
    variables: list[tuple[Var, int]] = []
    for position, name in enumerate(parameters):
        variables.append((name, term.get_exp(_PARAM, position)))
    for number in range(term.dim(_DIV)):
        power = term.get_exp(_DIV, number)
        if power:
            variables.append((_quotient_of(term.get_div(number), parameters), power))
    result = Polynomial.constant(factor)
    for var, power in variables:
        for _ in range(power):
            result *= Polynomial.variable(var)
    return result


def _quotient_of(aff: isl.Aff, parameters: Sequence[str]) -> Var:
    divs: list[Var] = []
    for number in range(aff.dim(_DIV)):
        divs.append(floor_of(aff.get_div(number), parameters, (), divs))
    return floor_of(aff, parameters, (), divs)
