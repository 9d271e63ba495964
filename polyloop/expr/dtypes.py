"""Scalar types: the spellings that are accepted, as ``numpy.dtype``, and questions about them.

NumPy has no bfloat16 and no floating-point numbers of 8 bits; ``ml_dtypes`` adds them.  NumPy's own questions
(``dtype.kind``, ``np.issubdtype``) do not know them for numbers, which is why they are asked here and nowhere else.
"""

from __future__ import annotations

import math
import sys
from ast import literal_eval
from difflib import get_close_matches
from typing import Any, Final, TypeAlias

import ml_dtypes
import numpy as np

from polyloop.edge.words import shown
from polyloop.errors import Diagnostic, KernelError
from polyloop.expr.records import (
    VECTORS,
    field_dtype,
    field_names,
    field_offset,
    is_record,
    is_vector,
    record,
    record_fault,
    record_name,
)

__all__ = [
    "BFLOAT16",
    "FLOAT8_E4M3FN",
    "FLOAT8_E5M2",
    "DType",
    "accepted_types",
    "as_complex",
    "as_real",
    "computed",
    "dtype_diagnostic",
    "dtype_name",
    "find_dtype",
    "has_room",
    "integer_limits",
    "is_bool",
    "is_complex",
    "is_float8",
    "is_floating",
    "is_half",
    "is_inexact",
    "is_integer",
    "is_narrow",
    "is_number",
    "is_record",
    "is_signed",
    "is_unsigned",
    "lowest_and_highest",
    "rounded",
    "to_dtype",
    "type_spelling",
    "type_words",
]

DType: TypeAlias = np.dtype[np.generic]
"""The type of an array element or a scalar."""

BFLOAT16: Final[DType] = np.dtype(ml_dtypes.bfloat16)
"""The upper half of a float32: 8 bits of exponent, 8 of precision."""
FLOAT8_E4M3FN: Final[DType] = np.dtype(ml_dtypes.float8_e4m3fn)
"""8 bits: 4 of exponent, 4 of precision, up to 448; it has a NaN and no infinity."""
FLOAT8_E5M2: Final[DType] = np.dtype(ml_dtypes.float8_e5m2)
"""8 bits: 5 of exponent, 3 of precision, up to 57344: the upper half of a float16."""
_FLOAT8: Final = {FLOAT8_E4M3FN: (3, -6, 448.0), FLOAT8_E5M2: (2, -14, 57344.0)}
"""Bits of the mantissa, the exponent of the least normal number, the greatest number."""
_ML_DTYPES: Final = (BFLOAT16, *_FLOAT8)
_ML_TYPES: Final[tuple[type, ...]] = tuple(own.type for own in _ML_DTYPES)
_NAN_BITS: Final = 0x7F

_NAMES: Final = (
    "bool",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "float16",
    "float32",
    "float64",
    "complex64",
    "complex128",
)
_CODES: Final = ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16")
_BY_NAME: Final[dict[str, DType]] = {
    **{name: np.dtype(name) for name in _NAMES},
    **{code: np.dtype(code) for code in _CODES},
    **{dtype.name: dtype for dtype in _ML_DTYPES},
    "bool_": np.dtype("bool"),
    "half": np.dtype("float16"),
    "single": np.dtype("float32"),
    "double": np.dtype("float64"),
    "csingle": np.dtype("complex64"),
    "cdouble": np.dtype("complex128"),
}
_SUPPORTED: Final = frozenset(_BY_NAME.values())
_SHOWN: Final = (*_NAMES[:9], *(dtype.name for dtype in _ML_DTYPES), *_NAMES[9:])
_AMBIGUOUS: Final = {
    "float": "write float32 or float64",
    "int": "write int32 or int64",
    "long": "write int32 or int64",
    "uint": "write uint32 or uint64",
    "complex": "write complex64 or complex128",
}
_ABSTRACT: Final = (
    np.number,
    np.integer,
    np.signedinteger,
    np.unsignedinteger,
    np.inexact,
    np.floating,
    np.complexfloating,
)


# {{{ questions


def is_bool(dtype: DType) -> bool:
    """Return whether *dtype* is the type of truth values."""
    return dtype.kind == "b"


def is_integer(dtype: DType) -> bool:
    """Return whether *dtype* is a signed or unsigned integer (bool is not)."""
    return dtype.kind in "iu"


def is_signed(dtype: DType) -> bool:
    """Return whether *dtype* is a signed integer."""
    return dtype.kind == "i"


def is_unsigned(dtype: DType) -> bool:
    """Return whether *dtype* is an unsigned integer."""
    return dtype.kind == "u"


def is_floating(dtype: DType) -> bool:
    """Return whether *dtype* is a real floating-point type, bfloat16 and those of 8 bits among them."""
    return dtype.kind == "f" or dtype in _ML_DTYPES


def is_complex(dtype: DType) -> bool:
    """Return whether *dtype* is complex64 or complex128."""
    return dtype.kind == "c"


def is_inexact(dtype: DType) -> bool:
    """Return whether *dtype* is a floating-point type, real or complex."""
    return dtype.kind in "fc" or dtype in _ML_DTYPES


def is_half(dtype: DType) -> bool:
    """Return whether *dtype* is float16 or bfloat16."""
    return dtype.itemsize == 2 and is_floating(dtype)


def is_float8(dtype: DType) -> bool:
    """Return whether *dtype* is a floating-point type of 8 bits: float8_e4m3fn or float8_e5m2."""
    return dtype in _FLOAT8


def is_narrow(dtype: DType) -> bool:
    """Return whether *dtype* is a floating-point type of 8 or 16 bits: a way to store what is computed in float32."""
    return is_half(dtype) or is_float8(dtype)


def is_number(dtype: DType) -> bool:
    """Return whether values of *dtype* can be computed with; bool counts."""
    return not is_record(dtype) and dtype in _SUPPORTED


def computed(dtype: DType) -> DType:
    """Return the type in which values of *dtype* are computed: float32 for narrow ones, else *dtype* itself."""
    return np.dtype("float32") if is_narrow(dtype) else dtype


def rounded(value: Any, dtype: DType) -> Any:  # noqa: ANN401 - a number or an array, as it comes
    """Return *value* converted to *dtype* as NumPy does; to types of 8 bits as the conversion of CUDA C does.

    That is ``__nv_cvt_double_to_fp8`` with ``__NV_SATFINITE``: to the nearest number, of two the even one, with one
    rounding; beyond the greatest number to it, infinities too.  NaN becomes the one with all bits but the sign.
    """
    found = np.asarray(value)
    if not is_float8(dtype) or found.dtype == dtype:
        return found.astype(dtype)[()]
    mantissa, least, most = _FLOAT8[dtype]
    with np.errstate(invalid="ignore"):  # NaN
        wide = found.astype(np.float64)
        _, exponents = np.frexp(wide)
        last = np.maximum(exponents - 1, least) - mantissa
        near = np.clip(np.ldexp(np.rint(np.ldexp(wide, -last)), last), -most, most)
        bits = np.asarray(near.astype(dtype)).view(np.uint8)
    return np.where(np.isnan(wide), np.uint8(_NAN_BITS), bits).view(dtype)[()]


def as_real(dtype: DType) -> DType:
    """Return the type of the real part of *dtype*; a real type itself."""
    if not is_complex(dtype):
        return dtype
    return np.dtype("float32" if dtype.itemsize == 8 else "float64")


def as_complex(dtype: DType) -> DType:
    """Return the complex type with parts of the floating-point type *dtype* (or wider, for float16)."""
    if is_complex(dtype):
        return dtype
    return np.dtype("complex128" if dtype.itemsize == 8 else "complex64")


def integer_limits(dtype: DType) -> tuple[int, int]:
    """Return the least and the greatest integer of *dtype*."""
    bits = 8 * dtype.itemsize
    return (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if is_signed(dtype) else (0, (1 << bits) - 1)


def lowest_and_highest(dtype: DType) -> tuple[Any, Any]:
    """Return the results of ``max`` and ``min`` over nothing: infinities, the limits of integers, truth values."""
    if is_floating(dtype):
        return -math.inf, math.inf
    if is_bool(dtype):
        return False, True
    assert is_integer(dtype), f"{dtype} has no order"
    return integer_limits(dtype)


def accepted_types(dtype: DType) -> tuple[type, ...]:
    """Return the types of Python and NumPy scalars that may be passed for a value of *dtype*."""
    if is_bool(dtype):
        return (bool, np.bool_)
    if is_integer(dtype):
        return (int, np.integer)
    real: tuple[type, ...] = (int, float, np.integer, np.floating, *_ML_TYPES)
    return (*real, complex, np.complexfloating) if is_complex(dtype) else real


# }}}


_LARGEST_FLOAT: Final = int(sys.float_info.max)


def has_room(dtype: DType, value: object) -> bool:
    """Return whether a number of *dtype* can be near *value*, an accepted scalar: integers have any size in Python."""
    if is_integer(dtype):
        low, high = integer_limits(dtype)
        return low <= int(value) <= high  # type: ignore[call-overload, no-any-return] # an integer is accepted alone
    return not isinstance(value, int) or abs(value) <= _LARGEST_FLOAT


def dtype_name(dtype: DType) -> str:
    """Return the name of *dtype* as users write it: ``"float32"``."""
    return record_name(dtype) if is_record(dtype) else dtype.name


def type_spelling(dtype: DType) -> str:
    """Return the text that :func:`find_dtype` reads as *dtype*: a name, or the layout of a record."""
    data = _data(dtype)
    return data if isinstance(data, str) else repr(data)


def _data(dtype: DType) -> object:
    """Return a type as plain data, for :func:`_from_data`."""
    if not is_record(dtype) or is_vector(dtype):
        return dtype_name(dtype)
    names = list(field_names(dtype))
    formats = [_data(field_dtype(dtype, name)) for name in names]
    offsets = [field_offset(dtype, name) for name in names]
    return {"name": record_name(dtype), "names": names, "formats": formats, "offsets": offsets, "size": dtype.itemsize}


def _from_data(data: object) -> DType | None:
    match data:
        case str():
            return find_dtype(data)
        case {"name": str(name), "names": names, "formats": list(formats), "offsets": offsets, "size": size}:
            kinds = [_from_data(kind) for kind in formats]
            fields = {"names": names, "formats": kinds, "offsets": offsets, "itemsize": size}
            return None if any(kind is None for kind in kinds) else record(name, np.dtype(fields))  # type: ignore[call-overload]
        case _:
            return None


def find_dtype(spelling: object) -> DType | None:
    """Return the type meant by *spelling*, or None if there is none.

    Accepted are ``np.dtype``, NumPy scalar types, ``ml_dtypes.bfloat16``, ``ml_dtypes.float8_e4m3fn``, the Python types
    ``bool``, ``int``, ``float`` and ``complex``, and names such as ``"float32"``, ``"np.float32"`` or ``"f4"``.
    """
    if isinstance(spelling, str):
        if spelling.startswith("{"):
            try:
                return _from_data(literal_eval(spelling))
            except (ValueError, SyntaxError):
                return None
        plain = spelling.removeprefix("np.").removeprefix("numpy.").removeprefix("ml_dtypes.")
        return _BY_NAME.get(plain) or VECTORS.get(plain)
    if isinstance(spelling, np.dtype):
        if is_record(spelling):
            return spelling if record_fault(spelling) is None else None
        return spelling if spelling in _SUPPORTED else None
    if isinstance(spelling, type) and (
        spelling in (bool, int, float, complex, *_ML_TYPES)
        or issubclass(spelling, np.number | np.bool_)
    ):
        if spelling in _ABSTRACT:
            return None
        found = np.dtype(spelling)
        return found if found in _SUPPORTED else None
    return None


def type_words(spelling: object) -> str:
    """Return a type, or any other value, as text for messages."""
    if isinstance(spelling, str | np.dtype):
        return str(spelling)
    return spelling.__name__ if isinstance(spelling, type) else shown(spelling)


def dtype_diagnostic(spelling: object) -> Diagnostic:
    """Return the ``unknown-dtype`` diagnostic for *spelling*, which :func:`find_dtype` did not know."""
    if isinstance(spelling, np.dtype) and spelling.names is not None:
        fault = record_fault(spelling)
        assert fault is not None, f"{spelling} is a record"
        return fault
    name = type_words(spelling)
    near = get_close_matches(name, _SHOWN, n=1, cutoff=0.6)
    if name in _AMBIGUOUS:
        hint = _AMBIGUOUS[name]
    elif near:
        hint = f"did you mean '{near[0]}'?"
    else:
        hint = f"known: {', '.join(_SHOWN)}"
    return Diagnostic("unknown-dtype", f"no element type '{name}'", hints=(hint,))


def to_dtype(spelling: object, operation: str = "make_kernel") -> DType:
    """Return the type meant by *spelling*.

    Raises
    ------
    KernelError
        ``unknown-dtype``.
    """
    found = find_dtype(spelling)
    if found is None:
        raise KernelError(operation, None, [dtype_diagnostic(spelling)])
    return found
