"""``exchange_by_shuffle``: a temporary in the registers of a warp, read from other lanes by shuffles."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from polyloop.dataflow.address_spaces import place
from polyloop.errors import Diagnostic, unknown_name
from polyloop.kernel.kernel import LoopKernel
from polyloop.program.expand_lanes import with_lanes
from polyloop.sync.warp_shuffle import exchange_problems
from polyloop.transform.base import Transform
from polyloop.transform.loops.auto_local import assign_auto
from polyloop.transform.parameters import TemporaryName

__all__ = ["ExchangeByShuffle"]


@dataclass(frozen=True)
class ExchangeByShuffle(Transform):
    """Keep a temporary of the lanes of a warp in registers; lanes read each other's elements by shuffles.

    >>> knl = pl.make_kernel("{[i]: 0 <= i < 32}", ["<> t[i] = a[i]", "b[i] = t[31 - i]"]).tag_inames("i:l.0")
    >>> print(body(knl, "cuda"))
    const int tx = threadIdx.x;
    __shared__ float t[32];
    t[tx] = a[tx];
    __syncwarp();  // t: reads follow writes
    b[tx] = t[31 - tx];
    >>> print(body(knl.exchange_by_shuffle("t"), "cuda"))
    const int tx = threadIdx.x;
    float t = a[tx];
    b[tx] = __shfl_sync(0xffffffffu, t, 31 - tx);

    Parameters
    ----------
    temporary_name
        A temporary that threads share, of which each thread writes the element of its lane: ``t[lane]``, or
        ``t[w, lane]`` for each warp or group.  ``lane`` is an iname on ``l.0`` with 32 values, or with 2, 4, 8 or 16:
        then several groups of lanes share a warp, and each exchanges values by itself.

    Raises
    ------
    TransformError
        ``unknown-temporary``, ``bad-exchange``: an element that another thread writes or that crosses warps or groups,
        a read of another lane's element that not all lanes make or that is under a condition, or a type that is no
        number of 4 or 8 bytes.

    Notes
    -----
    The storage and the text change, not the program: the analysis sees the shared array.  Targets without shuffles keep
    the array.  A lane may read and write its own element under any condition.  Invariant values are exchanged once,
    ahead of loops.  Call it last: code generation checks the accesses again, after later transforms. Source:
    ``__shfl_sync``, CUDA C++ Programming Guide, "Warp Shuffle Functions".
    """

    temporary_name: TemporaryName

    def violations(self, kernel: LoopKernel) -> Iterator[Diagnostic]:
        if self.temporary_name not in kernel.temporaries:
            yield unknown_name("temporary", self.temporary_name, kernel.temporaries)

    def rewrite(self, kernel: LoopKernel) -> LoopKernel:
        new = replace(kernel.temporaries[self.temporary_name], is_shuffled=True)
        return replace(kernel, temporaries={**kernel.temporaries, self.temporary_name: new})

    def consequences(self, before: LoopKernel, after: LoopKernel) -> Iterable[Diagnostic]:
        placement = place(with_lanes(assign_auto(after)))
        return exchange_problems(placement, self.temporary_name)
