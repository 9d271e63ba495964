"""The functions that expressions may call: name, number of arguments, rule for the result type."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import Final

import pymbolic.primitives as p

from polyloop.expr.nodes import Expression, function_name

__all__ = ["FUNCTIONS", "Function", "ResultType", "result_fields"]


class ResultType(Enum):
    """How the type of a result follows from the common type of the arguments."""

    FLOAT = "float"
    """The common type if it is a floating-point type, otherwise float64."""
    SAME = "same"
    """The common type."""
    BOOL = "bool"
    """Always bool."""
    RECORD = "record"
    """A record whose fields all have the type that FLOAT would give."""


@dataclass(frozen=True)
class Function:
    """A known function; ``max_arity`` is None where any larger number of arguments is accepted."""

    name: str
    arity: int = 1
    result: ResultType = ResultType.FLOAT
    max_arity: int | None = 1
    fields: tuple[str, ...] = ()
    """Names of the results, where there are several."""

    def accepts(self, count: int) -> bool:
        """Return whether it can be called with *count* arguments."""
        return count >= self.arity and (self.max_arity is None or count <= self.max_arity)


_UNARY = """
sqrt rsqrt exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan sinh cosh tanh fabs floor ceil erf
"""
_BINARY = "atan2 pow fmin fmax hypot copysign"

FUNCTIONS: Final[Mapping[str, Function]] = MappingProxyType(
    {
        **{name: Function(name) for name in _UNARY.split()},
        **{name: Function(name, 2, ResultType.FLOAT, 2) for name in _BINARY.split()},
        "fma": Function("fma", 3, ResultType.FLOAT, 3),
        "sincos": Function("sincos", 1, ResultType.RECORD, fields=("sin", "cos")),
        "abs": Function("abs", 1, ResultType.SAME),
        "isnan": Function("isnan", 1, ResultType.BOOL),
        "isinf": Function("isinf", 1, ResultType.BOOL),
        "min": Function("min", 2, ResultType.SAME, None),
        "max": Function("max", 2, ResultType.SAME, None),
    }
)
"""By name.  ``min`` and ``max`` are parsed into ``Min`` and ``Max`` nodes; ``abs`` keeps integers."""


def result_fields(expr: Expression) -> tuple[str, ...]:
    """Return the names of the results of a call that has several, in order; nothing for any other expression."""
    function = FUNCTIONS.get(function_name(expr)) if isinstance(expr, p.Call) else None
    return () if function is None else function.fields
