"""``rename_iname``, ``rename_inames``: another name for loops."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import pymbolic.primitives as p

from polyloop.errors import Diagnostic
from polyloop.expr.names import check_identifier
from polyloop.kernel.kernel import LoopKernel
from polyloop.poly.affine import Affine
from polyloop.transform.base import Transform, iname_violations, new_name_violations
from polyloop.transform.instructions.selection import selected, selection_violations
from polyloop.transform.loops.inames import Replacement, replace_iname
from polyloop.transform.loops.merge import merge_inames, merge_violations
from polyloop.transform.loops.nests import nest_violations
from polyloop.transform.parameters import Iname, Inames, InsnMatch, NewName

__all__ = ["RenameIname", "RenameInames"]


@dataclass(frozen=True)
class RenameIname(Transform):
    """Give an iname another name; tags stay with it.

    >>> knl = pl.make_kernel("{[i]: 0 <= i < 8}", "b[i] = 2*a[i]")
    >>> print(*knl.rename_iname("i", "row").instructions)
    b[row] = 2*a[row]

    Parameters
    ----------
    old_iname, new_iname
        The iname, and its new name.
    existing_ok, within
        As for :func:`rename_inames`, which does the work where one of them is given.

    Raises
    ------
    TransformError
        ``unknown-iname``, ``name-taken``, ``bad-identifier``, ``reserved-name``.

    Notes
    -----
    Always legal if the name is new.  Source: Loopy's transform of the same name.
    """

    old_iname: Iname
    new_iname: NewName
    existing_ok: bool = False
    within: InsnMatch | None = None

    def resolved(self, kernel: LoopKernel) -> Transform:
        if self.existing_ok or self.within is not None:
            return RenameInames((self.old_iname,), self.new_iname, self.existing_ok, self.within)
        return self

    def violations(self, kernel: LoopKernel) -> Iterator[Diagnostic]:
        yield from iname_violations(kernel, self.old_iname)
        problem = check_identifier(self.new_iname, "iname")
        if problem is not None:
            yield problem
        yield from new_name_violations(kernel, (self.new_iname,))

    def rewrite(self, kernel: LoopKernel) -> LoopKernel:
        old, new = self.old_iname, self.new_iname
        change = Replacement(old, (new,), Affine.variable(new), (), p.Variable(new))
        result = replace_iname(kernel, change)
        tags = {new if name == old else name: tag for name, tag in kernel.iname_tags.items()}
        slabs = {new if name == old else name: slab for name, slab in kernel.slabs.items()}
        tiles = frozenset(new if name == old else name for name in kernel.tile_inames)
        return replace(result, iname_tags=tags, slabs=slabs, tile_inames=tiles)


@dataclass(frozen=True)
class RenameInames(Transform):
    """Give several inames one name, which may be that of another iname.

    >>> knl = pl.make_kernel(["{[i]: 0 <= i < 8}", "{[j]: 0 <= j < 8}"], ["b[i] = 2*a[i]", "d[j] = 3*c[j]"])
    >>> print(knl.rename_inames("i, j", "x"))
    kernel loop_kernel
    ...
    instructions:
        [x]  b[x] = 2*a[x]    {id=insn}
        [x]  d[x] = 3*c[x]    {id=insn_1}

    Whether the instructions then share a loop follows from what they read and write, as in a kernel's text;
    :func:`fuse_loops` insists on it.

    Parameters
    ----------
    old_inames
        The inames to rename.
    existing_ok
        Whether *new_iname* may be an iname already.
    within
        The instructions concerned; all by default.  Others keep the old inames.

    Raises
    ------
    TransformError
        ``unknown-iname``, ``bad-inames``, ``name-taken``, ``bad-identifier``, ``unknown-instruction``, ``no-match``;
        ``same-nest``, ``iname-tagged``; ``illegal-order``, with two instances.

    Notes
    -----
    Source: Loopy's transform of the same name.
    """

    old_inames: Inames
    new_iname: NewName
    existing_ok: bool = False
    within: InsnMatch | None = None

    def violations(self, kernel: LoopKernel) -> Iterator[Diagnostic]:
        if found := [finding for iname in self.old_inames for finding in iname_violations(kernel, iname)]:
            yield from found
            return
        if not self.old_inames or len(set(self.old_inames)) < len(self.old_inames):
            yield Diagnostic("bad-inames", "name each iname to rename once", hints=("rename_inames(knl, 'i, j', 'k')",))
            return
        exists = self.new_iname in kernel.inames
        if not exists:
            problem = check_identifier(self.new_iname, "iname")
            if problem is not None:
                yield problem
            yield from new_name_violations(kernel, (self.new_iname,))
        elif not self.existing_ok:
            hint = "pass existing_ok=True to let the instructions use the iname that there is"
            yield Diagnostic("name-taken", f"there is an iname '{self.new_iname}' already", hints=(hint,))
        if problems := tuple(selection_violations(kernel, self.within, self.name, self.old_inames)):
            yield from problems
            return
        names = (*self.old_inames, *((self.new_iname,) if exists else ()))
        yield from merge_violations(kernel, tuple(dict.fromkeys(names)), self._only(kernel))

    def _only(self, kernel: LoopKernel) -> tuple[str, ...] | None:
        return None if self.within is None else selected(kernel, self.within, self.name)

    def rewrite(self, kernel: LoopKernel) -> LoopKernel:
        return merge_inames(kernel, self.old_inames, self.new_iname, self._only(kernel))

    def consequences(self, before: LoopKernel, after: LoopKernel) -> Iterable[Diagnostic]:
        return nest_violations(after)
