"""Array spans: numbers of elements, as expressions of shapes and strides."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

import pymbolic.primitives as p

from polyloop.expr.nodes import Expression
from polyloop.kernel.arrays import ArrayArg
from polyloop.kernel.layout import Strided

__all__ = ["factors_of", "magnitude", "span", "spanned", "total"]


def span(array: ArrayArg) -> Expression:
    """Return an upper bound (exclusive) of the addresses of elements of *array*, with gaps and offset included."""
    assert array.shape is not None, f"'{array.name}' has no shape"
    assert array.strides is not None, f"'{array.name}' has no strides"
    tags = array.dim_tags if isinstance(array.dim_tags, tuple) else ()
    signed = any(isinstance(tag, Strided) for tag in tags)
    steps = [magnitude(stride) if signed else stride for stride in array.strides]
    if not array.is_packed:
        return spanned(array.shape, steps, array.offset)
    slowest = slice(1) if array.order == "C" else slice(-1, None)
    return spanned(array.shape[slowest], steps[slowest], array.offset)


def spanned(shape: Sequence[Expression], strides: Sequence[Expression], offset: Expression) -> Expression:
    """Return an upper bound (exclusive) of the addresses of elements with subscripts below *shape*."""
    spans = [_product(extent, step) for extent, step in zip(shape, strides, strict=True)]
    if not isinstance(offset, int) or offset:
        spans.append(offset)
    return total(spans)


def magnitude(stride: Expression) -> Expression:
    """Return the absolute value of a stride."""
    return abs(stride) if isinstance(stride, int) else p.Max((stride, p.Product((-1, stride))))


def total(parts: Sequence[Expression]) -> Expression:
    """Return the sum of *parts*, at least one."""
    return parts[0] if len(parts) == 1 else p.Sum(tuple(parts))


def factors_of(expr: Expression) -> Iterator[Expression]:
    """Yield the factors of a product of products, or the expression itself."""
    if type(expr) is p.Product:
        for child in expr.children:
            yield from factors_of(child)
    else:
        yield expr


def _product(a: Expression, b: Expression) -> Expression:
    factors = [factor for e in (a, b) for factor in factors_of(e)]
    number = prod(int(factor) for factor in factors if isinstance(factor, int))
    others = [factor for factor in factors if not isinstance(factor, int)]
    if not others:
        return number
    parts = others if number == 1 else [number, *others]
    return parts[0] if len(parts) == 1 else p.Product(tuple(parts))
