"""Loops that a written barrier divides: a proof that both halves compute the same program, or a counterexample.

A barrier inside of ``for`` distributes the innermost loop: all iterations of the first half run before the second half.
In a parallel loop, that is the meaning of a barrier.  In a sequential loop a barrier has no meaning of its own: it must
stay in the loop, otherwise a value that one iteration passes to the next would be lost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import islpy as isl

from polyloop.dataflow.address_spaces import place
from polyloop.dataflow.value_flow import is_exact
from polyloop.errors import Diagnostic, KernelError, VerificationError
from polyloop.frozen import replace
from polyloop.kernel.instruction import Copy, ExplicitBarrier
from polyloop.kernel.kernel import LoopKernel
from polyloop.kernel.tags import is_lane
from polyloop.verification.correspondence import reference_flow
from polyloop.verification.order import order_violations
from polyloop.verification.values import value_violations

_IN = isl.dim_type.in_
_OUT = isl.dim_type.out

__all__ = ["divided_violations", "settled"]


def settled(kernel: LoopKernel, undivided: Callable[[], LoopKernel]) -> LoopKernel:
    """Return *kernel*, whose barriers divide loops, or the undivided one, whichever the text means.

    *kernel* is meant where both compute the same, or where the undivided one has no defined result.  Where an iteration
    passes a scalar to the next one, the undivided one is meant.  Where it passes elements of arrays, *kernel* is meant,
    on condition that the loop runs in parallel: its barriers record that.
    """
    try:
        whole = undivided()
    except (KernelError, VerificationError):
        return kernel
    cut = _cut_inames(kernel, whole)
    if not cut:
        return kernel
    try:
        judged = replace(kernel, reference=whole.reference)
        found = next((f for f in (*order_violations(judged), *value_violations(judged))), None)
    except VerificationError as error:
        found = error.found[0]
    if found is None:
        return kernel
    if _hands_on_scalars(whole, {iname for inames in cut.values() for iname in inames}):
        return whole
    assert kernel.reference is not None, "a complete kernel has its reference program"
    marked = tuple(replace(b, divides=cut.get(b.id, ()), notes=found.notes) for b in kernel.barriers)
    reference = replace(kernel.reference, kernel=replace(kernel.reference.kernel, barriers=marked))
    return replace(kernel, barriers=marked, reference=reference)


def _cut_inames(kernel: LoopKernel, whole: LoopKernel) -> dict[str, tuple[str, ...]]:
    """Return barrier -> inames of the loops of *whole* that it divides."""
    inside = {barrier.id: [iname for iname, _ in barrier.blocks] for barrier in whole.barriers}
    found = {}
    for barrier in kernel.barriers:
        own = [iname for iname, _ in barrier.blocks]
        if more := tuple(iname for iname in inside.get(barrier.id, own) if iname not in own):
            found[barrier.id] = more
    return found


def _hands_on_scalars(kernel: LoopKernel, inames: set[str]) -> bool:
    """Return whether a scalar temporary has, in some iteration of a loop, a value of an earlier one."""
    assert kernel.reference is not None, "a complete kernel has its reference program"
    placement = place(kernel.reference.kernel)
    for name, temporary in kernel.temporaries.items():
        if temporary.shape or not is_exact(placement, name):
            continue
        flow = reference_flow(placement, name)
        for (reader, _), sources in zip(flow.reads, flow.sources, strict=True):
            for writer, link in sources:
                common = [x for x in reader.dims if x in writer.dims and x in inames]
                for iname in common:
                    i, j = reader.dims.index(iname), writer.dims.index(iname)
                    if not link.is_subset(link.equate(_IN, i, _OUT, j)):
                        return True
    return False


def divided_violations(kernel: LoopKernel) -> Iterator[Diagnostic]:
    """Yield a diagnostic for each sequential loop that a barrier divides though its iterations depend on each other."""
    for barrier in kernel.barriers:
        for iname in barrier.divides:
            if not all(_is_parallel(kernel, instruction.origin, iname) for instruction in kernel.instructions):
                yield _sequential(barrier, iname)


def _is_parallel(kernel: LoopKernel, origin: object, iname: str) -> bool:
    """Return whether the loop *iname* of the reference program, around an instruction, is mapped to axes and lanes."""
    if not isinstance(origin, Copy) or iname not in origin.forms:
        return True
    return all(kernel.axis(x) is not None or is_lane(kernel.tag(x)) for x in origin.forms[iname].names())


def _sequential(barrier: ExplicitBarrier, iname: str) -> Diagnostic:
    return Diagnostic(
        "divided-loop",
        f"barrier '{barrier.id}' would divide the sequential loop '{iname}', whose iterations hand on values",
        barrier.notes,
        (
            f"drop the barrier, run '{iname}' in parallel (pl.tag_inames), or write two loops: "
            f"'end', the barrier, 'for {iname}'",
        ),
        sites=(barrier.site(),),
    )
