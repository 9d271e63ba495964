"""DLPack: the capsule by which a library lends the memory of an array.

Both forms are read: that of version 1, which says whether the array is read-only, and the one before it.  Source: the
DLPack specification, ``dlpack.h``, and "Python Specification for DLPack".
"""
# ruff: noqa: ANN401  # the arrays of the libraries have no common type

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from polyloop.edge.callbacks import asked
from polyloop.errors import ArgumentError, Diagnostic
from polyloop.expr.dtypes import BFLOAT16, FLOAT8_E4M3FN, FLOAT8_E5M2
from polyloop.runtime.foreign.view import ArrayKind, ArrayView, Borrowed, call_error, row_major

__all__ = ["CODES", "CUDA_DEVICES", "HOST_DEVICES", "ML_DTYPES", "READ_ONLY", "VERSION", "DLTensor", "DLVersioned",
           "dlpack_dtype", "dlpack_view", "lent_device"]

HOST_DEVICES: Final = frozenset({1, 3, 11})
"""kDLCPU, kDLCUDAHost, kDLROCMHost: memory that the CPU reads."""
CUDA_DEVICES: Final = frozenset({2, 13})
"""kDLCUDA, kDLCUDAManaged."""
_LEGACY_STREAM: Final = 1
VERSION: Final = (1, 1)
READ_ONLY: Final = 1
CODES: Final = {0: "i", 1: "u", 2: "f", 5: "c", 6: "b"}
ML_DTYPES: Final = {(4, 16): BFLOAT16, (10, 8): FLOAT8_E4M3FN, (12, 8): FLOAT8_E5M2}
"""By type code and bits."""


class _DLDevice(ctypes.Structure):
    _fields_ = (("kind", ctypes.c_int32), ("device", ctypes.c_int32))


class DLTensor(ctypes.Structure):
    """``DLTensor``: an array in memory; strides in elements."""

    _fields_ = (
        ("data", ctypes.c_void_p), ("device", _DLDevice), ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16), ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64),
    )  # fmt: skip


class DLVersioned(ctypes.Structure):
    """``DLManagedTensorVersioned``: a tensor with the version of its form, flags and what deletes it."""

    _fields_ = (
        ("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p), ("flags", ctypes.c_uint64), ("tensor", DLTensor),
    )  # fmt: skip


_REFUSALS: Final = (
    ArithmeticError, AssertionError, AttributeError, BufferError, LookupError, OSError, RuntimeError, TypeError,
    ValueError,
)  # fmt: skip
"""Errors of libraries that do not lend the memory of an array."""


def lent_device(value: object) -> tuple[int, int] | None:
    """Return kind and number of the device that *value* says it is on; None if it does not.

    Raises
    ------
    ArgumentError
        ``callback-failed``: the method of its library raised an exception.
    """
    where: Any = getattr(value, "__dlpack_device__", None)
    if where is None:
        return None
    return asked(_refused, "__dlpack_device__", _pair, where)


def _pair(where: Callable[[], tuple[int, int]]) -> tuple[int, int]:
    kind, device = where()
    return int(kind), int(device)


def _refused(finding: Diagnostic) -> ArgumentError:
    return ArgumentError("call", None, [finding])


def _capsule(array: Any, stream: int | None) -> Any:
    """Return the capsule of *array*, of version 1 if its library has that."""
    lend, waiting = array.__dlpack__, {} if stream is None else {"stream": stream}
    for options in ({"max_version": VERSION, "copy": False}, {"max_version": VERSION}):
        try:
            return lend(**waiting, **options)
        except TypeError:
            continue
    return lend(**waiting)


def _opened(capsule: Any) -> tuple[Any, bool]:
    """Return the tensor of a capsule, and whether it is read-only."""
    api = ctypes.pythonapi
    api.PyCapsule_IsValid.restype, api.PyCapsule_IsValid.argtypes = ctypes.c_int, [ctypes.py_object, ctypes.c_char_p]
    get = api.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    if api.PyCapsule_IsValid(capsule, b"dltensor_versioned"):
        versioned = DLVersioned.from_address(get(capsule, b"dltensor_versioned"))
        return versioned.tensor, bool(versioned.flags & READ_ONLY)
    return DLTensor.from_address(get(capsule, b"dltensor")), False


def dlpack_dtype(kernel: str, name: str, code: int, bits: int, lanes: int) -> np.dtype[Any]:
    """Return the type of a type code, a number of bits and of lanes; ``wrong-dtype`` if NumPy has none."""
    if lanes == 1 and (code, bits) in ML_DTYPES:
        return ML_DTYPES[code, bits]
    letter = CODES.get(code)
    if letter is not None and lanes == 1 and bits % 8 == 0:
        try:
            return np.dtype(f"{letter}{bits // 8}")
        except TypeError:
            pass
    raise call_error(kernel, Diagnostic(
        "wrong-dtype", f"'{name}' has a type that NumPy does not have",
        (f"DLPack type code {code} of {bits} bits, {lanes} lanes",),
        (f"convert '{name}' to the type that the kernel declares",)))


def dlpack_view(kernel: str, name: str, array: Any, kinds: tuple[ArrayKind, ArrayKind]) -> ArrayView:
    """Return the view that the DLPack capsule of *array* describes.

    The capsule is not consumed: it keeps its name and releases the memory when the view goes.

    Parameters
    ----------
    kinds
        The kind of array for memory of the host, and of a GPU.

    Raises
    ------
    ArgumentError
        ``wrong-type``: its library does not lend the memory; ``wrong-device``; ``wrong-dtype``.
    """
    where = lent_device(array)
    kind, device = where if where is not None else (-1, -1)
    if kind not in HOST_DEVICES | CUDA_DEVICES:
        raise call_error(kernel, Diagnostic(
            "wrong-device", f"'{name}' is on a device that no kernel runs on",
            (f"its DLPack device is ({kind}, {device})",), ("copy it to the host, or to an NVIDIA GPU",)))
    on_host = kind in HOST_DEVICES
    stream = None if on_host else _LEGACY_STREAM
    try:
        tensor, is_read_only = _opened(capsule := _capsule(array, stream))
    except _REFUSALS as error:  # those of the capsule among them: it is none, or was consumed
        raise call_error(kernel, Diagnostic(
            "wrong-type", f"the library of '{name}' does not lend its memory",
            (f"{type(error).__name__}: {str(error).strip()[:200]}",), (f"pass a copy of '{name}'",))) from error
    dtype = dlpack_dtype(kernel, name, tensor.code, tensor.bits, tensor.lanes)
    shape = tuple(tensor.shape[k] for k in range(tensor.ndim))
    strides = tuple(tensor.strides[k] for k in range(tensor.ndim)) if tensor.strides else row_major(shape)
    return ArrayView(kinds[not on_host], (tensor.data or 0) + tensor.byte_offset, dtype, shape, strides,
                     not is_read_only, -1 if on_host else device, stream, Borrowed(array, capsule))
