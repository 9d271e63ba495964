"""``split_iname``: an outer and an inner loop for one loop (strip-mining)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Annotated, Final

import pymbolic.primitives as p

from polyloop.edge.checks import EXPLAINED
from polyloop.errors import Diagnostic
from polyloop.expr.names import check_identifier
from polyloop.expr.nodes import Expression
from polyloop.expr.rewrite import substitute
from polyloop.frozen import replace
from polyloop.kernel.kernel import LoopKernel
from polyloop.kernel.tags import Sequential
from polyloop.poly.affine import Affine
from polyloop.poly.sets import Row, map_from_forms
from polyloop.transform.base import Applied, Transform, iname_violations, new_name_violations
from polyloop.transform.instructions.selection import selected, selection_violations
from polyloop.transform.loops.inames import Replacement, replace_iname
from polyloop.transform.loops.nests import nest_violations
from polyloop.transform.loops.remap import Remap, free_space, remap_inames
from polyloop.transform.loops.skew import skew_hint
from polyloop.transform.loops.tag import TagInames, parallel_violations, tag_violations
from polyloop.transform.parameters import Iname, InsnMatch, NewName, TagText
from polyloop.verification.order import order_violations

__all__ = ["SplitIname", "Splitting", "halves", "parts_of", "slab_violations", "split_violations",
           "with_parts"]

_MOST_APART: Final = 2**20  # iterations at one end of a loop: sums of it and a size stay far from the end of 64 bits


class Splitting(Transform):
    """Base of transforms that divide one loop in two, with the names and tags of both."""

    split_iname: str
    outer_iname: str | None
    inner_iname: str | None
    outer_tag: str | None
    inner_tag: str | None

    @property
    def outer(self) -> str:
        """Name of the outer iname."""
        return self.outer_iname or f"{self.split_iname}_outer"

    @property
    def inner(self) -> str:
        """Name of the inner iname."""
        return self.inner_iname or f"{self.split_iname}_inner"

    def tags(self) -> tuple[tuple[str, str], ...]:
        """Return the tags asked for."""
        wanted = ((self.outer, self.outer_tag), (self.inner, self.inner_tag))
        return tuple((iname, tag) for iname, tag in wanted if tag is not None)


@dataclass(frozen=True)
class SplitIname(Splitting):
    """Divide one loop into an outer and an inner loop (strip-mining).

    ::

        for i in [0, n):  S(i)
        ->
        for i_outer in [0, ceil(n / f)):
            for i_inner in [0, f):
                if f*i_outer + i_inner < n:  S(f*i_outer + i_inner)

    >>> knl = pl.make_kernel("{[i]: 0 <= i < 64}", "b[i] = 2*a[i]")
    >>> print(body(knl.split_iname("i", 16)))
    for (int i_outer = 0; i_outer < 4; ++i_outer) {
        for (int i_inner = 0; i_inner < 16; ++i_inner) {
            const int i = 16 * i_outer + i_inner;
            b[i] = 2.0f * a[i];
        }
    }

    Parameters
    ----------
    split_iname
        The iname to split; a loop's or a reduction's.
    inner_length
        Extent ``f`` of the inner loop [iterations], at least 1.
    outer_iname, inner_iname
        Names of the new inames; by default the old name with ``_outer`` and ``_inner``.
    outer_tag, inner_tag
        How the new loops run, as in :func:`tag_inames`.
    slabs
        ``(front, back)``: iterations of the outer loop to separate in generated code, so that the bulk runs
        without their conditionals.
    within
        The instructions concerned, all by default; others keep the loop that they have.
    do_tagged_check
        Whether a loop that is tagged is refused; otherwise it loses its tag.

    Returns
    -------
    LoopKernel
        Relations over ``(.., i, ..)`` now have ``(.., i_outer, i_inner, ..)``; array shapes and strides
        [elements] are unchanged.

    Raises
    ------
    TransformError
        ``unknown-iname``, ``bad-factor``, ``name-taken``, ``bad-slabs``, ``iname-tagged``, ``bad-tag``,
        ``unknown-instruction``, ``no-match``; with tags also what :func:`tag_inames` raises; with *within* also
        ``illegal-order``, where the instructions need to share the loop.

    Notes
    -----
    Without tags always legal: instances keep their order.  Source: Wolf and Lam, PLDI 1991,
    https://doi.org/10.1145/113445.113449.
    """

    split_iname: Iname
    inner_length: Annotated[int, EXPLAINED]
    _: KW_ONLY
    outer_iname: NewName | None = None
    inner_iname: NewName | None = None
    outer_tag: TagText | None = None
    inner_tag: TagText | None = None
    slabs: Annotated[tuple[int, int], EXPLAINED] = (0, 0)
    within: InsnMatch | None = None
    do_tagged_check: bool = True

    def violations(self, kernel: LoopKernel) -> Iterator[Diagnostic]:
        if found := tuple(iname_violations(kernel, self.split_iname)):
            yield from found
            return
        length: object = self.inner_length
        if type(length) is not int or length < 1:
            yield Diagnostic(
                "bad-factor",
                f"cannot split by {length!r}",
                hints=("inner_length is the extent of the inner loop: an integer of at least 1",),
            )
        yield from split_violations(kernel, self.outer, self.inner, self.slabs, self.tags())
        yield from selection_violations(kernel, self.within, self.name, [self.split_iname])
        tag = kernel.iname_tags.get(self.split_iname)
        if self.do_tagged_check and tag is not None and not isinstance(tag, Sequential):
            yield Diagnostic(
                "iname-tagged",
                f"iname '{self.split_iname}' is tagged '{tag}' and cannot be split any more",
                hints=("split first, then tag the new inames",),
            )

    def rewrite(self, kernel: LoopKernel) -> LoopKernel:
        outer, inner, length = self.outer, self.inner, self.inner_length
        if self.within is not None:
            change = parts_of(kernel, self.split_iname, length, (outer, inner))
            result = remap_inames(kernel, change, selected(kernel, self.within, self.name))
        else:
            result = replace_iname(kernel, halves(self.split_iname, length, outer, inner))
        slabs = dict(kernel.slabs)
        if any(self.slabs):
            slabs[outer] = self.slabs
        result = replace(result, tile_inames=kernel.tile_inames | {outer}, slabs=slabs)
        return TagInames(self.tags()).rewrite(result) if self.tags() else result

    def consequences(self, before: LoopKernel, after: LoopKernel) -> Iterable[Diagnostic]:
        if self.within is not None:
            return nest_violations(after)
        found = tuple(parallel_violations(after, self.tags()))
        if not found or found[0].code == "parallel-reduction":
            return found
        hints = skew_hint(before, [self.split_iname], self._is_free)
        return (replace(found[0], hints=(*hints, *found[0].hints)), *found[1:])

    def _is_free(self, kernel: LoopKernel) -> bool:
        """Return whether *kernel* may be split and tagged so."""
        return not any(order_violations(kernel)) and not any(parallel_violations(self.rewrite(kernel), self.tags()))


def halves(iname: str, length: int, outer: str, inner: str) -> Replacement:
    """Return the change of *iname* to ``length*outer + inner``, everywhere."""
    form = Affine.make([(outer, length), (inner, 1)])
    text = p.Sum((p.Product((length, p.Variable(outer))), p.Variable(inner)))
    box = (Row(Affine.variable(inner)), Row(Affine(((inner, -1),), length - 1)))
    return Replacement(iname, (outer, inner), form, box, text, (inner, length))


def split_violations(
    kernel: LoopKernel, outer: str, inner: str, slabs: tuple[int, int], tags: Iterable[tuple[str, str]]
) -> Iterator[Diagnostic]:
    """Yield the errors in the names, slabs and tags of the two loops that one becomes."""
    for name in (outer, inner):
        problem = check_identifier(name, "iname")
        if problem is not None:
            yield problem
    if outer == inner:
        yield Diagnostic("name-taken", f"both new inames would be called '{outer}'", hints=("give two names",))
    yield from new_name_violations(kernel, (outer, inner))
    message = f"slabs={slabs!r} is not a pair of counts"
    yield from slab_violations(slabs, message, "slabs=(front, back)", "the outer loop")
    for _, text in tags:
        yield from tag_violations(text)


def slab_violations(counts: tuple[object, ...], message: str, call: str, loop: str) -> Iterator[Diagnostic]:
    """Yield the errors in numbers of iterations to peel at the ends of a loop."""
    if len(counts) != 2 or any(type(count) is not int or count < 0 for count in counts):
        yield Diagnostic("bad-slabs", message, hints=(f"{call}: iterations of {loop} to separate at either end",))
    elif any(type(count) is int and count > _MOST_APART for count in counts):
        hints = (f"at most {_MOST_APART} at either end; split the iname for more",)
        yield Diagnostic("bad-slabs", f"{counts[0]} and {counts[1]} iterations cannot be set apart", hints=hints)


def parts_of(kernel: LoopKernel, iname: str, length: int, names: tuple[str, str], low: int = 0) -> Remap:
    """Return the change of ``iname`` to ``low + length*outer + inner``, for *names* outer and inner."""
    outer, inner = names
    back = Affine.make([(outer, length), (inner, 1)], low)
    part = Affine(((iname, 1),), -low).floordiv(length)
    there = (part, Affine(((iname, 1),), -low).add(part, -length))
    text = p.Sum((p.Product((length, p.Variable(outer))), p.Variable(inner), *((low,) if low else ())))
    return Remap((iname,), names, map_from_forms(free_space(kernel, 1), (iname,), there), there, (back,), {iname: text})


def with_parts(kernel: LoopKernel, expr: Expression, parameters: Sequence[str] = ()) -> Expression:
    """Return *expr* with the inames that were split in terms of their parts, but for *parameters* of that name."""
    for step in kernel.trace:
        split = step.transform if isinstance(step, Applied) else None
        if isinstance(split, SplitIname) and split.split_iname not in (*kernel.inames, *parameters):
            value = p.Sum((p.Product((split.inner_length, p.Variable(split.outer))), p.Variable(split.inner)))
            expr = substitute(expr, {split.split_iname: value})
    return expr
