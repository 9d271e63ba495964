"""``map_domain``: the inames of a nest become affine functions of others (skews, rotations, reversal, diamonds)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import ClassVar

import islpy as isl

from polyloop.errors import Diagnostic
from polyloop.kernel.kernel import LoopKernel
from polyloop.transform.base import Transform
from polyloop.transform.maptext import read_map
from polyloop.transform.nests import data_violations, nest_violations, one_to_one, tagged_violations
from polyloop.transform.remap import Remap, remap_inames, remap_violations

__all__ = ["MapDomain", "map_domain"]


@dataclass(frozen=True)
class MapDomain(Transform):
    """Replace inames by affine functions of them, one to one."""

    name: ClassVar[str] = "map_domain"
    transform_map: str

    def violations(self, kernel: LoopKernel) -> Iterator[Diagnostic]:
        change = self._change(kernel)
        if isinstance(change, Diagnostic):
            yield change
            return
        yield from tagged_violations(kernel, change.moved, "mapped")
        yield from data_violations(kernel, change.old)
        yield from remap_violations(kernel, change)

    def _change(self, kernel: LoopKernel) -> Remap | Diagnostic:
        given = read_map(kernel, self.transform_map)
        return given if isinstance(given, Diagnostic) else one_to_one(kernel, given)

    def rewrite(self, kernel: LoopKernel) -> LoopKernel:
        change = self._change(kernel)
        assert isinstance(change, Remap), "violations come first"
        return remap_inames(kernel, change, f"map_domain('{self.transform_map}')")

    def consequences(self, before: LoopKernel, after: LoopKernel) -> Iterable[Diagnostic]:
        del before
        return nest_violations(after)


def map_domain(kernel: LoopKernel, transform_map: str | isl.BasicMap | isl.Map) -> LoopKernel:
    """Replace inames by affine functions of them: skew, rotate, reverse, shift or tile a nest.

    ::

        for i in [0, n):  for j in [0, m):  S(i, j)          with  "{[i, j] -> [t, j]: t = i + j}"
        ->
        for t in [0, n + m - 1):  for j in [max(0, t - n + 1), min(m, t + 1)):  S(t - j, j)

    Parameters
    ----------
    transform_map
        From the inames to replace to the new ones, one to one on their domain.  A name that stands on both sides stays
        the iname that it is.  An entry on the right may be an expression: in ``"{[i, j] -> [i, j + i]}"`` the new
        iname takes the name of the first old one in it that does not stay, here ``j``.  Parameters of the kernel need
        no declaration.  The new inames are nested in the order in which the map lists them, in the places of the old.

    Raises
    ------
    TransformError
        ``bad-map``, ``unknown-iname``, ``name-taken``, ``bad-identifier``, ``reserved-name``; ``map-not-bijective``,
        with two instances; ``map-not-affine``; ``partly-mapped``, where an instruction lacks one of the inames;
        ``iname-tagged``, ``data-decides``; ``illegal-order`` and ``illegal-parallel``, with two instances, where the
        new order would change a value.

    Notes
    -----
    Everything that is known of an iname that does not stay is forgotten: ``slabs``, and which loops are tiles.  The
    terms of a reduction come in the new order, which is refused for an ``ordered`` one.  Source: Wolf and Lam, "A loop
    transformation theory and an algorithm to maximize parallelism", IEEE TPDS 2(4), 1991,
    https://doi.org/10.1109/71.97902; the name is Loopy's.
    """
    return MapDomain(transform_map if isinstance(transform_map, str) else str(transform_map))(kernel)
