"""Inames added to instructions, removed from domains, or made unique to their reductions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import islpy as isl

from polyloop.errors import Diagnostic
from polyloop.frozen import replace
from polyloop.kernel.domains import domain_for, outer_inames
from polyloop.kernel.instruction import Instruction, Term
from polyloop.kernel.kernel import LoopKernel
from polyloop.kernel.tags import axis_name
from polyloop.poly.sets import insert_dims, parameter_space, project_onto, reorder, sample_set
from polyloop.transform.base import Transform, iname_violations
from polyloop.transform.instructions.matching import match_violations
from polyloop.transform.instructions.selection import selected, selection_violations
from polyloop.transform.loops.merge import renaming
from polyloop.transform.loops.nests import data_violations, nest_violations
from polyloop.transform.loops.remap import remap_inames
from polyloop.transform.parameters import Inames, InsnMatch

__all__ = ["AddInamesForUnusedHwAxes", "AddInamesToInsn", "MakeReductionInamesUnique", "RemoveUnusedInames"]


def _used(kernel: LoopKernel) -> set[str]:
    """Return the inames of instructions and reductions, and those in bounds of other inames."""
    found = {x for i in kernel.instructions for x in (*i.inames, *(x for term in i.terms for x in term.inames))}
    return found.union(*outer_inames(kernel.domains).values())


@dataclass(frozen=True)
class RemoveUnusedInames(Transform):
    """Take inames out of the domains that no instruction and no bound uses.

    >>> knl = pl.make_kernel("{[i, j]: 0 <= i, j < 8}", "b[i] = 2*a[i] {inames=i}")
    >>> print(knl.inames, knl.remove_unused_inames().inames)
    ('i', 'j') ('i',)

    Parameters
    ----------
    inames
        Which; by default all that are not in use.

    Raises
    ------
    TransformError
        ``unknown-iname``, ``iname-in-use``.

    Notes
    -----
    Always legal.  Source: Loopy's transform of the same name.
    """

    inames: Inames | None = None

    def violations(self, kernel: LoopKernel) -> Iterator[Diagnostic]:
        used = _used(kernel)
        for iname in self.inames or ():
            yield from iname_violations(kernel, iname)
            if iname in used:
                yield Diagnostic(
                    "iname-in-use",
                    f"iname '{iname}' is in use",
                    hints=("without inames=, all that are not in use go",),
                )

    def rewrite(self, kernel: LoopKernel) -> LoopKernel:
        used = _used(kernel)
        gone = [x for x in kernel.inames if x not in used and (self.inames is None or x in self.inames)]
        domains = []
        for piece in kernel.domains:
            left = tuple(x for x in piece.inames if x not in gone)
            if left == piece.inames:
                domains.append(piece)
            elif left:
                domains.append(replace(piece, inames=left, set=project_onto(piece.set, piece.inames, left)))
        return replace(
            kernel,
            domains=tuple(domains) or kernel.domains,
            iname_tags={x: tag for x, tag in kernel.iname_tags.items() if x not in gone},
            slabs={x: slab for x, slab in kernel.slabs.items() if x not in gone},
            tile_inames=kernel.tile_inames - set(gone),
            loop_priority=tuple(
                left for chain in kernel.loop_priority if len(left := tuple(x for x in chain if x not in gone)) > 1
            ),
        )


@dataclass(frozen=True)
class AddInamesToInsn(Transform):
    """Let instructions run for every value of further inames: the same work again, where it does no harm.

    >>> knl = pl.make_kernel("{[i, j]: 0 <= i, j < 8}", ["t[i] = 2*x[i] {id=set, inames=i}", "y[i, j] = t[i]"])
    >>> print(knl.add_inames_to_insn("j", "id:set"))
    kernel loop_kernel
    ...
    instructions:
        [i, j]  t[i] = 2*x[i]    {id=set}
        [i, j]  y[i, j] = t[i]    {id=insn}

    Parameters
    ----------
    inames
        The inames to add; they come innermost.
    insn_match
        The instructions concerned.

    Raises
    ------
    TransformError
        ``unknown-iname``, ``unknown-instruction``, ``data-decides``, ``same-nest``; ``instance-lost``, where the inames
        may have no value; ``illegal-order``, with two instances, where running twice would change a value.

    Notes
    -----
    Source: Loopy's transform of the same name.
    """

    inames: Inames
    insn_match: InsnMatch

    def violations(self, kernel: LoopKernel) -> Iterator[Diagnostic]:
        if found := [finding for iname in self.inames for finding in iname_violations(kernel, iname)]:
            yield from found
            return
        if found := [*match_violations(kernel, [self.insn_match], self.name)]:
            yield from found
            return
        for finding in data_violations(kernel, self.inames):
            yield finding
            return
        for name in selected(kernel, self.insn_match, self.name):
            instruction = kernel.instruction(name)
            yield from _addition_violations(kernel, instruction, self.inames)

    def rewrite(self, kernel: LoopKernel) -> LoopKernel:
        ids = selected(kernel, self.insn_match, self.name)
        return replace(
            kernel,
            instructions=tuple(
                _with_inames(kernel, i, self.inames) if i.id in ids else i for i in kernel.instructions
            ),
        )

    def consequences(self, before: LoopKernel, after: LoopKernel) -> Iterable[Diagnostic]:
        return nest_violations(after)


def _addition_violations(
    kernel: LoopKernel, instruction: Instruction, inames: Sequence[str]
) -> Iterator[Diagnostic]:
    """Yield a diagnostic if loops over *inames* cannot be added around an instruction."""
    for term in instruction.terms:
        for iname in term.inames:
            if iname in inames and iname not in instruction.inames:
                copy = f"duplicate_inames(knl, '{iname}', within=\"id:{instruction.id}\")"
                yield Diagnostic(
                    "same-nest",
                    f"'{instruction.id}' already reduces over '{iname}'",
                    ("an iname is either a loop around an instruction or that of its reduction",),
                    (f"rename the reduction's first: {copy}",),
                    sites=(instruction.site(),),
                )
                return
    if instruction.atomic:
        yield Diagnostic(
            "instance-lost",
            f"'{instruction.id}' is an atomic update, which has to happen once, not for each value of other inames",
            hints=("leave it as it is",),
            sites=(instruction.site(),),
        )
        return
    after = _with_inames(kernel, instruction, inames)
    kept = project_onto(after.domain, after.inames, instruction.inames)
    lost = instruction.domain.subtract(kept).intersect_params(kernel.assumptions)
    values = sample_set(lost, instruction.inames)
    if values is not None:
        shown = ", ".join(f"{name}={value}" for name, value in values.items())
        yield Diagnostic(
            "instance-lost",
            f"'{instruction.id}' would not run where {' and '.join(map(repr, inames))} has no value",
            (f"for example with {shown}",),
            ("state with assumptions= that the loop is not empty",),
            sites=(instruction.site(),),
        )


def _with_inames(kernel: LoopKernel, instruction: Instruction, inames: Sequence[str]) -> Instruction:
    """Return *instruction* with loops over *inames* added as the innermost ones."""
    new = [x for x in inames if x not in instruction.inames]
    if not new:
        return instruction
    nest = (*instruction.inames, *new)
    space = parameter_space(kernel.parameters)
    allowed = domain_for(kernel.domains, nest, space)

    def widened(domain: isl.Set, dims: tuple[str, ...], order: tuple[str, ...]) -> isl.Set:
        wide = reorder(insert_dims(domain, len(dims), new), (*dims, *new), order)
        others = [x for x in order if x not in nest]
        limit = reorder(insert_dims(allowed, len(nest), others), (*nest, *others), order)
        return wide.intersect(limit.align_params(wide.get_space()))

    terms = tuple(
        Term(order, widened(t.domain, t.inames, order))
        for t in instruction.terms
        for order in ((*nest, *t.inames[len(instruction.inames) :]),)
    )
    domain = widened(instruction.domain, instruction.inames, nest)
    return replace(instruction, inames=nest, domain=domain, terms=terms)


@dataclass(frozen=True)
class AddInamesForUnusedHwAxes(Transform):
    """Let all threads run instructions that lack an iname on some axis, each for itself.

    ::

        S, on the first thread of l.0     with i tagged l.0 elsewhere
        ->
        S, on every thread i

    >>> knl = pl.make_kernel("{[i]: 0 <= i < 64}", ["<> t = 2*x {id=set}", "y[i] = t*i"]).tag_inames("i:l.0")
    >>> print(knl.add_inames_for_unused_hw_axes("id:set"))
    kernel loop_kernel
    ...
    instructions:
        [i]  t = 2*x    {id=set}
        [i]  y[i] = t*i    {id=insn}

    Where nothing is added, an instruction without an iname on an axis runs on the first thread of it if it writes
    variables that other threads see, and on each thread if it writes private ones.

    Parameters
    ----------
    within
        The instructions concerned; all by default.

    Raises
    ------
    TransformError
        ``unknown-instruction``, ``axis-ambiguous``, ``same-nest``, ``instance-lost``; ``illegal-parallel`` and
        ``write-race``, with two instances.

    Notes
    -----
    Source: Loopy's transform of the same name.
    """

    within: InsnMatch | None = None

    def violations(self, kernel: LoopKernel) -> Iterator[Diagnostic]:
        if found := tuple(selection_violations(kernel, self.within, self.name)):
            yield from found
            return
        for name in selected(kernel, self.within, self.name):
            instruction = kernel.instruction(name)
            for axis, inames in _axes(kernel).items():
                if len(inames) > 1 and not _has_axis(kernel, instruction, axis):
                    yield Diagnostic(
                        "axis-ambiguous",
                        f"several inames are '{axis}': {', '.join(inames)}",
                        (f"'{name}' has none, and which it is to get is not clear",),
                        ("choose with add_inames_to_insn, or leave the instructions out with within=",),
                        sites=(instruction.site(),),
                    )
                    return
            yield from _addition_violations(kernel, instruction, _missing(kernel, instruction))

    def rewrite(self, kernel: LoopKernel) -> LoopKernel:
        ids = selected(kernel, self.within, self.name)
        return replace(
            kernel,
            instructions=tuple(
                _with_inames(kernel, i, _missing(kernel, i)) if i.id in ids else i for i in kernel.instructions
            ),
        )

    def consequences(self, before: LoopKernel, after: LoopKernel) -> Iterable[Diagnostic]:
        return nest_violations(after)


def _axes(kernel: LoopKernel) -> dict[str, list[str]]:
    """Return the inames on each axis that instructions use."""
    found: dict[str, list[str]] = {}
    for iname in dict.fromkeys(x for i in kernel.instructions for x in i.inames):
        axis = axis_name(kernel.tag(iname))
        if axis is not None:
            found.setdefault(axis, []).append(iname)
    return found


def _has_axis(kernel: LoopKernel, instruction: Instruction, axis: str) -> bool:
    return any(axis_name(kernel.tag(iname)) == axis for iname in instruction.inames)


def _missing(kernel: LoopKernel, instruction: Instruction) -> tuple[str, ...]:
    axes = _axes(kernel).items()
    return tuple(inames[0] for axis, inames in axes if not _has_axis(kernel, instruction, axis))


@dataclass(frozen=True)
class MakeReductionInamesUnique(Transform):
    """Give the reductions of each instruction inames that no other instruction reduces over.

    >>> knl = pl.make_kernel("{[k]: 0 <= k < 8}", ["s = sum(k, a[k])", "t = sum(k, b[k])"])
    >>> print(knl.make_reduction_inames_unique())
    kernel loop_kernel
    ...
    instructions:
        s = sum(k, a[k])    {id=insn}
        t = sum(k_0, b[k_0])    {id=insn_1}

    Parameters
    ----------
    inames
        Which inames; all by default.
    within
        The instructions concerned; all by default.

    Raises
    ------
    TransformError
        ``unknown-iname``, ``unknown-instruction``, ``copy-wrong-element``.

    Notes
    -----
    Legal unless a value that is fetched ahead depends on the iname.  Two reductions over one iname in one instruction
    keep sharing it.  Substitution rules with reductions are expanded where a name changes.  Source: Loopy's transform
    of the same name.
    """

    inames: Inames | None = None
    within: InsnMatch | None = None

    def violations(self, kernel: LoopKernel) -> Iterator[Diagnostic]:
        for iname in self.inames or ():
            yield from iname_violations(kernel, iname)
        yield from selection_violations(kernel, self.within, self.name)

    def rewrite(self, kernel: LoopKernel) -> LoopKernel:
        ids = selected(kernel, self.within, self.name)
        seen: set[str] = set()
        for instruction in kernel.instructions:
            own = [x for term in instruction.terms for x in term.inames if x not in instruction.inames]
            shared = [x for x in dict.fromkeys(own) if x in seen and (self.inames is None or x in self.inames)]
            if shared and instruction.id in ids:
                names: dict[str, str] = {}
                for iname in shared:
                    names[iname] = kernel.fresh(iname, names.values())
                kernel = remap_inames(kernel, renaming(kernel, names), [instruction.id])
                own = [names.get(x, x) for x in own]
            seen.update(own)
        return kernel

    def consequences(self, before: LoopKernel, after: LoopKernel) -> Iterable[Diagnostic]:
        return nest_violations(after)
