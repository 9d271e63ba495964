"""Forward progress of decoupled look-back: scans over blocks in one launch never deadlock.

A block waits only for blocks that have begun before it, because blocks take their numbers from a counter when they
begin.  Two more facts are proven: every block reaches the place where totals are passed on, and does so once.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from polyloop.errors import Diagnostic
from polyloop.mapping.thread_mapping import Placed, Placement
from polyloop.poly.axes import is_grid_axis
from polyloop.program.ir import Combine
from polyloop.proof.obligation import Claim, Obligation

__all__ = ["is_over_blocks", "passing_obligations", "passing_violations"]


def is_over_blocks(placed: Placed) -> bool:
    """Return whether blocks pass totals on at a statement."""
    return isinstance(placed.lowered.part, Combine) and any(map(is_grid_axis, placed.lowered.across))


def passing_obligations(placement: Placement) -> Iterator[Obligation]:
    """Yield, for each scan over blocks, that every block passes on one total, once."""
    for name, placed in placement.statements.items():
        if is_over_blocks(placed):
            id_ = placed.lowered.instruction.id
            says = f"every block reaches '{id_}' once, and waits there only for blocks that have begun before it"
            by = "loops around it, axes without an iname of it"
            yield Obligation(Claim.BARRIERS, f"'{name}'", says, by, partial(_problems, placement, placed))


def passing_violations(placement: Placement) -> Iterator[Diagnostic]:
    """Yield diagnostics of scans over blocks whose blocks cannot pass totals on."""
    for placed in placement.statements.values():
        if is_over_blocks(placed):
            yield from _problems(placement, placed)


def _problems(placement: Placement, placed: Placed) -> Iterator[Diagnostic]:
    axes, lowered = placement.axes, placed.lowered
    loops = [entry for entry in placement.program.places[placed.name] if isinstance(entry, str)]
    why = ""
    if loops or not placed.repeated.issuperset(axes.all):
        why = f"it is repeated along {', '.join(dict.fromkeys((*loops, *sorted(placed.own))))}"
    elif len(axes.group) > 1:
        why = f"blocks are numbered along one axis, and the kernel has {', '.join(axes.group)}"
    elif axes.has_digits:
        why = "inames are digits of the thread number"
    elif not (order := placement.program.kernel.blocks).is_plain:
        why = f"blocks wait for those with smaller numbers, and have an order of their own: {order}"
    if why:
        yield Diagnostic(
            "parallel-scan",
            f"the blocks cannot scan over what '{lowered.instruction.id}' combines",
            (why,),
            ("scan the sums of the tiles in a launch of its own: pl.split_scan(..., carry_iname='c')",),
            sites=(lowered.instruction.site(),),
        )
