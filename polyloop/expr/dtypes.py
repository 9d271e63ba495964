"""Scalar types: the spellings that are accepted, as ``numpy.dtype``."""

from __future__ import annotations

from ast import literal_eval
from difflib import get_close_matches
from typing import Final, TypeAlias

import numpy as np

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

__all__ = ["DType", "dtype_diagnostic", "dtype_name", "find_dtype", "to_dtype", "type_spelling"]

DType: TypeAlias = np.dtype[np.generic]
"""The type of an array element or a scalar."""

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
)
_CODES: Final = ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8")
_COMPLEX: Final = frozenset({"complex64", "complex128", "c8", "c16"})
_BY_NAME: Final[dict[str, DType]] = {
    **{name: np.dtype(name) for name in _NAMES},
    **{code: np.dtype(code) for code in _CODES},
    "bool_": np.dtype("bool"),
    "half": np.dtype("float16"),
    "single": np.dtype("float32"),
    "double": np.dtype("float64"),
}
_SUPPORTED: Final = frozenset(_BY_NAME.values())
_AMBIGUOUS: Final = {
    "float": "write float32 or float64",
    "int": "write int32 or int64",
    "long": "write int32 or int64",
    "uint": "write uint32 or uint64",
}


def dtype_name(dtype: DType) -> str:
    """Return the name of *dtype* as users write it: ``"float32"``."""
    return record_name(dtype) if is_record(dtype) else dtype.name


def type_spelling(dtype: DType) -> str:
    """Return text that :func:`find_dtype` takes for *dtype*: its name, or what a record consists of."""
    data = _data(dtype)
    return data if isinstance(data, str) else repr(data)


def _data(dtype: DType) -> object:
    """Return plain data that stand for a type; :func:`_from_data` reads them."""
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

    Accepted are ``np.dtype``, NumPy scalar types, the Python types ``bool``, ``int`` and ``float``, and names such as
    ``"float32"``, ``"np.float32"`` or ``"f4"``.
    """
    if isinstance(spelling, str):
        if spelling.startswith("{"):
            try:
                return _from_data(literal_eval(spelling))
            except (ValueError, SyntaxError):
                return None
        plain = spelling.removeprefix("np.").removeprefix("numpy.")
        return _BY_NAME.get(plain) or VECTORS.get(plain)
    if isinstance(spelling, np.dtype):
        if is_record(spelling):
            return spelling if record_fault(spelling) is None else None
        return spelling if spelling in _SUPPORTED else None
    if isinstance(spelling, type) and (spelling in (bool, int, float) or issubclass(spelling, np.number | np.bool_)):
        if spelling in (np.number, np.integer, np.signedinteger, np.unsignedinteger, np.inexact, np.floating):
            return None
        found = np.dtype(spelling)
        return found if found in _SUPPORTED else None
    return None


def _shown(spelling: object) -> str:
    if isinstance(spelling, str):
        return spelling
    if isinstance(spelling, type):
        return spelling.__name__
    return str(spelling)


def dtype_diagnostic(spelling: object) -> Diagnostic:
    """Return the ``unknown-dtype`` diagnostic for *spelling*, which :func:`find_dtype` did not know."""
    if isinstance(spelling, np.dtype) and spelling.names is not None:
        fault = record_fault(spelling)
        assert fault is not None, f"{spelling} is a record"
        return fault
    name = _shown(spelling)
    near = get_close_matches(name, _NAMES, n=1, cutoff=0.6)
    if name.removeprefix("np.") in _COMPLEX:
        hint = "complex numbers are not supported: keep real and imaginary part in two arrays"
    elif name in _AMBIGUOUS:
        hint = _AMBIGUOUS[name]
    elif near:
        hint = f"did you mean '{near[0]}'?"
    else:
        hint = f"known: {', '.join(_NAMES)}"
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
