"""``distribute_loops``: loop distribution (fission)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated

from polyloop.errors import Diagnostic
from polyloop.kernel.kernel import LoopKernel
from polyloop.kernel.tags import axis_name
from polyloop.transform.base import Transform, iname_violations
from polyloop.transform.declare import Names, Takes
from polyloop.transform.instructions.selection import selected, selection_violations
from polyloop.transform.loops.fusion import between
from polyloop.transform.loops.merge import fresh_block, in_block, open_loops
from polyloop.transform.loops.nests import explained, nest_violations
from polyloop.transform.parameters import Iname, words_of

__all__ = ["DistributeLoops"]


@dataclass(frozen=True)
class DistributeLoops(Transform):
    """Give groups of instructions of one loop a loop each (distribution, fission).

    >>> knl = pl.make_kernel("{[i]: 0 <= i < 8}", ["b[i] = 2*a[i]", "d[i] = 3*c[i] {id=T}"])
    >>> print(body(knl.distribute_loops("i", "id:T")))
    for (int i = 0; i < 8; ++i)
        b[i] = 2.0f * a[i];
    for (int i = 0; i < 8; ++i)
        d[i] = 3.0f * c[i];  // T

    Parameters
    ----------
    iname
        The loop; loops around it stay shared.
    groups
        Match expressions.  The instructions of each get a loop of their own, behind instructions of none that stand
        between them if that is legal; those of none keep the one that they have.

    Raises
    ------
    TransformError
        ``unknown-iname``, ``iname-tagged``, ``unknown-instruction``, ``no-match``, ``bad-groups``;
        ``cannot-distribute``, where something has to stand between instructions of one group; ``illegal-order``, with
        two instances, where a value would be overwritten before it is read, as that of a scalar is.

    Notes
    -----
    Source: Kuck, Kuhn, Padua, Leasure and Wolfe, "Dependence graphs and compiler optimizations", POPL 1981,
    https://doi.org/10.1145/567532.567555.
    """

    iname: Iname
    groups: Annotated[tuple[str, ...], Takes(str | Sequence[str], words_of), Names.MATCH]

    def violations(self, kernel: LoopKernel) -> Iterator[Diagnostic]:
        if found := tuple(iname_violations(kernel, self.iname)):
            yield from found
            return
        if axis_name(kernel.tag(self.iname)) is not None:
            yield Diagnostic(
                "iname-tagged",
                f"iname '{self.iname}' is tagged '{kernel.tag(self.iname)}', so there is no loop",
                hints=("threads need no loop to be distributed: barriers are placed between the instructions",),
            )
        seen: dict[str, str] = {}
        for group in self.groups:
            problems = tuple(selection_violations(kernel, group, self.name, [self.iname]))
            yield from problems
            for name in () if problems else self._members(kernel, group):
                if name in seen:
                    message = f"'{name}' fits both '{seen[name]}' and '{group}'"
                    yield Diagnostic("bad-groups", message, hints=("each instruction goes into one loop",))
                    return
                seen[name] = group
        if not self.groups:
            yield Diagnostic("bad-groups", "no group is given", hints=('distribute_loops(knl, "i", "id:b*")',))

    def _members(self, kernel: LoopKernel, group: str) -> list[str]:
        return [name for name in selected(kernel, group, self.name) if self.iname in kernel.instruction(name).inames]

    def rewrite(self, kernel: LoopKernel) -> LoopKernel:
        start = fresh_block(kernel)
        numbers = {
            name: start + n for n, group in enumerate(self.groups) for name in self._members(kernel, group)
        }
        instructions = tuple(
            in_block(i, self.iname, numbers[i.id]) if i.id in numbers else i for i in kernel.instructions
        )
        found = replace(kernel, instructions=instructions)
        if all(len(open_loops(found, self.iname, self._members(kernel, group))) < 2 for group in self.groups):
            return found
        behind = self._behind(found, numbers)
        return found if any(nest_violations(behind)) else behind

    def _behind(self, kernel: LoopKernel, numbers: Mapping[str, int]) -> LoopKernel:
        """Return *kernel* with the groups, one after the other, behind what is left of the loop."""
        left = [i for i in kernel.instructions if i.id not in numbers]
        grouped = sorted((i for i in kernel.instructions if i.id in numbers), key=lambda i: numbers[i.id])
        end = max((n + 1 for n, i in enumerate(left) if self.iname in i.inames), default=0)
        return replace(kernel, instructions=(*left[:end], *grouped, *left[end:]))

    def consequences(self, before: LoopKernel, after: LoopKernel) -> Iterable[Diagnostic]:
        for group in self.groups:
            loops = open_loops(after, self.iname, self._members(before, group))
            if len(loops) > 1:
                names = between(after, loops)
                yield Diagnostic(
                    "cannot-distribute",
                    f"the instructions of '{group}' do not fit into one loop over '{self.iname}'",
                    (f"{' and '.join(map(repr, names))} has to be between them",),
                    ("put the instructions between them into the group too, or make two groups",),
                    sites=(after.instruction(names[0]).site(),),
                )
                return
        for finding in nest_violations(after):
            hints = ("keep them in one loop, or give the temporary between them an axis for the loop",)
            yield explained(finding, f"loop '{self.iname}' cannot be distributed", hints)
            return
