"""Compiled kernels: callables made of program text."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Self

from polyloop.codegen.program import GeneratedProgram
from polyloop.display import Shown
from polyloop.edge.locks import OwnLock
from polyloop.errors import Diagnostic, PolyloopError
from polyloop.kernel.arrays import ArrayArg
from polyloop.runtime.arguments import Binding, IndexTooSmall, Result, index_overflow
from polyloop.runtime.backends import Backend, CudaBackend, free_numbers, make_backend
from polyloop.runtime.calls import named
from polyloop.runtime.gpu import device_architecture
from polyloop.runtime.packed import PackedCall, Queued, is_poisoning
from polyloop.runtime.repeat import Repeats, Signature, call_options
from polyloop.runtime.resources import Resources, resources
from polyloop.runtime.views import call_error
from polyloop.serial.value import Value
from polyloop.tracebacks import bare, told_by_name

__all__ = ["BoundCall", "CompiledKernel", "load"]

_DEFAULT_ARCHITECTURE: Final = "sm_90"
_OPENED: Final = frozenset(("_small", "_repeats", "_may_repeat", "_free"))
_OPENING: Final = OwnLock()


def _method(method: weakref.WeakMethod[Callable[..., Any]]) -> Callable[..., Any]:
    """Return a function that calls a method without keeping its object alive."""

    def call(*arguments: object) -> Any:  # noqa: ANN401
        found = method()
        __tracebackhide__ = True
        assert found is not None, "a kernel lives as long as it is called"
        try:
            return found(*arguments)
        except PolyloopError as error:
            raise bare(error)  # noqa: B904 - the same error

    told_by_name(call, "call")
    return call


def _unfinished(**_: object) -> Result:
    raise AssertionError("the kernel is called before it is made")


@dataclass(eq=False, repr=False)
class CompiledKernel(Value, functools.partial[Result], Shown):
    """A kernel that can be called with arrays.

    Call it with its arguments by name; those that the kernel was declared with may also be passed by position, in that
    order.  Integer sizes that are not passed are solved from the shapes of the arrays; outputs that are not passed are
    allocated, in the kind of the inputs.  The result has every output as an attribute.

    ::

        c = run(a=a, b=b).c
        run(a=a, b=b, c=c, stream=stream)

    Two keywords are not the kernel's.  Where it has an argument of that name, they are ``stream_`` and ``poison_``:

    * ``stream``: where to run; a PyCUDA, Torch or CuPy stream, any object with ``__cuda_stream__``, or a handle.  By
      default the stream that the arrays' library is using.  The call does not wait for the kernel unless NumPy
      arrays are involved.
    * ``poison``: fill outputs that are allocated with NaN first; by default as ``POLYLOOP_POISON`` says.

    A call raises :class:`ArgumentError` where the arguments do not fit the kernel (see ``docs/errors.md``), and
    :class:`CompilerError`, ``no-gpu``, where a CUDA kernel was called and there is no GPU.

    Attributes
    ----------
    program
        The generated program: source text, launches, arguments.
    positions
        The arguments that may be passed by position.
    launches
        How the launches of a call are started, if that was asked for: see :func:`polyloop.compile`.
    fixed
        Sizes that the kernel was compiled for, which are no arguments any more.
    """

    # It is a partial, of a function that knows the latest kind of call (see repeat.py), because Python calls those
    # without a tuple and a dictionary of the arguments; a method ``__call__`` takes 0.3 us more.

    program: GeneratedProgram
    architecture: str
    regenerate: Callable[[int], GeneratedProgram] | None = None
    positions: tuple[str, ...] = ()
    launches: str | None = None
    fixed: Mapping[str, int] = field(default_factory=dict, init=False)
    _small: Backend = field(init=False)
    _large: Backend | None = field(default=None, init=False)
    _repeats: Repeats = field(init=False)

    def __new__(cls, *_: object, **__: object) -> Self:
        """Return a ``partial`` without its final function."""
        return super().__new__(cls, _unfinished)

    def __post_init__(self) -> None:
        self._compile_now()
        self._begin([a.name for a in self.program.arguments], has_queue=self.target == "opencl")

    @classmethod
    def later(
        cls, program: GeneratedProgram, architecture: str, regenerate: Callable[[int], GeneratedProgram] | None,
        positions: tuple[str, ...], launches: str | None,
    ) -> CompiledKernel:  # fmt: skip
        """Return the kernel of *program*, which is compiled and loaded when it is first called or asked about."""
        made = cls.__new__(cls)
        made.program, made.architecture, made.regenerate = program, architecture, regenerate
        made.positions, made.launches, made.fixed = positions, launches, {}
        names = [a.name for a in program.arguments]
        made._begin(names, has_queue=made.target == "opencl")  # noqa: SLF001 - of this class
        return made

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:  # noqa: ANN401
            """Compile the program, where that was left for later, and return what a call needs of it."""
            if name not in _OPENED:
                raise AttributeError(f"a compiled kernel has no attribute '{name}'")
            with _OPENING.now:
                if name not in self.__dict__:
                    self._compile_now()
            return self.__dict__[name]

    def _compile_now(self) -> None:
        """Compile and load the program."""
        small = make_backend(self.program, self.architecture, self.launches)
        arrays = [a for a in self.program.arguments if isinstance(a, ArrayArg)]
        names = tuple(a.name for a in self.program.arguments)
        values = tuple(a.name for a in self.program.arguments if not isinstance(a, ArrayArg))
        self._repeats = Repeats(names, tuple(a.name for a in arrays if a.is_output), values)
        # an offset in the memory that an array is a view of is no property that calls are recognized by
        has_offsets = any(layout.offset is not None for layout in small.binder.layouts)
        self._may_repeat = not self.program.split and not has_offsets
        self._free = free_numbers(small.binder)
        self._small = small  # last: who finds it finds the others

    def _begin(self, names: Sequence[str], *, has_queue: bool = False) -> None:
        """Let calls with arguments of these *names* go to :meth:`_call`; *has_queue* is True for OpenCL."""
        # no references to the kernel: it goes when the last one of others does, and with it what is loaded on a GPU
        self._checked = _method(weakref.WeakMethod(self._call))
        self._handle = _method(weakref.WeakMethod(self._handle_of))
        checked: Callable[..., Result] = self._checked

        stream, poison, events = call_options(names, "queue" if has_queue else "stream")

        def queued(*unnamed: object, **arguments: object) -> Result:
            __tracebackhide__ = True
            queue = arguments.pop(stream, None)
            if queue is None and unnamed and type(unnamed[0]).__name__ == "CommandQueue":
                queue, *others = unnamed
                unnamed = (*others,)
            after: Any = arguments.pop(events, None)
            where = queue if after is None else Queued(queue, (*after,))
            return checked(arguments, where, arguments.pop(poison, None), unnamed)

        def entry(*unnamed: object, **arguments: object) -> Result:
            __tracebackhide__ = True
            return checked(arguments, arguments.pop(stream, None), arguments.pop(poison, None), unnamed)

        self._plain = queued if has_queue else entry
        told_by_name(self._plain, "call")
        self._enter(self._plain)

    def _enter(self, entry: Callable[..., Result]) -> None:
        """Let calls go to *entry*."""
        self.__setstate__((entry, (), {}, self.__dict__))  # type: ignore[attr-defined]  # known to pickle

    def __repr__(self) -> str:
        names = ", ".join(a.name for a in self.program.arguments)
        return f"<CompiledKernel '{self.program.kernel}' for {self.target}: {names}>"

    @property
    def target(self) -> str:
        """``"c"``, ``"cuda"`` or ``"opencl"``."""
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

    @property
    def sass(self) -> str:
        """The machine code as text, by ``nvdisasm`` or ``cuobjdump``; empty for the C target.

        They are looked for on ``PATH``, in a CUDA toolkit, and in wheels (``pip install nvidia-cuda-nvdisasm``).

        Raises
        ------
        CompilerError
            ``no-disassembler``, ``disassembler-failed``.
        """
        return self._small.compiled.sass if isinstance(self._small, CudaBackend) else ""

    @functools.cached_property
    def resources(self) -> Mapping[str, Resources]:
        """Registers, memory and occupancy of each device kernel; empty for the C target."""
        if not self.cubin:
            return {}
        threads = {k.name: k.block[0] * k.block[1] * k.block[2] for k in self.program.launches}
        dynamic = {k.name: k.dynamic_shared_bytes for k in self.program.launches}
        return resources(self.cubin, threads, dynamic)

    def _call(
        self, arguments: Mapping[str, object], stream: object, poison: bool | None, unnamed: tuple[object, ...]
    ) -> Result:
        """Run the kernel with arguments that the function entered last does not know."""
        result, signature = self.called(self._named(unnamed, arguments), stream, poison)
        entry = self.recognizing(signature, self._checked)
        if entry is not None:
            self._enter(entry)
        return result

    def repeated(
        self, arguments: Mapping[str, object], stream: object, poison: bool | None
    ) -> tuple[Result, Signature] | None:
        """Run the kernel, as :meth:`called`, if the call was checked before; return None if it was not."""
        if poison or (poison is None and is_poisoning()):
            return None
        return self._repeats.again(arguments, None if stream is None else self._handle_of(stream))

    def called(
        self, arguments: Mapping[str, object], stream: object, poison: bool | None
    ) -> tuple[Result, Signature | None]:
        """Run the kernel; return its outputs, and what recognizes calls like this one, if they can be recognized."""
        known = self.repeated(arguments, stream, poison)
        if known is not None:
            return known
        backend, binding = self._bind(arguments, poison)
        signature = None
        if binding.launches:
            backend.launch(binding, stream)
            may_repeat = self._may_repeat and not binding.poisoned
            may_repeat = may_repeat and backend.binder.decisive.isdisjoint(number.name for number in self._free)
            if may_repeat and (packed := backend.repeatable(binding, self._free)) is not None:
                signature = self._repeats.remember(arguments, packed)
        return binding.result(), signature

    def recognizing(
        self, signature: Signature | None, otherwise: Callable[..., Result]
    ) -> Callable[..., Result] | None:
        """Return a function that runs calls like those of *signature*, and leaves all others to *otherwise*."""
        return None if signature is None else signature.entry(otherwise, self._handle)

    def _handle_of(self, stream: object) -> int:
        return self._small.stream(self.program.kernel, stream)

    def bind(self, /, *unnamed: object, **arguments: object) -> BoundCall:
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
        *unnamed, **arguments
            As in a call; arrays for a CUDA kernel are in the GPU's memory.

        Raises
        ------
        ArgumentError
            As in a call; ``wrong-device`` for NumPy arrays where the kernel runs on the GPU.
        """
        backend, binding = self._bind(self._named(unnamed, arguments), None)
        packed, kept = backend.bound(binding)
        return BoundCall(backend, binding, packed, kept)

    def _named(self, unnamed: tuple[object, ...], arguments: Mapping[str, object]) -> Mapping[str, object]:
        arrays = [a.name for a in self.program.arguments if isinstance(a, ArrayArg)]
        return named(self.program.kernel, self.positions, arrays, unnamed, arguments)

    def _bind(self, arguments: Mapping[str, object], poison: bool | None) -> tuple[Backend, Binding]:
        backend = self._small
        try:
            return backend, backend.binder.bind(arguments, poison=poison)
        except IndexTooSmall as signal:
            backend = self._wide(signal)
            try:
                return backend, backend.binder.bind(arguments, poison=poison)
            except IndexTooSmall as again:
                raise index_overflow(self.program.kernel, again, is_wide=True) from None

    def _wide(self, signal: IndexTooSmall) -> Backend:
        """Return the program with 64-bit indices, generating it the first time."""
        if self._large is None:
            if self.regenerate is None or self.program.index_bits == 64:
                is_wide = self.program.index_bits != 32
                raise index_overflow(self.program.kernel, signal, is_wide=is_wide) from None
            self._large = make_backend(self.regenerate(64), self.architecture, self.launches)
        return self._large


class BoundCall(functools.partial[Result], Shown):
    """A call of a compiled kernel with its arguments, to be repeated; made by :meth:`CompiledKernel.bind`.

    It takes nothing but ``stream``, by default the stream that the arrays' library is using.
    :class:`CompilerError`, ``no-stream``, is raised for a stream of a kernel that runs on the CPU.

    Attributes
    ----------
    result
        The outputs, the same arrays at each repetition.
    launches
        How its launches are started: ``"host"``, ``"graph"`` or ``"cooperative"``.
    """

    result: Result
    launches: str
    _of: GeneratedProgram
    _kept: object

    def __new__(cls, backend: Backend, binding: Binding, packed: PackedCall, kept: object) -> Self:
        """Return the call of *packed*; *kept* lives as long as it does."""
        result, kernel = binding.result(), binding.program.kernel

        def otherwise(stream: object) -> Result:
            handle = None if stream is None else backend.stream(kernel, stream)
            if not packed.run(handle):
                backend.run_elsewhere(packed, binding, handle)
            return result

        repeated = packed.repeated(result, otherwise)
        repeated.__qualname__ = f"<call of '{kernel}' with its arguments>"  # which a TypeError names
        self = super().__new__(cls, repeated)
        self.result, self._of, self._kept = result, binding.program, (binding, kept)
        self.launches = packed.launches
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        hints = ("pickle the compiled kernel and the arrays, and bind them where they are loaded",)
        message = "a bound call cannot be pickled or copied: it is made for arrays where they lie"
        raise call_error(self._of.kernel, Diagnostic("not-picklable", message, hints=hints))

    def __repr__(self) -> str:
        program = self._of
        graph = {"graph": ", as a graph", "cooperative": ", as one launch"}.get(self.launches, "")
        return f"<call of '{program.kernel}' for {program.target}, with its arguments{graph}>"


def load(program: GeneratedProgram, regenerate: Callable[[int], GeneratedProgram] | None = None,
         arch: str | None = None, positions: tuple[str, ...] = (), launches: str | None = None) -> CompiledKernel:
    """Compile a generated program and return it as something callable.

    Parameters
    ----------
    regenerate
        Given a number of bits, returns the program with index arithmetic of that width; called
        when a call's sizes do not fit the program's ``index_checks``.
    arch
        CUDA architecture such as ``"sm_80"``; by default that of the GPU, ``sm_90`` without one.
    positions
        The arguments that a call may pass by position, in their order.
    launches
        How the launches of a call are started: see :func:`polyloop.compile`.

    Raises
    ------
    CompilerError
        ``no-c-compiler``, ``c-compiler-failed``, ``no-nvrtc``, ``nvrtc-failed``, ``unsafe-cache-dir``,
        ``unknown-target``.
    """
    if arch is None and program.target == "cuda":
        arch = device_architecture()
    return CompiledKernel(program, arch or _DEFAULT_ARCHITECTURE, regenerate, positions, launches)
