"""Unbuffered view of a program: each access to a buffer is replaced by the access to the array that it stands for.

The element is the one that the reference instance accesses.  Moves between array and buffer are left out, so the
ordinary checks of order and values apply.  ``polyloop.verification.buffers`` proves separately that each buffer holds
the present value of its element.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from polyloop.dataflow.address_spaces import place
from polyloop.errors import Diagnostic, VerificationError
from polyloop.frozen import replace
from polyloop.kernel.instruction import Copy, Instruction, Move
from polyloop.kernel.kernel import LoopKernel, memoised
from polyloop.mapping.thread_mapping import Placed, Placement
from polyloop.program.ir import Access, Assign, Lowered, Program, leaf_count

__all__ = ["unbuffered"]


@memoised
def unbuffered(kernel: LoopKernel) -> Placement:
    """Return the placed program of *kernel* without moves, buffers replaced by their arrays.

    A program without buffers is returned as :func:`place` has it, and so is each statement without one.
    """
    placement = place(kernel)
    if not kernel.buffers:
        return placement
    assert kernel.reference is not None, "a reference program has no buffers"
    old = place(kernel.reference.kernel).program
    statements: dict[str, Placed] = {}
    meant: dict[Access, Access] = {}
    for instruction in placement.program.kernel.instructions:
        if not isinstance(instruction.origin, Move):
            meant.update(_meant_accesses(kernel, placement.program, old, instruction))
    for name, statement in placement.statements.items():
        if isinstance(statement.lowered.instruction.origin, Move):
            continue
        if any(access.array in kernel.buffers for access in statement.lowered.accesses):
            lowered = _redirected(statement.lowered, meant)
            statements[name] = replace(statement, lowered=lowered)
        else:
            statements[name] = statement
    program = replace(placement.program, statements={name: s.lowered for name, s in statements.items()})
    return replace(placement, program=program, statements=statements)


def _redirected(lowered: Lowered, meant: Mapping[Access, Access]) -> Lowered:
    writes = tuple(meant.get(access, access) for access in lowered.writes)
    reads = tuple(meant.get(access, access) for access in lowered.reads)
    return replace(lowered, writes=writes, reads=reads)


def _meant_accesses(
    kernel: LoopKernel, program: Program, old: Program, instruction: Instruction
) -> Iterator[tuple[Access, Access]]:
    """Yield each access of an instruction to a buffer, with the access to the array that it stands for."""
    statements = [s for s in program.statements.values() if s.instruction is instruction]
    buffered = [access for s in statements for access in s.accesses if access.array in kernel.buffers]
    if not buffered:
        return
    origin = instruction.origin
    if not isinstance(origin, Copy):
        raise VerificationError("schedule", kernel.name, [_staged_buffer(buffered[0], instruction)])
    originals = old.leaves(origin.instruction)
    number = 0
    for _, access in program.leaves(instruction.id):
        if access.array in kernel.buffers:
            yield access, _translated(access, originals[number][1], origin)
        number += leaf_count(program, old, access)
    written = (s for s in old.statements.values() if s.instruction.id == origin.instruction)
    own = next(s for s in written if isinstance(s.part, Assign))
    for statement in statements:
        for write in statement.writes:
            if write.array in kernel.buffers:
                yield write, _translated(write, own.write, origin)


def _translated(access: Access, original: Access, origin: Copy) -> Access:
    indices = tuple(None if form is None else form.substitute(origin.forms) for form in original.indices)
    return replace(access, array=original.array, indices=indices, computed=())


def _staged_buffer(access: Access, instruction: Instruction) -> Diagnostic:
    return Diagnostic(
        "not-proven",
        f"'{access.array}' is a buffer, and its values are copied on by '{instruction.id}'",
        hints=("fetch or compute ahead first, and buffer the array after that",),
        sites=(instruction.site(),),
    )
