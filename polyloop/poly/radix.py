"""Mixed-radix forms: a proof without ISL that different points have different values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from polyloop.poly.affine import Affine

__all__ = ["separates"]


def separates(forms: Sequence[Affine], dims: Iterable[str], extent: Callable[[str], int | None]) -> bool:
    """Return whether different points are sure to have different values of *forms*.  False means nothing.

    A form determines its variables if it is a mixed-radix number: in the order of coefficients, each one is greater
    than the total change that all smaller digits can make.  Let two points have the same sum and differ, last of all in
    the k-th digit.  That changes the sum by c_k at least, and the digits before it by less, so the sum is not the same.
    Variables that other forms determine are constants, as parameters are.

    Parameters
    ----------
    forms, dims
        The forms, and the variables to be determined; other names are parameters.
    extent
        The number of values between the least and the greatest one of a variable, None if that is not constant.
    """
    unknown = set(dims)
    left = [form for form in forms if all(type(var) is str for var, _ in form.terms)]
    while unknown and left:
        solved = [form for form in left if _is_sum_of_digits(form, unknown, extent)]
        if not solved:
            return False
        for form in solved:
            unknown -= form.names()
            left.remove(form)
    return not unknown


def _is_sum_of_digits(form: Affine, unknown: set[str], extent: Callable[[str], int | None]) -> bool:
    """Return whether the value of *form* determines its *unknown* variables, as a mixed-radix number its digits."""
    digits = sorted((abs(factor), var) for var, factor in form.terms if isinstance(var, str) and var in unknown)
    change = 0
    for number, (coefficient, var) in enumerate(digits):
        if coefficient <= change:
            return False
        if number < len(digits) - 1:
            count = extent(var)
            if count is None:
                return False
            change += coefficient * (count - 1)
    return True
