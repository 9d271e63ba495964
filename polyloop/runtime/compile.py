"""Compilation of a kernel to a callable."""

from __future__ import annotations

from typing import Annotated

from polyloop.edge.checks import AtLeast
from polyloop.kernel.kernel import LoopKernel
from polyloop.runtime.executor import MOST_SPECIALIZATIONS, SpecializingKernel, compiled, refuse_launches
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
    launches: str | None = None,
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
        Start of the launches of a program with several on CUDA:

        * ``"host"``: one after the other from Python.
        * ``"graph"``: all of them at one time, as the nodes of a CUDA graph.  A graph is made for the sizes that decide
          the launches, and kept (8 of a kernel, of at most 16384 launches); other arrays and numbers of the same sizes
          change its nodes.  On a stream whose work is captured, launches are started one by one.
        * ``"cooperative"``: one launch, whose blocks run the launches of the program and wait for each other between
          two of them.

        By default the second call of the same sizes makes a graph if it has 8 to 16384 launches, and other calls are
        started by the host; :func:`polyloop.explain` says which it is.

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
        meant to be in registers is not; ``unsupported-launches``: ``"graph"`` or ``"cooperative"`` for the C target, or
        for a program of one launch.  The latter also where launches need to be their own, a ``CodegenError``: blocks in
        an order of their own, dynamic shared memory, copies by a copy engine, scans over blocks.

    Warns
    -----
    PolyloopWarning
        ``local-array``, ``spilled-registers``: values of a thread in local memory.
    """
    said = target_of(kernel, target)
    refuse_launches(kernel.name, launches, said)
    if open_arguments(kernel):
        return SpecializingKernel(kernel, target, max_specializations, launches)
    chosen = said if said is not None else (CudaTarget() if gpu_available()[0] else CTarget())
    return compiled(kernel, chosen, said.arch if said is not None and said.arch else None, launches)


def executor(kernel: LoopKernel) -> SpecializingKernel:
    """Return the executor of the calls of *kernel*, which keeps it."""
    return SpecializingKernel(kernel)

