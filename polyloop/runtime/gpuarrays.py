"""Arrays in GPU memory: PyCUDA, Torch, CuPy, ``__cuda_array_interface__`` and DLPack."""
# ruff: noqa: ANN401  # the arrays of the libraries have no common type

from __future__ import annotations

import ctypes
import functools
import importlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from polyloop.errors import Diagnostic
from polyloop.expr.dtypes import BFLOAT16
from polyloop.expr.records import component, field_names, is_record, is_vector, record_name
from polyloop.runtime.packed import CurrentStream
from polyloop.runtime.views import (
    ArrayKind,
    ArrayView,
    call_error,
    element_range,
    empty_numpy,
    numpy_view,
    tensor_view,
    torch_empty,
    wrong_type,
)

__all__ = ["DeviceMemory", "HostMirror", "current_handle", "current_stream", "dlpack_view"]

_CUDA_DEVICE: Final = 2  # kDLCUDA
_LEGACY_STREAM: Final = 1


def _library(value: object) -> str:
    return type(value).__module__.partition(".")[0]


class DeviceMemory:
    """Views of arrays for a CUDA kernel; NumPy arrays are accepted and copied by the launch."""

    def view(self, kernel: str, name: str, value: object) -> ArrayView:
        """Return the view of an array of any supported library."""
        if isinstance(value, np.ndarray):
            return numpy_view(kernel, name, value)
        match _library(value):
            case "pycuda":
                return _pycuda_view(kernel, name, value)
            case "torch":
                return _torch_view(kernel, name, value)
            case "cupy":
                return _cupy_view(kernel, name, value)
        if hasattr(type(value), "__cuda_array_interface__"):
            return _interface_view(kernel, name, value)
        if hasattr(type(value), "__dlpack__"):
            return dlpack_view(kernel, name, value)
        raise wrong_type(kernel, name, value, "pass a NumPy, CuPy, Torch or PyCUDA array")

    def allocate(self, kernel: str, kind: ArrayKind, device: int, *, dtype: np.dtype[Any],
                 shape: tuple[int, ...], strides: tuple[int, ...], poison: bool) -> ArrayView:
        """Return a new array of the library *kind*."""
        match kind:
            case ArrayKind.NUMPY:
                array: Any = empty_numpy(dtype, shape, strides, poison=poison)
                pointer = array.__array_interface__["data"][0]
            case ArrayKind.TORCH | ArrayKind.CUPY:
                allocate = _torch_empty if kind is ArrayKind.TORCH else _cupy_empty
                array, pointer = allocate(device, *_plain(kernel, kind, dtype, shape, strides), poison=poison)
            case ArrayKind.PYCUDA:
                array, pointer = _pycuda_empty(dtype, shape, strides, poison=poison)
            case ArrayKind.CUDA:
                raise call_error(kernel, Diagnostic(
                    "missing-argument", "an output was not passed, and the library of the inputs has no allocator",
                    ("outputs are allocated as NumPy, CuPy, Torch or PyCUDA arrays only",), ("pass all outputs",)))
        return ArrayView(kind, pointer, dtype, shape, strides, True, device, None, array)


def _plain(
    kernel: str, kind: ArrayKind, dtype: np.dtype[Any], shape: tuple[int, ...], strides: tuple[int, ...]
) -> tuple[np.dtype[Any], tuple[int, ...], tuple[int, ...]]:
    """Return type, shape and strides for libraries without record types: vectors become an axis."""
    if is_vector(dtype):
        count = len(field_names(dtype))
        return component(dtype), (*shape, count), (*(step * count for step in strides), 1)
    if is_record(dtype):
        raise call_error(kernel, Diagnostic(
            "missing-argument", f"an output of records was not passed, and {kind} has no records",
            (f"its type is {record_name(dtype)}",), ("pass it as a NumPy or PyCUDA array",)))
    return dtype, shape, strides


def _elements(kernel: str, name: str, strides: Iterable[int], dtype: np.dtype[Any]) -> tuple[int, ...]:
    """Return strides in elements for strides in bytes."""
    in_bytes = tuple(strides)
    if any(stride % dtype.itemsize for stride in in_bytes):
        raise call_error(kernel, Diagnostic(
            "wrong-strides", f"the elements of '{name}' are not a whole number of elements apart",
            (f"its strides are {in_bytes} bytes, its elements have {dtype.itemsize} bytes",),
            (f"pass a copy of '{name}'",)))
    return tuple(stride // dtype.itemsize for stride in in_bytes)


def _row_major(shape: tuple[int, ...]) -> tuple[int, ...]:
    strides, step = [1] * len(shape), 1
    for axis in range(len(shape) - 1, -1, -1):
        strides[axis] = step
        step *= shape[axis]
    return tuple(strides)


def _on_host(kernel: str, name: str, hint: str) -> Exception:
    return call_error(kernel, Diagnostic(
        "wrong-device", f"'{name}' is in host memory, and this kernel runs on the GPU", (), (hint,)))


# {{{ one library each


def _pycuda_view(kernel: str, name: str, array: Any) -> ArrayView:
    if not hasattr(array, "gpudata"):
        raise wrong_type(kernel, name, array, "pass a pycuda.gpuarray.GPUArray")
    pointer = 0 if array.gpudata is None else int(array.gpudata)
    dtype = np.dtype(array.dtype)
    return ArrayView(ArrayKind.PYCUDA, pointer, dtype, tuple(array.shape),
                     _elements(kernel, name, array.strides, dtype), True, -1, None, array)


def _pycuda_empty(dtype: np.dtype[Any], shape: tuple[int, ...], strides: tuple[int, ...], *,
                  poison: bool) -> tuple[Any, int]:
    driver = importlib.import_module("pycuda.driver")
    gpuarray = importlib.import_module("pycuda.gpuarray")
    low, high = element_range(shape, strides)
    assert low == 0, "outputs have no negative strides"
    memory = driver.mem_alloc(max(1, high * dtype.itemsize))
    if poison:
        driver.memset_d8(memory, 0xFF, high * dtype.itemsize)
    array = gpuarray.GPUArray(shape, dtype, gpudata=memory, strides=tuple(s * dtype.itemsize for s in strides))
    return array, int(memory)


def _torch_view(kernel: str, name: str, tensor: Any) -> ArrayView:
    if hasattr(tensor, "data_ptr") and not tensor.is_cuda:
        raise _on_host(kernel, name, f"pass {name}.cuda(), or {name}.numpy() to have it copied")
    return tensor_view(kernel, name, tensor)


def _torch_empty(device: int, dtype: np.dtype[Any], shape: tuple[int, ...], strides: tuple[int, ...], *,
                 poison: bool) -> tuple[Any, int]:
    return torch_empty(f"cuda:{device}", dtype, shape, strides, poison=poison)


def _cupy_view(kernel: str, name: str, array: Any) -> ArrayView:
    if not hasattr(array, "data") or not hasattr(array.data, "ptr"):
        raise wrong_type(kernel, name, array, "pass a cupy.ndarray")
    dtype = np.dtype(array.dtype)
    return ArrayView(ArrayKind.CUPY, int(array.data.ptr), dtype, tuple(array.shape),
                     _elements(kernel, name, array.strides, dtype), True, int(array.device.id), None, array)


def _cupy_empty(device: int, dtype: np.dtype[Any], shape: tuple[int, ...], strides: tuple[int, ...], *,
                poison: bool) -> tuple[Any, int]:
    cupy = importlib.import_module("cupy")
    low, high = element_range(shape, strides)
    assert low == 0, "outputs have no negative strides"
    with cupy.cuda.Device(max(0, device)):
        memory = cupy.cuda.alloc(max(1, high * dtype.itemsize))
        array = cupy.ndarray(shape, dtype, memptr=memory, strides=tuple(s * dtype.itemsize for s in strides))
        if poison:
            memory.memset(0xFF, high * dtype.itemsize)
    return array, int(array.data.ptr)


def _interface_view(kernel: str, name: str, array: Any) -> ArrayView:
    """Return the view that ``__cuda_array_interface__`` describes, version 2 or 3."""
    interface = array.__cuda_array_interface__
    pointer, read_only = interface["data"]
    dtype = np.dtype(interface["typestr"])
    if dtype.kind == "V" and interface.get("descr"):
        dtype = _described(interface["descr"])
    shape = tuple(int(extent) for extent in interface["shape"])
    given = interface.get("strides")
    strides = _row_major(shape) if given is None else _elements(kernel, name, given, dtype)
    return ArrayView(ArrayKind.CUDA, int(pointer or 0), dtype, shape, strides, not read_only, _device_of(array),
                     interface.get("stream"), array)


def _described(fields: Iterable[tuple[Any, ...]]) -> np.dtype[Any]:
    """Return the record type that an array interface describes; fields without a name are gaps."""
    names, formats, offsets, end = [], [], [], 0
    for name, kind, *_ in fields:
        one = _described(kind) if isinstance(kind, list) else np.dtype(kind)
        if name:
            names.append(name)
            formats.append(one)
            offsets.append(end)
        end += one.itemsize
    return np.dtype({"names": names, "formats": formats, "offsets": offsets, "itemsize": end})


def _device_of(array: Any) -> int:
    where = getattr(array, "__dlpack_device__", None)
    if where is None:
        return -1
    kind, device = where()
    return int(device) if int(kind) == _CUDA_DEVICE else -1

# }}}


# {{{ DLPack


class _DLDevice(ctypes.Structure):
    _fields_ = (("kind", ctypes.c_int32), ("device", ctypes.c_int32))


class _DLTensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p), ("device", _DLDevice), ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16), ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64),
    )


_DLPACK_CODES: Final = {0: "i", 1: "u", 2: "f", 4: "bfloat", 5: "c", 6: "b"}


def _dlpack_dtype(code: int, bits: int) -> np.dtype[Any]:
    name = _DLPACK_CODES[code]
    return BFLOAT16 if name == "bfloat" else np.dtype(f"{name}{bits // 8}")


@dataclass(frozen=True, slots=True)
class _Borrowed:
    """An array and the capsule that keeps its export alive; the capsule releases itself."""

    array: Any
    capsule: Any


def dlpack_view(kernel: str, name: str, array: Any) -> ArrayView:
    """Return the view that the DLPack capsule of *array* describes.

    The capsule is not consumed: it stays named ``dltensor`` and releases the export when the view
    goes.
    """
    kind, device = array.__dlpack_device__()
    if int(kind) != _CUDA_DEVICE:
        raise _on_host(kernel, name, f"copy '{name}' to the GPU, or pass it as a NumPy array")
    capsule = array.__dlpack__(stream=_LEGACY_STREAM)
    get_pointer = ctypes.pythonapi.PyCapsule_GetPointer
    get_pointer.restype, get_pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    tensor = _DLTensor.from_address(get_pointer(capsule, b"dltensor"))
    if tensor.code not in _DLPACK_CODES or tensor.lanes != 1:
        raise call_error(kernel, Diagnostic(
            "wrong-dtype", f"'{name}' has a type that NumPy does not have", (f"DLPack type code {tensor.code}",),
            (f"convert '{name}' to the type that the kernel declares",)))
    shape = tuple(tensor.shape[k] for k in range(tensor.ndim))
    strides = tuple(tensor.strides[k] for k in range(tensor.ndim)) if tensor.strides else _row_major(shape)
    return ArrayView(ArrayKind.CUDA, (tensor.data or 0) + tensor.byte_offset, _dlpack_dtype(tensor.code, tensor.bits),
                     shape, strides, True, int(device), _LEGACY_STREAM, _Borrowed(array, capsule))

# }}}


def current_stream(views: Iterable[ArrayView]) -> Any:
    """Return the stream that the library of the arrays is using, None for the default stream."""
    for view in views:
        if view.kind is ArrayKind.TORCH:
            return importlib.import_module("torch").cuda.current_stream(view.device)
        if view.kind is ArrayKind.CUPY:
            return importlib.import_module("cupy").cuda.get_current_stream()
    return None


def current_handle(views: Iterable[ArrayView]) -> CurrentStream | None:
    """Return a cheap way to read the handle of the current stream, None for the default stream."""
    view = next((view for view in views if view.kind in {ArrayKind.TORCH, ArrayKind.CUPY}), None)
    if view is None:
        return None
    if view.kind is ArrayKind.CUPY:
        chosen = importlib.import_module("cupy").cuda.get_current_stream
        return CurrentStream(chosen, "().ptr", lambda: int(chosen().ptr))
    torch, device = importlib.import_module("torch"), view.device
    raw = getattr(torch._C, "_cuda_getCurrentRawStream", None)  # noqa: SLF001  # as Triton does
    if raw is not None:
        return CurrentStream(raw, f"({device})", functools.partial(raw, device))
    asked = functools.partial(torch.cuda.current_stream, device)
    return CurrentStream(asked, "().cuda_stream", lambda: int(asked().cuda_stream))


class HostMirror:
    """The copy of a NumPy array in GPU memory for the length of a call."""

    def __init__(self, driver: Any, view: ArrayView, *, fill: bool) -> None:
        self._driver = driver
        low, _ = element_range(view.shape, view.strides)
        begin, end = view.byte_range()
        self._view, self._first = view, -low * view.dtype.itemsize
        self._size = end - begin
        self._memory = driver.mem_alloc(max(1, self._size))
        self.pointer = int(self._memory) - low * view.dtype.itemsize
        memory = memoryview((ctypes.c_char * self._size).from_address(begin))
        self._host = np.frombuffer(memory, np.uint8) if self._size else None
        if fill and self._host is not None:
            driver.memcpy_htod(self._memory, self._host)

    def copy_back(self) -> None:
        """Copy the elements back to the NumPy array, but no bytes between them, which may belong to another array."""
        if self._host is None:
            return
        if self._view.size * self._view.dtype.itemsize == self._size:
            self._driver.memcpy_dtoh(self._host, self._memory)
            return
        whole = np.empty(self._size, np.uint8)
        self._driver.memcpy_dtoh(whole, self._memory)
        self._elements(self._host)[...] = self._elements(whole)

    def _elements(self, memory: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        strides = tuple(stride * self._view.dtype.itemsize for stride in self._view.strides)
        return np.ndarray(self._view.shape, self._view.dtype, memory, self._first, strides)

    def free(self) -> None:
        """Give the GPU memory back."""
        self._memory.free()
