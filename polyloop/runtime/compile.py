"""Compilation of a kernel to a callable."""

from __future__ import annotations

from dataclasses import dataclass

from polyloop.codegen.program import GeneratedProgram
from polyloop.errors import CompilerError, Diagnostic, warn
from polyloop.kernel.kernel import LoopKernel
from polyloop.runtime.gpu import gpu_available
from polyloop.runtime.invoke import CompiledKernel, load
from polyloop.runtime.spills import local_memory
from polyloop.target.base import Target, target_of
from polyloop.target.c import CTarget
from polyloop.target.cuda import CudaTarget
from polyloop.target.source import generate_code

__all__ = ["compile_kernel"]


@dataclass(frozen=True)
class _Wider:
    """The program of a kernel with index arithmetic of another width, where a call's sizes need it."""

    kernel: LoopKernel
    target: Target

    def __call__(self, index_bits: int) -> GeneratedProgram:
        return generate_code(self.kernel, self.target, index_bits=index_bits)


def compile_kernel(kernel: LoopKernel, target: Target | None = None, *, launches: str = "host") -> CompiledKernel:
    """Compile *kernel* into something that is called with arrays.

    ::

        run = pl.compile(knl)
        c = run(a=a, b=b).c

    Parameters
    ----------
    target
        By default that of the kernel; if it has none, CUDA where there is a GPU, otherwise C.
    launches
        Start of the launches of a program with several: ``"host"``, one after the other from Python.  To replay them
        as a CUDA graph, capture a call that :meth:`CompiledKernel.bind` returns.

    Raises
    ------
    VerificationError, CodegenError
        As :func:`generate_code`.
    CompilerError
        ``no-c-compiler``, ``no-nvrtc`` and errors that the compilers report; ``register-array``, if an array that is
        meant to be in registers is not; ``unsupported-launches``.

    Warns
    -----
    PolyloopWarning
        ``local-array``, ``spilled-registers``: values of a thread in local memory.
    """
    if launches != "host":
        raise CompilerError("compile", kernel.name, [_unsupported(launches)])
    said = target_of(kernel, target)
    chosen = said if said is not None else (CudaTarget() if gpu_available()[0] else CTarget())

    architecture = said.arch if said is not None and said.arch else None
    found = load(generate_code(kernel, chosen), _Wider(kernel, chosen), architecture)
    if found.cubin:
        problems, warnings = local_memory(found.program, found.cubin, found.ptx)
        if problems:
            raise CompilerError("compile", kernel.name, problems)
        warn("compile", kernel.name, warnings, kernel.silenced_warnings)
    return found


def _unsupported(launches: str) -> Diagnostic:
    notes: tuple[str, ...] = ()
    hints = ('leave it out, or pass launches="host"',)
    if launches in ("graph", "cooperative"):
        notes = ("launches are started one after the other, and the loops around them run in Python",)
        hints = (
            'pass launches="host"; a call that run.bind(..) returns can be captured in a CUDA graph and replayed: '
            "with torch.cuda.graph(graph): call()",
        )
    return Diagnostic("unsupported-launches", f"launches={launches!r} is not supported", notes, hints)
