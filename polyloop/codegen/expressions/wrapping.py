"""Integer arithmetic: wrapping values, and exact index values.

Signed overflow is undefined in C and CUDA C.  So arithmetic that may overflow is emitted on unsigned numbers.

An *index value* is a number made of inames and sizes alone that is used as a value.  It is computed exactly, like an
index: its magnitude is recorded, so that a program runs only for sizes for which its index type is wide enough.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import pymbolic.primitives as p

from polyloop.codegen.expressions.conversions import cast
from polyloop.codegen.expressions.literals import typed_literal
from polyloop.codegen.expressions.magnitude import Sum
from polyloop.codegen.expressions.operands import Operands
from polyloop.codegen.scope import Scope
from polyloop.codegen.tree.c_expr import Code
from polyloop.expr.dtypes import DType, is_integer, is_signed
from polyloop.expr.indexing import is_index_value, is_ring, weight, without_conditions
from polyloop.expr.nodes import Expression
from polyloop.poly.affine import affine_of

__all__ = ["Wrapping"]

_LONG: Final[DType] = np.dtype("int64")
_WORD: Final = 4
_HEAVY: Final = 2**20
"""Least factor for which an index value is computed in 64 bits, rather than checked to fit into 32."""


class Wrapping(Operands):
    """The part of :class:`~polyloop.codegen.expressions.expressions.Expressions` that prints integer arithmetic."""

    def __init__(self, scope: Scope) -> None:
        super().__init__(scope)
        self.may_wrap = False
        self._unsigned: dict[Code, tuple[Code, DType]] = {}

    # {{{ exact numbers

    def _is_index_name(self, name: str) -> bool:
        """Return True if a name is an iname or a size of a signed type of at least 32 bits."""
        dtype = self.scope.value_dtypes.get(name) if name in self.scope.values else None
        return dtype is not None and is_signed(dtype) and dtype.itemsize >= _WORD and name not in self.scope.bounds

    def _is_index_value(self, expr: Expression) -> bool:
        return is_index_value(expr, self._is_index_name)

    def _index_dtype(self, expr: Expression, want: DType | None) -> DType | None:
        """Return the type in which an index value is computed, None for other values.

        If only its low 32 bits are wanted, sums and products may wrap, and the value counts as an ordinary one.
        """
        if self.indexing or self.exact is not None or not isinstance(expr, p.ExpressionNode):
            return None
        if not self._is_index_value(expr):
            return None
        if isinstance(expr, p.Variable):
            value = self.scope.values.get(expr.name)
            return None if isinstance(value, int) else self.scope.index_dtype
        if not self._is_heavy(expr):
            return self.scope.index_dtype
        return None if want is not None and want.itemsize <= _WORD and _may_wrap(expr, want) else _LONG

    def _is_heavy(self, expr: Expression) -> bool:
        """Return True if an index value is computed in 64 bits, rather than checked to fit into an index."""
        if weight(expr) >= _HEAVY:
            return True
        return self.scope.index_bits == 8 * _LONG.itemsize and is_ring(expr) and affine_of(expr) is None

    def _index_value(self, expr: Expression, dtype: DType, want: DType | None) -> Code:
        """Return an index value, computed in *dtype* and wanted as *want*."""
        is_heavy = self._is_heavy(expr)
        self.exact, self.may_wrap = dtype, is_heavy and _may_wrap(expr, want)
        if not self.may_wrap:
            amounts = without_conditions(expr)
            self.scope.findings.magnitudes.record(Sum(((amounts, 1),), 0, is_wide=is_heavy), self.scope.types_of_names)
        text = self._render(expr, dtype)
        self.exact, self.may_wrap = None, False
        return text

    # }}}
    # {{{ numbers that wrap

    def _wraps(self, dtype: DType) -> bool:
        """Return True if arithmetic in *dtype* may overflow, with undefined behaviour in C."""
        is_value = not self.indexing and (self.exact is None or self.may_wrap)
        return is_value and is_integer(dtype) and is_signed(dtype) and dtype.itemsize >= _WORD

    def _wrapped(self, dtype: DType, text: Code) -> Code:
        """Return unsigned *text* as a number of the signed type *dtype*."""
        signed = cast(self.scope, dtype, text)
        self._unsigned[signed] = text, dtype
        return signed

    def _without_cast(self, text: Code, dtype: DType) -> Code:
        """Return *text* without a cast to a signed type that a store to an integer of type *dtype* makes redundant."""
        inner = self._unsigned.get(text)
        return text if inner is None or not is_integer(dtype) or dtype.itemsize > inner[1].itemsize else inner[0]

    def _wrapping_operands(self, parts: Sequence[Expression], dtype: DType) -> list[Code]:
        """Return the printed operands of a chain such that C computes it in the unsigned type as wide as *dtype*."""
        found = [self._wrapping_operand(part, dtype) for part in parts]
        texts = [text for text, _ in found]
        if not any(is_unsigned for _, is_unsigned in found[:2]):
            texts[0] = cast(self.scope, _unsigned(dtype), texts[0])
        return texts

    def _wrapping_operand(self, expr: Expression, dtype: DType) -> tuple[Code, bool]:
        """Return a printed operand, and True if it has the unsigned type in C."""
        if type(expr) is int:
            return typed_literal(self.scope, expr, _unsigned(dtype)), True
        text = self._render(expr, dtype)
        inner = self._unsigned.get(text)
        if inner is not None and inner[1].itemsize == dtype.itemsize:
            return inner[0], True
        seen = self._seen(expr, dtype)
        if seen.itemsize > dtype.itemsize:
            return cast(self.scope, _unsigned(dtype), text), True
        return text, seen == _unsigned(dtype)

    def unsigned(self, expr: Expression, text: Code, dtype: DType) -> Code:
        """Return *text* of *expr*, stored in *dtype*, as an unsigned number, so that an update with it wraps."""
        if not is_integer(dtype) or not is_signed(dtype) or dtype.itemsize < _WORD:
            return text
        if type(expr) is int:
            return typed_literal(self.scope, expr, _unsigned(dtype))
        if any(text == inner and kind == dtype for inner, kind in self._unsigned.values()):
            return text
        return cast(self.scope, _unsigned(dtype), text)

    # }}}


def _may_wrap(expr: Expression, want: DType | None) -> bool:
    """Return True if a value modulo a power of 2 is enough: it is wanted as an integer, and made of ring operations."""
    return want is not None and is_integer(want) and is_ring(expr)


def _unsigned(dtype: DType) -> DType:
    return np.dtype(f"uint{8 * dtype.itemsize}")


