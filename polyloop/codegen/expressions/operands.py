"""Operands of operations: casts where C would compute in another type than the program."""

from __future__ import annotations

from collections.abc import Sequence

from polyloop.codegen.expressions.conversions import cast, converted
from polyloop.codegen.expressions.renderer import Renderer
from polyloop.codegen.scope import Scope
from polyloop.codegen.tree.c_expr import Code
from polyloop.expr.dtypes import DType, as_real, is_bool, is_complex, is_inexact, is_integer
from polyloop.expr.nodes import Expression
from polyloop.expr.promotion import Weak

__all__ = ["argument", "fitted", "operands_of"]


def operands_of(r: Renderer, parts: Sequence[Expression], dtype: DType) -> list[Code]:
    """Return the printed operands of a chain, which C evaluates from left to right, with needed casts to *dtype*.

    A cast in the first operation is enough: its result makes the later ones use *dtype*.
    """
    texts = [r.render(part, dtype) for part in parts]
    if is_integer(dtype):
        for number, part in enumerate(parts):
            own = r.types.of_number(part, dtype)
            if own is not None and own.itemsize > dtype.itemsize:
                texts[number] = cast(r.scope, dtype, texts[number])
    if is_bool(dtype) or (is_integer(dtype) and dtype.itemsize < 4):
        return texts
    if is_complex(dtype):
        texts = [_wide_complex(r, *pair, dtype) for pair in zip(parts, texts, strict=True)]
    enough = {dtype, as_real(dtype)}
    if not enough.intersection([r.types.seen(part, dtype) for part in parts[:2]]):
        strong = [k for k, part in enumerate(parts[:2]) if not isinstance(r.types.of(part), Weak)]
        position = strong[0] if strong else 0
        texts[position] = cast(r.scope, as_real(dtype), texts[position])
    return texts


def _wide_complex(r: Renderer, expr: Expression, text: Code, dtype: DType) -> Code:
    have = r.types.computed(expr, dtype)
    return converted(r.scope, text, have, dtype) if is_complex(have) else text


def argument(r: Renderer, expr: Expression, dtype: DType) -> Code:
    """Return a printed argument of a function, of exactly the type *dtype*."""
    text = r.render(expr, dtype)
    if is_complex(dtype):
        return converted(r.scope, text, r.types.computed(expr, dtype), dtype)
    is_weak = isinstance(r.types.of(expr), Weak)
    if r.types.computed(expr, dtype) == dtype and not (is_weak and dtype.itemsize == 8):
        return text
    return text if is_inexact(dtype) and is_weak else cast(r.scope, dtype, text)


def fitted(scope: Scope, dtype: DType, text: Code) -> Code:
    """Return *text*, which C computes in ``int``, cast to *dtype* if that is a small integer type."""
    return cast(scope, dtype, text) if is_integer(dtype) and dtype.itemsize < 4 else text
