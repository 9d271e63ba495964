"""Arithmetic in C: sums and products, division and remainder as in NumPy, powers, bits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
import pymbolic.primitives as p

from polyloop.codegen.expressions.addresses import index_text, with_named
from polyloop.codegen.expressions.calls import call_function
from polyloop.codegen.expressions.conversions import cast
from polyloop.codegen.expressions.literals import literal, typed_literal
from polyloop.codegen.expressions.operands import argument, fitted, operands_of
from polyloop.codegen.expressions.renderer import Renderer, Rule
from polyloop.codegen.expressions.types import INT32, WORD
from polyloop.codegen.expressions.wrapping import signed, wrapping_operands
from polyloop.codegen.tree import c_expr as c
from polyloop.codegen.tree.c_expr import Code
from polyloop.expr.chains import CHAINS, Chain, operands, paired
from polyloop.expr.constants import constant_of, number_of
from polyloop.expr.dtypes import (
    DType,
    as_real,
    is_bool,
    is_complex,
    is_inexact,
    is_integer,
    is_signed,
    is_unsigned,
)
from polyloop.expr.nodes import Expression, opposite, sign_first, subtrahend
from polyloop.expr.promotion import Weak
from polyloop.poly.affine import Affine, affine_of

__all__ = ["ARITHMETIC"]

_BIT_OPERATORS: Final = {p.BitwiseOr: c.BIT_OR, p.BitwiseXor: c.BIT_XOR, p.BitwiseAnd: c.BIT_AND}
_MAX_FACTORS: Final = 4
_POWERS: Final = {2: "square", 3: "cube", 4: "fourth"}
_UINT16: Final[DType] = np.dtype("uint16")
_UINT32: Final[DType] = np.dtype("uint32")
_UINT64: Final[DType] = np.dtype("uint64")

# {{{ sums and products


def _chain(r: Renderer, expr: Chain, want: DType | None) -> Code:
    """Return a chain of operations, each in the type of its own operands; index arithmetic is exact."""
    if r.types.is_exact and (named := with_named(r, expr)) is not expr:
        return index_text(r, named)
    if r.types.is_exact and isinstance(expr, p.Sum) and _numbers_in(expr) > 1:  # (i - 1) + 1
        return index_text(r, expr)
    if len(expr.children) > 2 and r.types.is_value:
        expr = paired(expr, [r.types.of(part) for part in operands(expr)])
    match expr:
        case p.Sum():
            return _sum(r, expr, want)
        case p.Product():
            return _product(r, expr, want)
        case _:
            return _bitwise(r, expr, want)


def _numbers_in(expr: Expression) -> int:
    """Return the count of numbers in a sum of sums."""
    return sum(map(_numbers_in, expr.children)) if isinstance(expr, p.Sum) else isinstance(expr, int)


def _sum(r: Renderer, expr: p.Sum, want: DType | None) -> Code:
    dtype = r.types.computed(expr, want)
    taken = [None, *(_subtracted(r, part, dtype) for part in expr.children[1:])]
    parts = [child if part is None else part for child, part in zip(expr.children, taken, strict=True)]
    wraps = r.types.wraps(dtype)
    chain = r.scope.chain()
    texts = wrapping_operands(r, parts, dtype) if wraps else operands_of(r, parts, dtype)
    terms: list[tuple[c.Operator, Code]] = []
    for part, text, difference in zip(parts, texts, taken, strict=True):
        opposite = None
        if terms and difference is None and _is_signed(r, part) and _has_sign_in(r, part, dtype):
            opposite = c.without_minus(text)
        operator = c.PLUS if opposite is None and difference is None else c.MINUS
        chain.add(operator.symbol, r.types.seen(part, dtype))
        terms.append((operator, text if opposite is None else opposite))
    (_, first), *rest = terms
    out = c.Binary(first, tuple(rest)) if rest else first
    return signed(r, dtype, out) if wraps else fitted(r.scope, dtype, out)


def _subtracted(r: Renderer, part: Expression, dtype: DType) -> Expression | None:
    """Return ``b`` if *part*, a term of a sum in *dtype*, is ``-b``; None if the sum has to add it."""
    taken = subtrahend(part)
    if taken is not None or (own := opposite(part)) is None:
        return taken
    alike = _has_sign_in(r, part, dtype) and _has_sign_in(r, part.children[0], r.types.computed(part, None))
    return own if alike else None


def _has_sign_in(r: Renderer, part: Expression, dtype: DType) -> bool:
    """Return True if negation of *part* in its own type and in *dtype* agree; only integers wrap."""
    kind = r.types.of(part)
    if isinstance(kind, Weak) or not is_integer(kind) or not r.types.is_value:
        return True
    return kind == dtype or r.types.is_number(part)


def _is_signed(r: Renderer, expr: Expression) -> bool:
    """Return True if a leading minus in the text negates the whole expression, unlike that of ``-u % m``."""
    if type(expr) is p.Product:
        return _is_signed(r, expr.children[0])
    if not isinstance(expr, p.ExpressionNode) or constant_of(expr) is not None:
        return True
    if type(expr) is p.Quotient:
        dtype = r.types.of(expr.numerator)
        return not isinstance(dtype, Weak) and is_inexact(dtype) and _is_signed(r, expr.numerator)
    return False


def _product(r: Renderer, expr: p.Product, want: DType | None) -> Code:
    dtype = r.types.common(expr.children, want)
    children = sign_first(expr)
    minus = type(children[0]) is int and children[0] == -1 and len(children) > 1
    factors = children[1:] if minus else children
    if r.types.wraps(dtype):
        return _wrapping_product(r, factors, dtype, minus=minus)
    texts = operands_of(r, factors, dtype)
    if is_integer(dtype) and dtype.itemsize < 4 and len(factors) > 1 and (len(factors) > 2 or dtype == _UINT16):
        texts[0] = cast(r.scope, _UINT32, texts[0])  # int would overflow
    chain = r.scope.chain()
    for part in factors:
        chain.add("*", r.types.seen(part, dtype))
    first = r.types.seen(factors[0], dtype)
    whole = minus and len(factors) > 1 and first != dtype and is_integer(first)  # -x would wrap by itself
    if minus:
        r.scope.operator("-", None, chain.dtype)
    return fitted(r.scope, dtype, _multiplied(texts, minus=minus, whole=whole))


def _wrapping_product(r: Renderer, factors: Sequence[Expression], dtype: DType, *, minus: bool = False) -> Code:
    texts = wrapping_operands(r, factors, dtype)
    return signed(r, dtype, _multiplied(texts, minus=minus, one=c.NEGATIVE))


def _multiplied(texts: Sequence[Code], *, minus: bool, whole: bool = False, one: c.Prefix = c.OPPOSITE) -> Code:
    """Return a product, or with *minus* its negation: of the first factor, or as a *whole*.

    *one* is the operator for the negation of a single factor.
    """
    if not minus:
        return c.binary(c.TIMES, *texts)
    first, *others = texts
    if whole or not others or (first.level >= c.NEGATIVE.level and c.is_negative(first)):
        return c.Unary(c.OPPOSITE if others else one, c.binary(c.TIMES, *texts))
    return c.binary(c.TIMES, c.Unary(c.NEGATIVE, first), *others)


# }}}
# {{{ division and powers


def _quotient(r: Renderer, expr: p.Quotient, want: DType | None) -> Code:
    parts = (expr.numerator, expr.denominator)
    dtype = r.types.computed(expr, want)
    if r.scope.fast and ("divide", dtype.name) in r.scope.language.functions.fast:
        return call_function(r.scope, "divide", dtype, [argument(r, part, dtype) for part in parts])
    numerator, denominator = operands_of(r, parts, dtype)
    r.scope.operator("/", *(r.types.seen(part, dtype) for part in parts))
    return c.binary(c.OVER, numerator, denominator)


def _floor_division(r: Renderer, expr: p.FloorDiv | p.Remainder, want: DType | None) -> Code:
    parts = (expr.numerator, expr.denominator)
    is_division = isinstance(expr, p.FloorDiv)
    dtype = r.types.common(parts, want)
    operation = "floordiv" if is_division else "floormod"
    if is_bool(dtype):
        dtype = INT32
    texts = operands_of(r, parts, dtype)
    if is_unsigned(dtype) or (is_integer(dtype) and _is_as_in_c(r, expr.numerator, expr.denominator)):
        return c.binary(c.OVER if is_division else c.MODULO, *texts)
    if r.types.wraps(dtype) and not (isinstance(expr.denominator, int) and expr.denominator != -1):
        operation = "divide" if is_division else "modulo"  # safe for -1, by which the least number overflows
    return r.scope.call(operation, dtype, *texts)


def _is_as_in_c(r: Renderer, numerator: Expression, denominator: Expression) -> bool:
    """Return True if C's division gives Python's result: both operands are known not to be negative."""
    if isinstance(denominator, int | np.integer):
        return bool(denominator > 0) and r.is_natural(affine_of(numerator))
    form = affine_of(denominator)
    return form is not None and r.is_natural(form.add(Affine((), -1))) and r.is_natural(affine_of(numerator))


def _power(r: Renderer, expr: p.Power, want: DType | None) -> Code:
    base, exponent = expr.base, expr.exponent
    dtype = r.types.computed(expr, want)
    number = number_of(exponent)
    if number is not None:
        exponent = number
        if exponent == 0:
            return typed_literal(r.scope, complex(1) if is_complex(dtype) else 1, dtype)
        is_short = abs(exponent) <= (_MAX_FACTORS if is_inexact(dtype) or dtype.itemsize >= 4 else 1)
        if is_short and (exponent > 0 or is_inexact(dtype)):
            return _repeated(r, base, exponent, dtype)
    if is_inexact(dtype):
        return call_function(r.scope, "pow", dtype, [argument(r, base, dtype), argument(r, exponent, dtype)])
    return r.scope.call("power", dtype, r.render(base, dtype), r.render(exponent, dtype))


def _repeated(r: Renderer, base: Expression, exponent: int, dtype: DType) -> Code:
    """Return a small power as a product, or its reciprocal."""
    count = abs(exponent)
    is_plain = isinstance(base, p.Variable | p.Subscript | int | float | np.generic)
    if r.types.wraps(dtype) and is_plain:
        return _wrapping_product(r, [base] * count, dtype)
    text = argument(r, base, dtype)
    r.scope.operator("*", dtype, dtype)
    if count == 1:
        product = text
    elif is_plain:
        product = c.binary(c.TIMES, *[text] * count)
    else:
        product = r.scope.call(_POWERS[count], dtype, text)
    if exponent > 0:
        return product
    r.scope.operator("/", as_real(dtype), dtype)
    return c.binary(c.OVER, literal(r.scope, 1, as_real(dtype)), product)


# }}}
# {{{ bits


def _bitwise(r: Renderer, expr: p.BitwiseOr | p.BitwiseXor | p.BitwiseAnd, want: DType | None) -> Code:
    dtype = r.types.common(expr.children, want)
    return c.binary(_BIT_OPERATORS[type(expr)], *operands_of(r, expr.children, dtype))


def _bitwise_not(r: Renderer, expr: p.BitwiseNot, want: DType | None) -> Code:
    dtype = r.types.common((expr.child,), want)
    text = r.render(expr.child, want)
    if is_bool(dtype):
        return c.Unary(c.NOT, text)
    return fitted(r.scope, dtype, c.Unary(c.COMPLEMENT, text))


def _shift(r: Renderer, expr: p.LeftShift | p.RightShift, want: DType | None) -> Code:
    dtype = r.types.computed(expr, want)
    left, right = r.render(expr.shiftee, dtype), r.render(expr.shift, dtype)
    if r.types.seen(expr.shiftee, dtype) != dtype and dtype.itemsize >= 4:
        left = cast(r.scope, dtype, left)
    is_left = isinstance(expr, p.LeftShift)
    if not _is_shift_count(r, expr.shift, 8 * dtype.itemsize):
        return r.scope.call("lshift" if is_left else "rshift", dtype, left, right)
    if is_left and (r.types.wraps(dtype) or (is_integer(dtype) and is_signed(dtype) and dtype.itemsize < WORD)):
        bits = cast(r.scope, _UINT32 if dtype.itemsize <= WORD else _UINT64, left)
        text = c.binary(c.OPERATORS["<<"], bits, right)
        return signed(r, dtype, text) if r.types.wraps(dtype) else fitted(r.scope, dtype, text)
    return fitted(r.scope, dtype, c.binary(c.OPERATORS["<<" if is_left else ">>"], left, right))


def _is_shift_count(r: Renderer, count: Expression, width: int) -> bool:
    """Return True if C can shift a number of *width* bits by *count*: it is known to be in range."""
    number = number_of(count)
    if number is not None:
        return 0 <= number < width
    form = affine_of(count)
    return r.is_natural(form) and form is not None and r.is_natural(Affine((), width - 1).add(form, -1))


# }}}

ARITHMETIC: Final[Mapping[type, Rule]] = {
    **dict.fromkeys(CHAINS, _chain),
    p.Quotient: _quotient,
    p.FloorDiv: _floor_division,
    p.Remainder: _floor_division,
    p.Power: _power,
    p.BitwiseNot: _bitwise_not,
    p.LeftShift: _shift,
    p.RightShift: _shift,
}
