"""Table of the functions that expressions may call: name, arity, argument types, result type.

Their implementations are in two other tables: ``target/mathtable.py`` (C and CUDA) and ``target/numeric.py`` (the
reference interpreter).  A test demands that the three agree.  Nothing of pymbolic is imported here: the types of
elements are known by a program that only loads bundles, and their names may be none of these.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import Final

__all__ = ["FUNCTIONS", "Domain", "Function", "ResultType"]


class ResultType(Enum):
    """Result type of a function, by the common type of the arguments."""

    FLOAT = "float"
    """The common type if it is a floating-point type, real or complex, otherwise float64."""
    SAME = "same"
    """The common type."""
    REAL = "real"
    """The common type; of a complex one, that of its real part."""
    BOOL = "bool"
    """Always bool."""
    RECORD = "record"
    """A record whose fields all have the type that FLOAT would give."""
    COUNT = "count"
    """Always int32."""


class Domain(Enum):
    """Types that the arguments of a function may have."""

    REAL = "a real number"
    """Real numbers; integers become float64 unless the result has their type."""
    NUMBER = "a number"
    """Real and complex numbers."""
    INTEGER = "an integer"


@dataclass(frozen=True)
class Function:
    """A known function; ``max_arity`` is None where any larger number of arguments is accepted.

    ``reserved`` is whether variables must not have its name, because C gives it a meaning.
    ``integer_last`` is whether the last argument is an integer of its own, whatever the others are.
    ``fields`` are the names of the results, where there are several.
    """

    name: str
    arity: int = 1
    result: ResultType = ResultType.FLOAT
    max_arity: int | None = 1
    domain: Domain = Domain.REAL
    reserved: bool = True
    integer_last: bool = False
    fields: tuple[str, ...] = ()

    def accepts(self, count: int) -> bool:
        """Return whether it can be called with *count* arguments."""
        return count >= self.arity and (self.max_arity is None or count <= self.max_arity)


_UNARY = """
rsqrt cbrt exp2 exp10 expm1 log2 log10 log1p asin acos atan asinh acosh atanh sinpi cospi
fabs floor ceil trunc round rint nearbyint erf erfc tgamma lgamma
"""
_COMPLEX_UNARY = "sqrt exp log sin cos tan sinh cosh tanh"
_BINARY = "atan2 fmin fmax fmod remainder fdim hypot copysign nextafter"
_TESTS = "isnan isinf isfinite signbit"


def _integers(name: str, arity: int, result: ResultType) -> Function:
    return Function(name, arity, result, arity, Domain.INTEGER, reserved=False)


FUNCTIONS: Final[Mapping[str, Function]] = MappingProxyType(
    {
        **{name: Function(name) for name in _UNARY.split()},
        **{name: Function(name, domain=Domain.NUMBER) for name in _COMPLEX_UNARY.split()},
        **{name: Function(name, 2, ResultType.FLOAT, 2) for name in _BINARY.split()},
        **{name: Function(name, 1, ResultType.BOOL) for name in _TESTS.split()},
        "pow": Function("pow", 2, ResultType.FLOAT, 2, Domain.NUMBER),
        "fma": Function("fma", 3, ResultType.FLOAT, 3),
        "sincos": Function("sincos", 1, ResultType.RECORD, fields=("sin", "cos")),
        "ldexp": Function("ldexp", 2, ResultType.FLOAT, 2, integer_last=True),
        "abs": Function("abs", 1, ResultType.REAL, 1, Domain.NUMBER),
        "sign": Function("sign", 1, ResultType.SAME, reserved=False),
        "real": Function("real", 1, ResultType.REAL, 1, Domain.NUMBER, reserved=False),
        "imag": Function("imag", 1, ResultType.REAL, 1, Domain.NUMBER, reserved=False),
        "conj": Function("conj", 1, ResultType.SAME, 1, Domain.NUMBER),
        "arg": Function("arg", 1, ResultType.REAL, 1, Domain.NUMBER, reserved=False),
        "gcd": _integers("gcd", 2, ResultType.SAME),
        "popcount": _integers("popcount", 1, ResultType.COUNT),
        "clz": _integers("clz", 1, ResultType.COUNT),
        "ctz": _integers("ctz", 1, ResultType.COUNT),
        "min": Function("min", 2, ResultType.SAME, None),
        "max": Function("max", 2, ResultType.SAME, None),
    }
)
"""By name.  ``min`` and ``max`` are parsed into ``Min`` and ``Max`` nodes; ``abs`` keeps integers.

``round`` rounds halves away from zero as in C, ``rint`` and ``nearbyint`` to even.  ``arg`` of an integer is float64.
``clz(0)`` and ``ctz(0)`` are the width of the type [bits].
"""
