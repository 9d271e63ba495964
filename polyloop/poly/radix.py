"""Mixed-radix forms: a proof without ISL that different points have different values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from operator import itemgetter

from polyloop.poly.affine import Affine, Floor, Var

__all__ = ["separates"]


def separates(forms: Sequence[Affine], dims: Iterable[str], extent: Callable[[str], int | None]) -> bool:
    """Return whether different points are sure to have different values of *forms*.  False means nothing.

    A form determines its variables if it is a mixed-radix number: in the order of coefficients, each one is greater
    than the total change that all smaller digits can make.  Let two points have the same sum and differ, last of all in
    the k-th digit.  That changes the sum by c_k at least, and the digits before it by less, so the sum is not the same.
    Variables that other forms determine are constants, as parameters are.  A quotient is a digit too: of ``x // 64``
    and ``x - 64*(x // 64)``, the first one determines the quotient, and with it the second one determines ``x``.
    A variable with one value is a constant.

    Parameters
    ----------
    forms, dims
        The forms, and the variables to be determined; other names are parameters.
    extent
        The number of values between the least and the greatest one of a variable, None if that is not constant.
    """
    names = set(dims)
    unknown: set[Var] = set(names)
    unknown.update(var for form in forms for var, _ in form.terms if type(var) is Floor)
    left = list(forms)
    while not names.isdisjoint(unknown):
        unknown = {var for var in unknown if type(var) is str or not _names(var).isdisjoint(names & unknown)}
        solved = [form for form in left if _is_sum_of_digits(form, unknown, extent)]
        if not solved:
            varying = {var for var in unknown if type(var) is not str or extent(var) != 1}
            if varying == unknown:
                return False
            unknown = varying
        for form in solved:
            unknown.difference_update(var for var, _ in form.terms)
            left.remove(form)
    return True


def _names(var: Var) -> frozenset[str]:
    return Affine(((var, 1),), 0).names()


def _is_sum_of_digits(form: Affine, unknown: set[Var], extent: Callable[[str], int | None]) -> bool:
    """Return whether the value of *form* determines its *unknown* variables, as a mixed-radix number its digits."""
    digits = sorted(((abs(factor), var) for var, factor in form.terms if var in unknown), key=itemgetter(0))
    change = 0
    for number, (coefficient, var) in enumerate(digits):
        if coefficient <= change:
            return False
        if number < len(digits) - 1:
            count = extent(var) if isinstance(var, str) else None
            if count is None:
                return False
            change += coefficient * (count - 1)
    return True
