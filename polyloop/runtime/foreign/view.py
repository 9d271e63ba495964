"""Array views: the properties that argument checks read, for the arrays of every library."""
# ruff: noqa: ANN401  # the arrays of the libraries have no common type

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np

from polyloop.errors import ArgumentError, Diagnostic

__all__ = ["ArrayKind", "ArrayView", "Borrowed", "call_error", "element_range", "library", "place_of", "row_major",
           "wrong_type"]


class ArrayKind(Enum):
    """Library that an array belongs to; outputs are allocated in the kind of the inputs."""

    NUMPY = "NumPy"
    PYCUDA = "PyCUDA"
    TORCH = "Torch"
    TORCH_CPU = "Torch on the CPU"
    CUPY = "CuPy"
    JAX = "JAX on the CPU"
    JAX_CUDA = "JAX"
    HOST = "host"
    CUDA = "CUDA"
    OPENCL = "PyOpenCL"
    OWN = "polyloop"

    def __str__(self) -> str:
        return self.value

    @property
    def on_device(self) -> bool:
        """True if the data are in the memory of a GPU."""
        return self not in {ArrayKind.NUMPY, ArrayKind.TORCH_CPU, ArrayKind.JAX, ArrayKind.HOST}

    @property
    def is_jax(self) -> bool:
        """True for arrays of JAX, which never change."""
        return self in {ArrayKind.JAX, ArrayKind.JAX_CUDA}


@dataclass(frozen=True, slots=True)
class Borrowed:
    """An array, and the capsule that keeps its memory alive; the capsule releases itself."""

    array: Any
    capsule: Any


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
        The object that the user passed, or a ``Borrowed`` one; keeps the memory alive.
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
    def array(self) -> Any:
        """The array as its user knows it."""
        return self.owner.array if isinstance(self.owner, Borrowed) else self.owner

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


def row_major(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the strides [elements] of an array in C order without gaps."""
    strides, step = [1] * len(shape), 1
    for axis in range(len(shape) - 1, -1, -1):
        strides[axis] = step
        step *= shape[axis]
    return tuple(strides)


def library(value: object) -> str:
    """Return the package that the type of *value* comes from."""
    found = type(value).__module__.partition(".")[0]
    return "jax" if found == "jaxlib" else found


def call_error(kernel: str, *found: Diagnostic) -> ArgumentError:
    """Return the error of a call of *kernel*."""
    return ArgumentError("call", kernel, found)


def type_note(value: object) -> str:
    """Return the sentence that names the type of *value*."""
    return f"it is a {type(value).__module__}.{type(value).__qualname__}"


def wrong_type(kernel: str, name: str, value: object, hint: str) -> ArgumentError:
    """Return the error for an argument that is no array."""
    return call_error(kernel, Diagnostic("wrong-type", f"'{name}' must be an array", (type_note(value),), (hint,)))


def place_of(kernel: str, views: Mapping[str, ArrayView]) -> tuple[ArrayKind, int]:
    """Return the kind of array to allocate, and on which device.

    Raises
    ------
    ArgumentError
        ``wrong-device``: they are on several.
    """
    kind, device, first = ArrayKind.NUMPY, -1, ""
    for name, view in views.items():
        if view.kind.on_device and not kind.on_device:
            kind, first = view.kind, name
        elif kind is ArrayKind.NUMPY:
            kind = view.kind
        if view.device >= 0 and device >= 0 and view.device != device:
            raise call_error(kernel, Diagnostic(
                "wrong-device", f"'{name}' is on GPU {view.device}, and '{first}' on GPU {device}", (),
                ("copy all arrays to one device",)))
        device = max(device, view.device)
    return kind, device
