"""Hint for a refused launch: the loop distribution that makes blocks legal in two launches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from polyloop.errors import Site
from polyloop.kernel.kernel import LoopKernel
from polyloop.kernel.tags import Sequential
from polyloop.transform.loops.merge import fresh_block, in_block

__all__ = ["launch_hint"]


def launch_hint(
    kernel: LoopKernel, sites: Sequence[Site], is_legal: Callable[[LoopKernel], bool]
) -> tuple[str, ...]:
    """Return a hint to distribute a loop, if the kernel then satisfies *is_legal*; otherwise nothing.

    *sites* are two instructions in one loop. No block may run the second before all blocks have run the first, for
    which a launch in between is needed.
    """
    known = {instruction.id: instruction for instruction in kernel.instructions}
    pair = [known[site.instruction] for site in sites if site.instruction in known]
    if len(pair) != 2 or kernel.waivers:  # without proofs, whatever one tries seems to help
        return ()
    first, second = pair
    for iname in first.inames:
        if iname in second.inames and isinstance(kernel.tag(iname), Sequential):
            apart = in_block(second, iname, fresh_block(kernel))
            after = replace(kernel, instructions=tuple(apart if i is second else i for i in kernel.instructions))
            if is_legal(after):
                call = f'pl.distribute_loops(knl, "{iname}", "id:{second.id}")'
                return (f"give '{second.id}' a loop of its own first, and so a launch: {call}",)
    return ()
