"""Kernels that are compiled at the call, for the types and layouts of its arguments."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from polyloop.codegen.program import GeneratedProgram
from polyloop.edge.locks import OwnLock
from polyloop.errors import CompilerError, Diagnostic, warn
from polyloop.kernel.arrays import Argument, ArrayArg
from polyloop.kernel.called import by_position
from polyloop.kernel.kernel import LoopKernel
from polyloop.runtime.calls import Result, named
from polyloop.runtime.cuda.spills import local_memory
from polyloop.runtime.generated import generated
from polyloop.runtime.invoke import BoundCall, CompiledKernel, load
from polyloop.runtime.resources import Resources
from polyloop.runtime.specialize import MEMORIES, Facts, Specialization, facts, specialization
from polyloop.runtime.views import Memory, call_error
from polyloop.serial.form import Adapter, adapt
from polyloop.target.base import Target, target_of
from polyloop.target.c import CTarget
from polyloop.target.cuda import CudaTarget, with_one_launch

__all__ = ["MOST_SPECIALIZATIONS", "DeferredKernel", "SpecializingKernel", "compiled", "refuse_launches"]

MOST_SPECIALIZATIONS: Final = 32
"""Specializations of a kernel, unless the caller says otherwise."""


@dataclass(frozen=True)
class _Wider:
    """The program of a kernel with index arithmetic of another width, where a call's sizes need it."""

    kernel: LoopKernel
    target: Target

    def __call__(self, index_bits: int) -> GeneratedProgram:
        return generated(self.kernel, self.target, index_bits)


def refuse_launches(kernel: str, launches: str | None, target: Target | None) -> None:
    """Refuse a way to start launches that there is not, or that *target* has not; None: the target is not known yet.

    Raises
    ------
    CompilerError
        ``unsupported-launches``.
    """
    if launches in (None, "host"):
        return
    if launches not in ("graph", "cooperative"):
        raise _unsupported(kernel, launches, (), ('leave it out, or pass "host", "graph" or "cooperative"',))
    if target is not None and target.name != "cuda":
        notes = (f"it is for CUDA, and the kernel is compiled for '{target.name}'",)
        raise _unsupported(kernel, launches, notes, ("leave it out, or pass target=pl.CudaTarget()",))


def _unsupported(kernel: str, launches: str | None, notes: tuple[str, ...], hints: tuple[str, ...]) -> CompilerError:
    message = f"launches={launches!r} is not supported"
    return CompilerError("compile", kernel, [Diagnostic("unsupported-launches", message, notes, hints)])


def _refuse_one(program: GeneratedProgram, launches: str) -> None:
    if len(program.launches) == 1 and not program.launches[0].around:
        notes = ("a call is one launch, which it would only make slower",)
        raise _unsupported(program.kernel, launches, notes, ("leave it out",))


def _refuse_reads(program: GeneratedProgram) -> None:
    """Refuse a graph of a program whose loops end as memory decides: all of its nodes run."""
    for launch in program.launches:
        for loop in launch.around:
            if loop.test is not None and loop.test.elements:
                notes = (f"the loop '{loop.iname}' goes on while {loop.test.text}, which the host reads",
                         "a graph has all launches of all iterations")
                raise _unsupported(program.kernel, "graph", notes,
                                   ('leave it out, or pass launches="cooperative", whose blocks read it',))


def compiled(
    kernel: LoopKernel, chosen: Target, architecture: str | None, launches: str | None = None
) -> CompiledKernel:  # fmt: skip
    """Compile *kernel*, of which all types are known, for *chosen*.

    Raises
    ------
    VerificationError, CodegenError, CompilerError
        As :func:`polyloop.compile`.
    """
    refuse_launches(kernel.name, launches, chosen)
    chosen = with_one_launch(chosen) if launches == "cooperative" else chosen
    program = generated(kernel, chosen)
    if launches in ("graph", "cooperative"):
        _refuse_one(program, launches)
    if launches == "graph":
        _refuse_reads(program)
    found = load(program, _Wider(kernel, chosen), architecture, by_position(kernel), launches)
    found.fixed = kernel.fixed
    if found.cubin:
        problems, warnings = local_memory(found.program, found.cubin, found.ptx)
        if problems:
            raise CompilerError("compile", kernel.name, problems)
        warn("compile", kernel.name, warnings, kernel.silenced_warnings)
    return found


class DeferredKernel(CompiledKernel):
    """A kernel whose program is found at its calls, from the properties of their arguments.

    ``source``, ``program``, ``ptx``, ``cubin``, ``resources`` and ``target`` are those of the program that was called
    last.  A repeated call goes to its launch as that of any :class:`CompiledKernel` does.
    """

    _name: str
    _arguments: tuple[Argument, ...]
    _not_called: Diagnostic

    def _start(self, kernel: LoopKernel, not_called: Diagnostic, *, has_queue: bool = False) -> None:
        """Take calls with the arguments of *kernel*; the diagnostic is for one who asks for the program before."""
        self._name, self._arguments, self._not_called = kernel.name, kernel.arguments, not_called
        self.positions = by_position(kernel)
        self._latest: CompiledKernel | None = None
        self._entered: CompiledKernel | None = None
        self._lock = OwnLock()
        self._begin([argument.name for argument in kernel.arguments], has_queue=has_queue)

    def _found(self, arguments: Mapping[str, object]) -> CompiledKernel:
        """Return the program for *arguments*."""
        raise NotImplementedError

    def _own(self, run: CompiledKernel, arguments: Mapping[str, object]) -> Mapping[str, object] | None:
        """Return the arguments of *run* for *arguments*; None if it is not their program."""
        del run
        return arguments

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401  # of the program that was called last
        if name not in ("program", "architecture", "_small"):
            raise AttributeError(f"a kernel has no attribute '{name}'")
        return getattr(self._last(), name)

    @property
    def resources(self) -> Mapping[str, Resources]:  # it changes
        """Registers, memory and occupancy of each device kernel; empty for the C target."""
        return self._last().resources

    def bind(self, /, *unnamed: object, **arguments: object) -> BoundCall:
        """Return the call with these arguments, to be repeated at the cost of the launches alone."""
        run, own = self._program_for(self._named(unnamed, arguments))
        self._turn_to(run, None)
        return run.bind(**own)

    def _call(
        self, arguments: Mapping[str, object], stream: object, poison: bool | None, unnamed: tuple[object, ...]
    ) -> Result:
        """Run the kernel with arguments that the function entered last does not know."""
        given = self._named(unnamed, arguments)
        run = self._latest
        own = None if run is None else self._own(run, given)
        known = None if run is None or own is None or stream is not None else run.repeated(own, None, poison)
        if run is None or own is None or known is None:
            run, own = self._program_for(given)
        result, signature = known or run.called(own, stream, poison)
        self._turn_to(run, run.recognizing(signature, self._checked))
        return result

    def _named(self, unnamed: tuple[object, ...], arguments: Mapping[str, object]) -> Mapping[str, object]:
        arrays = [a.name for a in self._arguments if isinstance(a, ArrayArg)]
        return named(self._name, self.positions, arrays, unnamed, arguments)

    def _program_for(self, arguments: Mapping[str, object]) -> tuple[CompiledKernel, Mapping[str, object]]:
        run = self._latest = self._found(arguments)
        own = self._own(run, arguments)
        assert own is not None, "the program was found for these arguments"
        return run, own

    def _turn_to(self, run: CompiledKernel, entry: Callable[..., Result] | None) -> None:
        """Let calls go to *entry* of *run*; never to that of another program, which was not called last."""
        if entry is not None or run is not self._entered:
            self._enter(entry or self._plain)
            self._entered = run

    def _last(self) -> CompiledKernel:
        if self._latest is None:
            raise call_error(self._name, self._not_called)
        return self._latest


class SpecializingKernel(DeferredKernel):
    """A kernel that is compiled at its calls, for the types, layouts and device of their arguments.

    :func:`polyloop.compile` makes it of a kernel that leaves types open.  It is called like any
    :class:`CompiledKernel`; ``source``, ``program``, ``ptx``, ``cubin``, ``resources`` and ``target`` are those of the
    specialization that was called last.

    Parameters
    ----------
    kernel
        The kernel that leaves types open.
    compile_for
        The target; None: that of the kernel, or the device of the arguments.
    max_specializations
        Specializations that are kept; a call that needs one more is refused.
    launches
        How launches are started: see :func:`polyloop.compile`.
    """

    def __init__(
        self, kernel: LoopKernel, compile_for: Target | None = None, max_specializations: int = MOST_SPECIALIZATIONS,
        launches: str | None = None,
    ) -> None:  # fmt: skip
        self._kernel, self.launches = kernel, launches
        self._said, self._most = target_of(kernel, compile_for), max_specializations
        self._by_facts: dict[Facts, CompiledKernel] = {}
        self._made: dict[tuple[Specialization, Target], CompiledKernel] = {}
        self._start(kernel, Diagnostic(
            "not-specialized", "the kernel leaves types open, and was not called yet", (),
            ("call it first, or compile a kernel with types: pl.compile(knl.specialized(..))",)),
            has_queue=self._said is not None and self._said.name == "opencl")

    def __repr__(self) -> str:
        names = ", ".join(argument.name for argument in self._kernel.arguments)
        count = len(self._made)
        return f"<SpecializingKernel '{self._name}': {names}; {count} of {self._most} specializations>"

    @property
    def specializations(self) -> Mapping[str, CompiledKernel]:
        """The compiled kernels, by what they were compiled for, as text."""
        return {f"{target.name}: {special}": made for (special, target), made in self._made.items()}

    def specialized(self, /, **arguments: Any) -> LoopKernel:  # noqa: ANN401  # arrays of any library
        """Return the kernel with the types and layouts that a call with *arguments* would compile it for."""
        kernel = self._kernel
        return specialization(kernel, facts(kernel, arguments, self._memory())).kernel(kernel)

    def _memory(self) -> Memory | None:
        if self._said is None:
            return None
        return MEMORIES[self._said.name]()

    def _found(self, arguments: Mapping[str, object]) -> CompiledKernel:
        """Return the specialization for *arguments*."""
        call = facts(self._kernel, arguments, self._memory())
        found = self._by_facts.get(call)
        if found is None:
            with self._lock.now:
                found = self._by_facts.setdefault(call, self._specialized(call))
        return found

    def _specialized(self, call: Facts) -> CompiledKernel:
        special = specialization(self._kernel, call)
        chosen = self._said or (CudaTarget() if call.on_device else CTarget())
        found = self._made.get((special, chosen))
        if found is None:
            if len(self._made) >= self._most:
                raise call_error(self._name, self._too_many(special))
            architecture = chosen.arch if self._said is not None and chosen.arch else None
            found = compiled(special.kernel(self._kernel), chosen, architecture, self.launches)
            self._made[special, chosen] = found
        return found

    def _too_many(self, special: Specialization) -> Diagnostic:
        most = self._most
        return Diagnostic(
            "too-many-specializations", f"the kernel has {most} specializations already, as many as are kept",
            (f"another one would be for {special}", f"the last one was for {[*self.specializations][-1]}"),
            ("convert the arguments to types and layouts that were passed before",
             f"or allow more: pl.compile(knl, max_specializations={2 * most})"))


# {{{ the canonical form


def _compiled_data(run: CompiledKernel) -> object:
    """Return the program and the origin of a compiled kernel, without machine code."""
    wider = run.regenerate
    if wider is not None and not isinstance(wider, _Wider):
        raise TypeError("its program for wide indices is made by a function of the user's")
    origin = None if wider is None else (wider.kernel, wider.target)
    return run.program, run.architecture, run.positions, run.launches, dict(run.fixed), origin


def _made_compiled(data: object) -> CompiledKernel:
    """Return the compiled kernel of this data; it is compiled, or found in the cache, when it is first called."""
    match data:
        case (GeneratedProgram() as program, str(architecture), tuple(positions), launches, dict(fixed), origin) if (
            _ARCHITECTURE.fullmatch(architecture) and launches in _STARTS
            and all(isinstance(name, str) for name in (*positions, *fixed))
            and all(type(value) is int for value in fixed.values())
        ):
            wider = None
            match origin:
                case (LoopKernel() as kernel, Target() as target):
                    wider = _Wider(kernel, target)
                case not_there if not_there is not None:
                    raise ValueError("it is compiled from no kernel")
            made = CompiledKernel.later(program, architecture, wider, positions, launches)
            made.fixed = fixed
            return made
    raise ValueError("there is no such compiled kernel")


def _made_specializing(data: object) -> SpecializingKernel:
    match data:
        case (LoopKernel() as kernel, (Target() | None) as target, int(most), launches) if (
            launches in _STARTS and most > 0
        ):
            return SpecializingKernel(kernel, target, most, launches)
    raise ValueError("there is no such compiled kernel")


_STARTS: Final = (None, "host", "graph", "cooperative")
_ARCHITECTURE: Final = re.compile(r"[\w.\- ]{0,80}", re.ASCII)

adapt(CompiledKernel, Adapter("CompiledKernel", _compiled_data, _made_compiled))
adapt(SpecializingKernel, Adapter(
    "SpecializingKernel", lambda run: (run._kernel, run._said, run._most, run.launches), _made_specializing))  # noqa: SLF001

# }}}
