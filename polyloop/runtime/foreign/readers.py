"""The one way from an argument to its view, for the arrays of all libraries."""
# ruff: noqa: ANN401  # the arrays of the libraries have no common type

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import numpy as np

from polyloop.errors import Diagnostic
from polyloop.kernel.passed import masked_problem
from polyloop.runtime.foreign.capsule import CUDA_DEVICES, HOST_DEVICES, dlpack_view, lent_device
from polyloop.runtime.foreign.view import ArrayKind, ArrayView, call_error, library, row_major, type_note, wrong_type

__all__ = ["array_view", "is_device_array", "is_traced", "needs_gradient", "numpy_view", "tensor_view",
           "torch_dtype"]


def array_view(kernel: str, name: str, value: object) -> ArrayView:
    """Return the view of an array of any library, in the memory of the host or of a GPU; nothing is copied.

    NumPy, Torch, CuPy and PyCUDA arrays are read by their attributes, JAX arrays and those of other libraries through
    DLPack or ``__cuda_array_interface__`` (Numba).

    Raises
    ------
    ArgumentError
        ``wrong-type``, ``wrong-dtype``, ``wrong-strides``, ``wrong-device``.
    """
    view = _viewed(kernel, name, value)
    if not view.pointer and view.size:
        raise call_error(kernel, Diagnostic(
            "wrong-type", f"'{name}' has no memory that holds its elements", (type_note(value),),
            (f"pass a copy of '{name}', whose elements are stored",)))
    return view


def _viewed(kernel: str, name: str, value: object) -> ArrayView:
    if isinstance(value, np.ndarray):
        return numpy_view(kernel, name, value)
    read = _READERS.get(library(value))
    if read is not None:
        return read(kernel, name, value)
    where = lent_device(value)
    if hasattr(type(value), "__cuda_array_interface__") and (where is None or where[0] in CUDA_DEVICES):
        return _interface_view(kernel, name, value)
    if where is not None and hasattr(type(value), "__dlpack__"):
        return dlpack_view(kernel, name, value, (ArrayKind.HOST, ArrayKind.CUDA))
    raise wrong_type(kernel, name, value, f"pass np.asarray({name})")


def is_device_array(value: object) -> bool:
    """Return whether *value* says that its data are in the memory of a GPU."""
    if library(value) == "torch":
        return bool(getattr(value, "is_cuda", False))
    if library(value) == "jax":
        lies: Any = value
        return not is_traced(value) and not lies.is_deleted() and {p.platform for p in lies.devices()} != {"cpu"}
    where = lent_device(value)
    if where is not None:
        return where[0] not in HOST_DEVICES
    return hasattr(type(value), "__cuda_array_interface__")


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


# {{{ Torch


def torch_dtype(kernel: str, name: str, tensor: Any) -> np.dtype[Any]:
    """Return the type of the elements of a tensor."""
    text = str(tensor.dtype).removeprefix("torch.")
    try:
        return np.dtype(text)
    except TypeError:
        raise call_error(kernel, Diagnostic(
            "wrong-dtype", f"'{name}' has dtype {tensor.dtype}, which NumPy does not have", (),
            (f"pass {name}.to() of a type that the kernel declares",))) from None


def needs_gradient(tensor: Any) -> bool:
    """Return whether Torch would have to record what happens to *tensor*."""
    return bool(getattr(tensor, "requires_grad", False)) and importlib.import_module("torch").is_grad_enabled()


def tensor_view(kernel: str, name: str, tensor: Any) -> ArrayView:
    """Return the view of a Torch tensor, in the memory of a GPU or of the host.

    Raises
    ------
    ArgumentError
        ``wrong-type`` for a tensor with gradients, which would be lost without a word, for one whose elements do not
        lie in memory (sparse, nested, on the meta device, a lazily negated or conjugated view); ``wrong-dtype`` for a
        type that NumPy does not have; ``wrong-device`` for another device.
    """
    if not hasattr(tensor, "data_ptr"):
        raise wrong_type(kernel, name, tensor, "pass a torch.Tensor")
    if needs_gradient(tensor):
        raise call_error(kernel, Diagnostic(
            "wrong-type", f"'{name}' requires gradients, and a kernel computes none",
            (type_note(tensor),),
            (f"pass {name}.detach(), or call the kernel under torch.no_grad()",
             "polyloop.torch.custom_op(knl, .., backward=) makes an operator with gradients")))
    where, layout = str(getattr(tensor, "device", "cpu")), str(getattr(tensor, "layout", "torch.strided"))
    if where == "meta":
        raise wrong_type(kernel, name, tensor, "it has no elements: pass a tensor on the CPU or a GPU")
    if layout != "torch.strided":
        raise wrong_type(kernel, name, tensor, f"pass {name}.to_dense()")
    if getattr(tensor, "is_nested", False):
        raise wrong_type(kernel, name, tensor, f"it is nested: pass {name}.to_padded_tensor(0.0)")
    if not tensor.is_cuda and where != "cpu":
        raise call_error(kernel, Diagnostic(
            "wrong-device", f"'{name}' is on the device {where}, where no kernel runs", (), (f"pass {name}.cpu()",)))
    for is_lazy, resolve in (("is_conj", "resolve_conj"), ("is_neg", "resolve_neg")):
        if getattr(tensor, is_lazy, bool)():
            raise call_error(kernel, Diagnostic(
                "wrong-type", f"'{name}' is a view whose memory holds other values than it has",
                (f"{name}.{is_lazy}() is true: Torch negates its elements where it reads them",),
                (f"pass {name}.{resolve}()",)))
    dtype = torch_dtype(kernel, name, tensor)
    try:
        pointer = int(tensor.data_ptr())
    except RuntimeError as error:
        raise call_error(kernel, Diagnostic(
            "wrong-type", f"'{name}' stands for tensors that have no memory here",
            (type_note(tensor), f"{type(error).__name__}: {str(error).strip()[:200]}"),
            ("inside of torch.vmap and torch.func, call an operator: polyloop.torch.custom_op(knl, ..)",))) from error
    offset = int(tensor.storage_offset()) if hasattr(tensor, "storage_offset") else 0
    kind, device = (ArrayKind.TORCH, int(tensor.device.index)) if tensor.is_cuda else (ArrayKind.TORCH_CPU, -1)
    return ArrayView(kind, pointer, dtype, tuple(tensor.shape), tuple(tensor.stride()),
                     True, device, None, tensor, offset)

# }}}


# {{{ other libraries


def is_traced(array: object) -> bool:
    """Return whether *array* stands for the arrays that a function of JAX will get."""
    return library(array) == "jax" and isinstance(array, importlib.import_module("jax").core.Tracer)


def _jax_view(kernel: str, name: str, array: Any) -> ArrayView:
    """Return the view of a JAX array, once its values are there; it is read-only."""
    if is_traced(array):
        raise call_error(kernel, Diagnostic(
            "wrong-type", f"'{name}' is traced by JAX, and has no values here", (type_note(array),),
            ("inside of jax.jit, jax.vmap and jax.grad, call polyloop.jax.call(knl)",)))
    if not hasattr(array, "unsafe_buffer_pointer"):
        raise wrong_type(kernel, name, array, "pass a jax.Array")
    try:
        dtype = np.dtype(array.dtype)
    except TypeError:
        raise call_error(kernel, Diagnostic(
            "wrong-dtype", f"'{name}' has dtype {array.dtype}, which NumPy does not have", (),
            (f"pass {name}.astype() of a type that the kernel declares",))) from None
    if array.is_deleted():
        raise wrong_type(kernel, name, array, f"'{name}' was deleted, or donated to a function: pass another array")
    if len(places := array.devices()) > 1:
        raise call_error(kernel, Diagnostic(
            "wrong-device", f"'{name}' is spread over {len(places)} devices", (),
            (f"pass jax.device_put({name}, jax.devices()[0])",)))
    array.block_until_ready()
    view = dlpack_view(kernel, name, array, (ArrayKind.JAX, ArrayKind.JAX_CUDA))
    return ArrayView(view.kind, view.pointer, dtype, view.shape, view.strides, False, view.device, None,
                     view.owner)


def _elements(kernel: str, name: str, strides: Iterable[int], dtype: np.dtype[Any]) -> tuple[int, ...]:
    """Return strides in elements for strides in bytes."""
    in_bytes = tuple(strides)
    if any(stride % dtype.itemsize for stride in in_bytes):
        raise call_error(kernel, Diagnostic(
            "wrong-strides", f"the elements of '{name}' are not a whole number of elements apart",
            (f"its strides are {in_bytes} bytes, its elements have {dtype.itemsize} bytes",),
            (f"pass a copy of '{name}'",)))
    return tuple(stride // dtype.itemsize for stride in in_bytes)


def _pycuda_view(kernel: str, name: str, array: Any, kind: ArrayKind = ArrayKind.PYCUDA) -> ArrayView:
    if not hasattr(array, "gpudata"):
        hint = f"pass np.asarray({name})" if kind is ArrayKind.OWN else "pass a pycuda.gpuarray.GPUArray"
        raise wrong_type(kernel, name, array, hint)
    pointer = 0 if array.gpudata is None else int(array.gpudata)
    dtype = np.dtype(array.dtype)
    return ArrayView(kind, pointer, dtype, tuple(array.shape),
                     _elements(kernel, name, array.strides, dtype), True, -1, None, array)


def _own_view(kernel: str, name: str, array: Any) -> ArrayView:
    """Return the view of an array of ours, or of one that is lent (:mod:`polyloop.runtime.foreign.lending`)."""
    if hasattr(type(array), "__dlpack__") and hasattr(array, "array"):
        return _viewed(kernel, name, array.array)
    return _pycuda_view(kernel, name, array, ArrayKind.OWN)


def _cupy_view(kernel: str, name: str, array: Any) -> ArrayView:
    if not hasattr(array, "data") or not hasattr(array.data, "ptr"):
        raise wrong_type(kernel, name, array, "pass a cupy.ndarray")
    dtype = np.dtype(array.dtype)
    return ArrayView(ArrayKind.CUPY, int(array.data.ptr), dtype, tuple(array.shape),
                     _elements(kernel, name, array.strides, dtype), True, int(array.device.id), None, array)


def _interface_view(kernel: str, name: str, array: Any) -> ArrayView:
    """Return the view that ``__cuda_array_interface__`` describes, version 2 or 3."""
    interface = array.__cuda_array_interface__
    if interface.get("mask") is not None:
        raise wrong_type(kernel, name, array, "a kernel reads masked elements too: pass an array without a mask")
    pointer, read_only = interface["data"]
    dtype = np.dtype(interface["typestr"])
    if dtype.kind == "V" and interface.get("descr"):
        dtype = _described(interface["descr"])
    shape = tuple(int(extent) for extent in interface["shape"])
    given = interface.get("strides")
    strides = row_major(shape) if given is None else _elements(kernel, name, given, dtype)
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
    kind, device = lent_device(array) or (-1, -1)
    return device if kind in CUDA_DEVICES else -1


_READERS: Final[Mapping[str, Callable[[str, str, Any], ArrayView]]] = {
    "torch": tensor_view,
    "jax": _jax_view,
    "cupy": _cupy_view,
    "polyloop": _own_view,
    "pycuda": _pycuda_view,
}

# }}}
