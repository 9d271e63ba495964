"""Positions of the barriers that the user wrote among the statements of a kernel."""

from __future__ import annotations

from itertools import takewhile

from polyloop.errors import Diagnostic, VerificationError
from polyloop.kernel.build.text_order import Item
from polyloop.kernel.instruction import Copy, ExplicitBarrier, Instruction
from polyloop.kernel.kernel import LoopKernel
from polyloop.kernel.tags import axis_name, is_lane

__all__ = ["barrier_items"]


def barrier_items(kernel: LoopKernel) -> dict[int, list[Item]]:
    """Return the barriers of *kernel* by the number of the instruction that follows them.

    A barrier comes behind the last copy of an instruction that precedes it in the reference program, and behind
    instructions that a transform had made before the barrier was added.  The loops around it are those that transforms
    made of the loops around it in the text.

    Raises
    ------
    VerificationError
        ``barrier-outside``: the loops around the barrier are not the outermost ones of its neighbours.
    """
    found: dict[int, list[Item]] = {}
    for barrier in kernel.barriers:
        position = 0
        for number, instruction in enumerate(kernel.instructions):
            origin = instruction.origin
            if (origin.instruction if isinstance(origin, Copy) else instruction.id) in barrier.before:
                position = number + 1
        nest = _nest(kernel, barrier, position)
        item = Item(
            barrier.id, tuple(nest), frozenset(), frozenset(), blocks=nest, barrier=barrier.scope
        )
        found.setdefault(position, []).append(item)
    return found


def _nest(kernel: LoopKernel, barrier: ExplicitBarrier, position: int) -> dict[str, int]:
    """Return the sequential loops around *barrier*, ahead of instruction *position*, with their ``for`` blocks."""
    numbers = {number for _, number in barrier.blocks}
    if not numbers:
        return {}
    neighbours = [*reversed(kernel.instructions[:position]), *kernel.instructions[position:]]
    inside = next((i for i in neighbours if numbers <= {number for _, number in i.blocks}), None)
    if inside is None:
        raise _outside(kernel, barrier, None)
    own = {iname: number for iname, number in inside.blocks if number in numbers}
    loops = [x for x in inside.inames if axis_name(kernel.tag(x)) is None and not is_lane(kernel.tag(x))]
    nest = [*takewhile(own.__contains__, loops)]
    if any(iname in own for iname in loops[len(nest) :]):
        raise _outside(kernel, barrier, inside)
    return {iname: own[iname] for iname in nest}


def _outside(kernel: LoopKernel, barrier: ExplicitBarrier, inside: Instruction | None) -> VerificationError:
    loops = ", ".join(iname for iname, _ in barrier.blocks)
    note = f"no instruction stands in its loops {loops}"
    if inside is not None:
        note = f"it stands inside {loops}; '{inside.id}' runs over {', '.join(inside.inames)}"
    problem = Diagnostic(
        "barrier-outside",
        f"barrier '{barrier.id}' does not fit into the loops around its neighbours",
        (note,),
        ("keep the loops around the barrier outermost, or move the barrier out of them",),
        sites=(barrier.site(),),
    )
    return VerificationError("schedule", kernel.name, [problem])
