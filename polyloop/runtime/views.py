"""Views of arrays for kernels that run on the CPU, and allocation in host memory."""
# ruff: noqa: ANN401  # the arrays of the libraries have no common type

from __future__ import annotations

import ctypes
import functools
import importlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final, Protocol, TypeAlias

import numpy as np

from polyloop.errors import Diagnostic
from polyloop.expr.dtypes import is_bool, is_inexact
from polyloop.expr.records import component, field_names, is_record, is_vector
from polyloop.runtime.foreign.readers import array_view, is_device_array, numpy_view
from polyloop.runtime.foreign.view import (
    ArrayKind,
    ArrayView,
    Borrowed,
    call_error,
    element_range,
    place_of,
    type_note,
    wrong_type,
)

__all__ = ["Allocating", "Allocator", "ArrayKind", "ArrayView", "Borrowed", "HostMemory", "Memory", "array_view",
           "as_vectors", "call_error", "element_range", "empty_numpy", "is_device_array", "jax_array", "numpy_view",
           "place_of", "poison_torch", "torch_allocator", "wrong_type"]

Allocator: TypeAlias = Callable[[], tuple[Any, int]]
"""Returns a new array of one layout, and the address of its first element."""


def as_vectors(view: ArrayView, dtype: np.dtype[Any]) -> ArrayView:
    """Return an array of scalars as one of vectors of type *dtype*, where its last axis holds their components.

    Most libraries for GPUs have no records: there, an array of ``float4`` is one of float32 with one more axis, of 4.
    Any other array is returned as it is.
    """
    if not view.kind.on_device or not is_vector(dtype) or view.dtype != component(dtype) or not view.shape:
        return view
    count = len(field_names(dtype))
    outer = view.strides[:-1]
    if view.shape[-1] != count or view.strides[-1] != 1 or any(step % count for step in (*outer, view.offset)):
        return view
    strides = tuple(step // count for step in outer)
    return replace(view, dtype=dtype, shape=view.shape[:-1], strides=strides, offset=view.offset // count)


class Memory(Protocol):
    """Memory of a compiled kernel's arrays: views of arrays that exist, and allocation of new ones."""

    def view(self, kernel: str, name: str, value: object) -> ArrayView:
        """Return the view of *value*, or raise ``wrong-type`` or ``wrong-device``."""

    def allocate(self, kernel: str, kind: ArrayKind, device: int, *, dtype: np.dtype[Any],
                 shape: tuple[int, ...], strides: tuple[int, ...], poison: bool) -> ArrayView:
        """Return a new array of that layout; *poison* fills it with 0xFF bytes (NaN)."""


class Allocating(Protocol):
    """Memory whose new arrays are made at once, for calls that are repeated."""

    def allocator(self, kernel: str, kind: ArrayKind, device: int, *, dtype: np.dtype[Any],
                  shape: tuple[int, ...], strides: tuple[int, ...]) -> Allocator:
        """Return a function that allocates arrays of the kind that :meth:`Memory.allocate` gave one of."""


class HostMemory:
    """Arrays of every library in host memory, for kernels that run on the CPU."""

    def view(self, kernel: str, name: str, value: object) -> ArrayView:
        """Return the view of an array in host memory; nothing is copied."""
        if isinstance(value, np.ndarray):
            return numpy_view(kernel, name, value)
        if is_device_array(value):
            raise call_error(kernel, Diagnostic(
                "wrong-device", f"'{name}' is on a GPU, and this kernel runs on the CPU", (type_note(value),),
                ("copy it to the host (.get(), .cpu().numpy()), or compile for the CUDA target",)))
        return array_view(kernel, name, value)

    def allocate(self, kernel: str, kind: ArrayKind, device: int, *, dtype: np.dtype[Any],
                 shape: tuple[int, ...], strides: tuple[int, ...], poison: bool) -> ArrayView:
        """Return a new array of the library *kind*; of NumPy where that has no records, or cannot be told."""
        assert not kind.on_device, f"host memory cannot hold {kind} arrays of '{kernel}'"
        if kind is ArrayKind.TORCH_CPU and not is_record(dtype):
            tensor, pointer = torch_allocator("cpu", dtype, shape, strides)()
            if poison:
                poison_torch(tensor, dtype)
            return ArrayView(kind, pointer, dtype, shape, strides, True, -1, None, tensor)
        array = empty_numpy(dtype, shape, strides, poison=poison)
        pointer = array.__array_interface__["data"][0]
        if kind is ArrayKind.JAX and not is_record(dtype):
            found = jax_array(array)
            if found.unsafe_buffer_pointer() == pointer:
                return ArrayView(kind, pointer, dtype, shape, strides, True, -1, None, Borrowed(found, array))
        return ArrayView(ArrayKind.NUMPY, pointer, dtype, shape, strides, True, -1, None, array)

    def allocator(self, kernel: str, kind: ArrayKind, device: int, *, dtype: np.dtype[Any],
                  shape: tuple[int, ...], strides: tuple[int, ...]) -> Allocator:
        """Return a function that allocates arrays of the kind that :meth:`allocate` gave one of."""
        assert device < 0, f"host memory cannot hold {kind} arrays of '{kernel}'"
        if kind is ArrayKind.TORCH_CPU:
            return torch_allocator("cpu", dtype, shape, strides)
        return _numpy_allocator(dtype, shape, strides)


_OF_OTHERS: Final = 2
"""``np.dtype.isbuiltin`` of the types that a package has registered."""


def jax_array(array: np.ndarray[Any, Any]) -> Any:
    """Return the JAX array of the memory of *array*, which no other may change once the kernel is done.

    JAX copies what is not in C order, or begins at no multiple of 64 bytes.
    """
    jax = importlib.import_module("jax")
    if array.dtype.isbuiltin == _OF_OTHERS:  # of ml_dtypes, which NumPy does not lend
        return jax.device_put(array, jax.devices("cpu")[0], may_alias=True)
    return jax.dlpack.from_dlpack(array)


def torch_allocator(device: str, dtype: np.dtype[Any], shape: tuple[int, ...], strides: tuple[int, ...]) -> Allocator:
    """Return a function that allocates Torch tensors on *device*."""
    torch = importlib.import_module("torch")
    layout, place = (tuple(map(int, shape)), tuple(map(int, strides))), torch.device(device)
    empty = functools.partial(torch.empty_strided, *layout, dtype=getattr(torch, dtype.name), device=place)
    direct = _direct(torch, place)
    if direct is not None:
        empty = functools.partial(direct, *layout, getattr(torch, dtype.name))

    def allocate() -> tuple[Any, int]:
        tensor = empty()
        return tensor, tensor.data_ptr()

    return allocate


def _direct(torch: Any, place: Any) -> Callable[..., Any] | None:
    """Return PyTorch's own function for new tensors on a device, past the dispatcher; None if there is none.

    It is what the code that ``torch.compile`` makes calls: 0.7 us where ``empty_strided`` takes 1.7.  It allocates on
    the current GPU, so that it serves where there is only one.  It is no public name of PyTorch, and is tried first.
    """
    try:
        is_only = place.type == "cpu" or (place.type == "cuda" and torch.cuda.device_count() == 1)
        guards = importlib.import_module("torch._C._dynamo.guards")
        found: Callable[..., Any] = getattr(guards, f"_empty_strided_{place.type}")
        made = found((2, 3), (1, 2), torch.float32) if is_only else None
    except (ImportError, AttributeError, TypeError):
        return None
    fits = made is not None and (made.device, made.dtype, made.shape, made.stride()) == (
        torch.empty(0, device=place).device, torch.float32, (2, 3), (1, 2))
    return found if fits else None


def poison_torch(tensor: Any, dtype: np.dtype[Any]) -> None:
    """Fill a tensor with NaN, or all bits."""
    tensor.fill_(float("nan") if is_inexact(dtype) else is_bool(dtype) or -1 % 2**(8 * dtype.itemsize - 1))


_ALIGNMENT: Final = 64


def empty_numpy(dtype: np.dtype[Any], shape: tuple[int, ...], strides: tuple[int, ...], *,
                poison: bool) -> np.ndarray[Any, Any]:
    """Return a new array with *strides* [elements], aligned for vector instructions."""
    array: np.ndarray[Any, Any] = _numpy_allocator(dtype, shape, strides)()[0]
    if poison:
        raw: Any = array.base
        raw.fill(0xFF)
    return array


def _numpy_allocator(dtype: np.dtype[Any], shape: tuple[int, ...], strides: tuple[int, ...]) -> Allocator:
    size = dtype.itemsize
    low, high = element_range(shape, strides)
    nbytes, first, in_bytes = (high - low) * size + _ALIGNMENT, -low * size, tuple(step * size for step in strides)
    empty, array, kind = np.empty, np.ndarray, np.dtype(np.uint8)
    byte, address_of = ctypes.c_char.from_buffer, ctypes.addressof  # a third of the time of ``__array_interface__``

    def allocate() -> tuple[Any, int]:
        raw: Any = empty(nbytes, kind)
        address = address_of(byte(raw))
        start = -address % _ALIGNMENT + first
        return array(shape, dtype, raw, start, in_bytes), address + start

    return allocate
