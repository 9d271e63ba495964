"""Compilation of a kernel to a callable."""

from __future__ import annotations

from typing import Annotated

from polyloop.edge.checks import AtLeast
from polyloop.errors import CompilerError, Diagnostic
from polyloop.kernel.kernel import LoopKernel
from polyloop.runtime.executor import MOST_SPECIALIZATIONS, SpecializingKernel, compiled
from polyloop.runtime.gpu import gpu_available
from polyloop.runtime.invoke import CompiledKernel
from polyloop.runtime.specialize import open_arguments
from polyloop.target.base import Target, target_of
from polyloop.target.c import CTarget
from polyloop.target.cuda import CudaTarget

__all__ = ["compile_kernel", "executor"]


def compile_kernel(
    kernel: LoopKernel, target: Target | None = None, *,
    max_specializations: Annotated[int, AtLeast(1)] = MOST_SPECIALIZATIONS,
    launches: str = "host",
) -> CompiledKernel:  # fmt: skip
    """Compile *kernel* into something that is called with arrays.

    ::

        run = pl.compile(knl)
        c = run(a=a, b=b).c

    A kernel that leaves types of arguments open is compiled at its calls, for the types, layouts and device of their
    arguments, as a call of the kernel itself is: ``knl(a=a, b=b)``.

    Parameters
    ----------
    target
        By default that of the kernel; if it has none, CUDA where there is a GPU, otherwise C.  For a kernel that leaves
        types open: CUDA for arrays in the memory of a GPU, otherwise C.
    max_specializations
        For a kernel that leaves types open: the number of specializations, of other types, layouts or targets, that are
        kept.  A call that needs one more is refused.
    launches
        Start of the launches of a program with several: ``"host"``, one after the other from Python.  To replay them
        as a CUDA graph, capture a call that :meth:`CompiledKernel.bind` returns.

    Returns
    -------
    CompiledKernel
        A :class:`polyloop.SpecializingKernel` for a kernel that leaves types open.

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
    if open_arguments(kernel):
        return SpecializingKernel(kernel, target, max_specializations)
    said = target_of(kernel, target)
    chosen = said if said is not None else (CudaTarget() if gpu_available()[0] else CTarget())
    return compiled(kernel, chosen, said.arch if said is not None and said.arch else None)


def executor(kernel: LoopKernel) -> SpecializingKernel:
    """Return the executor of the calls of *kernel*, which keeps it."""
    return SpecializingKernel(kernel)


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
