"""``tile``: several loops of a nest are split at once, and the loops over tiles become the outer ones."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import KW_ONLY, dataclass, replace
from itertools import chain
from typing import Annotated

from polyloop.errors import Diagnostic
from polyloop.kernel.kernel import LoopKernel
from polyloop.transform.base import Transform
from polyloop.transform.declare import Keyed, Names, Takes
from polyloop.transform.loops.nests import nest_violations
from polyloop.transform.loops.reorder import PrioritizeLoops
from polyloop.transform.loops.skew import skew_hint
from polyloop.transform.loops.split import SplitIname
from polyloop.transform.loops.tag import parallel_violations
from polyloop.transform.parameters import InameTags, InsnMatch, pairs
from polyloop.verification.order import order_violations
from polyloop.verification.values import value_violations

__all__ = ["Tile"]


@dataclass(frozen=True)
class Tile(Transform):
    """Divide several loops of a nest at once: loops over tiles outside, loops inside of a tile inside.

    >>> knl = pl.make_kernel("{[i, j]: 0 <= i < 64 and 0 <= j < 64}", "b[i, j] = 2*a[j, i]")
    >>> print(body(knl.tile({"i": 16, "j": 8})))
    for (int i_outer = 0; i_outer < 4; ++i_outer) {
        for (int j_outer = 0; j_outer < 8; ++j_outer) {
            for (int i_inner = 0; i_inner < 16; ++i_inner) {
                const int i = 16 * i_outer + i_inner;
                for (int j_inner = 0; j_inner < 8; ++j_inner) {
                    const int j = 8 * j_outer + j_inner;
                    b[i * 64 + j] = 2.0f * a[j * 64 + i];
                }
            }
        }
    }

    Parameters
    ----------
    lengths
        Iname -> extent of a tile along it [iterations]; the loops get the order of the mapping.
    outer_tags, inner_tags
        Iname -> how the loop over tiles, and the one inside of a tile, runs.
    within
        The instructions concerned, all by default.

    Raises
    ------
    TransformError
        The errors of :func:`split_iname` for each iname; ``bad-tag``; ``illegal-order``, with two concrete instances,
        where tiles cannot run one after the other.

    Notes
    -----
    The same as a :func:`split_iname` for each loop and one :func:`prioritize_loops`, except that only the result is
    checked.  Source: Irigoin and Triolet, "Supernode partitioning", POPL 1988, https://doi.org/10.1145/73560.73588.
    """

    lengths: Annotated[tuple[tuple[str, int], ...], Takes(Mapping[str, int], pairs), Names.INAME, Keyed()]
    _: KW_ONLY
    outer_tags: InameTags = ()
    inner_tags: InameTags = ()
    within: InsnMatch | None = None

    def _splits(self) -> tuple[SplitIname, ...]:
        outer, inner = dict(self.outer_tags), dict(self.inner_tags)
        return tuple(
            SplitIname(iname, length, outer_tag=outer.get(iname), inner_tag=inner.get(iname), within=self.within)
            for iname, length in self.lengths
        )

    def _order(self) -> PrioritizeLoops:
        splits = self._splits()
        return PrioritizeLoops((*(split.outer for split in splits), *(split.inner for split in splits)))

    def violations(self, kernel: LoopKernel) -> Iterator[Diagnostic]:
        tagged = [iname for iname, _ in (*self.outer_tags, *self.inner_tags)]
        tiled = [iname for iname, _ in self.lengths]
        for iname in tagged:
            if iname not in tiled:
                hints = (f"tiled are: {', '.join(tiled) or 'none'}",)
                yield Diagnostic("bad-tag", f"'{iname}' is given a tag and is not tiled", hints=hints)
        if not tiled:
            yield Diagnostic("bad-factor", "no loop is tiled", hints=('name loops: {"i": 16, "j": 16}',))
        yield from chain.from_iterable(split.violations(kernel) for split in self._splits())

    def rewrite(self, kernel: LoopKernel) -> LoopKernel:
        for split in self._splits():
            kernel = split.rewrite(kernel)
        return self._order().rewrite(kernel)

    def consequences(self, before: LoopKernel, after: LoopKernel) -> Iterable[Diagnostic]:
        if found := tuple(order_violations(after)):
            return (self._explained(before, found[0]),)
        if self.within is not None:
            return nest_violations(after)
        found = tuple(parallel_violations(after, self._tags()))
        if not found and (after.evaluations or after.buffers):
            return tuple(value_violations(after))
        if not found or found[0].code == "parallel-reduction":
            return found
        hints = skew_hint(before, [iname for iname, _ in self.lengths], self._is_free)
        return (replace(found[0], hints=(*hints, *found[0].hints)), *found[1:])

    def _tags(self) -> tuple[tuple[str, str], ...]:
        return tuple(tag for split in self._splits() for tag in split.tags())

    def _is_free(self, kernel: LoopKernel) -> bool:
        """Return whether *kernel* may be tiled and tagged so."""
        if any(order_violations(kernel)):
            return False
        tiled = self.rewrite(kernel)
        return not any(order_violations(tiled)) and not any(parallel_violations(tiled, self._tags()))

    def _explained(self, before: LoopKernel, finding: Diagnostic) -> Diagnostic:
        if finding.code == "not-proven":
            return finding
        inames = [iname for iname, _ in self.lengths]
        hints = skew_hint(before, inames, lambda kernel: not any(order_violations(self.rewrite(kernel))))
        message = f"tiles of {' and '.join(map(repr, inames))} cannot run one after the other"
        return replace(finding, message=message, hints=hints or ("tile loops whose order is free, or skew them first",))
