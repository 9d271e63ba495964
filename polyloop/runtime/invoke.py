"""Compiled kernels: text in, something callable out."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from polyloop.codegen.program import GeneratedProgram
from polyloop.kernel.arrays import ArrayArg
from polyloop.runtime.arguments import Binding, IndexTooSmall, Result, index_overflow
from polyloop.runtime.backends import Backend, CudaBackend, make_backend
from polyloop.runtime.gpu import device_architecture
from polyloop.runtime.repeat import PackedCall, Repeats
from polyloop.runtime.resources import Resources, resources

__all__ = ["BoundCall", "CompiledKernel", "load"]

_DEFAULT_ARCHITECTURE: Final = "sm_90"


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
    _small: Backend = field(init=False, repr=False)
    _large: Backend | None = field(default=None, init=False, repr=False)
    _repeats: Repeats = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._small = make_backend(self.program, self.architecture)
        arrays = [a for a in self.program.arguments if isinstance(a, ArrayArg)]
        self._repeats = Repeats(tuple(a.name for a in arrays if a.is_output))
        self._may_repeat = not self.program.split and not self._small.binder.layouts

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
        return self._small.compiled.ptx if isinstance(self._small, CudaBackend) else ""

    @property
    def cubin(self) -> bytes:
        """The machine code; empty for the C target."""
        return self._small.compiled.cubin if isinstance(self._small, CudaBackend) else b""

    @functools.cached_property
    def resources(self) -> Mapping[str, Resources]:
        """Registers, memory and occupancy of each device kernel; empty for the C target."""
        if not self.cubin:
            return {}
        threads = {k.name: k.block[0] * k.block[1] * k.block[2] for k in self.program.launches}
        dynamic = {k.name: k.dynamic_shared_bytes for k in self.program.launches}
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
        if not poison:
            handle = None if stream is None else self._small.stream(self.program.kernel, stream)
            found = self._repeats.latest(arguments, handle)
            if found is None:
                found = self._repeats.again(arguments, handle)
            if found is not None:
                return found
        backend, binding = self._bind(arguments, poison)
        if binding.launches:
            backend.launch(binding, stream)
            may_repeat = self._may_repeat and not binding.fresh
            if may_repeat and (packed := backend.repeatable(binding)) is not None:
                self._repeats.remember(arguments, packed)
        return binding.result()

    def bind(self, **arguments: object) -> BoundCall:
        """Return the call with these arguments, to be repeated at the cost of the launches alone.

        The arguments are checked once.  Outputs that are not passed, and the workspace of the kernel, are allocated
        once and kept, so that nothing is allocated when the call is repeated: it can be captured in a CUDA graph.

        ::

            step = run.bind(u=u, v=v)
            for _ in range(1000):
                step()                        # works on the same arrays each time

            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                step()
            graph.replay()

        Parameters
        ----------
        **arguments
            As in a call; arrays for a CUDA kernel are in the GPU's memory.

        Raises
        ------
        ArgumentError
            As in a call; ``wrong-device`` for NumPy arrays where the kernel runs on the GPU.
        """
        backend, binding = self._bind(arguments, None)
        packed, kept = backend.bound(binding)
        return BoundCall(backend, binding, packed, kept)

    def _bind(self, arguments: Mapping[str, object], poison: bool | None) -> tuple[Backend, Binding]:
        backend = self._small
        try:
            return backend, backend.binder.bind(arguments, poison=poison)
        except IndexTooSmall as signal:
            backend = self._wide(signal)
            try:
                return backend, backend.binder.bind(arguments, poison=poison)
            except IndexTooSmall as again:
                raise index_overflow(self.program.kernel, again) from None

    def _wide(self, signal: IndexTooSmall) -> Backend:
        """Return the program with 64-bit indices, generating it the first time."""
        if self._large is None:
            if self.regenerate is None or self.program.index_bits == 64:
                raise index_overflow(self.program.kernel, signal) from None
            self._large = make_backend(self.regenerate(64), self.architecture)
        return self._large


class BoundCall:
    """A call of a compiled kernel with its arguments, to be repeated; made by :meth:`CompiledKernel.bind`.

    Attributes
    ----------
    result
        The outputs, the same arrays at each repetition.
    """

    def __init__(
        self, backend: Backend, binding: Binding, packed: PackedCall, kept: object
    ) -> None:
        self.result: Final = binding.result()
        self._backend, self._binding, self._packed, self._kept = backend, binding, packed, kept
        self._run = packed.run

    def __repr__(self) -> str:
        program = self._binding.program
        return f"<call of '{program.kernel}' for {program.target}, with its arguments>"

    def __call__(self, *, stream: object = None) -> Result:
        """Run the kernel again, by default on the stream that the arrays' library is using.

        Raises
        ------
        CompilerError
            ``no-stream``: a stream for a kernel that runs on the CPU.
        """
        handle = None if stream is None else self._backend.stream(self._binding.program.kernel, stream)
        if not self._run(handle):
            self._backend.run_elsewhere(self._packed, self._binding, handle)
        return self.result


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
