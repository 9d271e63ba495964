"""``realize_reduction``: say that reductions are carried out as their tags say, and check it now."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import ClassVar

from polyloop.analysis.legality import order_violations
from polyloop.analysis.place import place
from polyloop.analysis.uniform import divergent_reductions
from polyloop.analysis.values import value_violations
from polyloop.errors import Diagnostic
from polyloop.kernel.instruction import Instruction
from polyloop.kernel.kernel import LoopKernel
from polyloop.kernel.tags import GroupAxis, is_lane, is_thread
from polyloop.transform.base import Transform
from polyloop.transform.matched import match_violations, meant

__all__ = ["RealizeReduction", "realize_reduction"]


@dataclass(frozen=True)
class RealizeReduction(Transform):
    """Check that reductions can be carried out as their tags say."""

    name: ClassVar[str] = "realize_reduction"
    insn_id_filter: str | None = None

    def violations(self, kernel: LoopKernel) -> Iterator[Diagnostic]:
        patterns = [] if self.insn_id_filter is None else [self.insn_id_filter]
        if found := tuple(match_violations(kernel, patterns, self.name)):
            yield from found
            return
        if not any(instruction.terms for instruction in self._chosen(kernel)):
            listed = ", ".join(f"'{i.id}'" for i in kernel.instructions if i.terms) or "none"
            hints = (f"instructions with reductions: {listed}",)
            yield Diagnostic("no-match", "there is no reduction to realize", hints=hints)

    def rewrite(self, kernel: LoopKernel) -> LoopKernel:
        return kernel

    def consequences(self, before: LoopKernel, after: LoopKernel) -> Iterable[Diagnostic]:
        del before
        return (
            tuple(divergent_reductions(place(after)))
            or tuple(value_violations(after))
            or tuple(order_violations(after))
        )

    def note(self, before: LoopKernel, after: LoopKernel) -> str:
        del before
        lines = []
        for instruction in self._chosen(after):
            for number, _ in enumerate(instruction.terms):
                lines.append(f"'{instruction.id}': {', then '.join(_levels(after, instruction, number))}")
        return "; ".join(lines)

    def _chosen(self, kernel: LoopKernel) -> tuple[Instruction, ...]:
        return kernel.instructions if self.insn_id_filter is None else meant(kernel, self.insn_id_filter, self.name)


def _levels(kernel: LoopKernel, instruction: Instruction, number: int) -> Iterator[str]:
    """Yield in words how the terms of a reduction are collected, in the order in which that happens."""
    term = instruction.terms[number]
    own = [x for x in term.inames if x not in instruction.inames]
    sequential = [x for x in own if not (is_thread(kernel.tag(x)) or isinstance(kernel.tag(x), GroupAxis))]
    threads = [f"'{x}' ({kernel.tag(x)})" for x in own if is_thread(kernel.tag(x))]
    loops = [f"'{x}'" + (f" ({kernel.tag(x)})" if is_lane(kernel.tag(x)) else "") for x in sequential]
    if loops:
        yield f"one after the other over {', '.join(loops)}"
    if threads:
        yield f"by the threads {', '.join(threads)}, which combine what they have"


def realize_reduction(kernel: LoopKernel, insn_id_filter: str | None = None) -> LoopKernel:
    """Check that reductions can be carried out as the tags of their inames say, and note in the trace how.

    ::

        y[i] = sum(k, a[i, k])      with k = 128*k_outer + k_inner, "k_inner:l.0"
        ->
        on each thread k_inner:  acc = 0; for k_outer: acc += a[i, 128*k_outer + k_inner]
        all threads:             acc = the sum of what they have
        thread 0:                y[i] = acc

    How is a matter of tags: plain and unrolled loops, ``ilp`` and ``vec`` are run by one thread, ``l.N``, ``lane`` and
    ``w`` by several.  The kernel stays what it is; code that is made from it without this step is the same.
    Reductions in two steps, or over several blocks, are :func:`split_reduction_inward`, :func:`stage_reduction` and
    :func:`reduce_atomically`.

    Parameters
    ----------
    insn_id_filter
        The instructions concerned, all by default.

    Raises
    ------
    TransformError
        ``no-match``, ``unknown-instruction``; ``parallel-reduction``, ``divergent-reduction``, and what the checks of
        values and order find.

    Notes
    -----
    Source: M. Harris, "Optimizing Parallel Reduction in CUDA", NVIDIA 2007; CUDA C++ Programming Guide, "Warp Shuffle
    Functions".
    """
    return RealizeReduction(insn_id_filter)(kernel)
