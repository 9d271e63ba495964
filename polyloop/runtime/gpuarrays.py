"""Arrays in GPU memory: which are arguments, and allocation of new ones by the library of the inputs.

Arrays that only describe themselves (``__cuda_array_interface__``, DLPack) get new ones of the library that reaches the
driver.
"""
# ruff: noqa: ANN401  # the arrays of the libraries have no common type

from __future__ import annotations

import ctypes
import functools
import importlib
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final, TypeAlias

import numpy as np

from polyloop.errors import Diagnostic
from polyloop.expr.records import component, field_names, is_record, is_vector, record_name
from polyloop.runtime.cuda.choice import library_of
from polyloop.runtime.cuda.library import CudaLibrary, NoDriverError
from polyloop.runtime.foreign.readers import array_view, numpy_view
from polyloop.runtime.foreign.view import ArrayKind, ArrayView, call_error, element_range, library, row_major
from polyloop.runtime.packed import CurrentStream
from polyloop.runtime.views import Allocator, empty_numpy, poison_torch, torch_allocator

__all__ = ["DeviceMemory", "HostMirror", "current_handle", "current_stream"]


Inside: TypeAlias = Callable[[str, list[ArrayView]], AbstractContextManager[object]]
"""Makes the context that a kernel runs in with these arrays the current one."""
_OF_LIBRARY: Final = frozenset({ArrayKind.PYCUDA, ArrayKind.OWN, ArrayKind.CUDA})
"""Arrays beside which new ones are memory of the library that reaches the driver."""


class DeviceMemory:
    """Views of arrays for a CUDA kernel; NumPy arrays are accepted and copied by the launch.

    Parameters
    ----------
    inside
        The context of a call, in which memory is allocated; None: the current one.
    """

    def __init__(self, inside: Inside | None = None) -> None:
        self._inside = inside

    def view(self, kernel: str, name: str, value: object) -> ArrayView:
        """Return the view of an array in the memory of a GPU, or of a NumPy array."""
        if isinstance(value, np.ndarray):
            return numpy_view(kernel, name, value)
        if library(value) == "torch" and not getattr(value, "is_cuda", True):
            raise _on_host(kernel, name, f"pass {name}.cuda(), or {name}.numpy() to have it copied")
        view = array_view(kernel, name, value)
        if not view.kind.on_device:
            raise _on_host(kernel, name, f"copy '{name}' to the GPU, or pass np.asarray({name}) to have it copied")
        return view

    def allocate(self, kernel: str, kind: ArrayKind, device: int, *, dtype: np.dtype[Any],
                 shape: tuple[int, ...], strides: tuple[int, ...], poison: bool) -> ArrayView:
        """Return a new array of the library *kind*."""
        if kind is ArrayKind.NUMPY:
            array: Any = empty_numpy(dtype, shape, strides, poison=poison)
            pointer = array.__array_interface__["data"][0]
        else:
            like = ArrayView(kind, 0, dtype, shape, strides, True, device, None, None)
            with nullcontext() if self._inside is None or kind not in _OF_LIBRARY else self._inside(kernel, [like]):
                array, pointer = self.allocator(kernel, kind, device, dtype=dtype, shape=shape, strides=strides)()
                if poison:
                    _poison(kind, array, dtype)
        return ArrayView(kind, pointer, dtype, shape, strides, True, device, None, array)

    def allocator(self, kernel: str, kind: ArrayKind, device: int, *, dtype: np.dtype[Any],
                  shape: tuple[int, ...], strides: tuple[int, ...]) -> Allocator:
        """Return a function that allocates arrays of the library *kind* in the memory of a GPU."""
        match kind:
            case ArrayKind.TORCH:
                return torch_allocator(f"cuda:{device}", *_plain(kernel, kind, dtype, shape, strides))
            case ArrayKind.CUPY:
                return _cupy_allocator(device, *_plain(kernel, kind, dtype, shape, strides))
            case ArrayKind.PYCUDA | ArrayKind.OWN | ArrayKind.CUDA:
                return _library_allocator(kernel, kind, dtype, shape, strides)
            case ArrayKind.JAX_CUDA:
                return functools.partial(_jax_empty, kernel, device, *_plain(kernel, kind, dtype, shape, strides))
            case _:
                raise AssertionError(f"{kind} arrays are in no memory of a GPU")


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


def _on_host(kernel: str, name: str, hint: str) -> Exception:
    return call_error(kernel, Diagnostic(
        "wrong-device", f"'{name}' is in host memory, and this kernel runs on the GPU", (), (hint,)))


# {{{ one library each


def _poison(kind: ArrayKind, array: Any, dtype: np.dtype[Any]) -> None:
    """Fill an array that was just allocated with NaN, or all bits; JAX has none of these."""
    if kind is ArrayKind.TORCH:
        poison_torch(array, component(dtype) if is_vector(dtype) else dtype)
    elif kind is not ArrayKind.JAX_CUDA:
        _, high = element_range(array.shape, [step // array.dtype.itemsize for step in array.strides])
        nbytes = high * array.dtype.itemsize
        if kind is ArrayKind.CUPY:
            array.data.memset(0xFF, nbytes)
        else:
            library_of(kind).fill(array.gpudata, 0xFF, nbytes)


def _extent(dtype: np.dtype[Any], shape: tuple[int, ...], strides: tuple[int, ...]) -> tuple[int, tuple[int, ...]]:
    """Return the bytes of a new array, and its strides [bytes]."""
    low, high = element_range(shape, strides)
    assert low == 0, "outputs have no negative strides"
    return max(1, high * dtype.itemsize), tuple(step * dtype.itemsize for step in strides)


def _library_allocator(
    kernel: str, kind: ArrayKind, dtype: np.dtype[Any], shape: tuple[int, ...], strides: tuple[int, ...]
) -> Allocator:
    try:
        library = library_of(kind)
    except (ModuleNotFoundError, NoDriverError) as error:  # a bundle needs neither library
        raise call_error(kernel, Diagnostic(
            "missing-argument", "an output was not passed, and nothing here allocates it",
            (f"arrays of this library say nothing of new ones, and {error}",),
            ("pass all outputs", 'pip install "polyloop[cuda]"'))) from None
    nbytes, in_bytes = _extent(dtype, shape, strides)

    def allocate() -> tuple[Any, int]:
        memory = library.allocate(nbytes)
        return library.array(memory, dtype, shape, in_bytes), int(memory)

    return allocate


def _cupy_allocator(
    device: int, dtype: np.dtype[Any], shape: tuple[int, ...], strides: tuple[int, ...]
) -> Allocator:
    cupy, (nbytes, in_bytes) = importlib.import_module("cupy"), _extent(dtype, shape, strides)
    place, chosen = cupy.cuda.Device, max(0, device)

    def allocate() -> tuple[Any, int]:
        with place(chosen):
            memory = cupy.cuda.alloc(nbytes)
            return cupy.ndarray(shape, dtype, memptr=memory, strides=in_bytes), int(memory.ptr)

    return allocate


def _jax_empty(
    kernel: str, device: int, dtype: np.dtype[Any], shape: tuple[int, ...], strides: tuple[int, ...]
) -> tuple[Any, int]:
    """Return a new JAX array, which the kernel fills before JAX reads it."""
    jax = importlib.import_module("jax")
    if strides != row_major(shape) or jax.dtypes.canonicalize_dtype(dtype) != dtype:
        raise call_error(kernel, Diagnostic(
            "missing-argument", "an output was not passed, and JAX cannot hold it",
            (f"it has type {dtype}, and strides {strides} for the shape {shape}",),
            ("pass it as an array of another library, or set jax_enable_x64 for types of 64 bits",)))
    place = next(place for place in jax.devices("gpu") if place.local_hardware_id == device)
    array = jax.numpy.zeros(shape, dtype, device=place).block_until_ready()
    return array, int(array.unsafe_buffer_pointer())

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

    def __init__(self, library: CudaLibrary, view: ArrayView, *, fill: bool) -> None:
        self._library = library
        low, _ = element_range(view.shape, view.strides)
        begin, end = view.byte_range()
        self._view, self._first = view, -low * view.dtype.itemsize
        self._size = end - begin
        self._memory = library.allocate(max(1, self._size))
        self.pointer = int(self._memory) - low * view.dtype.itemsize
        memory = memoryview((ctypes.c_char * self._size).from_address(begin))
        self._host = np.frombuffer(memory, np.uint8) if self._size else None
        if fill and self._host is not None:
            library.copy_in(self._memory, self._host)

    def copy_back(self) -> None:
        """Copy the elements back to the NumPy array, but no bytes between them, which may belong to another array."""
        if self._host is None:
            return
        if self._view.size * self._view.dtype.itemsize == self._size:
            self._library.copy_out(self._host, self._memory)
            return
        whole = np.empty(self._size, np.uint8)
        self._library.copy_out(whole, self._memory)
        self._elements(self._host)[...] = self._elements(whole)

    def _elements(self, memory: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        strides = tuple(stride * self._view.dtype.itemsize for stride in self._view.strides)
        return np.ndarray(self._view.shape, self._view.dtype, memory, self._first, strides)

    def free(self) -> None:
        """Give the GPU memory back."""
        self._memory.free()
