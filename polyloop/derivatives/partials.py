"""Partial derivatives of expressions without reductions, by the chain rule from the outside in.

Where a function has no derivative, one is chosen: ``abs`` has 0 at 0, as in PyTorch; ``max`` and ``min`` halve where
both are equal, as in JAX; ``floor``, ``sign`` and comparisons have 0 everywhere.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import pymbolic.primitives as p

from polyloop.derivatives.arithmetic import call, choose, is_one, minus, over, plus, times
from polyloop.expr.constants import number_of
from polyloop.expr.dtypes import is_floating
from polyloop.expr.nodes import Expression, TypeCast, function_name
from polyloop.expr.printer import show
from polyloop.expr.rewrite import accesses, children

__all__ = ["Part", "Undifferentiable", "partials", "reads"]


class Undifferentiable(Exception):  # noqa: N818 - a signal to the caller, who knows the instruction
    """An expression has no derivative that is known: ``reason`` tells why, ``hint`` what to do."""

    def __init__(self, reason: str, hint: str) -> None:
        super().__init__(reason)
        self.reason, self.hint = reason, hint


@dataclass(frozen=True)
class Part:
    """The contribution of one read to the derivative of an expression.

    Attributes
    ----------
    leaf
        The variable or element that is read.
    factor
        The partial derivative, times what the chain rule began with.
    conditions
        Conditions, each with the value that it has where the read happens; elsewhere it contributes nothing.
    """

    leaf: Expression
    factor: Expression
    conditions: tuple[tuple[Expression, bool], ...] = ()


_Rule = Callable[..., tuple[Expression, ...]]

_ROOT_PI: Final = 2 / math.sqrt(math.pi)
_LOG2: Final = math.log(2)
_LOG10: Final = math.log(10)


def _square(x: Expression) -> Expression:
    return p.Product((x, x))


def _power(x: Expression, y: Expression) -> tuple[Expression, ...]:
    exponent = number_of(y)
    if exponent is not None:
        if exponent == 2:
            return times(2, x), 0
        if exponent == 1:
            return 1, 0
        return times(exponent, p.Power(x, exponent - 1)), 0
    return times(y, call("pow", x, minus(y, 1))), times(call("log", x), call("pow", x, y))


def _larger(x: Expression, y: Expression) -> tuple[Expression, ...]:
    return _chosen(p.Comparison(x, ">", y), p.Comparison(x, "==", y))


def _smaller(x: Expression, y: Expression) -> tuple[Expression, ...]:
    return _chosen(p.Comparison(x, "<", y), p.Comparison(x, "==", y))


def _chosen(first: Expression, both: Expression) -> tuple[Expression, ...]:
    return p.If(first, 1.0, p.If(both, 0.5, 0.0)), p.If(first, 0.0, p.If(both, 0.5, 1.0))


_RULES: Final[Mapping[str, _Rule]] = {
    "sqrt": lambda x: (over(0.5, call("sqrt", x)),),
    "rsqrt": lambda x: (over(times(-0.5, call("rsqrt", x)), x),),
    "cbrt": lambda x: (over(1.0, times(3, _square(call("cbrt", x)))),),
    "exp": lambda x: (call("exp", x),),
    "exp2": lambda x: (times(_LOG2, call("exp2", x)),),
    "exp10": lambda x: (times(_LOG10, call("exp10", x)),),
    "expm1": lambda x: (call("exp", x),),
    "log": lambda x: (over(1.0, x),),
    "log2": lambda x: (over(1 / _LOG2, x),),
    "log10": lambda x: (over(1 / _LOG10, x),),
    "log1p": lambda x: (over(1.0, plus(1, x)),),
    "sin": lambda x: (call("cos", x),),
    "cos": lambda x: (times(-1, call("sin", x)),),
    "tan": lambda x: (plus(1, _square(call("tan", x))),),
    "asin": lambda x: (call("rsqrt", minus(1, _square(x))),),
    "acos": lambda x: (times(-1, call("rsqrt", minus(1, _square(x)))),),
    "atan": lambda x: (over(1.0, plus(1, _square(x))),),
    "sinh": lambda x: (call("cosh", x),),
    "cosh": lambda x: (call("sinh", x),),
    "tanh": lambda x: (minus(1, _square(call("tanh", x))),),
    "asinh": lambda x: (call("rsqrt", plus(_square(x), 1)),),
    "acosh": lambda x: (call("rsqrt", minus(_square(x), 1)),),
    "atanh": lambda x: (over(1.0, minus(1, _square(x))),),
    "sinpi": lambda x: (times(math.pi, call("cospi", x)),),
    "cospi": lambda x: (times(-math.pi, call("sinpi", x)),),
    "erf": lambda x: (times(_ROOT_PI, call("exp", times(-1, x, x))),),
    "erfc": lambda x: (times(-_ROOT_PI, call("exp", times(-1, x, x))),),
    "abs": lambda x: (call("sign", x),),
    "fabs": lambda x: (call("sign", x),),
    "real": lambda _: (1,),
    "conj": lambda _: (1,),
    "pow": _power,
    "atan2": lambda y, x: (over(x, plus(_square(x), _square(y))), over(times(-1, y), plus(_square(x), _square(y)))),
    "hypot": lambda x, y: (over(x, call("hypot", x, y)), over(y, call("hypot", x, y))),
    "fmin": _smaller,
    "fmax": _larger,
    "fmod": lambda x, y: (1, times(-1, call("trunc", over(x, y)))),
    "fdim": lambda x, y: (p.If(p.Comparison(x, ">", y), 1.0, 0.0), p.If(p.Comparison(x, ">", y), -1.0, 0.0)),
    "copysign": lambda x, y: (times(call("sign", x), call("copysign", 1.0, y)), 0),
    "fma": lambda x, y, _: (y, x, 1),
}
"""Partial derivatives of functions for each argument."""

_FLAT: Final = frozenset((
    "floor", "ceil", "trunc", "round", "rint", "nearbyint", "sign", "isnan", "isinf", "isfinite", "signbit", "imag",
    "gcd", "popcount", "clz", "ctz"))  # fmt: skip
"""Functions whose derivative is 0 wherever they have one."""

_FLAT_NODES: Final = (
    p.Comparison, p.LogicalAnd, p.LogicalOr, p.LogicalNot, p.FloorDiv, p.LeftShift, p.RightShift, p.BitwiseAnd,
    p.BitwiseOr, p.BitwiseXor, p.BitwiseNot)  # fmt: skip


def partials(expr: Expression, seed: Expression, is_active: Callable[[Expression], bool]) -> Iterator[Part]:
    """Yield the contributions of the active reads of *expr*, an expression without reductions.

    ::

        a*sin(b)    with seed s

        a:  s*sin(b)
        b:  s*(a*cos(b))

    Parameters
    ----------
    is_active
        Says of a variable or element whether its derivative is asked for.

    Raises
    ------
    Undifferentiable
        An active read goes through a function without a known derivative.
    """
    yield from _Walk(is_active).parts(expr, seed, ())


_Conditions = tuple[tuple[Expression, bool], ...]


class _Walk:
    def __init__(self, is_active: Callable[[Expression], bool]) -> None:
        self.is_active = is_active

    def matters(self, expr: Expression) -> bool:
        """Return whether *expr* has an active read, other than inside of subscripts."""
        if type(expr) is p.Variable or type(expr) is p.Subscript:
            return self.is_active(expr)
        return any(map(self.matters, children(expr)))

    def parts(self, expr: Expression, seed: Expression, where: _Conditions) -> Iterator[Part]:
        if not self.matters(expr):
            return
        match expr:
            case p.Variable() | p.Subscript():
                yield Part(expr, seed, where)
            case p.Sum():
                for child in expr.children:
                    yield from self.parts(child, seed, where)
            case p.Product():
                for place, child in enumerate(expr.children):
                    others = expr.children[:place] + expr.children[place + 1 :]
                    yield from self.parts(child, times(seed, *others), where)
            case p.If():
                yield from self.parts(expr.then, seed, (*where, (expr.condition, True)))
                yield from self.parts(expr.else_, seed, (*where, (expr.condition, False)))
            case TypeCast() if is_floating(np.dtype(expr.dtype)):
                yield from self.parts(expr.child, seed, where)
            case _ if not isinstance(expr, (TypeCast, *_FLAT_NODES)):
                yield from self.chained(expr, seed, where)

    def chained(self, expr: Expression, seed: Expression, where: _Conditions) -> Iterator[Part]:
        """Yield the parts of an operation by its partial derivatives."""
        operands, factors = self.rule(expr)
        for operand, factor in zip(operands, factors, strict=True):
            if not (type(factor) in (int, float) and factor == 0):
                yield from self.parts(operand, _scaled(seed, factor), where)

    def rule(self, expr: Expression) -> tuple[tuple[Expression, ...], tuple[Expression, ...]]:
        """Return the operands of an operation, and its partial derivatives."""
        match expr:
            case p.Quotient():
                x, y = expr.numerator, expr.denominator
                return (x, y), (over(1, y), over(times(-1, x), _square(y)))
            case p.Power():
                return (expr.base, expr.exponent), _power(expr.base, expr.exponent)
            case p.Remainder():
                x, y = expr.numerator, expr.denominator
                return (x, y), (1, times(-1, call("floor", over(x, y))))
            case p.Max() | p.Min():
                first, *rest = expr.children
                other = rest[0] if len(rest) == 1 else type(expr)(tuple(rest))
                return (first, other), (_larger if type(expr) is p.Max else _smaller)(first, other)
            case p.Call() if isinstance(expr.function, p.Variable):
                return self.function(expr)
        raise Undifferentiable(
            f"'{show(expr)}' has no derivative that is known", "compute it by functions and operators of the language")

    def function(self, expr: Expression) -> tuple[tuple[Expression, ...], tuple[Expression, ...]]:
        name, operands = function_name(expr), tuple(expr.parameters)
        if name in _FLAT:
            return operands, (0,) * len(operands)
        if name == "ldexp":
            return operands, (call("ldexp", 1.0, operands[1]), 0)
        if name in _RULES:
            return operands, _RULES[name](*operands)
        raise Undifferentiable(
            f"the derivative of '{name}' is not known", f"replace '{name}', or leave what it reads out of wrt=")


def _scaled(seed: Expression, factor: Expression) -> Expression:
    """Return ``seed*factor``, as ``seed/y`` where the factor is ``1/y``."""
    if type(factor) is p.Quotient:
        return over(times(seed, factor.numerator), factor.denominator)
    if type(factor) is p.If and all(type(x) is float for x in (factor.then, factor.else_)):
        return choose(factor.condition, times(seed, factor.then), times(seed, factor.else_))
    return seed if is_one(factor) else times(seed, factor)


def reads(expr: Expression) -> tuple[Expression, ...]:
    """Return the distinct variables and elements that *expr* reads, those in subscripts too."""
    return tuple(dict.fromkeys(accesses(expr)))
