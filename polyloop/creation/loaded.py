"""Checks of a kernel that was read from its form: those of ``make_kernel``, and those of every transform's result.

The program that a kernel is judged by is made again from its parts, by the function that ends ``make_kernel``: its
types, shapes, conditions and loops have to come out as they were written.  The kernel itself is then lowered and placed
on threads, beside that program.  Proofs are left to the generation of code, which asks for all of them.
"""

from __future__ import annotations

from collections.abc import Iterator

import islpy as isl

from polyloop.creation.create import complete_kernel
from polyloop.dataflow.address_spaces import place
from polyloop.errors import PolyloopError
from polyloop.frozen import replace
from polyloop.kernel import whole
from polyloop.kernel.kernel import LoopKernel, Reference
from polyloop.kernel.reads import with_reads
from polyloop.memo import memoised
from polyloop.program.infer_types import dtype_table
from polyloop.proof.obligation import in_time
from polyloop.proof.read import mark_read
from polyloop.serial.form import fingerprint
from polyloop.verification.correspondence import comparison_of

__all__ = ["faults"]


@in_time
def faults(kernel: LoopKernel) -> tuple[str, ...]:
    """Return the faults of a kernel that was not made by ``make_kernel`` and transforms in this process.

    Raises
    ------
    PolyloopError
        The program of the kernel is none that can be made.
    """
    try:
        found = next(_faults(kernel), None)
    except isl.Error as error:
        found = str(error)
    return () if found is None else (found,)


def _faults(kernel: LoopKernel) -> Iterator[str]:
    yield from whole.faults(kernel)
    if with_reads(kernel) is not kernel:
        yield "its instructions read other names than they list"
    reference = kernel.reference
    if reference is None:
        if fingerprint(_made(kernel).kernel) != fingerprint(kernel):
            yield "a kernel made of these parts is another one"
        return
    for program in (reference, reference.first):
        if program is not None and not _is_as_made(program):
            yield "the program of its instructions is another one"
    if fingerprint(kernel.conditions) != fingerprint(reference.kernel.conditions):
        yield "it has other conditions on sizes than its program"
    _placed(kernel)
    mark_read(kernel)


@memoised
def _made(kernel: LoopKernel) -> Reference:
    """Return the reference program that ``make_kernel`` would make of the parts of one."""
    found = complete_kernel(replace(kernel, conditions=()), None).reference
    assert found is not None, "a complete kernel has its reference program"
    return found


def _is_as_made(program: Reference) -> bool:
    made = _made(program.kernel)
    return made.tree == program.tree and fingerprint(made.steps) == fingerprint(program.steps)


def _placed(kernel: LoopKernel) -> None:
    """Look at all types, and at the placement of all statements, which may have no answer yet."""
    dtype_table(kernel)
    try:
        place(kernel)
        comparison_of(kernel).new  # noqa: B018 - placed when code is generated
    except PolyloopError:  # it says so where code is generated
        return
