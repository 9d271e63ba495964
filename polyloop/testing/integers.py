"""Integers modulo 2^32 in the place of real numbers: the images of numbers and of function values.

Sums and products are those of integers modulo 2^32, which is a ring: whatever order they are computed in, the result
has the same bits, and no term can hide in a rounding error.  A function has no meaning there; it is a hash of its name
and its arguments, so that equal arguments, and in practice only those, give equal values.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from polyloop.expr.dtypes import DType, is_complex, is_inexact
from polyloop.expr.foreign import ForeignFunction, ForeignName
from polyloop.expr.records import (
    VECTORS,
    component,
    field_dtype,
    field_names,
    is_record,
    is_vector,
    record,
    record_name,
)

__all__ = ["MODULUS", "WORD", "hash_function", "integer_dtype", "integer_of", "integers_of", "is_real", "name_hash"]

WORD: Final[DType] = np.dtype(np.uint32)
MODULUS: Final = 1 << 32
_IMAGINARY: Final = 0x9E3779B1
"""Image of 1j: some odd number, whose square is not -1."""
_MANY: Final = np.uint64(MODULUS - 1)

_BODY: Final = """unsigned int {name}(unsigned int key, unsigned int value)
{{
    key = key * 31u + value;
    key ^= key >> 16;
    key *= 0x7feb352du;
    key ^= key >> 15;
    key *= 0x846ca68bu;
    return key ^ key >> 16;
}}"""


# {{{ types


def is_real(dtype: DType) -> bool:
    """Return whether integers represent values of *dtype*, one for each vector component."""
    return (not is_record(dtype) or is_vector(dtype)) and is_inexact(component(dtype))


def integer_dtype(dtype: DType) -> DType:
    """Return *dtype* with uint32 in the place of every floating-point type, fields of records included."""
    if not is_record(dtype):
        return WORD if is_inexact(dtype) else dtype
    if is_vector(dtype):
        return VECTORS[f"uint{len(field_names(dtype))}"] if is_real(dtype) else dtype
    fields = [(name, field_dtype(dtype, name)) for name in field_names(dtype)]
    changed = [(name, integer_dtype(kind)) for name, kind in fields]
    return dtype if changed == fields else record(record_name(dtype), changed)


# }}}
# {{{ values


def integers_of(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return the integers that represent *values*: floating-point numbers, or records with some.

    Integers stand for themselves, anything else is an odd number; the negative of a number is the negative.
    """
    dtype: DType = values.dtype
    if is_record(dtype):
        changed: np.ndarray[Any, Any] = np.empty(values.shape, integer_dtype(dtype))
        for name in field_names(dtype):
            changed[name] = integers_of(values[name])
        return changed
    if not is_inexact(dtype):
        return values
    if is_complex(dtype):
        imaginary = integers_of(values.imag).astype(np.uint64) * np.uint64(_IMAGINARY)
        return np.asarray((integers_of(values.real) + imaginary) & _MANY).astype(WORD)
    number = values.astype(np.float64)
    size = np.abs(number)
    whole = (size < MODULUS) & (np.floor(size) == size)
    with np.errstate(over="ignore", invalid="ignore"):
        bits = size.astype(np.float32).view(np.uint32).astype(np.uint64)
        magnitude = np.where(whole, np.where(whole, size, 0).astype(np.uint64), _scrambled(bits) | np.uint64(1))
    signed = np.where(np.signbit(number), np.uint64(MODULUS) - magnitude, magnitude)
    return np.asarray(signed & _MANY).astype(WORD)


def _scrambled(bits: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    bits = (bits ^ (bits >> np.uint64(16))) * np.uint64(0x7FEB352D) & _MANY
    return np.asarray((bits ^ (bits >> np.uint64(15))) * np.uint64(0x846CA68B) & _MANY)


def integer_of(number: complex) -> int:
    """Return the integer that represents *number*."""
    return int(integers_of(np.asarray(number * 1.0))[()])


def name_hash(name: str) -> int:
    """Return the number of a function: the same in every kernel and on every machine."""
    found = 2166136261  # FNV-1a
    for byte in name.encode():
        found = (found ^ byte) * 16777619 % MODULUS
    return found


# }}}


def _hashed(key: Any, value: Any) -> int:  # noqa: ANN401 - scalars of any type of integers
    found = (int(key) * 31 + int(value)) % MODULUS
    found = (found ^ found >> 16) * 0x7FEB352D % MODULUS
    found = (found ^ found >> 15) * 0x846CA68B % MODULUS
    return found ^ found >> 16


def hash_function(name: str) -> ForeignName:
    """Return the hash function *name*, of a key and a value, that represents all other functions."""
    body = _BODY.format(name=name)
    function = ForeignFunction(
        name,
        (WORD, WORD),
        WORD,
        preamble={
            "c": f"static inline {body}", "cuda": f"static __device__ {body}", "hip": f"static __device__ {body}",
            "opencl": f"static inline {body}",
        },
        reference=_hashed,
    )
    return ForeignName(name, (function,))
