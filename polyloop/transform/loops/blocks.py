"""The order in which blocks run, and blocks that execute several ones in turn, or those of the next launch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Annotated

from polyloop.dataflow.address_spaces import place
from polyloop.edge.checks import EXPLAINED
from polyloop.errors import Diagnostic
from polyloop.frozen import replace
from polyloop.kernel.kernel import LoopKernel
from polyloop.kernel.tags import GroupAxis, axis_name
from polyloop.poly.axes import is_grid_axis
from polyloop.proof.obligation import findings, share_proofs
from polyloop.sync.arrivals import arrival_obligations
from polyloop.sync.launches import launch_cuts
from polyloop.sync.lookback_progress import passing_violations
from polyloop.sync.races import needs, shared_arrays
from polyloop.transform.base import Transform, iname_violations
from polyloop.transform.loops.auto_local import assign_auto
from polyloop.transform.parameters import Iname

__all__ = ["JoinLaunches", "OrderBlocks", "PersistBlocks"]

_MOST = 2**31 - 1


@dataclass(frozen=True)
class OrderBlocks(Transform):
    """Let blocks run in panels: all indices along another axis, for some neighbours along that of an iname.

    >>> knl = pl.make_kernel("{[i, j]: 0 <= i < n and 0 <= j < m}", "b[i, j] = 2*a[i, j]")
    >>> knl = pl.tag_inames(knl, "i:g.1, j:g.0")
    >>> print(body(pl.order_blocks(knl, "j", group=4), "cuda"))
    const int blocks_x = m, blocks_y = n;
    const int panel = min(4, blocks_x) * blocks_y;
    const int block = blockIdx.x;
    const int first = block / panel * 4, place = block % panel;
    const int width = min(4, blocks_x - first);
    const int bx = first + place % width, by = place / width;
    b[by * m + bx] = 2.0f * a[by * m + bx];

    Blocks that run at the same time then share what they read along both axes, as the tiles of the two operands of a
    matrix product, and find it in the cache.  The grid has one axis.

    Parameters
    ----------
    iname
        An iname on a block axis.  Blocks have numbers in a row first along this axis, then along the other one; a third
        axis comes last.
    group
        Indices of a panel [blocks]; 1 for an axis that is the slower one.

    Raises
    ------
    TransformError
        ``unknown-iname``, ``not-on-blocks``, ``bad-block-order``; ``parallel-scan``, if blocks wait for those before
        them.

    Notes
    -----
    Always legal: blocks of a launch have no order in the program.  That each block has exactly one number, for any
    extents, is shown in ``polyloop.codegen.loops.blocks``; the analysis does not need the
    numbers.  Source: the order of "grouped" programs in Triton's tutorial on matrix
    products, https://triton-lang.org/main/getting-started/tutorials/03-matrix-multiplication.html.
    """

    iname: Iname
    group: Annotated[int, EXPLAINED] = 8

    def violations(self, kernel: LoopKernel) -> Iterator[Diagnostic]:
        yield from iname_violations(kernel, self.iname)
        if type(self.group) is not int or not 1 <= self.group <= _MOST:
            hints = ("pl.order_blocks(knl, iname, group=8): 8 neighbours along the axis of the iname",)
            yield Diagnostic("bad-block-order", f"{self.group!r} blocks are no panel", hints=hints)
        if self.iname in kernel.inames and kernel.axis(self.iname) not in _block_axes(kernel):
            yield _not_on_blocks(f"iname '{self.iname}' is tagged '{kernel.tag(self.iname)}'", kernel)
        elif len(_block_axes(kernel)) == 1:
            message = f"all blocks lie along '{kernel.axis(self.iname)}', so they have one order"
            hints = ("tag an iname with another block axis first",)
            yield Diagnostic("bad-block-order", message, hints=hints)

    def rewrite(self, kernel: LoopKernel) -> LoopKernel:
        result = replace(kernel, blocks=replace(kernel.blocks, axis=kernel.axis(self.iname), group=self.group))
        share_proofs(kernel, result)
        return result

    def consequences(self, before: LoopKernel, after: LoopKernel) -> Iterable[Diagnostic]:
        return passing_violations(place(assign_auto(after)))


@dataclass(frozen=True)
class PersistBlocks(Transform):
    """Let each block of the launch execute several blocks of the grid, one after the other.

    >>> knl = pl.make_kernel("{[i]: 0 <= i < n}", "b[i] = 2*a[i]")
    >>> knl = pl.split_iname(knl, "i", 64, outer_tag="g.0", inner_tag="l.0")
    >>> print(body(pl.persist_blocks(knl, 132), "cuda"))
    const int blocks_x = (n + 63) / 64;
    const int blocks = blocks_x;
    const int tx = threadIdx.x;
    for (int block = blockIdx.x; block < blocks; block += gridDim.x) {
        const int bx = block;
        const int i = 64 * bx + tx;
        if (i < n)
            b[i] = 2.0f * a[i];
    }

    A launch of as many blocks as run at once has no blocks that begin later.  What a block needs once, as the barriers
    of a copy engine, is made once.

    Parameters
    ----------
    blocks
        Most blocks of a launch: multiprocessors of the device, times the blocks that each holds.  The text is the same
        for all numbers.
    ahead
        Whether a block starts the first copies for its next turn as soon as nothing reads their places any more, and
        before what is left of the present turn, such as stores of results.  They are copies by a copy engine
        (``pipeline(.., via="tma")``), of the first loop that has any.  Launches without copies that arrive later have
        all their blocks then, as they have without this step.

    Raises
    ------
    TransformError
        ``not-on-blocks``, ``bad-block-order``, ``parallel-scan``; when code is generated, ``not-ahead`` if there are no
        such copies, or something else uses their places before their loop.

    Notes
    -----
    Blocks have no order in the program, so any block may execute any other one before or after its own.  They share
    memory then: a barrier stands between two turns where one accesses what the other one writes, as it does in a loop.
    Private variables are those of a turn.  The number of turns is the same for all threads of a block.  Source: Gupta,
    Stuart and Owens, "A study of persistent threads style GPU programming", InPar 2012.
    """

    blocks: Annotated[int, EXPLAINED]
    ahead: bool = False

    def violations(self, kernel: LoopKernel) -> Iterator[Diagnostic]:
        if type(self.blocks) is not int or not 1 <= self.blocks <= _MOST // 2:
            message = f"{self.blocks!r} blocks are no launch"
            hints = ("pl.persist_blocks(knl, 132): one block for each multiprocessor of an H100",)
            yield Diagnostic("bad-block-order", message, hints=hints)
        if not _block_axes(kernel):
            yield _not_on_blocks("no iname is on a block axis", kernel)

    def rewrite(self, kernel: LoopKernel) -> LoopKernel:
        result = replace(kernel, blocks=replace(kernel.blocks, most=self.blocks, ahead=self.ahead))
        share_proofs(kernel, result)
        return result

    def consequences(self, before: LoopKernel, after: LoopKernel) -> Iterable[Diagnostic]:
        return passing_violations(place(assign_auto(after)))


@dataclass(frozen=True)
class JoinLaunches(Transform):
    """Let the last of the blocks that differ along one axis go on to the next launch: the last block adds.

    >>> knl = pl.make_kernel("{[i, j]: 0 <= i < 64*n and 0 <= j < m}", "y[i] = sum(j, a[i, j])",
    ...                      [pl.GlobalArg("a", np.float32, shape="64*n, m"), ...], assumptions="n >= 1 and m >= 1")
    >>> knl = pl.split_iname(knl, "j", 256, outer_iname="part", inner_iname="term")
    >>> knl = pl.stage_reduction(knl, "part", sweep_inames="i", new_inames="row, parts", temporary_name="sums",
    ...                          temporary_address_space="global", default_tag=None)
    >>> knl = pl.split_iname(knl, "i", 64, outer_tag="g.0", inner_tag="l.0")
    >>> knl = pl.split_iname(knl, "row", 64, outer_tag="g.0", inner_tag="l.0")
    >>> knl = pl.tag_inames(knl, "parts:g.1")
    >>> print(body(pl.join_launches(knl, "parts"), "cuda"))
    const int bx = blockIdx.x, by = blockIdx.y;
    const int tx = threadIdx.x;
    const int i = 64 * bx + tx;
    if (256 * by + 255 < m) {
        // Full blocks, without tests; full_blocks=False of the target leaves this copy out.
        float acc = 0.0f;
        for (int term = 0; term < 256; ++term)
            acc += a[i * m + 256 * by + term];
        sums[i * ((m + 255) / 256) + by] = acc;
    } else {
        float acc = 0.0f;
        for (int term = 0; term < min(256, m - 256 * by); ++term)
            acc += a[i * m + 256 * by + term];
        sums[i * ((m + 255) / 256) + by] = acc;
    }
    // all of the group have: this block goes on to loop_kernel_1
    if (arrives_last(arrived + blockIdx.x, gridDim.y)) {
        const int bx = blockIdx.x;
        const int tx = threadIdx.x;
        const int i = 64 * bx + tx;
        float acc_0 = 0.0f;
        for (int part = 0; part < (m + 255) / 256; ++part)
            acc_0 += sums[i * ((m + 255) / 256) + part];
        y[i] = acc_0;
    }

    Two launches::

        launch 0, blocks (tile, part):  sums[tile, part] = ..
        launch 1, blocks (tile):        y[tile] = sum(part, sums[tile, part])
        ->
        blocks (tile, part):            sums[tile, part] = ..
                                        if all blocks of the tile have arrived:  y[tile] = sum(part, sums[tile, part])

    Blocks that differ along the axis of *iname* alone are a group.  Each block stores what the next launch needs of
    it, fences, and adds 1 to the counter of its group.  The block that finds all others counted executes the block of
    the next launch with the same indices, and leaves the counter at 0.  No launch is started for it, and what it reads
    is in the cache.  Which block is the last changes no result: it executes what the launch would have.

    Parameters
    ----------
    iname
        An iname on a block axis of the first launch.  The next launch has no iname on that axis.

    Raises
    ------
    TransformError
        ``unknown-iname``, ``not-on-blocks``, ``bad-arrivals``: a block of the next launch depends on blocks of another
        group; there may be no block that would execute it; or there is no such launch.

    Notes
    -----
    Launches are derived as before (``docs/adr/0019``), and the end of the first one orders all blocks.  The count
    orders those of a group.  So each dependence between the two launches has to stay within a group, which is shown for
    all sizes by the indices of the blocks.  Everything else that ends with a launch, as private and shared variables
    do, ends with it still.  Targets whose blocks do not count, and one cooperative launch, have launches as before.

    Counters are allocated with the arrays that live between the launches, and are 0 then.  Source: CUDA C++ Programming
    Guide, "Memory Fence Functions"; NVIDIA, CUTLASS, "Efficient GEMM in CUDA", "Parallelized Reductions".
    """

    iname: Iname

    def violations(self, kernel: LoopKernel) -> Iterator[Diagnostic]:
        yield from iname_violations(kernel, self.iname)
        if self.iname in kernel.inames and kernel.axis(self.iname) not in _block_axes(kernel):
            yield _not_on_blocks(f"iname '{self.iname}' is tagged '{kernel.tag(self.iname)}'", kernel)

    def rewrite(self, kernel: LoopKernel) -> LoopKernel:
        result = replace(kernel, blocks=replace(kernel.blocks, counted=kernel.axis(self.iname)))
        share_proofs(kernel, result)
        return result

    def consequences(self, before: LoopKernel, after: LoopKernel) -> Iterable[Diagnostic]:
        placement = place(assign_auto(after))
        found = [need for array in shared_arrays(placement) for need in needs(placement, array)]
        return findings(after, arrival_obligations(placement, found, launch_cuts(placement, found)))


def _block_axes(kernel: LoopKernel) -> set[str]:
    """Return the block axes in use, without that of a cluster."""
    return {axis for tag in kernel.iname_tags.values() if is_grid_axis(axis := axis_name(tag) or "")}


def _not_on_blocks(message: str, kernel: LoopKernel) -> Diagnostic:
    on = [f"'{iname}' on '{tag}'" for iname, tag in kernel.iname_tags.items() if isinstance(tag, GroupAxis)]
    notes = (f"there is {', '.join(on)}",) if on else ()
    return Diagnostic("not-on-blocks", message, notes, ("tag an iname 'g.0' first: pl.tag_inames",))
