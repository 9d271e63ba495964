"""Selection of instructions by transforms of loops: ``within="writes:a and not id:init*"``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from polyloop.errors import Diagnostic
from polyloop.kernel.kernel import LoopKernel
from polyloop.transform.instructions.matching import match_violations, meant

__all__ = ["selected", "selection_violations"]


def selected(kernel: LoopKernel, within: str | None, operation: str) -> tuple[str, ...]:
    """Return the ids of the instructions that *within* means, all for None, in text order."""
    found = kernel.instructions if within is None else meant(kernel, within, operation)
    return tuple(instruction.id for instruction in found)


def selection_violations(
    kernel: LoopKernel, within: str | None, operation: str, inames: Sequence[str] = ()
) -> Iterator[Diagnostic]:
    """Yield a diagnostic if *within* is malformed, or selects no instruction with a loop over each of *inames*."""
    if within is None:
        return
    if found := tuple(match_violations(kernel, [within], operation)):
        yield from found
        return
    ids = set(selected(kernel, within, operation))
    for iname in inames:
        users = [i.id for i in kernel.instructions if iname in i.inames or any(iname in t.inames for t in i.terms)]
        if ids.isdisjoint(users):
            hints = (f"instructions with a loop over '{iname}': {', '.join(users) or 'none'}",)
            yield Diagnostic("no-match", f"no instruction that fits '{within}' has a loop over '{iname}'", hints=hints)
            return
