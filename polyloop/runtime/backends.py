"""Compiled programs of each target: binding of arguments, and launches."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NoReturn, TypeAlias

import numpy as np

from polyloop.codegen.program import DeviceLaunch, GeneratedProgram
from polyloop.errors import CompilerError, Diagnostic
from polyloop.expr.dtypes import computed, is_integer, is_narrow
from polyloop.expr.records import field_dtype, field_names, field_offset, is_record, record_name
from polyloop.kernel.arrays import ArrayArg, ValueArg
from polyloop.runtime.arguments import Binder, Binding, allocating, convert_scalar
from polyloop.runtime.ccompile import open_library
from polyloop.runtime.checked import checked_library, is_checked, raise_faults
from polyloop.runtime.cuda.cooperative import gpu_module
from polyloop.runtime.nvrtc import CompiledCuda, compile_cuda
from polyloop.runtime.opencl.programs import OpenCLBackend
from polyloop.runtime.packed import NOTHING, Free, Fresh, Launch, PackedCall, Passed, passing
from polyloop.runtime.views import Allocating, ArrayKind, ArrayView, HostMemory, call_error

__all__ = ["Backend", "CBackend", "CudaBackend", "free_numbers", "make_backend"]


class _ComplexFloat(ctypes.Structure):
    _fields_ = (("re", ctypes.c_float), ("im", ctypes.c_float))


class _ComplexDouble(ctypes.Structure):
    _fields_ = (("re", ctypes.c_double), ("im", ctypes.c_double))


# A C complex number is passed like a structure of two: System V AMD64 ABI section 3.2.3, AAPCS64 section 6.8.2.
_COMPLEX: Final[Mapping[str, type[ctypes.Structure]]] = {"F": _ComplexFloat, "D": _ComplexDouble}


def _c_type(kernel: str, argument: ValueArg) -> type[Any]:
    assert argument.dtype is not None, f"'{argument.name}' has no type"
    dtype: Any = computed(argument.dtype)
    if (structure := _COMPLEX.get(dtype.char)) is not None:
        return structure
    try:
        if is_record(dtype):
            return _structure(dtype)
        found: type[Any] = np.ctypeslib.as_ctypes_type(dtype)
    except NotImplementedError:
        raise CompilerError("compile", kernel, [Diagnostic(
            "unsupported-argument-type", f"'{argument.name}' of type {dtype} cannot be passed by value to C",
            (), ("pass it as an array of one element",))]) from None
    return found


class CBackend:
    """A program of the C target, as functions of a shared library."""

    def __init__(self, program: GeneratedProgram) -> None:
        self._program, self._is_checked = program, is_checked()
        self._library = checked_library(program) if self._is_checked else open_library(program.device_code)
        self._memory = HostMemory()
        self.binder = Binder(program, self._memory)
        arrays = (*program.arguments, *program.workspace)
        self._arrays = frozenset(a.name for a in arrays if isinstance(a, ArrayArg))
        types = {a.name: _c_type(program.kernel, a) for a in program.arguments if isinstance(a, ValueArg)}
        self._functions = {}
        for launch in program.launches:
            function = getattr(self._library, launch.name)
            function.restype = None
            function.argtypes = [types.get(name, ctypes.c_void_p) for name in launch.arguments]
            self._functions[launch.name] = function

    def launch(self, binding: Binding, stream: object) -> None:
        """Run all launches of *binding*."""
        if stream is not None:
            raise_no_stream(binding.program.kernel)
        workspace = binding.host_workspace()  # its arrays live until the launches are done
        self.packed(binding, workspace).run(None)
        if self._is_checked:
            raise_faults(self._program, self._library)

    def packed(
        self, binding: Binding, workspace: Mapping[str, ArrayView], passed: Passed = NOTHING
    ) -> PackedCall:
        """Return the launches of *binding*, to be repeated as they are while the arrays live: they hold addresses."""
        pointers = {name: binding.address(name, view.pointer) for name, view in {**binding.views, **workspace}.items()}
        pointers |= dict.fromkeys((array.name for array in passed.fresh), 0)

        def prepared(launch: DeviceLaunch) -> Callable[[int], Launch]:
            arguments = [pointers[name] if name in self._arrays else _c_value(binding.scalars[name])
                         for name in launch.arguments]
            function = self._functions[launch.name]
            places = {name: place for place, name in enumerate(launch.arguments)}
            call = passing(function, arguments, [places.get(name) for name in passed.names]) if passed \
                else functools.partial(function, *arguments)
            return lambda _: call

        return PackedCall([prepared(launch) for launch, _, _ in binding.launches], passed=passed)

    def repeatable(self, binding: Binding, free: Sequence[Free]) -> PackedCall | None:
        """Return the launches of *binding* for later calls with the same key, of whatever *free* numbers."""
        if self._is_checked:
            return None
        workspace = (ArrayView(ArrayKind.NUMPY, 0, w.dtype, w.shape, w.strides, True, -1, None, None)
                     for w in binding.workspace)
        names = (w.name for w in binding.workspace)
        return self.packed(binding, {}, Passed(tuple(free), (
            *_fresh(binding, self._memory), *_fresh_like(binding, self._memory, zip(names, workspace, strict=True)))))

    def bound(self, binding: Binding) -> tuple[PackedCall, object]:
        """Return the launches of *binding*, and the memory that they use, to be kept as long as they are."""
        refuse_changing(binding)
        workspace = binding.host_workspace()
        return self.packed(binding, workspace), workspace

    def run_elsewhere(self, packed: PackedCall, binding: Binding, stream: int | None) -> None:
        """Refuse: the CPU has no contexts."""
        raise AssertionError(f"'{binding.program.kernel}' runs on the CPU, {packed} on stream {stream}")

    def stream(self, kernel: str, stream: object) -> int:
        """Refuse a stream."""
        raise_no_stream(kernel)


def _fresh(binding: Binding, memory: Allocating) -> tuple[Fresh, ...]:
    """Return the arrays that a call like that of *binding* allocates, but for its workspace."""
    return _fresh_like(binding, memory, ((a.name, binding.views[a.name]) for a in binding.program.arguments
                                         if a.name in binding.fresh))


def _fresh_like(
    binding: Binding, memory: Allocating, arrays: Iterable[tuple[str, ArrayView]]
) -> tuple[Fresh, ...]:
    kernel = binding.program.kernel
    return tuple(Fresh(name, allocating(kernel, name, view, binding.shifts.get(name, 0), memory.allocator(
        kernel, view.kind, view.device, dtype=view.dtype, shape=view.shape, strides=view.strides)))
        for name, view in arrays)  # fmt: skip


def refuse_changing(binding: Binding) -> None:
    """Refuse to repeat a call whose outputs are arrays of JAX, or which runs in JAX's memory of a GPU.

    JAX counts on arrays that never change, and gives the memory of a GPU away while a kernel may still read it.
    """
    for name, view in binding.views.items():
        if view.kind is ArrayKind.JAX_CUDA or (view.kind is ArrayKind.JAX and name in binding.fresh):
            raise call_error(binding.program.kernel, Diagnostic(
                "wrong-type", f"a bound call would change or keep '{name}', an array of JAX",
                ("arrays of JAX never change, and a bound call writes to the same arrays each time",),
                ("pass outputs as NumPy arrays, or call polyloop.jax.call(knl) inside of jax.jit",)))


def raise_no_stream(kernel: str) -> NoReturn:
    """Refuse a stream for a kernel that runs on the CPU."""
    raise CompilerError("call", kernel, [Diagnostic(
        "no-stream", "a kernel of the C target has no stream", (), ("leave out stream=, or compile for CUDA",))])


@functools.cache
def _structure(dtype: np.dtype[Any]) -> type[ctypes.Structure]:
    """Return the ctypes structure for a record that is passed by value; its layout must be C's own."""
    fields = [(name, _structure(kind) if is_record(kind := field_dtype(dtype, name)) else
               np.ctypeslib.as_ctypes_type(kind)) for name in field_names(dtype)]
    found = type(record_name(dtype), (ctypes.Structure,), {"_fields_": fields})
    offsets = [field_offset(dtype, name) for name in field_names(dtype)]
    if ctypes.sizeof(found) != dtype.itemsize or offsets != [getattr(found, name).offset for name, _ in fields]:
        raise NotImplementedError(f"C lays out '{record_name(dtype)}' otherwise")  # as as_ctypes_type does
    return found


def _c_value(scalar: np.generic) -> object:
    if is_record(scalar.dtype):
        return _structure(scalar.dtype).from_buffer_copy(scalar.tobytes())
    structure = _COMPLEX.get(scalar.dtype.char)
    if structure is not None:
        value = complex(scalar)
        return structure(value.real, value.imag)
    return scalar.item()


class CudaBackend:
    """A program of the CUDA target: a cubin, loaded at the first call."""

    def __init__(self, program: GeneratedProgram, architecture: str, launches: str | None = None) -> None:
        self.compiled: CompiledCuda = compile_cuda(program.device_code, architecture, build=program.build)
        self._module = gpu_module(program, self.compiled.cubin, launches)
        self.binder = Binder(program, self._module.memory)

    def launch(self, binding: Binding, stream: object) -> None:
        """Run all launches of *binding*."""
        self._module.launch(binding, stream)

    def repeatable(self, binding: Binding, free: Sequence[Free]) -> PackedCall | None:
        """Return the launches of *binding* for later calls with the same key, of whatever *free* numbers.

        None where each needs work of its own.
        """
        kinds = {view.kind for view in binding.views.values()}
        one = len(kinds) == 1 and kinds <= {ArrayKind.TORCH, ArrayKind.CUPY, ArrayKind.PYCUDA, ArrayKind.OWN}
        if not one:
            return None
        described = {array.array for launch in binding.program.launches for array in launch.maps}
        if described & binding.fresh:  # of which each call makes a description for the copy engine
            return None
        return self._module.repeatable(binding, Passed(tuple(free), _fresh(binding, self._module.memory)))

    def bound(self, binding: Binding) -> tuple[PackedCall, object]:
        """Return the launches of *binding*, and the memory that they use, to be kept as long as they are."""
        refuse_changing(binding)
        for name, view in binding.views.items():
            if view.kind is ArrayKind.NUMPY:
                raise call_error(binding.program.kernel, Diagnostic(
                    "wrong-device", f"'{name}' is in host memory, and a bound call copies nothing", (),
                    ("pass arrays in the GPU's memory, outputs too",)))
        return self._module.bound(binding)

    def run_elsewhere(self, packed: PackedCall, binding: Binding, stream: int | None) -> None:
        """Run *packed* where the context of its arrays is not current."""
        self._module.run_elsewhere(packed, binding, stream)

    def stream(self, kernel: str, stream: object) -> int:
        """Return the handle of a stream."""
        return self._module.handle_of(kernel, stream)


Backend: TypeAlias = CBackend | CudaBackend | OpenCLBackend


def free_numbers(binder: Binder) -> tuple[Free, ...]:
    """Return the arguments passed by value that no size, condition, grid or description of an array depends on."""
    program, found = binder.program, []
    described = any(launch.maps for launch in program.launches)
    for argument in binder.values:
        dtype: Any = argument.dtype
        if argument.name in binder.decisive or argument.layout_of is not None or is_record(dtype):
            continue
        if described and is_integer(dtype):
            continue
        found.append(Free(argument.name, np.dtype(computed(dtype)), _c_type(program.kernel, argument),
                          not is_narrow(dtype),
                          functools.partial(_converted, program.kernel, argument.name, dtype)))
    return tuple(found)


def _converted(kernel: str, name: str, dtype: np.dtype[Any], value: object) -> object:
    return _c_value(convert_scalar(kernel, name, dtype, value))


def make_backend(program: GeneratedProgram, architecture: str, launches: str | None = None) -> Backend:
    """Compile *program* for its target; *launches* says how its launches are started on a GPU."""
    match program.target:
        case "c":
            return CBackend(program)
        case "cuda":
            return CudaBackend(program, architecture, launches)
        case "opencl":
            return OpenCLBackend(program, architecture)
        case other:
            raise CompilerError("compile", program.kernel, [Diagnostic(
                "unknown-target", f"no way to run a program for '{other}'", (), ("targets: c, cuda, opencl",))])
