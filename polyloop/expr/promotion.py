"""Types of expressions: NumPy's promotion, in which constants adapt and integers take the floating-point type.

* Constants adapt to the other operand: ``0.1*x`` has the type of ``x`` where that is a floating-point type, ``i + 1``
the
  type of ``i``, ``1j*x`` the complex type over that of ``x``.
* An integer of any width that meets a floating-point type takes that type: int32 and float32 make float32, as in C,
  where NumPy has float64.  One that meets a floating-point *constant* is a floating-point value whose width is still
  open: ``(i + 0.5)*x`` is float32 with a float32 ``x``, and float64 where nothing says otherwise.
* Integers among themselves follow NumPy, except that uint64 with a signed integer, which NumPy makes float64, is
  refused.  Arithmetic on two bools counts: it is int32.
* float16, bfloat16, float8_e4m3fn and float8_e5m2 are ways to store: they are computed in float32
  (:func:`polyloop.expr.dtypes.computed`), and a value is rounded where it is stored or cast.  Two together are float32.

The reasons stand in docs/adr/0004-types.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from functools import cache, reduce
from typing import Final, TypeAlias

import numpy as np

from polyloop.errors import Diagnostic
from polyloop.expr.dtypes import (
    DType,
    as_complex,
    as_real,
    computed,
    dtype_name,
    is_bool,
    is_complex,
    is_floating,
    is_inexact,
    is_integer,
    is_narrow,
    is_signed,
)
from polyloop.expr.functions import Domain, Function, ResultType
from polyloop.expr.nodes import Expression
from polyloop.expr.records import component, is_record, is_vector, record

__all__ = [
    "DEFAULT_FLOAT",
    "DEFAULT_INT",
    "WEAK_INTEGERS",
    "ScalarType",
    "TypeConflictError",
    "Weak",
    "adapted",
    "argument_type",
    "common_type",
    "constant_type",
    "kind_name",
    "promote",
    "quotient_type",
    "result_type",
    "results_dtype",
    "settle",
    "takes",
]

DEFAULT_INT: Final[DType] = np.dtype("int32")
DEFAULT_FLOAT: Final[DType] = np.dtype("float64")
_DEFAULT_COMPLEX: Final[DType] = np.dtype("complex128")
_LONG: Final[DType] = np.dtype("int64")
_WORD: Final[DType] = np.dtype("uint32")
_BOOL: Final[DType] = np.dtype("bool")


class Weak(Enum):
    """Type of a constant, whose width is that of the typed operand beside it."""

    INT = "integer constant"
    WORD = "integer constant of 32 bits without sign"
    LONG = "integer constant of 64 bits"
    HUGE = "integer constant of more than 64 bits"
    FLOAT = "floating-point number"
    COMPLEX = "complex number"


_SETTLED: Final[Mapping[Weak, DType]] = {
    Weak.INT: DEFAULT_INT,
    Weak.WORD: _LONG,
    Weak.LONG: _LONG,
    Weak.HUGE: DEFAULT_FLOAT,
    Weak.FLOAT: DEFAULT_FLOAT,
    Weak.COMPLEX: _DEFAULT_COMPLEX,
}
_ORDER: Final = tuple(Weak)
_INTEGERS: Final = (Weak.INT, Weak.WORD, Weak.LONG)
WEAK_INTEGERS: Final = frozenset({*_INTEGERS, Weak.HUGE})
"""The types of integers that constants make."""

ScalarType: TypeAlias = DType | Weak
"""The type of a value, as far as it is settled."""

class TypeConflictError(Exception):
    """An expression has no type; ``diagnostic`` says why, without its place."""

    def __init__(self, diagnostic: Diagnostic) -> None:
        self.diagnostic = diagnostic
        super().__init__(diagnostic.message)


def promote(left: ScalarType, right: ScalarType) -> ScalarType:
    """Return the common type of two values.

    Raises
    ------
    TypeConflictError
        ``type-conflict``: uint64 and a signed integer; a record and another type; a vector and a scalar that is not
        of its components' type.
    """
    return common_type((left, right))


def common_type(kinds: Iterable[ScalarType]) -> ScalarType:
    """Return the common type of several values; their order does not matter.

    Raises
    ------
    TypeConflictError
        As :func:`promote`.
    """
    strong: list[DType] = []
    weak: Weak | None = None
    for kind in kinds:
        if not isinstance(kind, Weak):
            if kind not in strong:
                strong.append(kind)
        elif weak is None or _ORDER.index(kind) > _ORDER.index(weak):
            weak = kind
    if not strong:
        assert weak is not None, "nothing has no type"
        return weak
    if any(is_record(dtype) for dtype in strong):
        operands: list[ScalarType] = [*strong, weak] if weak is not None else [*strong]
        return reduce(_promote_records, operands)
    dtype = strong[0] if len(strong) == 1 else _strongest(strong)
    return dtype if weak is None else _adapt(weak, dtype)


def _promote_records(left: ScalarType, right: ScalarType) -> ScalarType:
    if left == right:
        return left
    vector, other = (left, right) if is_vector(left) else (right, left)
    if isinstance(vector, np.dtype) and is_vector(vector) and not is_record(other):
        base = component(vector)
        if promote(base, other) == base:
            return vector
    hint = "convert it field by field"
    if is_vector(vector) and not is_record(other):
        hint = f"cast it first: cast({dtype_name(component(settle(vector)))}, ...)"
    message = f"{kind_name(left)} and {kind_name(right)} do not go together"
    raise TypeConflictError(Diagnostic("type-conflict", message, hints=(hint,)))


@cache
def results_dtype(function: Function, dtype: DType) -> DType:
    """Return the record type of the results of a *function* with several, each of type *dtype*."""
    return record(f"{function.name}_result", [(name, dtype) for name in function.fields])


def _strongest(dtypes: Sequence[DType]) -> DType:
    inexact = [dtype for dtype in dtypes if is_inexact(dtype)]
    if not inexact:
        return _common_integer(dtypes)
    total = inexact[0]
    for dtype in inexact[1:]:
        if total != dtype and is_narrow(total) and is_narrow(dtype):
            total = np.dtype("float32")
        elif is_complex(total) or is_complex(dtype):
            total = as_complex(total) if as_complex(total).itemsize >= as_complex(dtype).itemsize else as_complex(dtype)
        elif dtype.itemsize > total.itemsize:
            total = dtype
    return total


def _common_integer(dtypes: Sequence[DType]) -> DType:
    signed = next((dtype for dtype in dtypes if is_signed(dtype)), None)
    if signed is not None and np.dtype("uint64") in dtypes:
        message = f"uint64 and {dtype_name(signed)} have no common integer type"
        hint = "cast one of them: cast(uint64, ...) or cast(int64, ...)"
        raise TypeConflictError(Diagnostic("type-conflict", message, hints=(hint,)))
    return np.result_type(*dtypes)


def _adapt(weak: Weak, dtype: DType) -> ScalarType:
    """Return the common type of a weak value and a typed one."""
    if is_complex(dtype):
        return dtype
    if is_floating(dtype):
        return as_complex(dtype) if weak is Weak.COMPLEX else dtype
    if weak in (Weak.FLOAT, Weak.COMPLEX):
        return weak
    if weak is Weak.HUGE:  # what does not fit is refused where the constant stands
        return dtype if is_integer(dtype) else weak
    if is_integer(dtype) and (weak is Weak.INT or dtype.itemsize == 8 or (weak is Weak.WORD and dtype == _WORD)):
        return dtype
    return DEFAULT_INT if weak is Weak.INT else _LONG


def settle(kind: ScalarType) -> DType:
    """Return the type itself, or int32, int64, float64 or complex128 for a value that met no typed one."""
    return _SETTLED[kind] if isinstance(kind, Weak) else kind


def adapted(kind: ScalarType, want: DType | None) -> DType:
    """Return the type that a value has where *want* is wanted: weak values take the width of *want* if they can."""
    if not isinstance(kind, Weak):
        return kind
    if want is not None:
        if kind in WEAK_INTEGERS and (is_integer(want) or is_bool(want)):
            return settle(_adapt(kind, want))
        if is_inexact(want):
            return as_complex(want) if kind is Weak.COMPLEX else as_real(want)
    return settle(kind)


def kind_name(kind: ScalarType) -> str:
    """Return the name of a type in messages."""
    if isinstance(kind, Weak):
        return f"a {kind.value}" if kind is not Weak.INT else "an integer constant"
    return dtype_name(kind)


def argument_type(function: Function, common: ScalarType) -> ScalarType:
    """Return the type in which a function takes arguments whose common type is *common*."""
    if function.domain is Domain.INTEGER or function.result is ResultType.SAME:
        return common
    return common if function.result is ResultType.REAL and function.name != "arg" else _floating(common)


def result_type(function: Function, common: ScalarType | None) -> ScalarType | None:
    """Return the type of the result of a function for the common type of its arguments."""
    match function.result:
        case ResultType.BOOL:
            return _BOOL
        case ResultType.COUNT:
            return DEFAULT_INT
        case ResultType.SAME:
            return common
        case ResultType.REAL:
            if common is None:
                return None
            real = Weak.FLOAT if common is Weak.COMPLEX else common if isinstance(common, Weak) else as_real(common)
            return _floating(real) if function.name == "arg" else real
        case ResultType.RECORD:
            return None if common is None else results_dtype(function, computed(settle(_floating(common))))
        case ResultType.FLOAT:
            return None if common is None else _floating(common)


def takes(function: Function, common: ScalarType) -> bool:
    """Return whether a function takes values of the type *common*: vectors, where it can do with each component."""
    if not is_record(common):
        return True
    by_component = function.result in (ResultType.SAME, ResultType.REAL, ResultType.FLOAT)
    if not is_vector(common) or not by_component or function.integer_last or function.domain is Domain.INTEGER:
        return False
    return function.result is ResultType.SAME or function.name == "abs" or is_floating(component(settle(common)))


def quotient_type(kind: ScalarType) -> ScalarType:
    """Return the type of a division: of integers, a floating-point value whose width is still open."""
    if isinstance(kind, Weak):
        return Weak.COMPLEX if kind is Weak.COMPLEX else Weak.FLOAT
    return kind if is_inexact(kind) or is_vector(kind) else Weak.FLOAT


def _floating(kind: ScalarType) -> ScalarType:
    """Return the type of a mathematical function of *kind*."""
    if isinstance(kind, Weak):
        return Weak.COMPLEX if kind is Weak.COMPLEX else Weak.FLOAT
    return kind if is_inexact(kind) or is_vector(kind) else DEFAULT_FLOAT


def constant_type(value: Expression) -> ScalarType:
    """Return the type of a Python number or a NumPy scalar."""
    if type(value) is int and -(2**31) <= value < 2**31:
        return Weak.INT
    if isinstance(value, np.generic):
        return value.dtype
    if isinstance(value, bool):
        return _BOOL
    if isinstance(value, int):
        if -(2**31) <= value < 2**31:
            return Weak.INT
        if 0 <= value < 2**32:
            return Weak.WORD
        if -(2**63) <= value < 2**64:
            return Weak.LONG if value < 2**63 else np.dtype("uint64")
        return Weak.HUGE
    if isinstance(value, complex):
        return Weak.COMPLEX
    assert isinstance(value, float), f"unexpected constant {value!r}"
    return Weak.FLOAT
