"""Place of a copy among the instructions of a loop that it is swept over."""

from __future__ import annotations

from collections.abc import Collection

from polyloop.frozen import replace
from polyloop.kernel.instruction import Instruction
from polyloop.kernel.kernel import LoopKernel
from polyloop.kernel.tags import axis_name
from polyloop.transform.loops.nests import nest_violations

__all__ = ["outside_of_loops"]


def outside_of_loops(kernel: LoopKernel, name: str, outer: Collection[str]) -> LoopKernel:
    """Return *kernel* with the copy *name* where it leaves the loops of its users whole.

    A copy stands in front of its first user, which ends the loops around that that are not *outer* ones.  Where such a
    loop must not end there, the copy goes in front of all that share it.
    """
    at = next(n for n, instruction in enumerate(kernel.instructions) if instruction.id == name)
    first = at
    while first > 0 and _share_a_loop(kernel, kernel.instructions[first - 1], kernel.instructions[at + 1], outer):
        first -= 1
    if first == at or not any(nest_violations(kernel)):
        return kernel
    before, copy, behind = kernel.instructions[:at], kernel.instructions[at], kernel.instructions[at + 1 :]
    whole = replace(kernel, instructions=(*before[:first], copy, *before[first:], *behind))
    return kernel if any(nest_violations(whole)) else whole


def _share_a_loop(kernel: LoopKernel, one: Instruction, user: Instruction, outer: Collection[str]) -> bool:
    """Return True if two instructions are in one written loop that is not one of *outer*."""
    of_one, of_user = dict(one.blocks), dict(user.blocks)
    return any(
        iname in user.inames and iname not in outer and axis_name(kernel.tag(iname)) is None
        and of_one.get(iname) == of_user.get(iname)
        for iname in one.inames
    )  # fmt: skip
