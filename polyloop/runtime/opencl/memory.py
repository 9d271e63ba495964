"""Arrays of PyOpenCL, and copies of NumPy arrays in buffers."""
# ruff: noqa: ANN401  # PyOpenCL is optional, and imported at the moment of use

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from polyloop.errors import Diagnostic
from polyloop.expr.records import VECTORS, component, field_dtype, field_names
from polyloop.runtime.opencl.devices import address_of, context_of, number_of_context, opencl
from polyloop.runtime.views import (
    ArrayKind,
    ArrayView,
    call_error,
    element_range,
    empty_numpy,
    numpy_view,
    wrong_type,
)

__all__ = ["BufferCopy", "OpenCLMemory"]


class OpenCLMemory:
    """Views of arrays for a kernel for OpenCL; NumPy arrays are accepted and copied by the launch."""

    def view(self, kernel: str, name: str, value: object) -> ArrayView:
        """Return the view of a NumPy array or a ``pyopencl.array.Array``."""
        if isinstance(value, np.ndarray):
            return numpy_view(kernel, name, value)
        if type(value).__module__.partition(".")[0] != "pyopencl":
            raise wrong_type(kernel, name, value, "pass a NumPy array or a pyopencl.array.Array")
        if not hasattr(value, "base_data"):
            hint = f"say what is in it: pyopencl.array.Array(queue, shape, dtype, data={name})"
            raise wrong_type(kernel, name, value, hint)
        return _array_view(kernel, name, value)

    def allocate(self, kernel: str, kind: ArrayKind, device: int, *, dtype: np.dtype[Any],
                 shape: tuple[int, ...], strides: tuple[int, ...], poison: bool) -> ArrayView:
        """Return a new array; one of PyOpenCL gets its queue, and NaN where that is asked for, by the launch."""
        if kind is ArrayKind.NUMPY:
            array: Any = empty_numpy(dtype, shape, strides, poison=poison)
            return ArrayView(kind, array.__array_interface__["data"][0], dtype, shape, strides, True, device, None,
                             array)
        cl, context = opencl(kernel), context_of(device)
        _, high = element_range(shape, strides)
        memory = cl.Buffer(context, cl.mem_flags.READ_WRITE, max(1, high * dtype.itemsize))
        in_bytes = tuple(stride * dtype.itemsize for stride in strides)
        array = cl.array.Array(context, shape, dtype, data=memory, strides=in_bytes)
        return ArrayView(kind, address_of(memory), dtype, shape, strides, True, device, None, array)


def _array_view(kernel: str, name: str, array: Any) -> ArrayView:
    dtype = _plain(np.dtype(array.dtype))
    if any(stride % dtype.itemsize for stride in array.strides):
        raise call_error(kernel, Diagnostic(
            "wrong-strides", f"the elements of '{name}' are not a whole number of elements apart",
            (f"its strides are {array.strides} bytes, its elements have {dtype.itemsize} bytes",),
            (f"pass {name}.copy()",)))
    pointer = 0 if array.base_data is None else address_of(array.base_data) + array.offset
    strides = tuple(stride // dtype.itemsize for stride in array.strides)
    return ArrayView(ArrayKind.OPENCL, pointer, dtype, tuple(array.shape), strides, True,
                     number_of_context(array.context), None, array, array.offset // dtype.itemsize)


def _plain(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return a vector type of PyOpenCL, whose components are called s0, s1, .., as the package's own."""
    if dtype.names is None or dtype.names[0] != "s0":
        return dtype
    own = (field_dtype(dtype, "s0"), len(dtype.names), dtype.itemsize)
    known = {(component(vector), len(field_names(vector)), vector.itemsize): vector for vector in VECTORS.values()}
    return known.get(own, dtype)


class BufferCopy:
    """The copy of a NumPy array in a buffer for the length of a call.

    Parameters
    ----------
    shift
        Bytes ahead of the first element that the kernel's pointer counts from.
    """

    def __init__(
        self, cl: Any, queue: Any, kernel: str, named: tuple[str, ArrayView], *, shift: int, fill: bool
    ) -> None:
        name, view = named
        self._cl, self._queue, self._view = cl, queue, view
        low, high = element_range(view.shape, view.strides)
        size = view.dtype.itemsize
        if low < 0:
            raise call_error(kernel, Diagnostic(
                "wrong-strides", f"'{name}' has negative strides, and kernels for OpenCL take whole buffers",
                (f"its strides are {view.strides} elements",), (f"pass np.ascontiguousarray({name})",)))
        self._first, self._size = shift, high * size
        self.memory = cl.Buffer(queue.context, cl.mem_flags.READ_WRITE, max(1, shift + self._size))
        self._host = _bytes_of(view.pointer, self._size)
        if fill and self._size:
            cl.enqueue_copy(queue, self.memory, self._host, dst_offset=shift, is_blocking=True)

    def copy_back(self, events: list[Any]) -> None:
        """Copy the elements back to the NumPy array, but no bytes between them, which may belong to another array."""
        if not self._size:
            return
        view = self._view
        is_whole = view.size * view.dtype.itemsize == self._size
        whole = self._host if is_whole else np.empty(self._size, np.uint8)
        self._cl.enqueue_copy(self._queue, whole, self.memory, src_offset=self._first, is_blocking=True,
                              wait_for=events)
        if not is_whole:
            self._elements(self._host)[...] = self._elements(whole)

    def _elements(self, memory: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        strides = tuple(stride * self._view.dtype.itemsize for stride in self._view.strides)
        return np.ndarray(self._view.shape, self._view.dtype, memory, 0, strides)

    def free(self) -> None:
        """Give the buffer back."""
        self.memory.release()


def _bytes_of(address: int, size: int) -> np.ndarray[Any, Any]:
    """Return the bytes at an address of the host."""
    return np.frombuffer(memoryview((ctypes.c_char * size).from_address(address)), np.uint8)
