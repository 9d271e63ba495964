"""Generation of verified source text for a target from a kernel."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from polyloop.codegen.device.tensors import refuse_older
from polyloop.codegen.generate import generate
from polyloop.codegen.program import GeneratedProgram
from polyloop.edge.checks import OneOf
from polyloop.errors import warn
from polyloop.kernel.kernel import LoopKernel
from polyloop.memo import known, memoised
from polyloop.proof.obligation import public_call
from polyloop.proof.read import of_what_was_read
from polyloop.schedule.build import build_schedule
from polyloop.target.base import Target, target_of
from polyloop.target.cuda import CudaTarget

__all__ = ["generate_code"]


@memoised
def _generated(kernel: LoopKernel, target: Target, index_bits: int) -> GeneratedProgram:
    """Return the result of :func:`generate_code`; it warns once."""
    with public_call("generate_code", kernel.name), of_what_was_read("generate_code", kernel):
        refuse_older(kernel, target.language)
        program = generate(build_schedule(kernel, target.limits), target.language, index_bits=index_bits)
        program = program if target.build == program.build else replace(program, build=target.build)
    warn("generate_code", kernel.name, program.notes, kernel.silenced_warnings)
    return program


def generate_code(
    kernel: LoopKernel, target: Target | None = None, *, index_bits: Annotated[int, OneOf(32, 64)] | None = None
) -> GeneratedProgram:
    """Return the source of *kernel* for *target*, verified.

    Parameters
    ----------
    target
        :func:`CudaTarget` or :func:`CTarget`; by default the kernel's, and that is CUDA unless it was created with
        another one.
    index_bits
        Width of index arithmetic [bits], 32 or 64; by default 32, and at least that of the kernel's ``index_dtype``.
        With 32 the caller has to check ``index_checks``; compiled
        kernels do, and switch to 64 by themselves.

    Returns
    -------
    GeneratedProgram
        ``device_code`` (text), ``grid`` and ``block`` (expressions in the parameters), ``arguments``, ``checks``.

    Raises
    ------
    VerificationError
        The schedule would not compute the kernel's program, or needs more than the device has.
    CodegenError
        The target cannot express the kernel.
    """
    bits = max(index_bits or 32, 8 * kernel.index_dtype.itemsize)
    chosen = target_of(kernel, target) or CudaTarget()
    found = known(_generated, kernel).get((chosen, bits))
    if found is not None:
        return _generated(kernel, chosen, bits)
    with public_call("generate_code", kernel.name):  # those that wait find what the first thread made
        return _generated(kernel, chosen, bits)
