"""Place of a copy: the loops around it, and where it stands among the instructions of a loop that it is swept over."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import reduce as fold

from polyloop.frozen import replace
from polyloop.kernel.instruction import Instruction
from polyloop.kernel.kernel import LoopKernel
from polyloop.kernel.tags import axis_name, is_lane, is_thread
from polyloop.program.lower import loop_order
from polyloop.proof.postponed import in_chain
from polyloop.transform.loops.nests import nest_violations
from polyloop.transform.staging.plan import Plan, Target
from polyloop.transform.staging.uses import Use
from polyloop.verification.order import order_violations

__all__ = ["loops_around", "outside_of_loops"]


def loops_around(kernel: LoopKernel, plan: Plan, target: Target) -> tuple[str, ...]:
    """Return the loops around the new instruction, the outermost first.

    Subscripts that were given say which elements these are: other uses have no part in it.
    """
    if plan.outer is None:
        given = tuple(form for forms in plan.subscripts for form in forms if form is not None)
        uses = [replace(use, arguments=given) for use in target.uses] if plan.subscripts else target.uses
        return _outer_inames(kernel, uses, plan.sweep, target.free)
    order = loop_order(target.uses[0].inames, kernel.loop_priority)
    return tuple(sorted(plan.outer, key=lambda x: order.index(x) if x in order else len(order)))


def _outer_inames(
    kernel: LoopKernel, uses: Sequence[Use], sweep: Sequence[str], free: frozenset[str]
) -> tuple[str, ...]:
    """Return the loops around the new instruction, the outermost first.

    These are all that are not swept, save those that the elements do not depend on and that are threads of the block,
    lanes, or lie inside a swept loop.  *free* are inames in the value besides those in the arguments.
    """
    needed = {name for use in uses for form in use.arguments for name in form.names()} | free
    order: dict[str, None] = {}
    for use in uses:
        inside = False
        for iname in loop_order(use.inames, kernel.loop_priority):
            if iname in sweep:
                inside = axis_name(kernel.tag(iname)) is None
            elif iname in needed or not (
                is_thread(kernel.tag(iname))
                or is_lane(kernel.tag(iname))
                or (inside and axis_name(kernel.tag(iname)) is None)
            ):
                order.setdefault(iname)
    common = fold(frozenset.intersection, (frozenset(use.inames) for use in uses))
    return loop_order([iname for iname in order if iname in common or iname in needed], kernel.loop_priority)


def outside_of_loops(kernel: LoopKernel, name: str, outer: Collection[str]) -> LoopKernel:
    """Return *kernel* with the copy *name* where it leaves the loops of its users whole.

    A copy stands in front of its first user, which ends the loops around that that are not *outer* ones.  Where such a
    loop must not end there, the copy goes in front of all that share it.
    """
    at = next(n for n, instruction in enumerate(kernel.instructions) if instruction.id == name)
    first = at
    while first > 0 and _share_a_loop(kernel, kernel.instructions[first - 1], kernel.instructions[at + 1], outer):
        first -= 1
    if first == at or in_chain():  # the chain is refused where the loop must not end, and done step by step
        return kernel
    if not (any(order_violations(kernel)) or any(nest_violations(kernel))):  # stops at the first one
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
