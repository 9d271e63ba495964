"""``rename_iname``: another name for a loop."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

import pymbolic.primitives as p

from polyloop.errors import Diagnostic
from polyloop.expr.names import check_identifier
from polyloop.kernel.kernel import LoopKernel
from polyloop.poly.affine import Affine
from polyloop.transform.base import Transform, iname_violations, new_name_violations
from polyloop.transform.inames import Replacement, replace_iname

__all__ = ["RenameIname", "rename_iname"]


@dataclass(frozen=True)
class RenameIname(Transform):
    """Give an iname another name."""

    name: ClassVar[str] = "rename_iname"
    old_iname: str
    new_iname: str

    def violations(self, kernel: LoopKernel) -> Iterator[Diagnostic]:
        yield from iname_violations(kernel, self.old_iname)
        problem = check_identifier(self.new_iname, "iname")
        if problem is not None:
            yield problem
        yield from new_name_violations(kernel, (self.new_iname,))

    def rewrite(self, kernel: LoopKernel) -> LoopKernel:
        old, new = self.old_iname, self.new_iname
        change = Replacement(old, (new,), Affine.variable(new), (), p.Variable(new))
        result = replace_iname(kernel, change, f"rename_iname('{old}', '{new}')")
        tags = {new if name == old else name: tag for name, tag in kernel.iname_tags.items()}
        slabs = {new if name == old else name: slab for name, slab in kernel.slabs.items()}
        tiles = frozenset(new if name == old else name for name in kernel.tile_inames)
        return replace(result, iname_tags=tags, slabs=slabs, tile_inames=tiles)


def rename_iname(kernel: LoopKernel, old_iname: str, new_iname: str) -> LoopKernel:
    """Give an iname another name, everywhere; tags stay with it.

    ::

        for i: S(i)   ->   for row: S(row)

    Raises
    ------
    TransformError
        ``unknown-iname``, ``name-taken``, ``bad-identifier``, ``reserved-name``.

    Notes
    -----
    Always legal.  Source: Loopy's transform of the same name.
    """
    return RenameIname(old_iname, new_iname)(kernel)
