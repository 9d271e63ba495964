"""``join_inames``, ``chunk_iname``: one loop for a nest (coalescing); a loop in a given number of parts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import pymbolic.primitives as p

from polyloop.errors import Diagnostic
from polyloop.expr.names import check_identifier
from polyloop.expr.nodes import Expression
from polyloop.kernel.domains import iname_range
from polyloop.kernel.kernel import LoopKernel
from polyloop.kernel.tags import AutoLocal, LocalAxis, ThreadDigit
from polyloop.poly.affine import Affine
from polyloop.poly.sets import Row, add_rows, map_from_forms
from polyloop.transform.base import Transform, iname_violations, new_name_violations
from polyloop.transform.instructions.selection import selected, selection_violations
from polyloop.transform.loops.auto_local import assign_auto
from polyloop.transform.loops.nests import data_violations, nest_violations, tagged_violations
from polyloop.transform.loops.remap import Remap, free_space, remap_inames, remap_violations
from polyloop.transform.loops.split import Splitting, parts_of, split_violations
from polyloop.transform.loops.tag import TagInames, parallel_violations, tag_violations
from polyloop.transform.parameters import Iname, Inames, InsnMatch, NewName, TagText

__all__ = ["ChunkIname", "JoinInames"]


@dataclass(frozen=True)
class JoinInames(Transform):
    """Make one loop of the loops of a nest (coalescing, flattening).

    >>> knl = pl.make_kernel("{[i, j]: 0 <= i < n and 0 <= j < 8}", "b[i, j] = 2*a[i, j]")
    >>> print(knl.join_inames("i, j"))
    kernel loop_kernel
    ...
    instructions:
        [i_and_j]  b[i_and_j // 8, i_and_j % 8] = 2*a[i_and_j // 8, i_and_j % 8]    {id=insn}

    Parameters
    ----------
    inames
        The loops, the slowest first.  All but the first need constant extents.
    new_iname
        Name of the loop; by default the old names with ``_and_`` between them.
    tag
        How it runs, as in :func:`tag_inames`; ``l.auto`` if all of the old ones are, or are the loops of a copy that
        ``l.auto`` spread over threads (:func:`add_prefetch`).
    within
        The instructions concerned; all by default.

    Raises
    ------
    TransformError
        ``unknown-iname``, ``bad-inames``, ``name-taken``, ``bad-identifier``, ``bad-tag``, ``iname-tagged``;
        ``extent-not-constant``, ``data-decides``, ``partly-mapped``; ``unknown-instruction``, ``no-match``;
        ``illegal-order`` and ``illegal-parallel``, with two instances, where the new order would change a value.

    Notes
    -----
    Source: Polychronopoulos, "Loop coalescing: a compiler transformation for parallel machines", ICPP 1987.
    """

    inames: Inames
    new_iname: NewName | None = None
    tag: TagText | None = None
    within: InsnMatch | None = None

    @property
    def joined(self) -> str:
        """Name of the one loop."""
        return self.new_iname or "_and_".join(self.inames)

    def tags(self) -> tuple[tuple[str, str], ...]:
        """Return the tag asked for."""
        return () if self.tag is None else ((self.joined, self.tag),)

    def violations(self, kernel: LoopKernel) -> Iterator[Diagnostic]:
        if found := [finding for iname in self.inames for finding in iname_violations(kernel, iname)]:
            yield from found
            return
        if len(self.inames) < 2 or len(set(self.inames)) < len(self.inames):
            yield Diagnostic("bad-inames", "name two or more inames, each once", hints=("join_inames(knl, 'i, j')",))
            return
        if problem := check_identifier(self.joined, "iname"):
            yield problem
        yield from new_name_violations(kernel, [self.joined])
        for _, text in self.tags():
            yield from tag_violations(text)
        yield from tagged_violations(kernel, [x for x in self.inames if not self._is_auto(kernel)], "joined")
        if found := [*selection_violations(kernel, self.within, self.name, self.inames)]:
            yield from found
            return
        for finding in data_violations(kernel, self.inames):
            yield finding
            return
        for iname in self.inames[1:]:
            if None in iname_range(kernel, iname):
                yield Diagnostic(
                    "extent-not-constant",
                    f"iname '{iname}' has no constant extent, so '{self.joined}' would be no affine form",
                    ("the joined loop counts through the values of the inner inames for each of the outer",),
                    ("only the first iname may have a parametric extent; split the others, or fix their parameters",),
                )
                return
        yield from remap_violations(kernel, self._change(kernel), self._only(kernel))

    def _only(self, kernel: LoopKernel) -> tuple[str, ...] | None:
        return None if self.within is None else selected(kernel, self.within, self.name)

    def _change(self, kernel: LoopKernel) -> Remap:
        """Return the change to one iname in mixed radix, whose digits are the inames, the last the fastest."""
        new = p.Variable(self.joined)
        form, stride = Affine((), 0), 1
        back: dict[str, Affine] = {}
        texts: dict[str, Expression] = {}
        rows: list[Row] = []
        for position, iname in reversed(list(enumerate(self.inames))):
            low, high = iname_range(kernel, iname)
            low = 0 if low is None else low
            form = form.add(Affine(((iname, 1),), -low), stride)
            digit = Affine.variable(self.joined).floordiv(stride)
            text: Expression = new if stride == 1 else p.FloorDiv(new, stride)
            if position:
                assert high is not None, "violations come first"
                extent = high - low + 1
                digit = digit.add(digit.floordiv(extent), -extent)
                text = p.Remainder(text, extent) if extent > 1 else 0
                rows += [Row(Affine(((iname, 1),), -low)), Row(Affine(((iname, -1),), high))]
                stride *= extent
            back[iname] = digit.add(Affine((), low))
            texts[iname] = text if not low else low if text == 0 else p.Sum((text, low))
        box = add_rows(free_space(kernel, len(self.inames)), self.inames, rows)
        relation = map_from_forms(box, self.inames, [form])
        return Remap(
            self.inames, (self.joined,), relation, (form,), tuple(back[iname] for iname in self.inames), texts
        )

    def rewrite(self, kernel: LoopKernel) -> LoopKernel:
        tags = self.tags() or (((self.joined, "l.auto"),) if self._is_auto(kernel) else ())
        if self._is_auto(kernel):
            own = {name: tag for name, tag in kernel.iname_tags.items() if name not in self.inames}
            kernel = replace(kernel, iname_tags=own)
        result = remap_inames(kernel, self._change(kernel), self._only(kernel))
        return assign_auto(TagInames(tags).rewrite(result))

    def _is_auto(self, kernel: LoopKernel) -> bool:
        """Return whether all of the loops are to be spread over threads, or are those of a copy that was."""
        users = {i.id for i in kernel.instructions if not {*self.inames}.isdisjoint(i.inames)}
        is_copy = users <= {*kernel.evaluations.values()}
        tags = [kernel.tag(iname) for iname in self.inames]
        return all(isinstance(tag, AutoLocal) or (is_copy and isinstance(tag, LocalAxis | ThreadDigit)) for tag in tags)

    def consequences(self, before: LoopKernel, after: LoopKernel) -> Iterable[Diagnostic]:
        return nest_violations(after)


@dataclass(frozen=True)
class ChunkIname(Splitting):
    """Divide a loop into a number of parts of one length, of which the last may be shorter.

    ::

        for i in [0, 10):  S(i)                             with  num_chunks=4
        ->
        for i_outer in [0, 4):  for i_inner in [0, 3):      if 3*i_outer + i_inner < 10:  S(3*i_outer + i_inner)

    >>> knl = pl.make_kernel("{[i]: 0 <= i < 12}", "b[i] = 2*a[i]")
    >>> print(body(knl.chunk_iname("i", 4)))
    for (int i_outer = 0; i_outer < 4; ++i_outer) {
        for (int i_inner = 0; i_inner < 3; ++i_inner) {
            const int i = 3 * i_outer + i_inner;
            b[i] = 2.0f * a[i];
        }
    }

    Parameters
    ----------
    num_chunks
        The number of parts; there are fewer where the iterations run out before.
    outer_iname, inner_iname, outer_tag, inner_tag, slabs
        As for :func:`split_iname`.
    do_tagged_check
        Whether to refuse an iname that is tagged; the tag is dropped otherwise.
    within
        The instructions concerned; all by default.

    Raises
    ------
    TransformError
        ``unknown-iname``, ``bad-factor``, ``extent-not-constant``, ``data-decides``, ``name-taken``, ``bad-slabs``,
        ``iname-tagged``, ``bad-tag``, ``unknown-instruction``, ``no-match``; with tags also what :func:`tag_inames`
        raises.

    Notes
    -----
    Loopy's chunks differ in length by at most one, for which the old iname is no affine form of the new ones.  Source:
    Loopy's transform of the same name.
    """

    split_iname: Iname
    num_chunks: int
    outer_iname: NewName | None = None
    inner_iname: NewName | None = None
    outer_tag: TagText | None = None
    inner_tag: TagText | None = None
    slabs: tuple[int, int] = (0, 0)
    do_tagged_check: bool = True
    within: InsnMatch | None = None

    def violations(self, kernel: LoopKernel) -> Iterator[Diagnostic]:
        if found := tuple(iname_violations(kernel, self.split_iname)):
            yield from found
            return
        count: object = self.num_chunks
        if type(count) is not int or count < 1:
            yield Diagnostic("bad-factor", f"no loop has {count!r} parts", hints=("num_chunks is at least 1",))
            return
        yield from split_violations(kernel, self.outer, self.inner, self.slabs, self.tags())
        if self.do_tagged_check:
            yield from tagged_violations(kernel, [self.split_iname], "split")
        yield from selection_violations(kernel, self.within, self.name, [self.split_iname])
        for finding in data_violations(kernel, [self.split_iname]):
            yield finding
            return
        if None in iname_range(kernel, self.split_iname):
            yield Diagnostic(
                "extent-not-constant",
                f"iname '{self.split_iname}' has no constant extent, so the length of a part would be a parameter",
                ("then the value of the iname is the product of two unknowns, and no affine form",),
                ("use split_iname, which fixes the length of a part; or fix_parameters first",),
            )

    def _only(self, kernel: LoopKernel) -> tuple[str, ...] | None:
        return None if self.within is None else selected(kernel, self.within, self.name)

    def rewrite(self, kernel: LoopKernel) -> LoopKernel:
        low, high = iname_range(kernel, self.split_iname)
        assert low is not None, "violations come first"
        assert high is not None, "violations come first"
        length = max(1, -(-(high - low + 1) // self.num_chunks))
        change = parts_of(kernel, self.split_iname, length, (self.outer, self.inner), low)
        result = remap_inames(kernel, change, self._only(kernel))
        slabs = dict(result.slabs)
        if any(self.slabs):
            slabs[self.outer] = self.slabs
        result = replace(result, slabs=slabs, tile_inames=result.tile_inames | {self.outer})
        return TagInames(self.tags()).rewrite(result)

    def consequences(self, before: LoopKernel, after: LoopKernel) -> Iterable[Diagnostic]:
        return parallel_violations(after, self.tags())
