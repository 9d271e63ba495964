"""The functions of expressions on NumPy scalars, for the reference interpreter."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any, Final

import numpy as np

__all__ = ["NUMERIC"]


def _fma(a: Any, b: Any, c: Any) -> Any:  # noqa: ANN401
    """Return ``a*b + c``, rounded once."""
    if not (math.isfinite(a) and math.isfinite(b) and math.isfinite(c)):
        return a * b + c
    exact = Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c))
    if not exact or abs(exact) >= Fraction(float(np.finfo(a.dtype).max)):
        return a * b + c
    nearest = float(exact)
    if a.dtype == np.float64 or Fraction(nearest) == exact:
        return a.dtype.type(nearest)
    # Rounded to odd, so that rounding once more gives what rounding once gives.
    if np.float64(nearest).view(np.int64) % 2 == 0:
        nearest = math.nextafter(nearest, math.inf if exact > Fraction(nearest) else -math.inf)
    return a.dtype.type(nearest)


def _by_math(function: Callable[[float], float], pole: float | None = None) -> Callable[[Any], Any]:
    """Return a function of the standard library, with C's results at poles and where it overflows."""

    def apply(x: Any) -> Any:  # noqa: ANN401
        try:
            return x.dtype.type(function(float(x)))
        except OverflowError:
            return x.dtype.type(math.inf)
        except ValueError:
            return x.dtype.type(math.copysign(math.inf, x) if pole is None and x == 0 else pole or math.nan)

    return apply


def _round(x: Any) -> Any:  # noqa: ANN401
    """Return *x* rounded to the nearest integer, halves away from zero."""
    whole = np.trunc(x)
    return np.copysign(whole + np.copysign(1, x) if abs(x - whole) >= 0.5 else whole, x).astype(x.dtype)


def _turned(function: Callable[[float], float]) -> Callable[[Any], Any]:
    """Return a function of pi times its argument, which is reduced exactly."""

    def apply(x: Any) -> Any:  # noqa: ANN401
        if not math.isfinite(x):
            return x.dtype.type(math.nan)
        turn = math.fmod(float(x), 2.0)
        half = 2 * turn
        if half == int(half):  # exact at multiples of a half
            quarter = int(half) % 4
            exact = (0.0, 1.0, 0.0, -1.0) if function is math.sin else (1.0, 0.0, -1.0, 0.0)
            return x.dtype.type(math.copysign(0.0, x) if exact[quarter] == 0 else exact[quarter])
        return x.dtype.type(function(math.pi * turn))

    return apply


def _remainder(a: Any, b: Any) -> Any:  # noqa: ANN401
    try:
        return a.dtype.type(math.remainder(a, b))
    except ValueError:
        return a.dtype.type(math.nan)


def _fdim(a: Any, b: Any) -> Any:  # noqa: ANN401
    return a - b if not a <= b else a.dtype.type(0)


def _sign(x: Any) -> Any:  # noqa: ANN401
    return np.sign(x) if x.dtype != np.bool_ else x


def _bits(x: Any) -> int:  # noqa: ANN401
    """Return the bits of an integer as a nonnegative number."""
    width: int = 8 * x.dtype.itemsize
    return int(x) % (1 << width)


def _popcount(x: Any) -> np.int32:  # noqa: ANN401
    return np.int32(_bits(x).bit_count())


def _clz(x: Any) -> np.int32:  # noqa: ANN401
    return np.int32(8 * x.dtype.itemsize - _bits(x).bit_length())


def _ctz(x: Any) -> np.int32:  # noqa: ANN401
    bits = _bits(x)
    return np.int32((bits & -bits).bit_length() - 1 if bits else 8 * x.dtype.itemsize)


def _conj(x: Any) -> Any:  # noqa: ANN401
    return np.conj(x) if np.iscomplexobj(x) else x


_NUMPY_NAMES: Final = (
    "sqrt cbrt exp exp2 expm1 log log2 log10 log1p sin cos tan sinh cosh tanh fabs floor ceil trunc rint fmin fmax "
    "fmod hypot copysign nextafter isnan isinf isfinite signbit ldexp gcd abs real imag"
)
NUMERIC: Final[Mapping[str, Callable[..., Any]]] = {
    **{name: getattr(np, name) for name in _NUMPY_NAMES.split()},
    "nearbyint": np.rint,
    "round": _round,
    "rsqrt": lambda x: x.dtype.type(1) / np.sqrt(x),
    "exp10": lambda x: x.dtype.type(10) ** x,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "atan2": np.arctan2,
    "pow": np.power,
    "sinpi": _turned(math.sin),
    "cospi": _turned(math.cos),
    "erf": _by_math(math.erf),
    "erfc": _by_math(math.erfc),
    "tgamma": _by_math(math.gamma),
    "lgamma": _by_math(math.lgamma, math.inf),
    "sincos": lambda x: (np.sin(x), np.cos(x)),
    "remainder": _remainder,
    "fdim": _fdim,
    "fma": _fma,
    "sign": _sign,
    "conj": _conj,
    "arg": np.angle,
    "popcount": _popcount,
    "clz": _clz,
    "ctz": _ctz,
}
"""By name; the arguments have the type that :func:`polyloop.expr.typing.argument_type` says."""
