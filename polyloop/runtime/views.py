"""Array views: the properties that argument checks read, for the arrays of every library."""
# ruff: noqa: ANN401  # the arrays of the libraries have no common type

from __future__ import annotations

import importlib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, Final, Protocol

import numpy as np

from polyloop.errors import ArgumentError, Diagnostic
from polyloop.expr.dtypes import is_bool, is_inexact
from polyloop.expr.records import component, field_names, is_record, is_vector
from polyloop.kernel.passed import masked_problem

__all__ = ["ArrayKind", "ArrayView", "HostMemory", "Memory", "as_vectors", "call_error", "element_range", "numpy_view",
           "tensor_view", "torch_empty", "wrong_type"]


class ArrayKind(Enum):
    """Library that an array belongs to; outputs are allocated in the kind of the inputs."""

    NUMPY = "NumPy"
    PYCUDA = "PyCUDA"
    TORCH = "Torch"
    TORCH_CPU = "Torch on the CPU"
    CUPY = "CuPy"
    CUDA = "CUDA"
    OPENCL = "PyOpenCL"

    def __str__(self) -> str:
        return self.value

    @property
    def on_device(self) -> bool:
        """True if the data are in the memory of a GPU."""
        return self not in {ArrayKind.NUMPY, ArrayKind.TORCH_CPU}


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
    """NumPy arrays and Torch tensors in host memory, for kernels that run on the CPU."""

    def view(self, kernel: str, name: str, value: object) -> ArrayView:
        """Return the view of a NumPy array, scalar array or Torch tensor; nothing is copied."""
        if isinstance(value, np.ndarray):
            return numpy_view(kernel, name, value)
        if is_device_array(value):
            raise call_error(kernel, Diagnostic(
                "wrong-device", f"'{name}' is on a GPU, and this kernel runs on the CPU", (_type_note(value),),
                ("copy it to the host (.get(), .cpu().numpy()), or compile for the CUDA target",)))
        if type(value).__module__.partition(".")[0] == "torch":
            return host_tensor_view(kernel, name, value)
        raise wrong_type(kernel, name, value, f"pass np.asarray({name})")

    def allocate(self, kernel: str, kind: ArrayKind, device: int, *, dtype: np.dtype[Any],
                 shape: tuple[int, ...], strides: tuple[int, ...], poison: bool) -> ArrayView:
        """Return a new NumPy array."""
        assert not kind.on_device, f"host memory cannot hold {kind} arrays of '{kernel}'"
        if kind is ArrayKind.TORCH_CPU and not is_record(dtype):
            tensor, pointer = torch_empty("cpu", dtype, shape, strides, poison=poison)
            return ArrayView(kind, pointer, dtype, shape, strides, True, -1, None, tensor)
        array = empty_numpy(dtype, shape, strides, poison=poison)
        return ArrayView(ArrayKind.NUMPY, array.__array_interface__["data"][0], dtype, shape, strides, True, -1, None,
                         array)


def _torch_dtype(kernel: str, name: str, tensor: Any) -> np.dtype[Any]:
    text = str(tensor.dtype).removeprefix("torch.")
    try:
        return np.dtype(text)
    except TypeError:
        raise call_error(kernel, Diagnostic(
            "wrong-dtype", f"'{name}' has dtype {tensor.dtype}, which NumPy does not have", (),
            (f"pass {name}.to() of a type that the kernel declares",))) from None


def tensor_view(kernel: str, name: str, tensor: Any) -> ArrayView:
    """Return the view of a Torch tensor, in the memory of a GPU or of the host.

    Raises
    ------
    ArgumentError
        ``wrong-type`` for a lazily negated or conjugated view; ``wrong-dtype`` for a type that NumPy does not have.
    """
    if not hasattr(tensor, "data_ptr"):
        raise wrong_type(kernel, name, tensor, "pass a torch.Tensor")
    for is_lazy, resolve in (("is_conj", "resolve_conj"), ("is_neg", "resolve_neg")):
        if getattr(tensor, is_lazy, bool)():
            raise call_error(kernel, Diagnostic(
                "wrong-type", f"'{name}' is a view whose memory holds other values than it has",
                (f"{name}.{is_lazy}() is true: Torch negates its elements where it reads them",),
                (f"pass {name}.{resolve}()",)))
    dtype = _torch_dtype(kernel, name, tensor)
    offset = int(tensor.storage_offset()) if hasattr(tensor, "storage_offset") else 0
    kind, device = (ArrayKind.TORCH, int(tensor.device.index)) if tensor.is_cuda else (ArrayKind.TORCH_CPU, -1)
    return ArrayView(kind, int(tensor.data_ptr()), dtype, tuple(tensor.shape), tuple(tensor.stride()),
                     True, device, None, tensor, offset)


def host_tensor_view(kernel: str, name: str, tensor: Any) -> ArrayView:
    """Return the view of a Torch tensor in host memory.

    Raises
    ------
    ArgumentError
        ``wrong-type`` for a tensor with gradients, which would be lost without a word, or one whose elements do not
        lie in memory (sparse, on the meta device).
    """
    if getattr(tensor, "requires_grad", False):
        raise call_error(kernel, Diagnostic(
            "wrong-type", f"'{name}' requires gradients, and a kernel computes none",
            (_type_note(tensor),), (f"pass {name}.detach()",)))
    where, layout = str(getattr(tensor, "device", "?")), str(getattr(tensor, "layout", "?"))
    if where != "cpu" or layout != "torch.strided":
        raise wrong_type(kernel, name, tensor, f"pass {name}.to_dense().cpu()")
    return tensor_view(kernel, name, tensor)


def torch_empty(device: str, dtype: np.dtype[Any], shape: tuple[int, ...], strides: tuple[int, ...], *,
                poison: bool) -> tuple[Any, int]:
    """Return a new Torch tensor on *device*, and its address."""
    torch = importlib.import_module("torch")
    tensor = torch.empty_strided(shape, strides, dtype=getattr(torch, dtype.name), device=device)
    if poison:
        tensor.fill_(float("nan") if is_inexact(dtype) else is_bool(dtype) or -1 % 2**(8 * dtype.itemsize - 1))
    return tensor, int(tensor.data_ptr())


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
