"""Kernels inside of JAX programs: a handler of XLA's foreign function interface around the compiled function.

The handler is a C function in the kernel's library.  It takes buffers of XLA as they are, and sizes as an attribute:
shapes are known when JAX traces.  Under ``vmap`` buffers have more axes in front, for which it goes through batches.
"""
# ruff: noqa: ANN401  # arrays of JAX, and tracers

from __future__ import annotations

import ctypes
import functools
import hashlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from threading import RLock
from typing import Any, Final

import numpy as np

from polyloop.errors import ArgumentError, CompilerError, Diagnostic, PolyloopError
from polyloop.export.interface import Array, Number
from polyloop.interop.gradients import PREFIX, Backward, Gradients, derived, no_gradient
from polyloop.interop.jaxgpu import OnGpu, gpu_target, has_gpu, is_on_gpu
from polyloop.interop.native import Native
from polyloop.interop.operands import Operands, abstract, for_the_processor, library_of, use_error
from polyloop.kernel.kernel import LoopKernel
from polyloop.runtime.ccompile import open_library
from polyloop.runtime.foreign.readers import is_traced
from polyloop.runtime.foreign.view import ArrayKind, library, row_major
from polyloop.target.base import Target

__all__ = ["JaxFunction", "call"]

_STEP: Final = "jax.call"
_HEADER: Final = "xla/ffi/api/c_api.h"
_DTYPES: Final = {
    "bool": "PRED", "int8": "S8", "int16": "S16", "int32": "S32", "int64": "S64", "uint8": "U8", "uint16": "U16",
    "uint32": "U32", "uint64": "U64", "float16": "F16", "bfloat16": "BF16", "float32": "F32", "float64": "F64",
    "complex64": "C64", "complex128": "C128", "float8_e4m3fn": "F8E4M3FN", "float8_e5m2": "F8E5M2",
}  # fmt: skip
_HANDLER: Final = r"""
#include <stdio.h>
#include <string.h>

/* For each parameter: the operand that it is read from, the result that it is written to, or -1; its own axes; bytes
   of an element; its type; whether it is a number. */
static const struct { int operand, result, axes, bytes, dtype, number; } @_places[] = {
    {PLACES}
};

static XLA_FFI_Error *@_error(XLA_FFI_CallFrame *frame, const char *text)
{
    char message[1024];
    XLA_FFI_Error_Create_Args made = {0};
    snprintf(message, sizeof message, "kernel '%s': %s", "{KERNEL}", text);
    made.struct_size = sizeof made;
    made.message = message;
    made.errc = XLA_FFI_Error_Code_INVALID_ARGUMENT;
    return frame->api->XLA_FFI_Error_Create(&made);
}

/* Whether XLA only asks for the version, and the answer. */
static int @_is_asked(XLA_FFI_CallFrame *frame)
{
    __typeof__(frame->extension_start) extension = frame->extension_start; /* its name is another one in jaxlib 0.11 */
    if (extension == NULL || extension->type != XLA_FFI_Extension_Metadata)
        return 0;
    XLA_FFI_Metadata *metadata = ((XLA_FFI_Metadata_Extension *)extension)->metadata;
    metadata->api_version.major_version = XLA_FFI_API_MAJOR;
    metadata->api_version.minor_version = XLA_FFI_API_MINOR;
    return 1;
}

XLA_FFI_Error *@_elsewhere(XLA_FFI_CallFrame *frame)
{
    if (@_is_asked(frame))
        return NULL;
    return @_error(frame, "{REASON}");
}

/* Bytes between places along the leading axes of a buffer, of which those with one place are broadcast. */
static void @_steps(const XLA_FFI_Buffer *buffer, int own, int64_t bytes, int64_t axes, int64_t *steps)
{
    const int64_t leading = buffer->rank - own;
    int64_t axis, step = bytes;
    for (axis = buffer->rank - 1; axis >= leading; --axis)
        step *= buffer->dims[axis];
    for (axis = 0; axis < axes; ++axis)
        steps[axis] = 0;
    for (axis = leading - 1; axis >= 0; --axis) {
        if (buffer->dims[axis] != 1)
            steps[axes - leading + axis] = step;
        step *= buffer->dims[axis];
    }
}

XLA_FFI_Error *@_handler(XLA_FFI_CallFrame *frame)
{
    enum { COUNT = {COUNT}, MOST = 32 };
    char *data[COUNT];
    {BEGIN}
    int64_t steps[COUNT * MOST], shape[MOST] = {1}, axes, axis, number, rest, total = 1;
    const int64_t *sizes = NULL;
    const XLA_FFI_Buffer *first = NULL;
    int each, status;
    if (@_is_asked(frame))
        return NULL;
    for (number = 0; number < frame->attrs.size; ++number)
        if (frame->attrs.names[number]->len == 5 && memcmp(frame->attrs.names[number]->ptr, "sizes", 5) == 0
            && frame->attrs.types[number] == XLA_FFI_AttrType_ARRAY)
            sizes = ((XLA_FFI_Array *)frame->attrs.attrs[number])->data;
    if (sizes == NULL || frame->args.size != {OPERANDS} || frame->rets.size != {RESULTS})
        return @_error(frame, "called with other operands than it was made for");
    {ENTER}
    for (each = 0; each < COUNT && @_places[each].result < 0; ++each)
        continue;
    first = each < COUNT ? frame->rets.rets[@_places[each].result] : NULL;
    axes = first == NULL ? 0 : first->rank - @_places[each].axes;
    if (axes < 0 || axes > MOST) {
        {FINISH}
        return @_error(frame, "called with other axes than it was made for");
    }
    for (axis = 0; axis < axes; ++axis)
        total *= shape[axis] = first->dims[axis];
    for (each = 0; each < COUNT; ++each) {
        const int operand = @_places[each].operand, result = @_places[each].result, own = @_places[each].axes;
        const XLA_FFI_Buffer *buffer = result >= 0 ? frame->rets.rets[result] : frame->args.args[operand];
        if ((int)buffer->dtype != @_places[each].dtype || buffer->rank < own || buffer->rank - own > axes) {
            {FINISH}
            return @_error(frame, "called with other types or axes than it was made for");
        }
        data[each] = buffer->data;
        @_steps(buffer, own, @_places[each].bytes, axes, steps + each * axes);
        if (operand >= 0 && result >= 0) { /* a value that the kernel changes: the result begins as a copy */
            const XLA_FFI_Buffer *from = frame->args.args[operand];
            int64_t read[MOST], bytes = @_places[each].bytes;
            @_steps(from, own, bytes, axes, read);
            for (axis = buffer->rank - own; axis < buffer->rank; ++axis)
                bytes *= buffer->dims[axis];
            for (number = 0; number < total && bytes > 0 && from->data != buffer->data; ++number) {
                char *to = buffer->data;
                const char *source = from->data;
                for (rest = number, axis = axes - 1; axis >= 0; rest /= shape[axis], --axis) {
                    to += rest % shape[axis] * steps[each * axes + axis];
                    source += rest % shape[axis] * read[axis];
                }
                {COPY}
            }
        }
    }
    {PREPARE}
    status = @_batches(axes, shape, data, steps, sizes);
    {FINISH}
    return status == 0 ? NULL : @_error(frame, @_status_text(status));
}
"""


_ON_CPU: Final = {"BEGIN": "", "ENTER": "", "COPY": "memcpy(to, source, (size_t)bytes);", "PREPARE": "", "FINISH": ""}
_ELSEWHERE: Final = (
    "polyloop.jax.call runs on the CPU, and its arrays are on a GPU [wrong-device]; "
    "move them: jax.device_put(x, jax.devices('cpu')[0])")


def call(kernel: LoopKernel, *, backward: Backward = None, target: Target | None = None) -> JaxFunction:
    """Return *kernel* as a function of JAX arrays, to be used inside of ``jax.jit``, ``jax.vmap`` and ``jax.grad``.

    ::

        layer = polyloop.jax.call(knl)

        y = run(w=np.asarray(w), x=np.asarray(x)).y          # before: outside of JAX, without derivatives
        y = jax.jit(lambda w, x: jnp.sin(layer(w, x)))(w, x)  # after
        jax.grad(lambda w: layer(w, x).sum())(w)

    The compiled function is a custom call of XLA on the CPU, and where JAX has an NVIDIA GPU on that, too: then it is
    launched on XLA's stream, from C.  Arrays that the kernel reads and writes are not changed: the result is a new
    array.  Under ``vmap`` all batches run in one call, and what is not mapped is not copied.  On a GPU, a kernel with
    numbers waits for these, as JAX has them in the memory of the GPU.

    Parameters
    ----------
    kernel
        With the types of all arguments; its arrays are in C order, as those of JAX are.
    backward
        A kernel that computes gradients.  It reads arguments of *kernel* and its outputs by their names, and
        ``grad_<output>``; it writes ``grad_<input>``.  By default it is that of :func:`polyloop.differentiate`, for
        arrays and numbers; a kernel that cannot be differentiated refuses gradients, as with False all do.
    target
        A ``pl.CTarget(..)``, for the CPU; by default that of the kernel, or C.  For the GPU it is ``pl.CudaTarget`` of
        the GPU's architecture.

    Returns
    -------
    JaxFunction
        Called with arrays and numbers by position, in the order of the kernel's declaration, or by name.

    Raises
    ------
    ArgumentError
        ``needs-c-target``, ``unknown-dtype``, ``wrong-backward``, ``wrong-dtype``.
    CompilerError
        ``no-library``; as :func:`polyloop.compile`.
    VerificationError, CodegenError
        As :func:`polyloop.export`.
    """
    library_of(_STEP, "jax.ffi")
    forward = Operands(_STEP, kernel, for_the_processor(_STEP, kernel, target))
    if backward is None:
        return JaxFunction(forward, derived(forward, forward.target, with_numbers=True))
    if backward is False:
        return JaxFunction(forward, None)
    return JaxFunction(forward, Gradients(
        forward, Operands(_STEP, backward, for_the_processor(_STEP, backward, target))))


class JaxFunction:
    """A kernel as a function of JAX; made by :func:`polyloop.jax.call`.

    A call takes the arrays that the kernel reads and its numbers, by position or by name, and sizes that do not follow
    from shapes by name, as integers of Python.  It returns the output, or a tuple of the outputs in their order.

    It raises :class:`ArgumentError` where the arguments do not fit the kernel: when JAX traces, for all that follows
    from shapes and types.  What depends on addresses is checked when it runs, and is an error of JAX then.
    """

    def __init__(self, forward: Operands, gradients: Gradients | str | None) -> None:
        self._forward, self._given = forward, gradients
        self._gradients = gradients if isinstance(gradients, Gradients) else None
        self._custom = _Call(forward)
        self._back = None if self._gradients is None else _Call(self._gradients.backward)

    def __repr__(self) -> str:
        return f"<JAX function of '{self._forward.kernel.name}': {', '.join(self._forward.operands)}>"

    @property
    def outputs(self) -> tuple[str, ...]:
        """Names of what a call returns, in their order."""
        return tuple(array.name for array in self._forward.outputs)

    def __call__(self, /, *given: Any, **arguments: Any) -> Any:
        """Call the kernel."""
        operands, sizes = self._forward.named(given, arguments)
        jax = library_of(_STEP, "jax")
        place: Any = nullcontext()
        if not any(is_traced(value) or is_on_gpu(value) for value in operands.values()):
            # arrays of NumPy and numbers go to the CPU
            place = jax.default_device(jax.devices("cpu")[0])
        with place:
            found = self._differentiable(tuple(sorted(sizes.items())))(*self._custom.converted(operands))
        return found[0] if len(found) == 1 else found

    @functools.lru_cache(maxsize=64)  # noqa: B019 - as long as the function lives, which JAX keeps by what it returns
    def _differentiable(self, sizes: tuple[tuple[str, int], ...]) -> Callable[..., tuple[Any, ...]]:
        """Return the function of all operands, with its derivative."""
        jax, given = library_of(_STEP, "jax"), dict(sizes)
        forward, gradients, custom = self._forward, self._gradients, self._custom

        def plain(*operands: Any) -> tuple[Any, ...]:
            return custom(operands, given)

        def run(*primals: Any) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
            differentiable = frozenset[str]() if gradients is None else gradients.differentiable
            for name, primal in zip(forward.operands, primals, strict=True):
                if primal.perturbed and name not in differentiable and _is_inexact(primal.value):
                    raise no_gradient(forward, name, self._given)
            values = tuple(primal.value for primal in primals)
            results = custom(values, given)
            return results, (values, results)

        def back(kept: tuple[Any, ...], cotangents: tuple[Any, ...]) -> tuple[Any, ...]:
            assert gradients is not None, "a gradient without a kernel was refused"
            assert self._back is not None, "a kernel for gradients is compiled"
            values, results = kept
            known = dict(zip(forward.operands, values, strict=True))
            for array, result, cotangent in zip(forward.outputs, results, cotangents, strict=True):
                known[array.name] = result
                is_zero = type(cotangent).__name__ == "SymbolicZero"
                known[f"{PREFIX}{array.name}"] = jax.numpy.zeros_like(result) if is_zero else cotangent
            backward = gradients.backward
            found = self._back([known[name] for name in backward.operands],
                               {name: size for name, size in given.items() if name in backward.sizes})
            made = {array.name.removeprefix(PREFIX): value
                    for array, value in zip(backward.outputs, found, strict=True)}
            return tuple(made[name].reshape(known[name].shape) if name in made else None for name in forward.operands)

        function = jax.custom_vjp(plain)
        function.defvjp(run, back, symbolic_zeros=True)
        found: Callable[..., tuple[Any, ...]] = function
        return found


def _is_inexact(value: Any) -> bool:
    return np.dtype(value.dtype).kind in "fcV"  # V: those of ml_dtypes


class _Call:
    """One custom call of XLA."""

    def __init__(self, operands: Operands) -> None:
        self._operands, self._native = operands, Native(operands)
        for name in (*operands.operands, *(array.name for array in operands.outputs)):
            if operands.dtype(name).name not in _DTYPES:
                raise use_error(_STEP, operands.kernel.name, "wrong-dtype",
                              f"'{name}' has type {operands.dtype(name)}, which JAX does not have",
                              hint=f"types of JAX: {', '.join(_DTYPES)}")
        outputs = {array.name for array in operands.outputs}
        for entry in self._native.parameters:
            if entry.name not in {*operands.operands, *outputs}:
                raise use_error(_STEP, operands.kernel.name, "missing-argument",
                              f"'{entry.name}' is neither read nor returned", hint="make it a temporary variable")
        self.runs_on: tuple[str, ...] = ("cpu",)
        self._reason = _ELSEWHERE
        on_gpu = self._for_the_gpu() if has_gpu() else None
        text = self._text(self._native, {**_ON_CPU, "REASON": self._reason})
        with _REGISTERING:  # a name has one handler
            self._name = _registered(text, self._native.interface.prefix, on_gpu)

    def _for_the_gpu(self) -> tuple[str, Any] | None:
        """Return the source and the function of the handler that launches the kernel.

        None, and keep the reason, where it cannot be made.
        """
        mine = self._operands
        try:
            operands = Operands(_STEP, mine.kernel, gpu_target(mine.kernel))
            native = OnGpu.of(operands)
            text = self._text(native, native.parts)
            handler = native.handler(text)
        except PolyloopError as error:
            self._reason = f"polyloop.jax.call cannot run on this GPU: {error.found[0].message} [{error.codes[0]}]"
            return None
        self.runs_on = ("cpu", "gpu")
        return text, handler

    def _text(self, native: Native, parts: Mapping[str, str]) -> str:
        """Return the source of a library, with the parts of the handler that depend on where it runs."""
        operands = self._operands
        header = Path(library_of(_STEP, "jax.ffi").include_dir()) / _HEADER
        rows = ", ".join(self._place(entry) for entry in native.parameters)
        found = _HANDLER
        for name, value in {
            "PLACES": rows, "KERNEL": operands.kernel.name, "COUNT": len(native.parameters),
            "OPERANDS": len(operands.operands), "RESULTS": len(operands.outputs), **parts,
        }.items():  # fmt: skip
            found = found.replace(f"{{{name}}}", str(value))
        return header.read_text(encoding="utf-8") + native.text + found.replace("@", native.interface.prefix)

    def _place(self, entry: Array | Number) -> str:
        operands = self._operands
        outputs = [array.name for array in operands.outputs]
        operand = operands.operands.index(entry.name) if entry.name in operands.operands else -1
        result = outputs.index(entry.name) if entry.name in outputs else -1
        dtype = self._dtype(entry.name)
        axes = len(entry.shape) if isinstance(entry, Array) else 0
        is_number = int(isinstance(entry, Number))
        return f"{{{operand}, {result}, {axes}, {dtype.itemsize}, XLA_FFI_DataType_{_DTYPES[dtype.name]}, {is_number}}}"

    def _dtype(self, name: str) -> np.dtype[Any]:
        """Return the type of a buffer: that of an array, or in which a number is passed."""
        numbers = {number.name: number.dtype for number in self._operands.numbers}
        return numbers.get(name) or self._operands.dtype(name)

    def converted(self, given: Mapping[str, Any]) -> list[Any]:
        """Return operands as arrays of JAX.

        Raises
        ------
        ArgumentError
            ``wrong-type``, ``wrong-dtype``, ``wrong-device``.
        """
        numbers = {number.name: number for number in self._operands.numbers}
        return [self._number(numbers[name], given[name]) if name in numbers else self._array(name, given[name])
                for name in self._operands.operands]

    def _number(self, number: Any, value: Any) -> Any:
        jnp = library_of(_STEP, "jax.numpy")
        if library(value) == "jax":
            if value.ndim:
                raise use_error(_STEP, self._operands.kernel.name, "wrong-type", f"'{number.name}' must be a number",
                              f"its shape is {value.shape}", hint="pass one number, or map over it: jax.vmap")
            adapts = value.weak_type and np.can_cast(value.dtype, number.dtype, "same_kind")
            if value.dtype != number.dtype and not adapts:
                raise use_error(_STEP, self._operands.kernel.name, "wrong-dtype",
                              f"'{number.name}' has dtype {value.dtype}, expected {number.dtype}",
                              hint=f"pass {number.name}.astype(jnp.{number.dtype})")
            return value.astype(number.dtype)
        number.convert(value)  # refuses what is no such number
        return self._as_declared(number.name, jnp.asarray(value, number.dtype), number.dtype)

    def _array(self, name: str, value: Any) -> Any:
        if library(value) != "jax" and not isinstance(value, np.ndarray):
            raise use_error(_STEP, self._operands.kernel.name, "wrong-type",
                          f"'{name}' must be an array of JAX or NumPy",
                          f"it is a {type(value).__module__}.{type(value).__qualname__}",
                          hint=f"pass jnp.asarray({name})")
        if not is_traced(value) and library(value) == "jax":
            platforms = {place.platform for place in value.devices()}
            if not platforms <= {*self.runs_on}:
                raise use_error(_STEP, self._operands.kernel.name, "wrong-device",
                              f"'{name}' is on {', '.join(sorted(platforms))}, and this runs on the CPU", self._reason,
                              hint=f"pass jax.device_put({name}, jax.devices('cpu')[0])")
        dtype = self._operands.dtype(name)
        if value.dtype != dtype:
            raise self._wrong_dtype(name, value.dtype, dtype)
        return self._as_declared(name, library_of(_STEP, "jax.numpy").asarray(value), dtype)

    def _as_declared(self, name: str, array: Any, dtype: np.dtype[Any]) -> Any:
        if array.dtype != dtype:
            raise self._wrong_dtype(name, array.dtype, dtype)
        return array

    def _wrong_dtype(self, name: str, found: Any, dtype: np.dtype[Any]) -> ArgumentError:
        is_wide = dtype.itemsize > (8 if dtype.kind == "c" else 4)
        hint = 'jax.config.update("jax_enable_x64", True), and ' if is_wide else ""
        return use_error(_STEP, self._operands.kernel.name, "wrong-dtype",
                       f"'{name}' has dtype {found}, expected {dtype}",
                       hint=f"{hint}pass {name}.astype(jnp.{dtype})")

    def __call__(self, operands: Sequence[Any], given: Mapping[str, int]) -> tuple[Any, ...]:
        """Return the outputs for operands in their order."""
        jax, mine = library_of(_STEP, "jax"), self._operands
        arrays = {array.name: array for array in mine.inputs}
        views = {name: abstract(ArrayKind.JAX, np.dtype(value.dtype), value.shape)
                 for name, value in zip(mine.operands, operands, strict=True) if name in arrays}
        sizes, layouts = mine.shapes(views, given)
        shapes = {name: view.shape for name, view in views.items()}
        shapes |= {name: shape for name, (shape, _) in layouts.items()}
        for name, (shape, strides) in layouts.items():
            if min(shape, default=0) < 0 or (0 not in shape and strides != row_major(shape)):
                raise use_error(_STEP, mine.kernel.name, "wrong-strides",
                              f"'{name}' has the shape {shape} and the strides {strides}",
                              "arrays of JAX are in C order without gaps", hint=f"declare '{name}' so")
        results = []
        for array in mine.outputs:
            dtype = mine.dtype(array.name)
            if jax.dtypes.canonicalize_dtype(dtype) != dtype:
                raise self._wrong_dtype(array.name, jax.dtypes.canonicalize_dtype(dtype), dtype)
            results.append(jax.ShapeDtypeStruct(shapes[array.name], dtype))
        numbers = np.array([*(sizes[name] for name in self._native.sizes), 0], np.int64)
        found = jax.ffi.ffi_call(self._name, results, vmap_method="expand_dims")(*operands, sizes=numbers)
        return tuple(found)


_REGISTERING: Final = RLock()


def _registered(text: str, prefix: str, on_gpu: tuple[str, Any] | None) -> str:
    """Compile *text*, register its handlers with JAX, and return the name of the target; of one text there is one."""
    digest = hashlib.sha256((text + ("" if on_gpu is None else on_gpu[0])).encode()).hexdigest()[:16]
    name = f"polyloop_{prefix}_{digest}{'' if on_gpu is None else '_gpu'}"
    if name in _LOADED:
        return name
    ffi, loaded = library_of(_STEP, "jax.ffi"), open_library(text)
    there = _function(loaded, f"{prefix}_elsewhere") if on_gpu is None else on_gpu[1]
    try:
        ffi.register_ffi_target(name, ffi.pycapsule(_function(loaded, f"{prefix}_handler")), platform="cpu")
        ffi.register_ffi_target(name, ffi.pycapsule(there), platform="CUDA")
    except Exception as error:
        raise CompilerError(_STEP, None, [Diagnostic(
            "cannot-load", "JAX does not take the kernel's handler", (f"{type(error).__name__}: {error}",),
            ("the versions of jax and jaxlib must fit one another",))]) from error
    _LOADED[name] = loaded
    return name


_LOADED: Final[dict[str, ctypes.CDLL]] = {}
"""Libraries whose functions JAX may call until the process ends, by the names of their targets."""


def _function(loaded: ctypes.CDLL, name: str) -> Any:
    return getattr(loaded, name)
