"""``add_barrier``: a barrier between two instructions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Annotated, ClassVar, Final

from polyloop.dataflow.address_spaces import place
from polyloop.errors import Diagnostic, Place
from polyloop.kernel.instruction import Copy, ExplicitBarrier, Instruction
from polyloop.kernel.kernel import LoopKernel
from polyloop.kernel.tags import axis_name
from polyloop.kernel.tree import Scope
from polyloop.program.lower import lower
from polyloop.program.reference import reference_of
from polyloop.sync.host_loops import obstructed_barriers
from polyloop.transform.base import Transform
from polyloop.transform.declare import Names, Takes
from polyloop.transform.instructions.matching import match_violations, meant, reference_id
from polyloop.transform.parameters import InsnId, NewName, Word, words_of
from polyloop.verification.order import order_violations
from polyloop.verification.values import value_violations

__all__ = ["AddBarrier"]

_SCOPES: Final = {"local": Scope.BLOCK, "global": Scope.GRID}


@dataclass(frozen=True)
class AddBarrier(Transform):
    """Add a barrier between instructions, for the threads of a block (``"local"``) or of all blocks (``"global"``).

    ::

        t[i] = a[i]                  t[i] = a[i]
        b[i] = t[n - 1 - i]    ->    ... gbarrier
                                     b[i] = t[n - 1 - i]

    >>> knl = pl.make_kernel("{[i]: 0 <= i < n}", ["t[i] = a[i] {id=set}", "b[i] = t[n - 1 - i] {id=get}"])
    >>> print(knl.add_barrier("id:set", "id:get"))
    kernel loop_kernel
    ...
    instructions:
        [i]  t[i] = a[i]    {id=set}
        [i]  b[i] = t[n - 1 - i]    {id=get}
    barriers:
        ... gbarrier, after set

    Parameters
    ----------
    insn_before, insn_after
        Match expressions, such as an id, or ``"writes:t"``.  The barrier comes after all of the former and right before
        the first of the latter, inside the loops that all of them share.
    id_based_on
        Id of the barrier, or its prefix; by default ``"barrier"``.
    tags
        Tags, which are recorded in the trace only.
    synchronization_kind
        ``"global"`` ends the launch where blocks run, and in a loop lets the host run it around launches; ``"local"``
        is a barrier of the block.
    mem_kind
        The value of *synchronization_kind*, or None: a barrier orders accesses to shared and to global memory alike.

    Raises
    ------
    TransformError
        ``unknown-instruction``, ``syntax``, ``bad-value``, ``barrier-memory``, ``barrier-nowhere``; ``grid-barrier``
        for a global barrier inside a loop that the host cannot run around launches; ``illegal-order`` and others where
        the loops around it cannot be divided.

    Notes
    -----
    Required barriers are derived; this one is in addition to them. The reference program gets the barrier too, and no
    value changes. Code generation warns with ``idle-barrier`` if no threads depend on each other across it. Source:
    Loopy's transform of the same name.
    """

    changes_meaning: ClassVar[bool] = True
    insn_before: InsnId
    insn_after: InsnId
    id_based_on: NewName | None = None
    tags: Annotated[tuple[str, ...], Takes(str | Sequence[str] | None, words_of), Names.NOTHING] = ()
    synchronization_kind: Word = "global"
    mem_kind: Word | None = None

    def violations(self, kernel: LoopKernel) -> Iterator[Diagnostic]:
        if self.synchronization_kind not in _SCOPES:
            message = f"a barrier is global or local, not {self.synchronization_kind!r}"
            yield Diagnostic("bad-value", message, hints=('synchronization_kind="global" or "local"',))
            return
        if self.mem_kind not in (None, self.synchronization_kind):
            yield Diagnostic(
                "barrier-memory",
                f"mem_kind={self.mem_kind!r} is not possible for a {self.synchronization_kind} barrier",
                hints=("drop mem_kind: it orders accesses to shared and to global memory alike",),
            )
        found = tuple(match_violations(kernel, (self.insn_before, self.insn_after), self.name))
        yield from found
        if not found:
            before, after = self._sides(kernel)
            order = [instruction.id for instruction in kernel.instructions]
            last, first = before[-1], after[0]
            if order.index(last.id) >= order.index(first.id):
                yield Diagnostic(
                    "barrier-nowhere",
                    f"no position is after '{last.id}' and before '{first.id}'",
                    (f"the order of the instructions is {', '.join(order)}",),
                    ("name the two the other way round, or fewer instructions",),
                    sites=(last.site(), first.site()),
                )

    def _sides(self, kernel: LoopKernel) -> tuple[tuple[Instruction, ...], tuple[Instruction, ...]]:
        return meant(kernel, self.insn_before, self.name), meant(kernel, self.insn_after, self.name)

    def rewrite(self, kernel: LoopKernel) -> LoopKernel:
        before, after = self._sides(kernel)
        taken = {instruction.id for instruction in kernel.instructions} | {b.id for b in kernel.barriers}
        name = kernel.fresh(self.id_based_on or "barrier", taken)
        scope = _SCOPES[self.synchronization_kind]
        barrier = ExplicitBarrier(name, scope, (), frozenset(), Place(f"... {self.synchronization_kind[0]}barrier"))
        result, around = _with_barrier(kernel, barrier, (before, after), lambda iname: True)
        reference = kernel.reference
        if reference is None:
            return result
        old = reference.kernel
        sides = tuple(
            tuple(old.instruction(name) for name in dict.fromkeys(map(reference_id, side)) if _has(old, name))
            for side in (before, after)
        )
        if not all(sides):
            return result
        if scope is Scope.BLOCK:
            around += tuple(iname for iname in kernel.inames if (axis_name(kernel.tag(iname)) or "l").startswith("g"))
        kept = {x for i in (*before, *after) if isinstance(i.origin, Copy) for x in _made_of(i.origin, around)}
        written, _ = _with_barrier(old, barrier, (sides[0], sides[1]), kept.__contains__)
        if tuple(order_violations(replace(written, reference=reference))):
            return result
        return replace(result, reference=reference_of(written))

    def consequences(self, before: LoopKernel, after: LoopKernel) -> Iterable[Diagnostic]:
        added = after.barriers[-1]
        on_hardware = any(axis_name(tag) is not None for tag in after.iname_tags.values())
        if added.scope is Scope.GRID and added.blocks and on_hardware:
            for _, loop, why in obstructed_barriers(place(after)):
                yield Diagnostic(
                    "grid-barrier",
                    f"a global barrier cannot be in the sequential loop '{loop}'",
                    (
                        "all blocks synchronize only where one launch ends and the next begins",
                        f"the host cannot run the loop {why}",
                    ),
                    ('synchronize the threads of each block: synchronization_kind="local"',),
                )
                return
        judged = replace(after, reference=before.reference)
        for finding in (*value_violations(judged), *order_violations(judged)):
            hint = "the barrier divides the loops around it: let a temporary have an element for each iteration"
            yield replace(finding, hints=(hint,))


def _has(kernel: LoopKernel, name: str) -> bool:
    return any(instruction.id == name for instruction in kernel.instructions)


def _made_of(origin: Copy, inames: Sequence[str]) -> Iterator[str]:
    """Yield the inames of the reference program that *inames* count, or a part of them."""
    for iname, form in origin.forms.items():
        if not form.names().isdisjoint(inames):
            yield iname


def _with_barrier(
    kernel: LoopKernel,
    barrier: ExplicitBarrier,
    sides: tuple[Sequence[Instruction], Sequence[Instruction]],
    stays_in: Callable[[str], bool],
) -> tuple[LoopKernel, tuple[str, ...]]:
    """Return *kernel* with *barrier* just before the second of *sides*, and the loops around it.

    These are the outermost loops that all of *sides* share, as far as *stays_in* holds.  They are numbered as written
    loops are, so that they stay around the barrier.
    """
    before, after = sides
    places = lower(kernel).places
    common = _common([places[instruction.id] for instruction in (*before, *after)])
    loops = takewhile(lambda depth: stays_in(str(common[depth])), range(1, len(common), 2))
    instructions = {instruction.id: instruction for instruction in kernel.instructions}
    numbers: list[tuple[str, int]] = []
    for depth in loops:
        iname = str(common[depth])
        inside = [i for i in instructions.values() if places[i.id][: depth + 1] == common[: depth + 1]]
        known = [number for i in inside for name, number in i.blocks if name == iname]
        used = [number for i in instructions.values() for _, number in i.blocks]
        number = known[0] if known else max(used, default=-1) + 1
        numbers.append((iname, number))
        for i in inside:
            if iname in i.inames and iname not in dict(i.blocks):
                instructions[i.id] = replace(i, blocks=(*i.blocks, (iname, number)))
    order = [*instructions]
    position = min(order.index(instruction.id) for instruction in after)
    earlier = frozenset(reference_id(instructions[name]) for name in order[:position])
    placed = replace(barrier, blocks=tuple(numbers), before=earlier)
    result = replace(kernel, instructions=tuple(instructions.values()), barriers=(*kernel.barriers, placed))
    return result, tuple(iname for iname, _ in numbers)


def _common(places: Sequence[tuple[int | str, ...]]) -> tuple[int | str, ...]:
    """Return the longest common prefix of *places* that ends with an iname: the loops that all of them share."""
    depth = 0
    while all(len(place) > depth + 1 and place[: depth + 2] == places[0][: depth + 2] for place in places):
        depth += 2
    return places[0][:depth]
