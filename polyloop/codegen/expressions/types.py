"""Types of expressions in C: the types in which they are computed, and the types that their text has in C."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pymbolic.primitives as p

from polyloop.codegen.scope import Scope
from polyloop.expr.dtypes import DType, computed, is_bool, is_complex, is_integer, is_signed
from polyloop.expr.indexing import is_index_value, is_ring, weight
from polyloop.expr.nodes import Expression
from polyloop.expr.promotion import ScalarType, Weak, adapted, common_type
from polyloop.expr.typing import remembering
from polyloop.frozen import quick, replace
from polyloop.poly.affine import affine_of

__all__ = ["INT32", "WORD", "Types", "types_of_indices", "types_of_values"]

INT32: Final[DType] = np.dtype("int32")
_LONG: Final[DType] = np.dtype("int64")
WORD: Final = 4
"""Narrower integers are computed as ``int`` [bytes]."""
_HEAVY: Final = 2**20
"""Least factor for which an index value is computed in 64 bits, rather than checked to fit into 32."""


@quick
@dataclass(frozen=True, eq=False)
class Types:
    """Types of the parts of an expression, which depend on what the expression is.

    In a *value* each operation has the type of its operands, and wraps as NumPy's does. In an *index* all integers have
    the type of indices. An *index value* is a number made of inames and sizes alone that is used as a value: all of it
    is computed in one type, that of indices or one of 64 bits.

    Attributes
    ----------
    infer
        Function that returns the type of an expression in the program.
    is_index
        True in an index.
    number
        Type in which an index value is computed, None in values and indices.
    may_wrap
        True in an index value that is used modulo a power of 2.
    """

    scope: Scope
    infer: Callable[[Expression], ScalarType | None]
    is_index: bool = False
    number: DType | None = None
    may_wrap: bool = False

    @property
    def is_value(self) -> bool:
        """True in a value."""
        return not self.is_index and self.number is None

    @property
    def is_exact(self) -> bool:
        """True where all integers are computed as indices are: in the type of indices, which holds them."""
        return self.is_index or (self.number == self.scope.index_dtype and not self.may_wrap)

    # {{{ types of the program

    def of(self, expr: Expression) -> ScalarType:
        """Return the type of an expression in the program."""
        kind = self.infer(expr)
        assert kind is not None, f"'{expr}' has no type: types must be inferred before code generation"
        return kind

    def of_name(self, name: str) -> DType | None:
        """Return the type of a name; in an index, loop variables and sizes have the width of indices."""
        own = None if self.is_index else self.scope.types.as_values.get(name)
        return own or self.scope.types.of_names.get(name)

    # }}}
    # {{{ types of arithmetic

    def computed(self, expr: Expression, want: DType | None) -> DType:
        """Return the type in which *expr* is computed if its result is wanted as *want*."""
        own = self.of_number(expr, want)
        return self.here(computed(adapted(self.of(expr), want))) if own is None else own

    def common(self, parts: Sequence[Expression], want: DType | None) -> DType:
        """Return the common type in which *parts* are computed."""
        return self.here(computed(adapted(common_type([self.of(part) for part in parts]), want)))

    def here(self, dtype: DType) -> DType:
        """Return the type in which values of *dtype* are computed; integers in an index have the type of indices."""
        if not is_integer(dtype):
            return dtype
        return self.scope.index_dtype if self.is_index else self.number or dtype

    def wraps(self, dtype: DType) -> bool:
        """Return True if arithmetic in *dtype* may overflow, with undefined behaviour in C."""
        may = not self.is_index and (self.number is None or self.may_wrap)
        return may and is_integer(dtype) and is_signed(dtype) and dtype.itemsize >= WORD

    def seen(self, expr: Expression, dtype: DType) -> DType:
        """Return the type of the printed *expr* in C, where small integers and most constants are int."""
        if (own := self.of_number(expr, dtype)) is not None:
            return own
        if self.number is not None:
            return self._seen_in_number(expr, self.number)
        kind = self.of(expr)
        if isinstance(kind, Weak) and is_integer(dtype):
            return dtype if dtype.itemsize < 8 else INT32
        found = computed(adapted(kind, dtype))
        if is_complex(found) and is_complex(dtype):
            return dtype
        return INT32 if is_bool(found) or (is_integer(found) and found.itemsize < 4) else found

    def _seen_in_number(self, expr: Expression, number: DType) -> DType:
        if isinstance(expr, p.Variable):
            return INT32 if isinstance(self.scope.values.get(expr.name), int) else self.scope.index_dtype
        return number if isinstance(expr, p.ExpressionNode) else INT32

    # }}}
    # {{{ numbers

    def is_index_name(self, name: str) -> bool:
        """Return True if a name is an iname or a size of a signed type of at least 32 bits."""
        scope = self.scope
        dtype = scope.types.as_values.get(name) if name in scope.values else None
        return dtype is not None and is_signed(dtype) and dtype.itemsize >= WORD and name not in scope.memory.bounds

    def is_number(self, expr: Expression) -> bool:
        """Return True if an expression is made of inames and sizes alone."""
        return is_index_value(expr, self.is_index_name)

    def of_number(self, expr: Expression, want: DType | None) -> DType | None:
        """Return the type in which an index value is computed, None for other values.

        If only its low 32 bits are wanted, sums and products may wrap, and the value counts as an ordinary one.
        """
        if self.is_index or self.number is not None or not isinstance(expr, p.ExpressionNode):
            return None
        if not self.is_number(expr):
            return None
        if isinstance(expr, p.Variable):
            value = self.scope.values.get(expr.name)
            return None if isinstance(value, int) else self.scope.index_dtype
        if not self.is_heavy(expr):
            return self.scope.index_dtype
        return None if want is not None and want.itemsize <= WORD and _may_wrap(expr, want) else _LONG

    def is_heavy(self, expr: Expression) -> bool:
        """Return True if an index value is computed in 64 bits, rather than checked to fit into an index."""
        if weight(expr) >= _HEAVY:
            return True
        return self.scope.types.index_bits == 8 * _LONG.itemsize and is_ring(expr) and affine_of(expr) is None

    def inside(self, expr: Expression, number: DType, want: DType | None) -> Types:
        """Return the types of the parts of *expr*, which is computed as a *number* and wanted as *want*."""
        return replace(self, number=number, may_wrap=self.is_heavy(expr) and _may_wrap(expr, want))

    # }}}


def types_of_values(scope: Scope) -> Types:
    """Return the types of the parts of values."""
    return Types(scope, remembering(lambda name: scope.types.as_values.get(name) or scope.types.of_names.get(name)))


def types_of_indices(scope: Scope) -> Types:
    """Return the types of the parts of indices."""
    return Types(scope, remembering(scope.types.of_names.get), is_index=True)


def _may_wrap(expr: Expression, want: DType | None) -> bool:
    """Return True if a value modulo a power of 2 is enough: it is wanted as an integer, and made of ring operations."""
    return want is not None and is_integer(want) and is_ring(expr)
