"""The passes from a kernel to a finished, verified schedule, in their order.

======================  ==========================================================================================
pass                    result
======================  ==========================================================================================
``prepared``            the kernel with every axis decided, every type known, and lanes as loops
``place``               the lowered program on its threads: instances, axes, address spaces
``obligations``         proofs that it computes what its reference program computes
``at_edges``            blocks at the edge of an array that compute as full ones do
``under_way``           completions of products that run on, behind their issues
``synchronization_of``  conflicts between threads, their collective operations, and ends of launches
``storages_of``         private and shared variables
``with_barriers``       the loop tree with barriers
``statements_of``       statements as code generation needs them
``launches_of``         launches, with the storage that each uses
``with_waits``          barriers between blocks of the grid that the same threads execute; proof that the finished
                        launches have a barrier, or a launch's end, for each conflict
``simplified``          copies of partial sums propagated; then reductions of one term as assignments
======================  ==========================================================================================

The passes of code generation follow (``codegen.generate``).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from polyloop.dataflow.address_spaces import place
from polyloop.dataflow.uniformity import uniformity_of
from polyloop.errors import Diagnostic, VerificationError
from polyloop.frozen import replace
from polyloop.kernel.arrays import AddressSpace
from polyloop.kernel.kernel import LoopKernel
from polyloop.kernel.limits import DeviceLimits
from polyloop.mapping.thread_mapping import Placement
from polyloop.memo import memoised
from polyloop.optimize.over_execution import Edges, at_edges
from polyloop.program.expand_lanes import with_lanes
from polyloop.program.infer_types import require_dtypes
from polyloop.proof.obligation import Proof, share_proofs
from polyloop.schedule.allocation import axes_left_out, storages_of, workspace_of
from polyloop.schedule.launches import crossing_violations, launches_of, size_violations
from polyloop.schedule.obligations import discharge, obligations, storage_obligations, wait_obligations
from polyloop.schedule.plan import Contract, FileScope, Remarks, Schedule, Wait
from polyloop.schedule.simplification import simplified
from polyloop.schedule.spelling import index_variables, loop_forms
from polyloop.schedule.statements import statements_of
from polyloop.schedule.synchronization import Synchronization, synchronization_of, with_barriers, with_waits
from polyloop.sync.arrivals import arrival_obligations
from polyloop.sync.async_product import UnderWay, under_way
from polyloop.sync.launches import passages
from polyloop.transform.loops.auto_local import assign_auto

__all__ = ["Verified", "build_schedule", "build_verified", "prepared"]

_MADE_UP: Final = re.compile(r"insn(_\d+)?")
"""Ids of statements that have none in the text."""


@dataclass(frozen=True, eq=False)
class Verified:
    """A schedule with its proofs.

    Attributes
    ----------
    placement
        The program on its threads from which the schedule was made.
    waits
        Pairs of conflicting instructions, each with the barrier that separates them.
    """

    schedule: Schedule
    placement: Placement
    proofs: tuple[Proof, ...]
    waits: tuple[Wait, ...]

    def __repr__(self) -> str:
        return f"<Verified {self.schedule!r}: {len(self.proofs)} proofs, {len(self.waits)} waits>"


def build_schedule(kernel: LoopKernel, limits: DeviceLimits) -> Schedule:
    """Return the schedule of *kernel*, proven to compute what its reference program computes.

    See :func:`build_verified`.
    """
    return build_verified(kernel, limits).schedule


def _has_gaps(verified: Verified) -> bool:
    """Return True if a claim is not proven, but waived; it is tried again at the next call."""
    return any(finding.code == "not-proven" for proof in verified.proofs for finding in proof.found)


@memoised(unless=_has_gaps)
def build_verified(kernel: LoopKernel, limits: DeviceLimits) -> Verified:
    """Return the schedule of *kernel*, with the proofs that it computes what its reference program computes.

    Raises
    ------
    VerificationError
        ``unknown-dtype``, ``local-size-not-constant``, ``block-too-large``, ``shared-too-large``,
        ``private-across-launches``, ``race``, and the codes of the other proof obligations.
    """
    return _build(kernel, limits)


@memoised
def prepared(kernel: LoopKernel) -> LoopKernel:
    """Return *kernel* ready for scheduling: every axis assigned, every type known, lanes as loops.

    Raises
    ------
    VerificationError
        ``unknown-dtype``.
    """
    expanded = with_lanes(assign_auto(kernel))
    typed = require_dtypes(expanded)
    return expanded if _same_types(expanded, typed) else typed


def _build(original: LoopKernel, limits: DeviceLimits) -> Verified:
    """Run the passes from a kernel to its schedule; each depends on its arguments alone."""
    kernel = prepared(original)
    if kernel is not original and kernel is with_lanes(original):  # the program for which transforms have proofs
        share_proofs(original, kernel)
    exact = place(kernel)
    proofs = [*discharge(kernel, obligations(exact, limits))]
    edges = at_edges(exact)
    found = under_way(edges.placement) if limits.has_threads else UnderWay(edges.placement)
    placement = found.placement
    if not limits.has_threads:
        edges = Edges(exact)
    sync = synchronization_of(placement, limits)
    axes = axes_left_out(placement, limits)
    proofs += discharge(kernel, [arrival_obligations(placement, sync.needs, sync.cuts)])
    storages = storages_of(placement, axes, sync.collectives, sync.shapes, edges.cleared, limits)
    proofs += discharge(kernel, [storage_obligations(storages.values(), limits)])
    if crossing := tuple(crossing_violations(sync)):
        chosen = _built_with_global(original, sync, limits)
        if chosen is not None and frozenset(_open(proofs)).issuperset(_open(chosen.proofs)):
            return chosen  # it has no unproven claims beyond those that the user waived
        raise VerificationError("schedule", kernel.name, crossing)  # declared otherwise, or refused in global memory
    tree = with_barriers(sync)
    statements = statements_of(exact, edges, axes, sync.collectives, found.completions)
    launches = launches_of(sync, tree, storages)
    launches, waits = with_waits(sync, launches, statements)
    proofs += discharge(kernel, [wait_obligations(waits, limits)])
    if large := tuple(size_violations(launches, limits)):
        raise VerificationError("schedule", kernel.name, large)
    launches, statements = simplified(kernel, launches, statements)
    tables = {n: t.initializer for n, t in kernel.temporaries.items() if t.initializer is not None}
    left_open = () if edges.open is None else ((kernel.name, edges.open),)
    schedule = Schedule(
        name=kernel.name,
        contract=Contract(
            kernel.parameters, kernel.assumptions, kernel.arguments, kernel.conditions, workspace_of(placement)
        ),
        statements=statements,
        launches=launches,
        loops=loop_forms(sync, tree),
        indices=index_variables(placement),
        file_scope=FileScope(kernel.preambles, tables),
        remarks=Remarks(_unchecked(kernel, proofs), left_open, {i.id: i.place for i in kernel.instructions},
                        _chosen(kernel), kernel.reference),
        phantoms=edges.placement.phantoms,
        uniformity=uniformity_of(placement),
    )
    return Verified(schedule, exact, tuple(proofs), waits)


def _chosen(kernel: LoopKernel) -> frozenset[str]:
    """Return the instructions whose ids are the user's: those of the program as it was written, unless made up."""
    known = kernel.reference
    written = kernel if known is None else (known.first or known).kernel
    return frozenset(i.id for i in written.instructions if not _MADE_UP.fullmatch(i.id))


def _unchecked(kernel: LoopKernel, proofs: Sequence[Proof]) -> tuple[str, ...]:
    """Return the user's reasons for waiving proofs, and the claims that are not proven."""
    lines = [f"unchecked: {reason}" for reason in kernel.waivers]
    if kernel.waivers:
        found = [finding.message.removeprefix("not proven: ") for finding in _open(proofs)]
        lines += [f"not proven: {message}" for message in found]
    return tuple(lines)


def _same_types(old: LoopKernel, new: LoopKernel) -> bool:
    return old.arguments == new.arguments and old.temporaries == new.temporaries


def _built_with_global(kernel: LoopKernel, sync: Synchronization, limits: DeviceLimits) -> Verified | None:
    """Return the schedule with ``auto`` temporaries in global memory where they are live across launches, else None."""
    open_names = {name for name, t in kernel.temporaries.items() if t.address_space is AddressSpace.AUTO}
    chosen = passages(sync.placement, sync.cuts).keys() & open_names
    if not chosen:
        return None
    moved = {name: replace(kernel.temporaries[name], address_space=AddressSpace.GLOBAL) for name in chosen}
    try:
        return _build(replace(kernel, temporaries={**kernel.temporaries, **moved}), limits)
    except VerificationError:
        return None


def _open(proofs: Iterable[Proof]) -> Iterator[Diagnostic]:
    """Yield the waived findings."""
    yield from (finding for proof in proofs for finding in proof.found)
