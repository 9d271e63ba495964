"""``unchecked``: a waiver of a proof, with a reason."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated

from polyloop.errors import Diagnostic, unknown_name
from polyloop.frozen import replace
from polyloop.kernel.kernel import LoopKernel
from polyloop.kernel.waivers import Waiver
from polyloop.proof.obligation import WAIVABLE
from polyloop.transform.base import Transform
from polyloop.transform.declare import Names, Takes
from polyloop.transform.parameters import Word

__all__ = ["Unchecked"]


@dataclass(frozen=True)
class Unchecked(Transform):
    """Go on without proofs of legality and of the absence of races, in all that follows.

    >>> knl = pl.make_kernel(
    ...     "{[i]: 0 <= i < 8}",
    ...     "a[idx[i]] = b[i]",
    ...     [pl.GlobalArg("idx", np.int32, shape="8"), pl.GlobalArg("a, b", np.float32, shape="8")],
    ... )
    >>> knl = knl.unchecked("idx is a permutation").tag_inames("i:l.0")
    >>> print(pl.generate_code(knl).device_code, end="")
    // unchecked: idx is a permutation
    // not proven: two accesses to 'a' would run at the same time
    // not proven: two threads access 'a' at the same time
    // loop_kernel computes
    //     for i in [0, 8)
    //         a[idx[i]] = b[i]
    // Sizes: idx: 8, a: 8, b: 8
    // Launch: loop_kernel, grid (1), block (8)
    // Assumes: a overlaps no other array
    <BLANKLINE>
    extern "C" __global__ void __launch_bounds__(8) loop_kernel(
        const int *__restrict__ idx,
        float *__restrict__ a,
        const float *__restrict__ b)
    {
        const int tx = threadIdx.x;
        a[idx[tx]] = b[tx];
    }

    Everything is still looked at.  An obligation that is false or not proven is no error any more: ``pl.verify`` lists
    it, and the generated source begins with the reason and the list.  Nothing else changes: types, shapes, accesses
    outside of their arrays, storage that is shared, what the device can do, and where threads have to wait stay as
    strict as they are.  Where the program orders accesses of different blocks, a launch has to end in between; where
    none can, that is an error: a barrier keeps only the threads of one block apart.

    Parameters
    ----------
    reason
        Why the kernel is right all the same: for the trace, the certificate, and the first lines of the source.
    claims
        Kinds of obligations, as ``pl.verify`` lists them, that may stay unproven: ``"order, races"``.  All of these
        unless given: ``coverage``, ``values``, ``reduction``, ``order``, ``terms``, ``races``.
    arrays
        Variables whose obligations may stay unproven; all unless given.

    Raises
    ------
    TransformError
        ``no-reason``, ``not-waivable``, ``unknown-array``.

    Notes
    -----
    A wrong result is then the caller's. Try ``nosync=`` first, which denies one conflict.
    """

    reason: Word
    claims: Annotated[tuple[str, ...], Takes(str | Sequence[str], _names), Names.NOTHING] = ()
    arrays: Annotated[tuple[str, ...], Takes(str | Sequence[str], _names), Names.ARRAY] = ()

    def violations(self, kernel: LoopKernel) -> Iterator[Diagnostic]:
        given: object = self.reason
        if not isinstance(given, str) or not given.strip():
            yield Diagnostic(
                "no-reason",
                "a kernel can go without proofs only for a reason",
                hints=('say why it is right all the same: pl.unchecked(knl, "rows never share an element")',),
            )
        for claim in self.claims:
            if claim not in WAIVABLE:
                hints = (f"what can be: {', '.join(WAIVABLE)}",)
                yield Diagnostic("not-waivable", f"'{claim}' is nothing that goes without a proof", hints=hints)
        for name in self.arrays:
            if name not in kernel.arrays():
                yield unknown_name("array", name, kernel.arrays())

    def rewrite(self, kernel: LoopKernel) -> LoopKernel:
        waiver = Waiver(" ".join(self.reason.split()), self.claims, self.arrays)
        return replace(kernel, waivers=(*kernel.waivers, waiver))


def _names(given: str | Sequence[str]) -> tuple[str, ...]:
    if isinstance(given, str):
        return tuple(name.strip() for name in given.split(",") if name.strip())
    return tuple(given)
