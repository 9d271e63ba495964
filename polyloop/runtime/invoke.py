"""Compiled kernels: text in, something callable out."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from polyloop.codegen.program import GeneratedProgram
from polyloop.errors import CompilerError, Diagnostic
from polyloop.expr.dtypes import computed
from polyloop.expr.records import field_dtype, field_names, field_offset, is_record, record_name
from polyloop.kernel.arrays import ArrayArg, ValueArg
from polyloop.runtime.arguments import Binder, Binding, IndexTooSmall, Result, index_overflow
from polyloop.runtime.ccompile import build_library, load_library
from polyloop.runtime.gpu import GpuModule, device_architecture
from polyloop.runtime.gpuarrays import DeviceMemory
from polyloop.runtime.nvrtc import CompiledCuda, compile_cuda
from polyloop.runtime.resources import Resources, resources
from polyloop.runtime.views import HostMemory

__all__ = ["CompiledKernel", "load"]

_DEFAULT_ARCHITECTURE: Final = "sm_90"


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


class _CBackend:
    """A program of the C target, as functions of a shared library."""

    def __init__(self, program: GeneratedProgram) -> None:
        self._library = load_library(build_library(program.device_code))
        self.binder = Binder(program, HostMemory())
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
        if stream is not None:
            raise_no_stream(binding.program.kernel)
        views = {**binding.views, **binding.host_workspace()}
        for launch, _ in binding.launches:
            self._functions[launch.name](*(
                binding.address(name, views[name].pointer) if name in self._arrays
                else _c_value(binding.scalars[name]) for name in launch.arguments))


def raise_no_stream(kernel: str) -> None:
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


class _CudaBackend:
    """A program of the CUDA target: a cubin, loaded at the first call."""

    def __init__(self, program: GeneratedProgram, architecture: str) -> None:
        self.compiled: CompiledCuda = compile_cuda(program.device_code, architecture)
        self.binder = Binder(program, DeviceMemory())
        self._module = GpuModule(program, self.compiled.cubin)

    def launch(self, binding: Binding, stream: object) -> None:
        self._module.launch(binding, stream)


def _backend(program: GeneratedProgram, architecture: str) -> _CBackend | _CudaBackend:
    match program.target:
        case "c":
            return _CBackend(program)
        case "cuda":
            return _CudaBackend(program, architecture)
        case other:
            raise CompilerError("compile", program.kernel, [Diagnostic(
                "unknown-target", f"no way to run a program for '{other}'", (), ("targets: c, cuda",))])


@dataclass(eq=False)
class CompiledKernel:
    """A kernel that can be called with arrays.

    Call it with every argument by keyword.  Integer sizes that are not passed are solved from the
    shapes of the arrays; outputs that are not passed are allocated, in the kind of the inputs.
    The result has every output as an attribute.

    Attributes
    ----------
    program
        The generated program: source text, launches, arguments.
    """

    program: GeneratedProgram
    architecture: str
    regenerate: Callable[[int], GeneratedProgram] | None = None
    _small: _CBackend | _CudaBackend = field(init=False, repr=False)
    _large: _CBackend | _CudaBackend | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        self._small = _backend(self.program, self.architecture)

    def __repr__(self) -> str:
        names = ", ".join(a.name for a in self.program.arguments)
        return f"<CompiledKernel '{self.program.kernel}' for {self.target}: {names}>"

    @property
    def target(self) -> str:
        """``"c"`` or ``"cuda"``."""
        return self.program.target

    @property
    def source(self) -> str:
        """The generated source text."""
        return self.program.device_code

    @property
    def ptx(self) -> str:
        """The PTX text; empty for the C target."""
        return self._small.compiled.ptx if isinstance(self._small, _CudaBackend) else ""

    @property
    def cubin(self) -> bytes:
        """The machine code; empty for the C target."""
        return self._small.compiled.cubin if isinstance(self._small, _CudaBackend) else b""

    @functools.cached_property
    def resources(self) -> Mapping[str, Resources]:
        """Registers, memory and occupancy of each device kernel; empty for the C target."""
        if not self.cubin:
            return {}
        threads = {k.name: k.block[0] * k.block[1] * k.block[2] for k in self.program.launches}
        dynamic = {k.name: k.shared_bytes for k in self.program.launches if "extern __shared__" in self.source}
        return resources(self.cubin, threads, dynamic)

    def __call__(self, *, stream: object = None, poison: bool | None = None, **arguments: object) -> Result:
        """Run the kernel.

        Parameters
        ----------
        stream
            Where to run: a PyCUDA, Torch or CuPy stream, any object with ``__cuda_stream__``, or a
            handle.  By default the stream that the arrays' library is using.  The call does not
            wait for the kernel unless NumPy arrays are involved.
        poison
            Fill outputs that are allocated with NaN first; by default as ``POLYLOOP_POISON`` says.
        **arguments
            Arrays and numbers by the names of the kernel.

        Raises
        ------
        ArgumentError
            The arguments do not fit the kernel; see ``docs/errors.md``.
        CompilerError
            ``no-gpu``: a CUDA kernel was called where there is no GPU.
        """
        backend = self._small
        try:
            binding = backend.binder.bind(arguments, poison=poison)
        except IndexTooSmall as signal:
            backend = self._wide(signal)
            try:
                binding = backend.binder.bind(arguments, poison=poison)
            except IndexTooSmall as again:
                raise index_overflow(self.program.kernel, again) from None
        if binding.launches:
            backend.launch(binding, stream)
        return binding.result()

    def _wide(self, signal: IndexTooSmall) -> _CBackend | _CudaBackend:
        """Return the program with 64-bit indices, generating it the first time."""
        if self._large is None:
            if self.regenerate is None or self.program.index_bits == 64:
                raise index_overflow(self.program.kernel, signal) from None
            self._large = _backend(self.regenerate(64), self.architecture)
        return self._large


def load(program: GeneratedProgram, regenerate: Callable[[int], GeneratedProgram] | None = None,
         arch: str | None = None) -> CompiledKernel:
    """Compile a generated program and return it as something callable.

    Parameters
    ----------
    regenerate
        Given a number of bits, returns the program with index arithmetic of that width; called
        when a call's sizes do not fit the program's ``index_checks``.
    arch
        CUDA architecture such as ``"sm_80"``; by default that of the GPU, ``sm_90`` without one.

    Raises
    ------
    CompilerError
        ``no-c-compiler``, ``c-compiler-failed``, ``no-nvrtc``, ``nvrtc-failed``, ``unsafe-cache-dir``,
        ``unknown-target``.
    """
    if arch is None and program.target == "cuda":
        arch = device_architecture()
    return CompiledKernel(program, arch or _DEFAULT_ARCHITECTURE, regenerate)
