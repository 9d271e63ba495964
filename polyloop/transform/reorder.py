"""``prioritize_loops``: which loop lies outside of which."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from polyloop.analysis.legality import order_violations
from polyloop.analysis.lowering import loop_order
from polyloop.errors import Diagnostic
from polyloop.kernel.instruction import Instruction, Term
from polyloop.kernel.kernel import LoopKernel
from polyloop.poly.sets import reorder
from polyloop.transform.base import Transform, iname_violations
from polyloop.transform.skew import skew_hint

__all__ = ["PrioritizeLoops", "add_priority", "prioritize_loops"]


@dataclass(frozen=True)
class PrioritizeLoops(Transform):
    """Put loops in an order, the outermost first."""

    name: ClassVar[str] = "prioritize_loops"
    loop_priority: tuple[str, ...]

    def violations(self, kernel: LoopKernel) -> Iterator[Diagnostic]:
        for iname in self.loop_priority:
            yield from iname_violations(kernel, iname)
        if len(set(self.loop_priority)) < len(self.loop_priority):
            yield Diagnostic("bad-priority", "an iname stands twice in the priority", hints=("name each iname once",))
        for chain in kernel.loop_priority:
            both = [x for x in chain if x in self.loop_priority]
            if both != [x for x in self.loop_priority if x in both]:
                yield Diagnostic(
                    "priority-conflict",
                    f"the order {', '.join(self.loop_priority)} contradicts the earlier order {', '.join(chain)}",
                    hints=("state one order, in one call",),
                )

    def rewrite(self, kernel: LoopKernel) -> LoopKernel:
        return add_priority(kernel, [self.loop_priority])

    def consequences(self, before: LoopKernel, after: LoopKernel) -> Iterable[Diagnostic]:
        for finding in order_violations(after):
            if finding.code == "not-proven":
                yield finding
                return
            outer, inner = self._swapped(before)
            hints = skew_hint(before, (inner, outer), self._keeps_values)
            hints += (f"keep '{inner}' outside: its iterations depend on each other in this order",)
            yield replace(finding, message=f"loop '{outer}' cannot be outside '{inner}'", hints=hints)
            return

    def _keeps_values(self, kernel: LoopKernel) -> bool:
        return not any(order_violations(self.rewrite(kernel)))

    def _swapped(self, before: LoopKernel) -> tuple[str, str]:
        """Return the first two loops that change places."""
        for instruction in before.instructions:
            groups = [instruction.inames, *(term.inames for term in instruction.terms)]
            for inames in groups:
                wanted = [x for x in self.loop_priority if x in inames]
                had = [x for x in inames if x in wanted]
                for new, old in zip(wanted, had, strict=True):
                    if new != old:
                        return new, old
        return self.loop_priority[0], self.loop_priority[-1]


def add_priority(kernel: LoopKernel, chains: Sequence[tuple[str, ...]]) -> LoopKernel:
    """Return *kernel* with the orders *chains* added and every nest rearranged accordingly."""
    priority = (*kernel.loop_priority, *(chain for chain in chains if len(chain) > 1))
    kernel = replace(kernel, loop_priority=priority)
    return replace(kernel, instructions=tuple(_arranged(i, priority) for i in kernel.instructions))


def _arranged(instruction: Instruction, priority: Sequence[tuple[str, ...]]) -> Instruction:
    nest = loop_order(instruction.inames, priority)
    if nest == instruction.inames:
        return instruction
    count = len(nest)
    terms = tuple(
        Term((*nest, *t.inames[count:]), reorder(t.domain, t.inames, (*nest, *t.inames[count:])))
        for t in instruction.terms
    )
    domain = reorder(instruction.domain, instruction.inames, nest)
    return replace(instruction, inames=nest, domain=domain, terms=terms)


def prioritize_loops(kernel: LoopKernel, loop_priority: str | Sequence[str]) -> LoopKernel:
    """Put loops in an order, the outermost first (interchange).

    ::

        for i: for j: S(i, j)      with  "j, i"
        ->
        for j: for i: S(i, j)

    Parameters
    ----------
    loop_priority
        ``"j, i"`` or a sequence of inames, the outermost first.  Loops that are not named keep their place as far as
        possible.

    Raises
    ------
    TransformError
        ``unknown-iname``, ``bad-priority``, ``priority-conflict``; ``illegal-order``, with two concrete instances,
        where the new order would change a value.

    Notes
    -----
    Source: Allen and Kennedy, "Automatic loop interchange", SIGPLAN 1984, https://doi.org/10.1145/502874.502897.
    """
    chain = loop_priority.split(",") if isinstance(loop_priority, str) else loop_priority
    return PrioritizeLoops(tuple(name.strip() for name in chain if name.strip()))(kernel)
