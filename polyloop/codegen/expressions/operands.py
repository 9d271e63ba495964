"""Operand types of expressions, and operands printed with these types."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Final

import numpy as np
import pymbolic.primitives as p

from polyloop.codegen.expressions.conversions import cast, converted
from polyloop.codegen.expressions.vectors import Vectors
from polyloop.codegen.scope import Scope
from polyloop.codegen.tree.c_expr import Code
from polyloop.expr.dtypes import DType, as_real, computed, is_bool, is_complex, is_inexact, is_integer
from polyloop.expr.nodes import Expression
from polyloop.expr.promotion import ScalarType, Weak, adapted, common_type
from polyloop.expr.typing import remembering

__all__ = ["Operands"]

_INT32: Final[DType] = np.dtype("int32")


class Operands(Vectors):
    """The part of :class:`~polyloop.codegen.expressions.expressions.Expressions` that knows C's types of operands.

    Attributes
    ----------
    indexing
        True while a part of an index is printed.
    exact
        The type of the index value (a number of inames and sizes, used as a value) of which a part is printed, or None.
    """

    def __init__(self, scope: Scope) -> None:
        super().__init__(scope)
        self.indexing = False
        self.exact: DType | None = None
        self._infer_index = remembering(scope.dtypes.get)
        self._infer_value = remembering(lambda name: scope.value_dtypes.get(name) or scope.dtypes.get(name))

    def _type(self, expr: Expression) -> ScalarType:
        kind = (self._infer_index if self.indexing else self._infer_value)(expr)
        assert kind is not None, f"'{expr}' has no type: types must be inferred before code generation"
        return kind

    def _type_of(self, name: str) -> DType | None:
        """Return the type of a name; in an index, loop variables and sizes have the width of indices."""
        own = None if self.indexing else self.scope.value_dtypes.get(name)
        return own or self.scope.dtypes.get(name)

    def _computed(self, expr: Expression, want: DType | None) -> DType:
        """Return the type in which *expr* is computed if its result is wanted as *want*."""
        own = self._index_dtype(expr, want)
        return self._in_index(computed(adapted(self._type(expr), want))) if own is None else own

    def _common(self, parts: Sequence[Expression], want: DType | None) -> DType:
        """Return the common type in which *parts* are computed."""
        return self._in_index(computed(adapted(common_type([self._type(part) for part in parts]), want)))

    def _in_index(self, dtype: DType) -> DType:
        """Return the type in which values of *dtype* are computed; integers in an index have the type of indices."""
        if not is_integer(dtype):
            return dtype
        return self.scope.index_dtype if self.indexing else self.exact or dtype

    @abstractmethod
    def _index_dtype(self, expr: Expression, want: DType | None) -> DType | None:
        """Return the type in which an index value is computed, None for other values."""

    def _seen(self, expr: Expression, dtype: DType) -> DType:
        """Return the type of the printed *expr* in C, where small integers and most constants are int."""
        if (own := self._index_dtype(expr, dtype)) is not None:
            return own
        if self.exact is not None:
            return self._exactly_seen(expr)
        kind = self._type(expr)
        if isinstance(kind, Weak) and is_integer(dtype):
            return dtype if dtype.itemsize < 8 else _INT32
        found = computed(adapted(kind, dtype))
        if is_complex(found) and is_complex(dtype):
            return dtype
        return _INT32 if is_bool(found) or (is_integer(found) and found.itemsize < 4) else found

    def _exactly_seen(self, expr: Expression) -> DType:
        """Return the type in C of a printed part of an index value."""
        if isinstance(expr, p.Variable):
            return _INT32 if isinstance(self.scope.values.get(expr.name), int) else self.scope.index_dtype
        return self.exact if isinstance(expr, p.ExpressionNode) and self.exact is not None else _INT32

    def _operands(self, parts: Sequence[Expression], dtype: DType) -> list[Code]:
        """Return the printed operands of a chain, which C evaluates from left to right, with needed casts to *dtype*.

        A cast in the first operation is enough: its result makes the later ones use *dtype*.
        """
        texts = [self._render(part, dtype) for part in parts]
        if is_integer(dtype):
            for number, part in enumerate(parts):
                own = self._index_dtype(part, dtype)
                if own is not None and own.itemsize > dtype.itemsize:
                    texts[number] = cast(self.scope, dtype, texts[number])
        if is_bool(dtype) or (is_integer(dtype) and dtype.itemsize < 4):
            return texts
        if is_complex(dtype):
            texts = [self._wide_complex(*pair, dtype) for pair in zip(parts, texts, strict=True)]
        enough = {dtype, as_real(dtype)}
        seen = [self._seen(part, dtype) for part in parts[:2]]
        if not enough.intersection(seen):
            strong = [k for k, part in enumerate(parts[:2]) if not isinstance(self._type(part), Weak)]
            position = strong[0] if strong else 0
            texts[position] = cast(self.scope, as_real(dtype), texts[position])
        return texts

    def _wide_complex(self, expr: Expression, text: Code, dtype: DType) -> Code:
        have = self._computed(expr, dtype)
        return converted(self.scope, text, have, dtype) if is_complex(have) else text

    def _exact(self, expr: Expression, dtype: DType) -> Code:
        """Return a printed argument of a function, of exactly the type *dtype*."""
        text = self._render(expr, dtype)
        if is_complex(dtype):
            return converted(self.scope, text, self._computed(expr, dtype), dtype)
        if self._computed(expr, dtype) == dtype and not (isinstance(self._type(expr), Weak) and dtype.itemsize == 8):
            return text
        if is_inexact(dtype) and isinstance(self._type(expr), Weak):
            return text
        return cast(self.scope, dtype, text)

    def _narrowed(self, dtype: DType, text: Code) -> Code:
        """Return *text*, which C computes in ``int``, cast to *dtype* if that is a small integer type."""
        if is_integer(dtype) and dtype.itemsize < 4:
            return cast(self.scope, dtype, text)
        return text
