"""``duplicate_inames``: separate copies of loops for some instructions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated

from polyloop.errors import Diagnostic
from polyloop.expr.names import check_identifier
from polyloop.kernel.kernel import LoopKernel
from polyloop.transform.base import Transform, iname_violations, new_name_violations
from polyloop.transform.declare import Names, Takes
from polyloop.transform.instructions.selection import selected, selection_violations
from polyloop.transform.loops.merge import renaming
from polyloop.transform.loops.nests import nest_violations
from polyloop.transform.loops.remap import remap_inames
from polyloop.transform.loops.tag import TagInames, tag_violations
from polyloop.transform.parameters import Inames, InameTags, InsnMatch, Word, names_of

__all__ = ["DuplicateInames"]


@dataclass(frozen=True)
class DuplicateInames(Transform):
    """Give some instructions loops of their own in the place of loops that they share.

    >>> knl = pl.make_kernel("{[i]: 0 <= i < 8}", ["b[i] = 2*a[i]", "d[i] = 3*c[i] {id=T}"])
    >>> print(body(knl.duplicate_inames("i", "id:T")))
    for (int i = 0; i < 8; ++i)
        b[i] = 2.0f * a[i];
    for (int i_0 = 0; i_0 < 8; ++i_0)
        d[i_0] = 3.0f * c[i_0];  // T

    Parameters
    ----------
    inames
        The inames to duplicate: loops', or reductions'.
    within
        The instructions that get the copies; all by default.
    new_inames
        Names of the copies, in the same order; by default the old names with *suffix*, numbered where taken.
    tags
        Tag for the copy of an iname, by the name of the old one.  The copies are plain loops otherwise.

    Raises
    ------
    TransformError
        ``unknown-iname``, ``bad-inames``, ``unknown-instruction``, ``no-match``, ``name-taken``, ``bad-identifier``,
        ``bad-tag``; with tags also what :func:`tag_inames` raises; ``illegal-order``, with two instances, where the
        instructions need to share the loop.

    Notes
    -----
    In the instructions concerned, substitution rules that use the inames are expanded: they keep the old ones for
    others.  Source: Loopy's transform of the same name.
    """

    inames: Inames
    within: InsnMatch | None = None
    new_inames: Annotated[tuple[str, ...], Takes(str | Sequence[str] | None, names_of), Names.NEW] = ()
    suffix: Word | None = None
    tags: InameTags = ()

    def given(self) -> dict[str, object]:
        return {"inames": self.inames, "within": self.within, **super().given()}

    def violations(self, kernel: LoopKernel) -> Iterator[Diagnostic]:
        found = [finding for iname in self.inames for finding in iname_violations(kernel, iname)]
        if found:
            yield from found
            return
        if not self.inames or len(set(self.inames)) < len(self.inames):
            yield Diagnostic("bad-inames", "name each iname to duplicate once", hints=("duplicate_inames(knl, 'i')",))
        if self.new_inames and len(self.new_inames) != len(self.inames):
            message = f"{len(self.inames)} inames cannot get the {len(self.new_inames)} names in new_inames"
            yield Diagnostic("bad-inames", message, hints=("give as many names as inames, in the same order",))
            return
        yield from selection_violations(kernel, self.within, self.name, self.inames)
        for name in self.new_inames:
            if problem := check_identifier(name, "iname"):
                yield problem
        yield from new_name_violations(kernel, self.new_inames)
        if len(set(self.new_inames)) < len(self.new_inames):
            yield Diagnostic("name-taken", "a name stands twice in new_inames", hints=("give different names",))
        for iname, text in self.tags:
            if iname not in self.inames:
                message = f"tags has '{iname}', which is not duplicated"
                yield Diagnostic("bad-inames", message, hints=("tags maps old inames to the tags of their copies",))
            yield from tag_violations(text)

    def _names(self, kernel: LoopKernel) -> dict[str, str]:
        """Return the name of each copy."""
        if self.new_inames:
            return dict(zip(self.inames, self.new_inames, strict=True))
        found: dict[str, str] = {}
        for iname in self.inames:
            found[iname] = kernel.fresh(f"{iname}{self.suffix or ''}", found.values())
        return found

    def _tags(self, kernel: LoopKernel) -> tuple[tuple[str, str], ...]:
        names = self._names(kernel)
        return tuple((names[iname], text) for iname, text in self.tags)

    def rewrite(self, kernel: LoopKernel) -> LoopKernel:
        only = selected(kernel, self.within, self.name)
        result = remap_inames(kernel, renaming(kernel, self._names(kernel)), only)
        return TagInames(self._tags(kernel)).rewrite(result)

    def consequences(self, before: LoopKernel, after: LoopKernel) -> Iterable[Diagnostic]:
        return nest_violations(after)

    def note(self, before: LoopKernel, after: LoopKernel) -> str:
        del after
        if self.new_inames:
            return ""
        return ", ".join(f"'{new}' for '{old}'" for old, new in self._names(before).items())
