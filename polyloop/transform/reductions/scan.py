"""``realize_scan``: a scan, computed as a running total."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import reduce as fold

from polyloop.errors import Diagnostic
from polyloop.expr.nodes import Reduction
from polyloop.expr.rewrite import substitute
from polyloop.kernel.instruction import Instruction, Partial, Term
from polyloop.kernel.kernel import LoopKernel
from polyloop.kernel.tags import axis_name
from polyloop.poly.affine import Affine, to_expression
from polyloop.poly.axes import BLOCK_AXES, CLUSTER_AXIS, is_block_axis, is_grid_axis
from polyloop.poly.sets import Row, add_rows, insert_dims, reorder
from polyloop.program.conditions import with_conditions
from polyloop.program.scan_patterns import Scan, find_scans, replace_reduction
from polyloop.transform.base import Transform, iname_violations
from polyloop.transform.instructions.matching import match_violations, meant
from polyloop.transform.layout.privatize import UnprivatizeTemporariesWithInames, own_inames
from polyloop.transform.parameters import Iname, InsnMatch
from polyloop.transform.staging.staging import out_of_bounds
from polyloop.verification.order import order_violations
from polyloop.verification.values import value_violations

__all__ = ["RealizeScan", "adds_later", "replaced", "scan_violations", "with_reduction"]


@dataclass(frozen=True)
class RealizeScan(Transform):
    """Compute the results of scans one from the other, instead of each from all of its terms.

    >>> knl = pl.make_kernel("{[i, j]: 0 <= i < 8 and 0 <= j <= i}", "b[i] = sum(j, a[j])")
    >>> print(body(knl.realize_scan()))
    float acc = 0.0f;
    for (int i = 0; i < 8; ++i) {
        acc += a[i];
        b[i] = acc;
    }

    In an exclusive scan (``0 <= j < i``) the term is added after the result is used.  To divide a scan among threads
    and blocks, see :func:`polyloop.split_scan`.  Where the loop over the results is on threads (``l.0``), they scan
    together; where it is over the sums of tiles on blocks (``g.0``), each block passes its total on to those after it,
    within one launch (decoupled look-back): blocks are numbered in the order of their start, and a launch in front
    clears the memory for the totals.

    Parameters
    ----------
    insn_id_filter
        A match expression for the instructions meant; by default all with a reduction that is a scan.
    sweep_iname
        The iname of the results; by default the innermost along which the reduction is a scan.

    Raises
    ------
    TransformError
        ``not-a-scan``, with two results and a term; ``scan-changing-term``, ``ordered-reduction``, ``parallel-scan``,
        ``unknown-iname``, ``no-match``, ``unknown-instruction``, ``not-proven``.

    Notes
    -----
    Each result is proven to combine exactly its terms, in their order.  Sources: Blelloch, "Prefix Sums and Their
    Applications", 1990, https://www.cs.cmu.edu/~guyb/papers/Ble93.pdf; Merrill, Garland, "Single-pass Parallel Prefix
    Scan with Decoupled Look-back", NVIDIA, 2016.
    """

    insn_id_filter: InsnMatch | None = None
    _: KW_ONLY
    sweep_iname: Iname | None = None

    def violations(self, kernel: LoopKernel) -> Iterator[Diagnostic]:
        yield from scan_violations(kernel, self.insn_id_filter, self.sweep_iname)

    def rewrite(self, kernel: LoopKernel) -> LoopKernel:
        chosen = meant(kernel, self.insn_id_filter, self.name)
        scans = [scan for i in chosen for scan in find_scans(kernel, i, self.sweep_iname) if isinstance(scan, Scan)]
        return _contracted(_all_realized(kernel, scans) or fold(_realized, scans, kernel))

    def consequences(self, before: LoopKernel, after: LoopKernel) -> Iterable[Diagnostic]:
        return tuple(value_violations(after)) or order_violations(after)

    def note(self, before: LoopKernel, after: LoopKernel) -> str:
        pairs = zip(before.instructions, after.instructions, strict=True)
        return "realized in " + ", ".join(f"'{new.id}'" for old, new in pairs if old is not new)


def scan_violations(kernel: LoopKernel, insn_id_filter: str | None, sweep: str | None) -> Iterator[Diagnostic]:
    """Yield diagnostics if the selected instructions have no scan along *sweep*, or its axis cannot run it."""
    if sweep is not None and (found := tuple(iname_violations(kernel, sweep))):
        yield from found
        return
    if insn_id_filter is not None and (found := tuple(match_violations(kernel, [insn_id_filter], RealizeScan.name))):
        yield from found
        return
    chosen = meant(kernel, insn_id_filter, RealizeScan.name)
    answers = [answer for instruction in chosen for answer in find_scans(kernel, instruction, sweep)]
    scans = [answer for answer in answers if isinstance(answer, Scan)]
    if scans:
        yield from (finding for scan in scans for finding in _axis_violations(kernel, scan))
        return
    if not answers:
        hints = ("write one as b[i] = sum(j, a[j]), with 0 <= j <= i in the domain",)
        yield Diagnostic("not-a-scan", "there is no reduction that could be a scan", hints=hints)
    yield from (answer for answer in answers[:1] if isinstance(answer, Diagnostic))


def _axis_violations(kernel: LoopKernel, scan: Scan) -> Iterator[Diagnostic]:
    """Yield a diagnostic if the axis of the results cannot run the scan: one over blocks, or an ordered operation."""
    axis = axis_name(kernel.tag(scan.sweep))
    if axis is None:
        return
    if not scan.reduction.operation.reassociable:
        yield Diagnostic(
            "ordered-reduction",
            f"'{scan.reduction.operation}' combines one term after the other, which threads cannot do together",
            hints=(f"leave '{scan.sweep}' a loop, or leave out 'ordered'",),
            sites=(scan.instruction.site(),),
        )
    elif is_block_axis(axis) and (why := _not_over_blocks(kernel, scan)):
        outer = axis if is_grid_axis(axis) else BLOCK_AXES[0]
        hint = f"divide the scan before: pl.split_scan(knl, '{scan.sweep}', 256, outer_tag='{outer}')"
        if isinstance(scan.instruction.origin, Partial):
            hint = "give the scan of the sums a loop of its own: pl.split_scan(..., carry_iname='c')"
        yield Diagnostic(
            "parallel-scan",
            f"the blocks along '{scan.sweep}' cannot scan over what '{scan.instruction.id}' combines",
            (why,),
            (hint,),
            sites=(scan.instruction.site(),),
        )


def _not_over_blocks(kernel: LoopKernel, scan: Scan) -> str:
    """Return the reason why blocks cannot pass on totals of *scan*, "" if they can."""
    if axis_name(kernel.tag(scan.sweep)) == CLUSTER_AXIS:
        return "the blocks of a cluster combine values, and pass none on from one to the next"
    tags = map(kernel.tag, kernel.inames)
    axes = {axis for tag in tags if (axis := axis_name(tag)) is not None and is_block_axis(axis)}
    if scan.others:
        others = ", ".join(scan.others)
        return f"each block passes on one total, and '{scan.instruction.id}' runs along {others} as well"
    if len(axes) > 1:
        return f"blocks are numbered along one axis, and the kernel has {', '.join(sorted(axes))}"
    axis = axis_name(kernel.tag(scan.sweep))
    beside = (x for i in kernel.instructions if i.id != scan.instruction.id for x in i.inames)
    if all(axis_name(kernel.tag(x)) != axis for x in beside):
        return "each result would be a block of its own, which does nothing else"
    return ""


def with_reduction(kernel: LoopKernel, scan: Scan, term: Term, reduction: Reduction) -> Instruction:
    """Return the present instruction of *scan* with its reduction replaced."""
    old = kernel.instruction(scan.instruction.id)
    expression = with_conditions(kernel, old)
    terms = list(old.terms)
    terms[scan.number] = term
    return replace(old, expression=replace_reduction(expression, scan.number, reduction), terms=tuple(terms))


def _all_realized(kernel: LoopKernel, scans: Sequence[Scan]) -> LoopKernel | None:
    """Return *kernel* with *scans* realized, each exclusive one adding its terms after their use.

    None if one of them might then read a term that does not exist: they are looked at together, as most often all may.
    """
    result = kernel
    for scan in scans:
        result = replaced(result, _added_later(result, scan) if adds_later(scan) else _added_before(result, scan))
    exclusive = dict.fromkeys(scan.instruction.id for scan in scans if adds_later(scan))
    outside = (out_of_bounds(kernel, result, result.instruction(name)) for name in exclusive)
    return None if any(finding is not None for finding in outside) else result


def _realized(kernel: LoopKernel, scan: Scan) -> LoopKernel:
    """Return *kernel* with one scan realized; an exclusive one adds each term after its use, where it may read it."""
    if adds_later(scan):
        later = _added_later(kernel, scan)
        result = replaced(kernel, later)
        if out_of_bounds(kernel, result, later) is None:
            return result
    return replaced(kernel, _added_before(kernel, scan))


def adds_later(scan: Scan) -> bool:
    """Return True if a scan may add a term after its use, also behind the last result: the term cannot fail there."""
    return scan.is_exclusive and not scan.may_fail


def _kept_along(scan: Scan) -> Reduction:
    """Return the reduction of *scan* as a running total."""
    dims = scan.term.inames
    new = replace(scan.reduction, along=(scan.sweep,), after=False)
    if scan.reduction.operation.of_states and scan.shift is not None:  # the sum of a tile, by the number of the result
        shift = scan.shift + 1 if scan.is_exclusive else scan.shift
        new = replace(new, expr=substitute(new.expr, {dims[-1]: to_expression(Affine(((scan.sweep, 1),), shift))}))
    return new


def _added_later(kernel: LoopKernel, scan: Scan) -> Instruction:
    """Return the instruction of an exclusive scan that adds each term after its use."""
    dims = scan.term.inames
    own = Affine.variable(dims[-1]).add(Affine.variable(scan.sweep), -1)
    domain = insert_dims(scan.instruction.domain, len(dims) - 1, dims[-1:])
    domain = add_rows(domain, dims, [Row(own, True)])
    return with_reduction(kernel, scan, Term(dims, domain), replace(_kept_along(scan), after=True))


def _added_before(kernel: LoopKernel, scan: Scan) -> Instruction:
    """Return the instruction of a scan that adds its new terms before their use."""
    dims = scan.term.inames
    domain = reorder(scan.new.wrap().flatten(), dims, dims)
    return with_reduction(kernel, scan, Term(dims, domain), _kept_along(scan))


def _contracted(kernel: LoopKernel) -> LoopKernel:
    """Return *kernel* with one sum for all tiles of a loop, where no tile needs that of another one."""
    loops = tuple(dict.fromkeys(x for i in kernel.instructions for x in i.inames))
    axes = {name: own_inames(kernel, name, loops) for name in kernel.partials}
    steps = [UnprivatizeTemporariesWithInames((x,), (name,)) for name, own in axes.items() for x in loops if x in own]
    return _shared(kernel, steps)


def _shared(kernel: LoopKernel, steps: Sequence[UnprivatizeTemporariesWithInames]) -> LoopKernel:
    """Return *kernel* after the legal ones of *steps*, checked together first because most often all are legal."""
    result, last = kernel, None
    for step in steps:
        if not any(step.violations(result)):
            result, last = step.rewrite(result), step
    if last is None or not any(last.consequences(kernel, result)):
        return result
    if len(steps) == 1:
        return kernel
    half = len(steps) // 2
    return _shared(_shared(kernel, steps[:half]), steps[half:])


def replaced(kernel: LoopKernel, new: Instruction) -> LoopKernel:
    """Return *kernel* with *new* in the place of the instruction of its id."""
    instructions = tuple(new if old.id == new.id else old for old in kernel.instructions)
    return replace(kernel, instructions=instructions)
