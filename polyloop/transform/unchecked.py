"""``unchecked``: go on without a proof, and say why."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

from polyloop.errors import Diagnostic
from polyloop.kernel.kernel import LoopKernel
from polyloop.transform.base import Transform

__all__ = ["Unchecked", "unchecked"]


@dataclass(frozen=True)
class Unchecked(Transform):
    """Do not insist on proofs of this kernel and of what is made from it."""

    name: ClassVar[str] = "unchecked"
    reason: str

    def violations(self, kernel: LoopKernel) -> Iterator[Diagnostic]:
        del kernel
        given: object = self.reason
        if not isinstance(given, str) or not given.strip():
            yield Diagnostic(
                "no-reason",
                "a kernel can go without proofs only for a reason",
                hints=('say why it is right all the same: pl.unchecked(knl, "rows never share an element")',),
            )

    def rewrite(self, kernel: LoopKernel) -> LoopKernel:
        return replace(kernel, waivers=(*kernel.waivers, " ".join(self.reason.split())))


def unchecked(kernel: LoopKernel, reason: str) -> LoopKernel:
    """Go on without proofs of legality and of the absence of races, in all that follows.

    ::

        knl, and a tag that is refused: 'i' carries a dependence that never happens
        ->
        the same knl; the tag is accepted, and what is not proven is written down

    Everything is still looked at.  What does not hold, or is not proven, is no error any more: ``pl.verify`` lists
    it, and the generated source begins with the reason and the list.  Types, shapes, accesses outside of their arrays,
    what the device can do, and where threads have to wait stay as strict as they are.

    Parameters
    ----------
    reason
        Why the kernel is right all the same: for the trace, the certificate, and the first lines of the source.

    Raises
    ------
    TransformError
        ``no-reason``.

    Notes
    -----
    A wrong result is then the caller's. Try ``nosync=`` first, which denies one conflict.
    """
    return Unchecked(reason)(kernel)
