"""``tag_inames``: the execution mode of loops."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from fnmatch import fnmatchcase
from itertools import islice
from typing import Annotated, Final

import islpy as isl

from polyloop.dataflow.address_spaces import place
from polyloop.dataflow.uniformity import divergent_reductions
from polyloop.errors import Diagnostic, WitnessKind
from polyloop.expr.rewrite import reductions
from polyloop.expr.rules import expand_rules
from polyloop.frozen import replace
from polyloop.kernel.instruction import Term, may_group
from polyloop.kernel.kernel import LoopKernel
from polyloop.kernel.tags import (
    ClusterAxis,
    GroupAxis,
    LocalAxis,
    Sequential,
    axis_name,
    is_lane,
    parse_tag,
    placing,
)
from polyloop.kernel.text.match import is_glob
from polyloop.kernel.updates import COMMUTATIVE, update_of
from polyloop.mapping.thread_mapping import Placement
from polyloop.poly.axes import is_axis
from polyloop.poly.sets import sample_pair
from polyloop.program.expand_lanes import lane_violations
from polyloop.program.lower import Lowered
from polyloop.program.scan_patterns import carried_violations
from polyloop.proof.obligation import Claim, is_waived, share_proofs
from polyloop.proof.postponed import waits
from polyloop.proof.witness import element, instance, pair, witness
from polyloop.sync.block_waits import block_violations
from polyloop.sync.lookback_progress import passing_violations
from polyloop.sync.races import Need, not_on_the_host, races, shared_arrays
from polyloop.transform.base import Transform, iname_violations
from polyloop.transform.declare import Keyed, Names, Takes
from polyloop.transform.loops.launch_hint import launch_hint
from polyloop.transform.loops.skew import skew_hint
from polyloop.transform.parameters import Pairs, parse_tags
from polyloop.verification.accumulators import PARTIAL_RESULTS
from polyloop.verification.order import order_violations
from polyloop.verification.values import value_violations

__all__ = ["TagInames", "fitting", "parallel_violations", "tag_violations"]


def fitting(kernel: LoopKernel, pattern: str) -> tuple[str, ...]:
    """Return the inames that match a glob; a name without ``*`` and ``?`` is returned as it is."""
    return tuple(iname for iname in kernel.inames if fnmatchcase(iname, pattern)) if is_glob(pattern) else (pattern,)


_TAGS_OF_CUDA: Final = {"threadIdx": "l", "blockIdx": "g"}
_AXES_OF_CUDA: Final = frozenset("xyz")
_ENTRY: Final = re.compile(r"(\w+)\s*(?:->|=|\s)\s*([a-z][\w.%/]*)")
_AXES: Final = frozenset("gcl")
_WORDS: Final = {
    "block": "g.0", "grid": "g.0", "group": "g.0", "thread": "l.0", "local": "l.0", "warp": "w", "vector": "vec",
    "vectorize": "vec", "simd": "vec", "unroll": "unr", "unrolled": "unr", "sequential": "for", "serial": "for",
    "omp": "g.0", "openmp": "g.0", "subgroup": "w", "wave": "w",
}  # fmt: skip


def tag_violations(text: str) -> Iterator[Diagnostic]:
    """Yield ``bad-tag`` if *text* is no tag."""
    if parse_tag(text) is None:
        name, _, axis = text.partition(".")
        meant = f"{_TAGS_OF_CUDA[name]}.{'xyz'.index(axis)}" if name in _TAGS_OF_CUDA and axis in _AXES_OF_CUDA else ""
        meant = meant or _WORDS.get(text.lower().rstrip("s"), "")
        meant = meant or (f"{text[:1]}.{text[1:]}" if text[:1] in _AXES and parse_tag(f"{text[:1]}.{text[1:]}") else "")
        yield Diagnostic(
            "bad-tag",
            f"no tag '{text}'",
            hints=("iterations in parallel are blocks, 'g.0', or threads of a block, 'l.0'",) if text == "parallel" else
            (f"that is the tag '{meant}'",) if meant else (
                "tags are for, ord, unr, unr_hint, ilp, ilp.seq, vec, g.0 to g.2, c.0, l.0 to l.2, lane, w, l.auto, "
                "and digits of the thread number such as l%8, l/8%4 and l/32",
            ),
        )


def _untagged(entry: str) -> Iterator[Diagnostic]:
    """Yield ``bad-tag`` for an entry without a tag, with the two that it may be meant to have."""
    words = _ENTRY.fullmatch(entry)
    meant = f"write '{words[1]}:{words[2]}'" if words is not None else f"write '{entry}:l.0', or another tag"
    yield Diagnostic("bad-tag", f"no tag in '{entry}'", hints=(meant,))


@dataclass(frozen=True)
class TagInames(Transform):
    """Choose how loops run.

    >>> knl = pl.make_kernel("{[i, j]: 0 <= i < 8 and 0 <= j < 64}", "b[i, j] = 2*a[i, j]")
    >>> print(body(knl.tag_inames("i:g.0, j:l.0"), "cuda"))
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    b[bx * 64 + tx] = 2.0f * a[bx * 64 + tx];

    Parameters
    ----------
    iname_to_tag
        ``"i:g.0, j:l.0"``, or a mapping, or pairs.  An iname may be a pattern with ``*`` and ``?``:
        ``"*_inner:unr"``.  Tags: ``for`` and ``ord`` (a loop), ``unr`` (unrolled),
        ``unr_hint`` (the compiler is asked to; ``unr_hint.2``: two iterations at a time), ``g.N`` (block axis),
        ``c.0`` (one of the blocks of a cluster, up to 8, which run at the same time: CUDA, ``sm_90``),
        ``l.N`` (thread axis), ``l.auto``, ``l%8``, ``l/8%4`` and ``l/32`` (a digit of the number of the thread: divided
        by 8, the remainder by 4); ``lane`` (one of the threads of a warp: ``l.0``, rounded up to a power of two) and
        ``w`` (one of the warps of the block: ``l.1``, with 32 threads along ``l.0``); ``ilp`` and
        ``ilp.seq`` (each statement runs for all values before the next one, unrolled or in a loop, with temporaries and
        accumulators once for each value), ``vec`` (the same for 2, 4, 8 or 16 values).
    force
        Replace a tag that is already there.
    ignore_nonexistent
        Skip inames that the kernel does not have.

    Raises
    ------
    TransformError
        ``unknown-iname``, ``bad-tag``, ``bad-digit``, ``iname-tagged``, ``parallel-reduction``, ``bad-lanes``;
        ``write-race`` and ``illegal-parallel``, with two concrete instances, where threads would conflict and no
        barrier could order them.

    Notes
    -----
    The iname of a reduction on threads (``l.N``, ``lane``, ``w``), or on the blocks of a cluster (``c.0``), distributes
    its terms: each thread combines its own terms, starting from the neutral element, and then all threads get the
    combination of these partial results, by shuffles within a warp, through shared memory between warps, and through
    the shared memory of each other between blocks of a cluster.

    Source: CUDA C++ Programming Guide, "Programming Model", "Thread Block Clusters".
    """

    iname_to_tag: Annotated[
        Pairs,
        Takes(str | Mapping[str, str] | Sequence[tuple[str, str]], parse_tags),
        Names.INAME,
        Keyed(Names.TAG),
    ]
    _: KW_ONLY
    force: bool = False
    ignore_nonexistent: bool = False

    def violations(self, kernel: LoopKernel) -> Iterator[Diagnostic]:
        for pattern, text in self.iname_to_tag:
            if is_glob(pattern) and not fitting(kernel, pattern) and not self.ignore_nonexistent:
                hints = (f"inames: {', '.join(kernel.inames)}",)
                yield Diagnostic("unknown-iname", f"no iname fits '{pattern}'", hints=hints)
            yield from tag_violations(text) if text else _untagged(pattern)
        named: dict[str, str] = {}
        for iname, text in self.iname_to_tag:
            if named.setdefault(iname, text) != text:
                yield Diagnostic(
                    "iname-tagged",
                    f"iname '{iname}' gets two tags, '{named[iname]}' and '{text}'",
                    hints=(f'a loop has one; for both, divide it: split_iname("{iname}", 256, outer_tag="g.0", '
                           'inner_tag="l.0")',),
                )  # fmt: skip
        for iname, text in self.pairs(kernel):
            if not self.ignore_nonexistent and text:
                meant = parse_tag(iname) is not None and text in kernel.inames
                turned = (f"the iname comes first: '{text}:{iname}'",) if meant else ()
                yield from (replace(found, hints=turned or found.hints) for found in iname_violations(kernel, iname))
            old = kernel.iname_tags.get(iname)
            if old is not None and not isinstance(old, Sequential) and str(old) != text and not self.force:
                yield Diagnostic(
                    "iname-tagged",
                    f"iname '{iname}' is already tagged '{old}'",
                    hints=("pass force=True to replace the tag",),
                )

    def pairs(self, kernel: LoopKernel) -> tuple[tuple[str, str], ...]:
        """Return pairs of inames and tags, with patterns expanded."""
        return tuple((x, text) for entry, text in self.iname_to_tag for x in fitting(kernel, entry))

    def rewrite(self, kernel: LoopKernel) -> LoopKernel:
        tags = dict(kernel.iname_tags)
        for iname, text in self.pairs(kernel):
            tag = parse_tag(text)
            if tag is not None and iname in kernel.inames:
                tags[iname] = tag
        result = replace(kernel, iname_tags=tags)
        has_matrices = any(instruction.matrix is not None for instruction in kernel.instructions)
        if not has_matrices and all(placing(kernel.tag(x)) == placing(result.tag(x)) for x in tags):
            share_proofs(kernel, result)  # only how loops are printed differs
        return result

    def consequences(self, before: LoopKernel, after: LoopKernel) -> Iterable[Diagnostic]:
        found = tuple(parallel_violations(after, self.pairs(after)))
        if not found or found[0].code == "parallel-reduction":
            return found
        hints = skew_hint(before, [iname for iname, _ in self.pairs(after)], self._is_free)
        hints = hints or launch_hint(before, found[0].sites, self._is_free)
        return (replace(found[0], hints=(*hints, *found[0].hints)), *found[1:])

    def _is_free(self, kernel: LoopKernel) -> bool:
        """Return whether *kernel* may be tagged so."""
        return not any(order_violations(kernel)) and not any(
            parallel_violations(self.rewrite(kernel), self.pairs(kernel))
        )


def _reduction_violations(kernel: LoopKernel, iname: str, text: str) -> Iterator[Diagnostic]:
    """Yield ``parallel-reduction`` for each reduction over *iname* whose terms the axis *text* cannot divide."""
    tag = parse_tag(text)
    if not isinstance(tag, GroupAxis | LocalAxis):
        return
    for instruction in kernel.instructions:
        if not instruction.terms:
            continue
        found = reductions(expand_rules(instruction.expression, kernel.substitutions))
        for term, reduction in zip(instruction.terms, found, strict=True):
            if iname not in reduction.inames:
                continue
            ordered = not may_group(instruction, reduction.operation)
            if isinstance(tag, LocalAxis | ClusterAxis) and not ordered and reduction.start is None:
                continue
            why = f"{_two_terms(term, iname)} would be added to one accumulator at the same time"
            hint = PARTIAL_RESULTS
            if ordered:
                why = f"the terms of '{reduction.operation}' are combined in their order, one after the other"
                hint = "keep its loop sequential, or reduce without 'ordered' if any order will do"
            yield Diagnostic(
                "parallel-reduction",
                f"iname '{iname}' is the iname of a reduction and cannot be '{text}'",
                (why,),
                (hint,),
                sites=(instruction.site(),),
            )
            return


def _two_terms(term: Term, iname: str) -> str:
    """Return the text of two terms that differ in *iname* alone, or of terms in general if there are none."""
    pairs = isl.Map.from_domain_and_range(term.domain, term.domain)
    for position, name in enumerate(term.inames):
        if name == iname:
            pairs = pairs.order_lt(isl.dim_type.in_, position, isl.dim_type.out, position)
        else:
            pairs = pairs.equate(isl.dim_type.in_, position, isl.dim_type.out, position)
    found = sample_pair(pairs, term.inames, term.inames)
    if found is None:
        return "terms of other threads"
    first, second = (", ".join(f"{name}={value}" for name, value in side.items()) for side in found[1:])
    return f"the terms ({first}) and ({second})"


def parallel_violations(kernel: LoopKernel, tags: Iterable[tuple[str, str]]) -> Iterator[Diagnostic]:
    """Yield races that no barrier can mend, and changed values, after some inames became hardware axes or lanes."""
    given = [(iname, text, parse_tag(text) or Sequential()) for iname, text in tags]
    lanes = {iname: text for iname, text, tag in given if is_lane(tag)}
    axes = {iname: text for iname, text, tag in given if axis_name(tag) is not None}
    if found := tuple(_lane_violations(kernel, lanes)):
        yield from found
        return
    if not axes:
        return
    for iname, text in axes.items():
        if found := (*_reduction_violations(kernel, iname, text), *carried_violations(kernel, iname, text)):
            yield from found
            return
    if waits(_axes_violations):
        return
    placement = place(kernel)
    if found := (*islice(_race_violations(placement, axes), 1), *block_violations(placement)):
        yield from found
        return
    for finding in (*passing_violations(placement), *divergent_reductions(placement), *order_violations(kernel)):
        yield _disordered(finding, axes)
        return


def _axes_violations(kernel: LoopKernel) -> Iterator[Diagnostic]:
    """Yield the diagnostics of :func:`parallel_violations` of all hardware axes."""
    tags = [(iname, kernel.tag(iname)) for iname in kernel.inames]
    return parallel_violations(kernel, [(iname, str(tag)) for iname, tag in tags if axis_name(tag) is not None])


def _race_violations(placement: Placement, axes: Mapping[str, str]) -> Iterator[Diagnostic]:
    kernel = placement.program.kernel
    made = {*kernel.evaluations, *kernel.buffers, *kernel.partials}
    for array in shared_arrays(placement):
        if array not in made and not is_waived(kernel, Claim.RACES, f"'{array}'"):
            for need in races(placement, array):
                yield _race(placement, need, axes)


def _lane_violations(kernel: LoopKernel, lanes: Mapping[str, str]) -> Iterator[Diagnostic]:
    """Yield a diagnostic if inames cannot be lanes: by their extents, or because values would change."""
    if not lanes:
        return
    if found := tuple(lane_violations(kernel, lanes)):
        yield from found
        return
    for finding in (*order_violations(kernel), *value_violations(kernel)):
        yield _disordered(finding, lanes)
        return


def _disordered(finding: Diagnostic, tags: Mapping[str, str]) -> Diagnostic:
    """Return the error in the order of a kernel as a consequence of *tags*."""
    if finding.code in ("not-proven", "illegal-parallel", "divergent-reduction", "parallel-scan", "parallel-reduction"):
        return finding
    listed = ", ".join(f"'{iname}' as '{tag}'" for iname, tag in tags.items())
    hints = ("keep the loop sequential, or run another loop of the nest in parallel",)
    return replace(finding, code="illegal-parallel", message=f"cannot run {listed}: {finding.message}", hints=hints)


def _is_update(lowered: Lowered) -> bool:
    """Return whether a statement is a commutative update of one element and reads no other element of the array."""
    if len(lowered.writes) != 1:
        return False
    update = update_of(lowered.lhs, lowered.rhs)
    others = [read for read in lowered.reads if read.array == lowered.write.array]
    return update is not None and update.operation in COMMUTATIVE and len(others) == 1


def _race(placement: Placement, need: Need, axes: Mapping[str, str]) -> Diagnostic:
    first, second = need.conflict.first, need.conflict.second
    left, right = pair(need.conflict.relation, first, second)
    kernel = placement.program.kernel
    culprits = _culprits(kernel, axes, left, right)
    listed = " and ".join(f"iname '{iname}' cannot be '{tag}'" for iname, tag in culprits.items())
    writes_first = first.lowered.is_write(need.first)
    writes_second = second.lowered.is_write(need.second)
    verbs = ("writes" if writes_first else "reads", "writes" if writes_second else "reads")
    cell = element(first, need.first, left)
    both = writes_first and writes_second
    code = "write-race" if both else "illegal-parallel"
    note = f"instance {instance(first, left)} {verbs[0]} {cell}; instance {instance(second, right)} {verbs[1]} it"
    sites = [first.lowered.instruction.site()]
    if second.lowered.instruction is not first.lowered.instruction:
        sites.append(second.lowered.instruction.site())
    hints = ("index the array by the iname, or keep the loop sequential",) if both else ("keep the loop sequential",)
    blocks = " and ".join(f"'{iname}'" for iname, text in culprits.items() if isinstance(parse_tag(text), GroupAxis))
    if both and first is second and _is_update(first.lowered):
        hints = ("mark the update {atomic}, or keep the loop sequential",)
    elif both and culprits and need.first.array in kernel.temporaries:
        iname = next(iter(culprits))
        call = f"pl.privatize_temporaries_with_inames(knl, {iname!r}, {need.first.array!r})"
        hints = (f"give each {iname!r} one of its own before the tag: {call}; or keep the loop sequential",)
    elif blocks and (loop := _carrier(kernel, need, left, right)):
        hints = (
            f"blocks do not wait for each other inside a launch, and loop {loop!r} carries the value from one to "
            f"another: run {blocks} on the threads of a block ('l.0'), or let each {loop!r} be a call of the kernel",
        )
    shown = witness(WitnessKind.RACE, (first, need.first, left), (first, left), (second, right))
    notes = (f"{note}, and both would run at the same time", *not_on_the_host(placement, need))
    return Diagnostic(code, listed, notes, hints, sites=tuple(sites), witness=shown)


def _carrier(kernel: LoopKernel, need: Need, left: Mapping[str, int], right: Mapping[str, int]) -> str | None:
    """Return the sequential loop around both accesses of a race in which their instances differ, if there is one."""
    inames = (access.lowered.inames for access in (need.conflict.first, need.conflict.second))
    both = frozenset.intersection(*map(frozenset, inames))
    for iname in kernel.inames:
        if iname in both and isinstance(kernel.tag(iname), Sequential) and left[iname] != right[iname]:
            return iname
    return None


def _culprits(
    kernel: LoopKernel, axes: Mapping[str, str], left: Mapping[str, int], right: Mapping[str, int]
) -> dict[str, str]:
    """Return the tags to blame for a race: those of axes that differ between its two instances, new tags first."""
    differing = {axis for axis in left if is_axis(axis) and left[axis] != right.get(axis)}
    chosen = {x: text for x, text in axes.items() if axis_name(parse_tag(text) or Sequential()) in differing}
    if chosen:
        return chosen
    older = {x: str(tag) for x in kernel.inames if axis_name(tag := kernel.tag(x)) in differing}
    return older or dict(axes)
