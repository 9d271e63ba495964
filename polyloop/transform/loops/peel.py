"""``untag_inames``, ``peel``: sequential loops again; first and last iterations separated from the bulk."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from polyloop.errors import Diagnostic
from polyloop.kernel.kernel import LoopKernel
from polyloop.kernel.tags import Sequential, axis_name
from polyloop.kernel.text.match import is_glob
from polyloop.transform.base import Transform, iname_violations
from polyloop.transform.loops.nests import nest_violations
from polyloop.transform.loops.split import slab_violations
from polyloop.transform.loops.tag import fitting, tag_violations
from polyloop.transform.parameters import Iname, Word

__all__ = ["Peel", "UntagInames"]


@dataclass(frozen=True)
class UntagInames(Transform):
    """Make plain loops of tagged ones.

    >>> knl = pl.make_kernel("{[i]: 0 <= i < 8}", "b[i] = 2*a[i]").tag_inames("i:l.0")
    >>> print(body(knl.untag_inames("i")))
    for (int i = 0; i < 8; ++i)
        b[i] = 2.0f * a[i];

    Parameters
    ----------
    iname_to_untag
        An iname, or a pattern with ``*`` and ``?``.
    tag_type
        Only where the tag is this one: ``"l.0"``.

    Raises
    ------
    TransformError
        ``unknown-iname``, ``bad-tag``; ``illegal-order`` and ``illegal-parallel``, with two instances, where the loop
        in its place in the nest would change a value.

    Notes
    -----
    Source: Loopy's transform of the same name.
    """

    iname_to_untag: Iname
    tag_type: Word | None = None

    def violations(self, kernel: LoopKernel) -> Iterator[Diagnostic]:
        if is_glob(self.iname_to_untag):
            if not fitting(kernel, self.iname_to_untag):
                hints = (f"inames: {', '.join(kernel.inames)}",)
                yield Diagnostic("unknown-iname", f"no iname fits '{self.iname_to_untag}'", hints=hints)
        else:
            yield from iname_violations(kernel, self.iname_to_untag)
        if self.tag_type is not None:
            yield from tag_violations(self.tag_type)

    def rewrite(self, kernel: LoopKernel) -> LoopKernel:
        meant = fitting(kernel, self.iname_to_untag)
        tags = {
            iname: tag
            for iname, tag in kernel.iname_tags.items()
            if iname not in meant or (self.tag_type is not None and str(tag) != self.tag_type)
        }
        return replace(kernel, iname_tags=tags)

    def consequences(self, before: LoopKernel, after: LoopKernel) -> Iterable[Diagnostic]:
        return nest_violations(after)


@dataclass(frozen=True)
class Peel(Transform):
    """Set first and last iterations of a loop apart from the bulk, in generated code.

    >>> knl = pl.make_kernel("{[i]: 0 <= i < n}", "b[i] = a[i - 1] if i >= 1 else 0")
    >>> print(body(knl.peel("i", front=1)))
    b[0] = 0.0f;
    for (int i = 1; i < n; ++i)
        b[i] = a[i - 1];

    Parameters
    ----------
    front, back
        How many iterations; 0 and 0 take an earlier peeling back.

    Raises
    ------
    TransformError
        ``unknown-iname``, ``bad-slabs``, ``iname-tagged``.

    Notes
    -----
    Always legal: iterations keep their order.  Conditions that hold in all of the bulk vanish from it.  Source: Allen
    and Cocke, "A catalogue of optimizing transformations", 1971.
    """

    iname: Iname
    front: int = 1
    back: int = 0

    def violations(self, kernel: LoopKernel) -> Iterator[Diagnostic]:
        yield from iname_violations(kernel, self.iname)
        message = f"{self.front!r} and {self.back!r} are not two counts"
        yield from slab_violations((self.front, self.back), message, "front=, back=", "the loop")
        tag = kernel.tag(self.iname)
        if axis_name(tag) is not None or not isinstance(tag, Sequential):
            yield Diagnostic(
                "iname-tagged",
                f"iname '{self.iname}' is tagged '{tag}', so there is no loop to peel",
                hints=("peel plain loops: those whose first or last iterations carry conditions",),
            )

    def rewrite(self, kernel: LoopKernel) -> LoopKernel:
        slabs = {name: slab for name, slab in kernel.slabs.items() if name != self.iname}
        if self.front or self.back:
            slabs[self.iname] = (self.front, self.back)
        return replace(kernel, slabs=slabs)
