"""Array views: the properties that argument checks read, for the arrays of every library."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, Final, Protocol

import numpy as np

from polyloop.errors import ArgumentError, Diagnostic
from polyloop.expr.records import component, field_names, is_vector
from polyloop.kernel.passed import masked_problem

__all__ = ["ArrayKind", "ArrayView", "HostMemory", "Memory", "as_vectors", "call_error", "element_range", "numpy_view",
           "wrong_type"]


class ArrayKind(Enum):
    """Library that an array belongs to; outputs are allocated in the kind of the inputs."""

    NUMPY = "NumPy"
    PYCUDA = "PyCUDA"
    TORCH = "Torch"
    CUPY = "CuPy"
    CUDA = "CUDA"

    def __str__(self) -> str:
        return self.value

    @property
    def on_device(self) -> bool:
        """True if the data are in the memory of a GPU."""
        return self is not ArrayKind.NUMPY


@dataclass(frozen=True, slots=True)
class ArrayView:
    """Address and layout of an array.

    Attributes
    ----------
    strides
        Distance between neighbours along each axis [elements].
    device
        Ordinal of the GPU; -1 for host memory or where it is not known.
    stream
        Handle of the stream on which the data become ready; None where no waiting is needed.
    owner
        The object that the user passed; keeps the memory alive.
    offset
        Elements between the start of the memory that the array is a view of, and its first element.
    """

    kind: ArrayKind
    pointer: int
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    writeable: bool
    device: int
    stream: int | None
    owner: Any
    offset: int = 0

    @property
    def size(self) -> int:
        """Number of elements."""
        product = 1
        for extent in self.shape:
            product *= extent
        return product

    def byte_range(self) -> tuple[int, int]:
        """Return the half-open range of addresses [bytes] of the elements."""
        low, high = element_range(self.shape, self.strides)
        return self.pointer + low * self.dtype.itemsize, self.pointer + high * self.dtype.itemsize


def element_range(shape: Iterable[int], strides: Iterable[int]) -> tuple[int, int]:
    """Return the half-open range of offsets [elements] that an array of this layout touches."""
    low = high = 0
    for extent, stride in zip(shape, strides, strict=True):
        if extent == 0:
            return 0, 0
        reach = (extent - 1) * stride
        low, high = low + min(0, reach), high + max(0, reach)
    return low, high + 1


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


def call_error(kernel: str, *found: Diagnostic) -> ArgumentError:
    """Return the error of a call of *kernel*."""
    return ArgumentError("call", kernel, found)


class Memory(Protocol):
    """Memory of a compiled kernel's arrays: views of arrays that exist, and allocation of new ones."""

    def view(self, kernel: str, name: str, value: object) -> ArrayView:
        """Return the view of *value*, or raise ``wrong-type`` or ``wrong-device``."""

    def allocate(self, kernel: str, kind: ArrayKind, device: int, *, dtype: np.dtype[Any],
                 shape: tuple[int, ...], strides: tuple[int, ...], poison: bool) -> ArrayView:
        """Return a new array of that layout; *poison* fills it with 0xFF bytes (NaN)."""


def numpy_view(kernel: str, name: str, value: np.ndarray[Any, Any]) -> ArrayView:
    """Return the view of a NumPy array.

    Raises
    ------
    ArgumentError
        ``wrong-type`` for a masked array; ``wrong-strides`` where the distance between elements is not a whole
        number of elements.
    """
    if (problem := masked_problem(name, value)) is not None:
        raise call_error(kernel, problem)
    size = value.itemsize
    if size == 0 or any(stride % size for stride in value.strides):
        raise call_error(kernel, Diagnostic(
            "wrong-strides", f"the elements of '{name}' are not a whole number of elements apart",
            (f"its strides are {value.strides} bytes, its elements have {size} bytes",),
            (f"pass np.ascontiguousarray({name})",)))
    return ArrayView(ArrayKind.NUMPY, value.__array_interface__["data"][0], value.dtype, value.shape,
                     tuple(stride // size for stride in value.strides), value.flags.writeable, -1, None, value,
                     _offset_in_base(value))


def _offset_in_base(value: np.ndarray[Any, Any]) -> int:
    """Return the offset of *value* in the array that it is a view of [elements], 0 if not a whole number."""
    base = value.base
    if not isinstance(base, np.ndarray):
        return 0
    while isinstance(base.base, np.ndarray):
        base = base.base
    distance = value.__array_interface__["data"][0] - base.__array_interface__["data"][0]
    return 0 if distance < 0 or distance % value.itemsize else int(distance // value.itemsize)


class HostMemory:
    """NumPy arrays, for kernels that run on the CPU."""

    def view(self, kernel: str, name: str, value: object) -> ArrayView:
        """Return the view of a NumPy array or scalar array."""
        if isinstance(value, np.ndarray):
            return numpy_view(kernel, name, value)
        if is_device_array(value):
            raise call_error(kernel, Diagnostic(
                "wrong-device", f"'{name}' is on a GPU, and this kernel runs on the CPU", (_type_note(value),),
                ("copy it to the host (.get(), .cpu().numpy()), or compile for the CUDA target",)))
        if type(value).__module__.partition(".")[0] == "torch":
            raise wrong_type(kernel, name, value, f"pass {name}.numpy()")
        raise wrong_type(kernel, name, value, f"pass np.asarray({name})")

    def allocate(self, kernel: str, kind: ArrayKind, device: int, *, dtype: np.dtype[Any],
                 shape: tuple[int, ...], strides: tuple[int, ...], poison: bool) -> ArrayView:
        """Return a new NumPy array."""
        assert kind is ArrayKind.NUMPY, f"host memory cannot hold {kind} arrays of '{kernel}'"
        array = empty_numpy(dtype, shape, strides, poison=poison)
        return ArrayView(kind, array.__array_interface__["data"][0], dtype, shape, strides, True, -1, None, array)


_ALIGNMENT: Final = 64


def empty_numpy(dtype: np.dtype[Any], shape: tuple[int, ...], strides: tuple[int, ...], *,
                poison: bool) -> np.ndarray[Any, Any]:
    """Return a new array with *strides* [elements], aligned for vector instructions."""
    low, high = element_range(shape, strides)
    nbytes = (high - low) * dtype.itemsize
    raw = np.empty(nbytes + _ALIGNMENT, np.uint8)
    if poison:
        raw.fill(0xFF)
    start = -raw.__array_interface__["data"][0] % _ALIGNMENT
    return np.ndarray(shape, dtype, raw, start - low * dtype.itemsize,
                      tuple(stride * dtype.itemsize for stride in strides))


def is_device_array(value: object) -> bool:
    """Return whether *value* says that its data are in the memory of a GPU."""
    if type(value).__module__.partition(".")[0] == "torch":
        return bool(getattr(value, "is_cuda", False))
    if hasattr(type(value), "__cuda_array_interface__"):
        return True
    where = getattr(value, "__dlpack_device__", None)
    host = 1
    return where is not None and int(where()[0]) != host


def _type_note(value: object) -> str:
    return f"it is a {type(value).__module__}.{type(value).__qualname__}"


def wrong_type(kernel: str, name: str, value: object, hint: str) -> ArgumentError:
    """Return the error for an argument that is no array."""
    return call_error(kernel, Diagnostic("wrong-type", f"'{name}' must be an array", (_type_note(value),), (hint,)))
