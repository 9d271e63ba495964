"""``realize_reduction``: realization of reductions as their tags say, with an immediate check."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

from polyloop.dataflow.address_spaces import place
from polyloop.dataflow.uniformity import divergent_reductions
from polyloop.errors import Diagnostic, TransformError
from polyloop.kernel.instruction import Instruction
from polyloop.kernel.kernel import LoopKernel
from polyloop.kernel.tags import GroupAxis, Sequential, axis_name, is_lane, is_thread, parse_tag
from polyloop.poly.axes import BLOCK_AXES
from polyloop.transform.base import Transform, iname_violations
from polyloop.transform.instructions.matching import match_violations, meant
from polyloop.transform.loops.tag import TagInames
from polyloop.transform.parameters import InsnMatch, names_of, parse_tags
from polyloop.transform.reductions.atomic_reduction import ReduceAtomically
from polyloop.transform.reductions.scan import RealizeScan, scan_violations
from polyloop.transform.reductions.stage_reduction import StageReduction
from polyloop.verification.order import order_violations
from polyloop.verification.values import value_violations

__all__ = ["RealizeReduction"]


@dataclass(frozen=True)
class RealizeReduction(Transform):
    """Check that reductions can run as the tags of their inames say, and record the implementation in the trace.

    ::

        y[i] = sum(k, a[i, k])      with k = 128*k_outer + k_inner, "k_inner:l.0"
        ->
        on each thread k_inner:  acc = 0; for k_outer: acc += a[i, 128*k_outer + k_inner]
        all threads:             acc = the sum of what they have
        thread 0:                y[i] = acc

        s = sum([b, k], a[b, k])    with grid="two launches", grid_inames="b"
        ->
        on each block b_part:    part[b_part] = sum(k, a[b_part, k])
        in a second launch:      s = sum(b, part[b])

        s = sum([b, k], a[b, k])    with grid="atomics", grid_inames="b"
        ->
        s = 0
        on each block b:         s = s + sum(k, a[b, k])   {atomic}

    >>> knl = pl.make_kernel("{[b, k]: 0 <= b < 8 and 0 <= k < 64}", "s = sum([b, k], a[b, k])")
    >>> knl = knl.add_dtypes({"a": np.float32, "s": np.float32})
    >>> print(knl.realize_reduction(grid="two launches", grid_inames="b"))
    kernel loop_kernel
    ...
    instructions:
        [b_part]  part[b_part] = sum(k, a[b_part, k])    {id=compute_part}
        s = sum(b, part[b])    {id=insn}
    >>> print(knl.realize_reduction(grid="atomics", grid_inames="b"))
    kernel loop_kernel
    ...
    instructions:
        s = 0.0    {id=insn_init}
        [b]  s = s + sum(k, a[b, k])    {id=insn}

    The tags select the implementation: plain and unrolled loops, ``ilp`` and ``vec`` run on one thread, ``l.N``,
    ``lane`` and ``w`` on several.  Without *grid* the kernel is unchanged, and so is the code generated from it.

    Parameters
    ----------
    insn_id_filter
        The instructions concerned, all by default.
    grid
        Combination of the blocks' partial results: ``"two launches"`` (:func:`stage_reduction`, with partial results in
        global memory that a second launch combines) or ``"atomics"`` (:func:`reduce_atomically`).
    grid_inames
        Inames of the reduction for whose values there are blocks, ``"block"`` or ``"block:g.1"``; by default on the
        first of ``g.0`` to ``g.2`` that the loops around the reduction leave free.
    automagic_scans_ok, force_scan
        Realize reductions that are scans as such (:func:`realize_scan`): where there are any, or in any case, so that
        one that is none is refused.
    force_outer_iname_for_scan
        The iname of the results of a scan.

    Raises
    ------
    TransformError
        ``no-match``, ``unknown-instruction``; ``parallel-reduction``, ``divergent-reduction``, and errors of the checks
        of values and order; ``bad-grid``, ``unknown-iname``, and the errors of the steps applied.

    Notes
    -----
    The trace records a grid reduction or a scan as the steps that it consists of. Source: M. Harris, "Optimizing
    Parallel Reduction in CUDA", NVIDIA 2007; CUDA C++ Programming Guide, "Warp Shuffle Functions".
    """

    insn_id_filter: InsnMatch | None = None

    def violations(self, kernel: LoopKernel) -> Iterator[Diagnostic]:
        patterns = [] if self.insn_id_filter is None else [self.insn_id_filter]
        if found := tuple(match_violations(kernel, patterns, self.name)):
            yield from found
            return
        if not any(instruction.terms for instruction in meant(kernel, self.insn_id_filter, self.name)):
            listed = ", ".join(f"'{i.id}'" for i in kernel.instructions if i.terms) or "none"
            hints = (f"instructions with reductions: {listed}",)
            yield Diagnostic("no-match", "there is no reduction to realize", hints=hints)

    def rewrite(self, kernel: LoopKernel) -> LoopKernel:
        return kernel

    def consequences(self, before: LoopKernel, after: LoopKernel) -> Iterable[Diagnostic]:
        return (
            tuple(divergent_reductions(place(after)))
            or tuple(value_violations(after))
            or tuple(order_violations(after))
        )

    def note(self, before: LoopKernel, after: LoopKernel) -> str:
        lines = []
        for instruction in meant(after, self.insn_id_filter, self.name):
            for number, _ in enumerate(instruction.terms):
                lines.append(f"'{instruction.id}': {', then '.join(_levels(after, instruction, number))}")
        return "; ".join(lines)

    @staticmethod
    def call(
        kernel: LoopKernel,
        insn_id_filter: str | None = None,
        *,
        grid: str | None = None,
        grid_inames: str | Sequence[str] = (),
        automagic_scans_ok: bool = False,
        force_scan: bool = False,
        force_outer_iname_for_scan: str | None = None,
    ) -> LoopKernel:
        over = names_of(grid_inames)
        is_scan = force_scan or (automagic_scans_ok and not any(scan_violations(kernel, insn_id_filter, None)))
        if problems := tuple(_grid_violations(kernel, grid, over, is_scan=is_scan)):
            raise TransformError(RealizeReduction.name, kernel.name, problems)
        if is_scan:
            return RealizeScan(insn_id_filter, sweep_iname=force_outer_iname_for_scan)(kernel)
        if grid is not None:
            kernel = _over_blocks(kernel, insn_id_filter, _Grid(grid), over)
            left = meant(kernel, insn_id_filter, RealizeReduction.name)
            if not any(instruction.terms for instruction in left):  # each block has one term
                return kernel
        return RealizeReduction(insn_id_filter)(kernel)


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


class _Grid(Enum):
    """Method to combine the partial results of blocks."""

    LAUNCHES = "two launches"
    ATOMICS = "atomics"


def _grid_violations(
    kernel: LoopKernel, grid: str | None, over: Sequence[str], *, is_scan: bool
) -> Iterator[Diagnostic]:
    """Yield the errors in the argument about the grid."""
    known = ", ".join(repr(entry.value) for entry in _Grid)
    if grid is not None and grid not in [entry.value for entry in _Grid]:
        yield Diagnostic("bad-grid", f"'{grid}' is no way in which blocks combine", hints=(f"the ways are {known}",))
    elif grid is None and over:
        notes = ("blocks cannot synchronize inside of one launch",)
        hint = f"choose how they combine their values: grid= one of {known}"
        yield Diagnostic("bad-grid", "the reduction is to be spread over blocks, but not how", notes, (hint,))
    elif grid is not None and is_scan:
        hint = "divide a scan among blocks with split_scan"
        yield Diagnostic("bad-grid", "'grid' is about reductions, not scans", hints=(hint,))
    elif grid is not None and not over:
        hint = 'name inames of the reduction: grid_inames="block", or "block:g.1"'
        yield Diagnostic("bad-grid", "no iname of the reduction is named for the grid", hints=(hint,))
    for iname, tag in parse_tags(",".join(over)):
        yield from iname_violations(kernel, iname)
        if tag and not isinstance(parse_tag(tag), GroupAxis):
            yield Diagnostic("bad-grid", f"'{tag}' is no block axis", hints=("tag the iname with g.0, g.1 or g.2",))


def _over_blocks(kernel: LoopKernel, insn_id_filter: str | None, grid: _Grid, over: Sequence[str]) -> LoopKernel:
    """Return *kernel* with partial results of a reduction on blocks, combined in a second launch or by updates."""
    pairs = parse_tags(",".join(over))
    names = tuple(iname for iname, _ in pairs)
    chosen = meant(kernel, insn_id_filter, RealizeReduction.name)
    users = [i for i in chosen if any(set(names) <= {*term.inames} - {*i.inames} for term in i.terms)]
    around = users[0].inames if users else ()
    taken = {axis_name(kernel.tag(x)) for x in around}.union(tag for _, tag in pairs)
    free = (axis for axis in BLOCK_AXES if axis not in taken)
    tags = {iname: tag or next(free, BLOCK_AXES[-1]) for iname, tag in pairs}
    if grid is _Grid.ATOMICS:
        return TagInames(tuple(tags.items()))(ReduceAtomically(names, insn_id_filter)(kernel))
    swept = (*around, *names)
    made = dict(zip(swept, _fresh(kernel, [f"{iname}_part" for iname in swept]), strict=True))
    (temporary,) = _fresh(kernel, ["part"])
    staged = StageReduction(
        names, insn_id_filter, sweep_inames=around, new_inames=tuple(made.values()), temporary_name=temporary,
        temporary_address_space="global",
    )(kernel)  # fmt: skip
    alike = {made[x]: str(kernel.tag(x)) for x in around if not isinstance(kernel.tag(x), Sequential)}
    return TagInames(tuple((alike | {made[x]: tag for x, tag in tags.items()}).items()))(staged)


def _fresh(kernel: LoopKernel, wishes: Sequence[str]) -> list[str]:
    found: list[str] = []
    for wish in wishes:
        found.append(kernel.fresh(wish, found))
    return found
