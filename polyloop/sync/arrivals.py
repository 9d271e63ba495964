"""Blocks that count their arrivals: the last one of a group executes a block of the next launch.

The blocks of a launch that differ along one axis alone are a *group*.  Where a launch is *joined* to the one in front,
its block with the indices of a group begins when all blocks of the group have arrived, in the last one of them.  The
end of the launch in front orders all blocks of both.  The count orders those of one group: so each pair of instances
that this end keeps in order, by their conflict over memory, has to be in one group.

Which block arrives last is not known, so nothing of the two launches but global memory is in common.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

import islpy as isl

from polyloop.dataflow.conflicts import crossing
from polyloop.errors import Diagnostic, WitnessKind
from polyloop.kernel.instruction import CopyStep
from polyloop.kernel.tree import runs
from polyloop.mapping.thread_mapping import Placed, Placement
from polyloop.proof.obligation import Claim, Obligation
from polyloop.proof.witness import element, instance, pair, threads, witness
from polyloop.sync.launches import Cuts, hosts_around, parts_of
from polyloop.sync.lookback_progress import is_over_blocks
from polyloop.sync.races import Need

__all__ = ["arrival_obligations", "joined_launches"]


def joined_launches(placement: Placement, cuts: Cuts) -> frozenset[int]:
    """Return the numbers of the launches whose blocks are executed by those of the launch in front.

    They are those without an iname on the axis that is counted, behind one that has it, in one block of the host.
    """
    axis = placement.program.kernel.blocks.counted
    if axis is None:
        return frozenset()
    parts = [*parts_of(placement.program.tree, cuts)]
    on = [any(axis in placement.statements[name].own for name in runs(part.nodes)) for part in parts]
    return frozenset(
        number for number in range(1, len(parts))
        if on[number - 1] and not on[number] and parts[number - 1].block == parts[number].block
    )  # fmt: skip


def arrival_obligations(placement: Placement, needs: Sequence[Need], cuts: Cuts) -> Iterator[Obligation]:
    """Yield the obligation that launches can be joined, if the kernel asks for it."""
    axis = placement.program.kernel.blocks.counted
    if axis is not None:
        says = f"blocks that the count of arrivals along {axis} orders are all that depend on each other"
        by = "pairs of accesses to one element on different blocks, by the indices of the blocks"
        yield Obligation(Claim.BARRIERS, f"arrivals along {axis}", says, by, partial(_problems, placement, needs, cuts))


def _problems(placement: Placement, needs: Sequence[Need], cuts: Cuts) -> Iterator[Diagnostic]:
    kernel = placement.program.kernel
    axis = kernel.blocks.counted
    assert axis is not None, "the kernel counts arrivals"
    found, known = parts_of(placement.program.tree, cuts), placement.statements
    parts = [[known[name] for name in runs(part.nodes)] for part in found]
    numbers = {placed.name: number for number, members in enumerate(parts) for placed in members}
    joined = joined_launches(placement, cuts)
    if not joined:
        yield _nothing_joined(axis, parts)
        return
    if why := [*_obstacles(placement, [[placed for n in joined for placed in parts[n - k]] for k in (1, 0)], cuts)]:
        yield Diagnostic("bad-arrivals", f"blocks cannot count their arrivals along {axis}", tuple(why),
                         ("leave out pl.join_launches, or what it does not go with",))
        return
    for number in sorted(joined):
        yield from _unreached(placement, axis, parts[number - 1], parts[number])
    kept = tuple(other for other in placement.axes.group if other != axis)
    for need in needs:
        first, second = numbers[need.conflict.first.name], numbers[need.conflict.second.name]
        if second in joined and first == second - 1:
            outside = _outside(need, kept, axis)
            if outside is not None:
                yield outside
                return


def _nothing_joined(axis: str, parts: Sequence[Sequence[Placed]]) -> Diagnostic:
    on = [n for n, members in enumerate(parts) if any(axis in placed.own for placed in members)]
    shown = ", ".join(f"'{placed.lowered.instruction.id}'" for n in on for placed in parts[n][:1])
    why = f"launches of {shown} have an iname on {axis}" if on else f"no iname is on {axis}"
    return Diagnostic(
        "bad-arrivals", f"no launch follows one along {axis} that has no iname there",
        (f"there {'is' if len(parts) == 1 else 'are'} {len(parts)} launch{'es' * (len(parts) > 1)}; {why}",),
        ("the next launch is one block for each group: leave its statements without an iname on that axis",),
    )  # fmt: skip


def _obstacles(placement: Placement, sides: Sequence[Sequence[Placed]], cuts: Cuts) -> Iterator[str]:
    kernel, (front, behind) = placement.program.kernel, sides
    members = [*front, *behind]
    if kernel.blocks.persists:
        yield "blocks execute several ones in turn: pl.persist_blocks"
    if kernel.blocks.axis is not None:
        yield "blocks have an order of their own: pl.order_blocks"
    if any(hosts_around(placement, placed, cuts) for placed in members):
        yield "a host runs a loop around the launches"
    if placement.axes.cluster > 1:
        yield "blocks of a cluster run together: an iname is tagged 'c.0'"
    if any(map(is_over_blocks, members)):
        yield "blocks scan over blocks, and wait for those in front"
    copied = {tile for role in kernel.roles for tile in role.copies}
    starts = [placed.lowered for placed in behind if placed.lowered.instruction.step is CopyStep.START]
    if late := [start.instruction.id for start in starts if start.write.array in copied]:
        yield f"threads that copy have ended when '{late[0]}' is to start a copy: pl.assign_roles"


def _unreached(
    placement: Placement, axis: str, front: Sequence[Placed], behind: Sequence[Placed]
) -> Iterator[Diagnostic]:
    """Yield a diagnostic for sizes for which a launch has something to do, and the one in front has no block."""
    assumed = placement.program.kernel.assumptions
    begun = _union(placed.domain.params() for placed in front if axis in placed.own)
    for placed in behind:
        left = placed.domain.params().intersect(assumed).subtract(begun)
        if not left.is_empty():
            sizes = left.sample_point()
            names = [sizes.get_space().get_dim_name(isl.dim_type.param, n) for n in range(left.dim(isl.dim_type.param))]
            shown = ", ".join(
                f"{name}={sizes.get_coordinate_val(isl.dim_type.param, n).to_python()}" for n, name in enumerate(names))
            yield Diagnostic(
                "bad-arrivals", f"no block would execute '{placed.lowered.instruction.id}'",
                (f"there is none along {axis} for {shown}",),
                ("say that there is one: pl.assume(knl, ..)",),
                sites=(placed.lowered.instruction.site(),))  # fmt: skip
            return


def _union(sets: Iterator[isl.Set]) -> isl.Set:
    found = next(sets)
    for other in sets:
        found = found.union(other)
    return found


def _outside(need: Need, kept: tuple[str, ...], axis: str) -> Diagnostic | None:
    """Return a diagnostic with a pair of instances of *need* in different groups; None if there is none."""
    first, second = need.conflict.first, need.conflict.second
    every = need.conflict.every or need.conflict.relation
    across = crossing(every, first, second, kept) if kept else None
    if across is None:
        return None
    left, right = pair(across, first, second)
    accesses: Mapping[str, tuple[Placed, Mapping[str, int]]] = {"first": (first, left), "second": (second, right)}
    verbs = ["writes" if placed.lowered.is_write(access) else "reads"
             for access, (placed, _) in zip((need.first, need.second), accesses.values(), strict=True)]
    return Diagnostic(
        "bad-arrivals",
        f"blocks depend on others than those that differ along {axis}",
        (
            f"instance {instance(first, left)} on thread ({threads(first, left)}) {verbs[0]} "
            f"{element(first, need.first, left)}",
            f"instance {instance(second, right)} on thread ({threads(second, right)}) {verbs[1]} it, and begins when "
            f"the blocks with its indices on {', '.join(kept)} have arrived",
        ),
        ("divide the loops of both launches into equal tiles, on the same axes of blocks",),
        sites=(second.lowered.instruction.site(),),
        witness=witness(WitnessKind.OVERWRITTEN, (first, need.first, left), (first, left), (second, right)),
    )  # fmt: skip
