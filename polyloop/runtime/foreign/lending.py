"""DLPack, the other way: arrays of ours, and of libraries that have no DLPack, lent to any library that reads it.

Source: the DLPack specification, ``dlpack.h``, and "Python Specification for DLPack".
"""
# ruff: noqa: ANN401  # the arrays of the libraries have no common type

from __future__ import annotations

import ctypes
import functools
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from polyloop.errors import ArgumentError, Diagnostic
from polyloop.runtime.cuda.driver import DriverFunctions
from polyloop.runtime.foreign.capsule import CODES, ML_DTYPES, READ_ONLY, VERSION, DLTensor, DLVersioned
from polyloop.runtime.foreign.readers import array_view
from polyloop.runtime.foreign.view import ArrayView, element_range

__all__ = ["Lent", "as_dlpack"]

_HOST: Final = (1, 0)
_CUDA: Final = 2
_IS_COPIED: Final = 2
_LEGACY_STREAM: Final = 1


class _DLManaged(ctypes.Structure):
    """The form before version 1."""

    _fields_ = (("tensor", DLTensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p))


@dataclass(frozen=True)
class _Memory:
    """Memory to be lent, where it lies, and what keeps it alive; strides in elements."""

    view: ArrayView
    device: tuple[int, int]
    owner: object
    is_copy: bool = False


class Lent:
    """An array of any library as one that DLPack describes: ``torch.from_dlpack(pl.as_dlpack(y))``.

    Nothing is copied unless asked, and the memory stays the array's.  Kernels take it as they take the array.

    Attributes
    ----------
    array
        The array that it was made of.
    """

    def __init__(self, array: Any) -> None:
        self.array = array

    def __repr__(self) -> str:
        return f"<{self.array!r}, lent by DLPack>"

    def __dlpack_device__(self) -> tuple[int, int]:
        """Return kind and number of the device: (1, 0) for the host, (2, n) for a GPU."""
        return _device_of(_view_of(self.array))

    def __dlpack__(
        self, *, stream: Any = None, max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None, copy: bool | None = None,
    ) -> Any:
        """Return the capsule.

        Memory of a GPU is lent once all work in its context is done, on whichever stream, unless *stream* is -1 or is
        being recorded: then order is the caller's.

        Parameters
        ----------
        stream
            The stream that its values are read on: None or 1 for the default one.
        max_version
            The newest form that the reader knows; without it, the one before version 1 is made, which cannot say that
            memory is read-only.
        dl_device
            Where to have it: the device it is on, or (1, 0), which takes a copy.
        copy
            True for memory of its own, False for none.

        Raises
        ------
        ArgumentError
            ``not-lent``: it cannot be lent in the way that is asked; ``wrong-dtype``; ``wrong-type``.
        """
        view = _view_of(self.array)
        memory = _Memory(view, _device_of(view), view.owner)
        if dl_device is not None and (int(dl_device[0]), int(dl_device[1])) not in (memory.device, _HOST):
            raise _not_lent(f"it is on the device {memory.device}, not {tuple(dl_device)}",
                            "copy it to that device by its library")
        goes_home = dl_device is not None and tuple(dl_device) == _HOST != memory.device
        if goes_home and copy is False:
            raise _not_lent("it is in the memory of a GPU, and a copy is not wanted", "leave copy=False out")
        if memory.device[0] == _CUDA:
            _wait(memory, stream, to_host=goes_home or bool(copy))
        elif stream is not None:
            raise _not_lent(f"it is in host memory, which has no stream {stream!r}", "leave stream= out")
        if goes_home or copy:
            memory = _copied(memory, to_host=goes_home)
        is_versioned = max_version is not None and int(max_version[0]) >= VERSION[0]
        if not memory.view.writeable and not is_versioned:
            raise _not_lent("it is read-only, which DLPack before version 1 cannot say",
                            "read it by a library that knows DLPack 1.0, or pass a copy")
        return _capsule(memory, is_versioned=is_versioned)


def as_dlpack(array: Any) -> Lent:
    """Return an array of any library as one that others read by DLPack, where it lies.

    ::

        y = run(x=x).y                              # a pycuda.gpuarray.GPUArray
        t = torch.from_dlpack(pl.as_dlpack(y))      # the same memory

    PyCUDA's and Numba's arrays, and NumPy's of the types of ``ml_dtypes``, have no DLPack of their own.

    Raises
    ------
    ArgumentError
        ``wrong-type``: it is no array, or its library does not lend its memory; ``wrong-dtype``; ``wrong-strides``.
    """
    view = _view_of(array)
    _type_of(view.dtype)
    return Lent(array)


def _view_of(array: Any) -> ArrayView:
    try:
        return array_view("as_dlpack", "array", array)
    except ArgumentError as error:
        raise ArgumentError("as_dlpack", None, error.found) from None


def _not_lent(why: str, hint: str) -> ArgumentError:
    return ArgumentError("as_dlpack", None, [Diagnostic("not-lent", "the array cannot be lent so", (why,), (hint,))])


def _type_of(dtype: np.dtype[Any]) -> tuple[int, int]:
    """Return the type code of DLPack, and bits."""
    bits = 8 * dtype.itemsize
    for key, other in ML_DTYPES.items():
        if other == dtype:
            return key
    for code, letter in CODES.items():
        if dtype.kind == letter and dtype.isnative:
            return code, bits
    raise ArgumentError("as_dlpack", None, [Diagnostic(
        "wrong-dtype", "the array has a type that DLPack does not have", (f"its type is {dtype}",),
        ("lend its fields, or its bytes",))])


# {{{ memory of a GPU


@functools.cache
def _driver() -> DriverFunctions:
    return DriverFunctions()


def _attribute(pointer: int, number: int, into: Any) -> int:
    """Return an attribute of an address: CUDA Driver API, ``CUpointer_attribute``."""
    _driver().call("cuPointerGetAttribute", ctypes.byref(into), ctypes.c_int(number), ctypes.c_uint64(pointer))
    return int(into.value or 0)


def _device_of(view: ArrayView) -> tuple[int, int]:
    if not view.kind.on_device:
        return _HOST
    if view.device >= 0:
        return _CUDA, view.device
    if not view.pointer:
        return _CUDA, 0  # of no elements
    device_ordinal = 9
    return _CUDA, _attribute(view.pointer, device_ordinal, ctypes.c_int())


@contextmanager
def _context_of(pointer: int) -> Iterator[None]:
    """Make the context current that an address belongs to; memory of a pool has the present one."""
    context = 1
    found = _attribute(pointer, context, ctypes.c_void_p())
    if not found:
        yield
        return
    _driver().call("cuCtxPushCurrent_v2", ctypes.c_void_p(found))
    try:
        yield
    finally:
        _driver().call("cuCtxPopCurrent_v2", ctypes.byref(ctypes.c_void_p()))


def _wait(memory: _Memory, stream: Any, *, to_host: bool) -> None:
    """Wait until the values are there, which any stream may have been asked to compute."""
    if isinstance(stream, bool) or not isinstance(stream, int | None) or stream == 0:
        raise _not_lent(f"stream={stream!r} names no stream of CUDA", "1 is the default stream, -1 waits for nothing")
    if not memory.view.pointer or (stream == -1 and not to_host):
        return
    with _context_of(memory.view.pointer):
        if to_host or not _driver().is_captured(_LEGACY_STREAM if stream is None else stream):
            _driver().call("cuCtxSynchronize")


class _Own:
    """New memory of a GPU, which is freed with it."""

    def __init__(self, like: int, nbytes: int) -> None:
        found = ctypes.c_uint64()
        _driver().call("cuMemAlloc_v2", ctypes.byref(found), ctypes.c_size_t(nbytes))
        self.pointer = found.value
        self._free = weakref.finalize(self, _freed, self.pointer)
        self._free.atexit = False
        _driver().call("cuMemcpyDtoD_v2", found, ctypes.c_uint64(like), ctypes.c_size_t(nbytes))
        _driver().call("cuCtxSynchronize")


def _freed(pointer: int) -> None:
    with _context_of(pointer):
        _driver().call("cuMemFree_v2", ctypes.c_uint64(pointer))

# }}}


def _copied(memory: _Memory, *, to_host: bool) -> _Memory:
    """Return the same elements, at the same distances, in memory of its own."""
    view = memory.view
    low, high = element_range(view.shape, view.strides)
    begin, nbytes = view.pointer + low * view.dtype.itemsize, (high - low) * view.dtype.itemsize
    owner: Any
    if memory.device == _HOST or to_host:
        owner = np.empty(max(1, nbytes), np.uint8)
        pointer = owner.__array_interface__["data"][0]
        if nbytes and memory.device == _HOST:
            ctypes.memmove(pointer, begin, nbytes)
        elif nbytes:
            with _context_of(begin):
                _driver().call("cuMemcpyDtoH_v2", ctypes.c_void_p(pointer), ctypes.c_uint64(begin),
                               ctypes.c_size_t(nbytes))
        device = _HOST
    else:
        if not nbytes:
            return replace(memory, is_copy=True)
        with _context_of(begin):
            owner = _Own(begin, nbytes)
        pointer, device = owner.pointer, memory.device
    fresh = replace(view, pointer=pointer - low * view.dtype.itemsize, writeable=True)
    return _Memory(fresh, device, owner, is_copy=True)


# {{{ capsules

_VERSIONED, _PLAIN = b"dltensor_versioned", b"dltensor"
_LIVE: Final[dict[int, object]] = {}
"""Address of a structure -> itself and what it describes, until its reader deletes it."""


def _delete(address: int, live: Any = _LIVE) -> None:
    """Let the memory go; a reader calls it, from any thread."""
    live.pop(address, None)


def _new_capsule() -> Any:
    found = ctypes.pythonapi.PyCapsule_New
    found.restype, found.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    return found


def _by_address(name: str, result: Any, *more: Any) -> Any:
    """Return a function of CPython's that takes an object by its address: one that is going has no references."""
    return ctypes.PYFUNCTYPE(result, ctypes.c_void_p, *more)((name, ctypes.pythonapi))


_is_valid: Final = _by_address("PyCapsule_IsValid", ctypes.c_int, ctypes.c_char_p)
_pointer_of: Final = _by_address("PyCapsule_GetPointer", ctypes.c_void_p, ctypes.c_char_p)


def _unread(
    capsule: int, live: Any = _LIVE, names: Any = (_VERSIONED, _PLAIN), valid: Any = _is_valid, get: Any = _pointer_of
) -> None:
    """Let the memory of a capsule go that nothing has read; one that was read has another name."""
    for name in names:
        if valid(capsule, name):
            live.pop(get(capsule, name), None)


_DELETER: Final = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(_delete)
_DESTRUCTOR: Final = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)(_unread)
for _kept in (_DELETER, _DESTRUCTOR):  # others call them until the process ends, when modules are gone
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(_kept))


def _capsule(memory: _Memory, *, is_versioned: bool) -> Any:
    view = memory.view
    rank = len(view.shape)
    shape, strides = (ctypes.c_int64 * max(1, rank))(*view.shape), (ctypes.c_int64 * max(1, rank))(*view.strides)
    managed: Any = DLVersioned() if is_versioned else _DLManaged()
    tensor = managed.tensor
    tensor.data, tensor.byte_offset = view.pointer if view.size else None, 0
    tensor.device.kind, tensor.device.device = memory.device
    tensor.code, tensor.bits = _type_of(view.dtype)
    tensor.lanes, tensor.ndim = 1, rank
    tensor.shape = ctypes.cast(shape, ctypes.POINTER(ctypes.c_int64))
    tensor.strides = ctypes.cast(strides, ctypes.POINTER(ctypes.c_int64))
    managed.deleter = ctypes.cast(_DELETER, ctypes.c_void_p).value
    if is_versioned:
        managed.major, managed.minor = VERSION
        managed.flags = (0 if view.writeable else READ_ONLY) | (_IS_COPIED if memory.is_copy else 0)
    address = ctypes.addressof(managed)
    _LIVE[address] = (managed, shape, strides, memory)
    return _new_capsule()(address, _VERSIONED if is_versioned else _PLAIN, ctypes.cast(_DESTRUCTOR, ctypes.c_void_p))

# }}}
