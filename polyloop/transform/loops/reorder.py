"""``prioritize_loops``, ``interchange``: nesting order of loops."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from polyloop.errors import Diagnostic
from polyloop.kernel.instruction import Instruction, renested
from polyloop.kernel.kernel import LoopKernel
from polyloop.program.lower import loop_order
from polyloop.transform.base import Transform, iname_violations
from polyloop.transform.loops.skew import skew_hint
from polyloop.transform.parameters import Iname, Inames
from polyloop.verification.order import order_violations
from polyloop.verification.values import value_violations

__all__ = ["Interchange", "PrioritizeLoops", "add_priority"]


@dataclass(frozen=True)
class PrioritizeLoops(Transform):
    """Put loops in an order, the outermost first (interchange).

    >>> knl = pl.make_kernel("{[i, j]: 0 <= i < 8 and 0 <= j < 9}", "b[i, j] = 2*a[i, j]")
    >>> print(body(knl.prioritize_loops("j, i")))
    for (int j = 0; j < 9; ++j) {
        for (int i = 0; i < 8; ++i)
            b[i * 9 + j] = 2.0f * a[i * 9 + j];
    }

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

    loop_priority: Inames

    def violations(self, kernel: LoopKernel) -> Iterator[Diagnostic]:
        for iname in self.loop_priority:
            yield from iname_violations(kernel, iname)
        if len(set(self.loop_priority)) < len(self.loop_priority):
            yield Diagnostic("bad-priority", "an iname occurs twice in the priority", hints=("name each iname once",))
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
        return _order_consequences(self, before, after, lambda: self._swapped(before))

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


def _order_consequences(
    transform: Transform, before: LoopKernel, after: LoopKernel, swapped: Callable[[], tuple[str, str]]
) -> Iterator[Diagnostic]:
    """Yield a diagnostic if the new nesting of the loops *swapped* (outer, inner) is illegal."""
    for finding in order_violations(after):
        if finding.code == "not-proven":
            yield finding
            return
        outer, inner = swapped()
        hints = skew_hint(before, (inner, outer), lambda kernel: not any(order_violations(transform.rewrite(kernel))))
        hints += (f"keep '{inner}' outside: its iterations depend on each other in this order",)
        yield replace(finding, message=f"loop '{outer}' cannot be outside '{inner}'", hints=hints)
        return
    if after.evaluations or after.buffers or after.partials:
        yield from value_violations(after)


@dataclass(frozen=True)
class Interchange(Transform):
    """Let two loops change places in every nest that has both.

    >>> knl = pl.make_kernel("{[i, j]: 0 <= i < 8 and 0 <= j < 9}", "b[i, j] = 2*a[i, j]").prioritize_loops("i, j")
    >>> print(body(knl.interchange("i", "j")))
    for (int j = 0; j < 9; ++j) {
        for (int i = 0; i < 8; ++i)
            b[i * 9 + j] = 2.0f * a[i * 9 + j];
    }

    An earlier priority between the two is reversed too, which :func:`prioritize_loops` would refuse.

    Parameters
    ----------
    first, second
        The two loops, in either order.

    Raises
    ------
    TransformError
        ``unknown-iname``, ``bad-priority``; ``illegal-order``, with two concrete instances, where the new order would
        change a value.

    Notes
    -----
    Source: Allen and Kennedy, "Automatic loop interchange", SIGPLAN 1984, https://doi.org/10.1145/502874.502897.
    """

    first: Iname
    second: Iname

    def violations(self, kernel: LoopKernel) -> Iterator[Diagnostic]:
        if found := [finding for iname in (self.first, self.second) for finding in iname_violations(kernel, iname)]:
            yield from found
            return
        nests = [inames for i in kernel.instructions for inames in (i.inames, *(term.inames for term in i.terms))]
        if not any(self.first in nest and self.second in nest for nest in nests) or self.first == self.second:
            yield Diagnostic(
                "bad-priority",
                f"no instruction has loops over '{self.first}' and '{self.second}'",
                hints=("name two loops of one nest",),
            )

    def rewrite(self, kernel: LoopKernel) -> LoopKernel:
        def swapped(names: tuple[str, ...]) -> tuple[str, ...]:
            if self.first not in names or self.second not in names:
                return names
            other = {self.first: self.second, self.second: self.first}
            return tuple(other.get(name, name) for name in names)

        chain = self._swapped(kernel)
        priority = tuple(dict.fromkeys((*map(swapped, kernel.loop_priority), chain)))
        instructions = tuple(renested(i, swapped(i.inames)) for i in kernel.instructions)
        return replace(kernel, loop_priority=priority, instructions=instructions)

    def consequences(self, before: LoopKernel, after: LoopKernel) -> Iterable[Diagnostic]:
        return _order_consequences(self, before, after, lambda: self._swapped(before))

    def _swapped(self, before: LoopKernel) -> tuple[str, str]:
        """Return the two loops, the new outer one first."""
        for instruction in before.instructions:
            for inames in (instruction.inames, *(term.inames for term in instruction.terms)):
                nest = loop_order(inames, before.loop_priority)
                if self.first in nest and self.second in nest:
                    first_inside = nest.index(self.first) > nest.index(self.second)
                    return (self.first, self.second) if first_inside else (self.second, self.first)
        return self.first, self.second


def add_priority(kernel: LoopKernel, chains: Sequence[tuple[str, ...]]) -> LoopKernel:
    """Return *kernel* with the orders *chains* added and every nest rearranged accordingly."""
    priority = (*kernel.loop_priority, *(chain for chain in chains if len(chain) > 1))
    kernel = replace(kernel, loop_priority=priority)
    return replace(kernel, instructions=tuple(_arranged(i, priority) for i in kernel.instructions))


def _arranged(instruction: Instruction, priority: Sequence[tuple[str, ...]]) -> Instruction:
    return renested(instruction, loop_order(instruction.inames, priority))
