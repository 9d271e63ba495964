"""The programs of a drawn kernel: in C, in CUDA C, with wide indices, with threads."""

from __future__ import annotations

from polyloop.codegen.program import GeneratedProgram
from polyloop.errors import CodegenError
from polyloop.frozen import replace
from polyloop.kernel.arrays import AddressSpace
from polyloop.kernel.kernel import LoopKernel
from polyloop.schedule.build import build_verified
from polyloop.target.c import CTarget
from polyloop.target.cuda import CudaTarget
from polyloop.target.source import generate_code
from polyloop.testing.agreement import Programs
from polyloop.transform.loops.auto_local import assign_auto

__all__ = ["as_built", "generated", "with_threads"]


def as_built(kernel: LoopKernel) -> LoopKernel:
    """Return *kernel*, every axis decided, with the temporaries in global memory that its schedule puts there."""
    spaces = build_verified(kernel, CudaTarget().limits).placement.spaces
    kernel = assign_auto(kernel)
    return replace(
        kernel,
        temporaries={
            name: replace(temporary, address_space=AddressSpace.GLOBAL)
            if temporary.address_space is AddressSpace.AUTO and spaces[name] is AddressSpace.GLOBAL
            else temporary
            for name, temporary in kernel.temporaries.items()
        },
    )


def generated(kernel: LoopKernel, *, is_large: bool) -> Programs:
    """Return the programs of *kernel*, with 64-bit indices too if its indices may be large."""
    c, cuda = generate_code(kernel, target=CTarget()), generate_code(kernel, target=CudaTarget())
    if not is_large:
        return Programs(kernel, c, cuda)
    other = replace(kernel, name=f"{kernel.name}_wide")
    first, second = (generate_code(other, target=target, index_bits=64) for target in (CTarget(), CudaTarget()))
    return Programs(kernel, c, cuda, Programs(other, first, second))


def with_threads(kernel: LoopKernel) -> tuple[GeneratedProgram | None, str]:
    """Return the program in which threads share blocks, None if there are no blocks or it is refused with a code."""
    try:
        found = generate_code(kernel, target=CTarget(openmp=True))
    except CodegenError as refused:
        return None, refused.codes[0]
    return (found if "#pragma omp parallel" in found.device_code else None), ""
