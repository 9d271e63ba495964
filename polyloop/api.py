"""From a kernel to source, and to something that runs: what ties the layers together for the user."""

from __future__ import annotations

from collections.abc import Callable

from polyloop.codegen.generate import generate
from polyloop.codegen.program import GeneratedProgram
from polyloop.kernel.kernel import LoopKernel, memoised
from polyloop.runtime.gpu import gpu_available
from polyloop.runtime.invoke import CompiledKernel, load
from polyloop.schedule.build import build_schedule
from polyloop.target.base import Target
from polyloop.target.c import CTarget
from polyloop.target.cuda import CudaTarget

__all__ = ["compile_kernel", "generate_code"]


@memoised
def _programs(kernel: LoopKernel) -> dict[tuple[Target, int], GeneratedProgram]:
    del kernel
    return {}


def generate_code(kernel: LoopKernel, target: Target | None = None, *, index_bits: int = 32) -> GeneratedProgram:
    """Return the source of *kernel* for *target*, verified.

    Parameters
    ----------
    target
        :func:`CudaTarget` (the default) or :func:`CTarget`.
    index_bits
        Width of index arithmetic [bits], 32 or 64.  With 32 the caller has to check ``index_checks``; compiled
        kernels do, and switch to 64 by themselves.

    Returns
    -------
    GeneratedProgram
        ``device_code`` (text), ``grid`` and ``block`` (expressions in the parameters), ``arguments``, ``checks``.

    Raises
    ------
    VerificationError
        The schedule would not compute what the kernel says, or the device cannot hold it.
    CodegenError
        The target cannot express the kernel.
    """
    chosen = CudaTarget() if target is None else target
    known = _programs(kernel)
    key = (chosen, index_bits)
    if key not in known:
        schedule = build_schedule(kernel, chosen.limits)
        known[key] = generate(schedule, chosen.language, index_bits=index_bits)
    return known[key]


def compile_kernel(kernel: LoopKernel, target: Target | None = None) -> CompiledKernel:
    """Compile *kernel* into something that is called with arrays.

    ::

        run = pl.compile(knl)
        c = run(a=a, b=b).c

    Parameters
    ----------
    target
        By default CUDA where there is a GPU, otherwise C.

    Raises
    ------
    VerificationError, CodegenError
        As :func:`generate_code`.
    CompilerError
        ``no-c-compiler``, ``no-nvrtc`` and what the compilers report.
    """
    chosen = target if target is not None else (CudaTarget() if gpu_available()[0] else CTarget())

    def regenerate(index_bits: int) -> GeneratedProgram:
        return generate_code(kernel, chosen, index_bits=index_bits)

    again: Callable[[int], GeneratedProgram] = regenerate
    architecture = chosen.arch if target is not None and chosen.arch else None
    return load(generate_code(kernel, chosen), again, architecture)
