"""``map_domain``, ``shift``, ``reverse``: affine changes of the inames of a nest."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated

import islpy as isl

from polyloop.errors import Diagnostic
from polyloop.expr.printer import show
from polyloop.kernel.kernel import LoopKernel, memoised
from polyloop.poly.affine import Affine, to_expression
from polyloop.poly.sets import parametric_interval
from polyloop.transform.base import Transform
from polyloop.transform.declare import Takes
from polyloop.transform.loops.maptext import read_map
from polyloop.transform.loops.nests import data_violations, nest_violations, one_to_one, tagged_violations
from polyloop.transform.loops.remap import Remap, alone, remap_inames, remap_violations
from polyloop.transform.parameters import Iname, Inames, NewNames

__all__ = ["AffineMapInames", "MapDomain", "Reverse", "Shift"]


@dataclass(frozen=True)
class _Mapping(Transform):
    """A transform that replaces inames as a map says."""

    @abstractmethod
    def text(self, kernel: LoopKernel) -> str:
        """Return the map."""

    def violations(self, kernel: LoopKernel) -> Iterator[Diagnostic]:
        change = self._change(kernel)
        if isinstance(change, Diagnostic):
            yield change
            return
        yield from tagged_violations(kernel, change.moved, "mapped")
        yield from data_violations(kernel, change.old)
        yield from remap_violations(kernel, change)

    def _change(self, kernel: LoopKernel) -> Remap | Diagnostic:
        return _change(kernel, self.text(kernel))

    def rewrite(self, kernel: LoopKernel) -> LoopKernel:
        change = self._change(kernel)
        assert isinstance(change, Remap), "violations come first"
        return remap_inames(kernel, change)

    def consequences(self, before: LoopKernel, after: LoopKernel) -> Iterable[Diagnostic]:
        return nest_violations(after)


@memoised
def _change(kernel: LoopKernel, text: str) -> Remap | Diagnostic:
    """Return the change of inames that a map in ISL's syntax describes, or the reason why it is refused."""
    given = read_map(kernel, text)
    return given if isinstance(given, Diagnostic) else one_to_one(kernel, given)


@dataclass(frozen=True)
class MapDomain(_Mapping):
    """Replace inames by affine functions of them: skew, rotate, reverse, shift or tile a nest.

    ::

        for i in [0, n):  for j in [0, m):  S(i, j)          with  "{[i, j] -> [t, j]: t = i + j}"
        ->
        for t in [0, n + m - 1):  for j in [max(0, t - n + 1), min(m, t + 1)):  S(t - j, j)

    >>> knl = pl.make_kernel("{[i, j]: 0 <= i < 8 and 0 <= j < 9}", "b[i, j] = 2*a[i, j]")
    >>> print(body(knl.map_domain("{[i, j] -> [t, j]: t = i + j}")))
    for (int t = 0; t < 16; ++t) {
        for (int j = max_int32(0, t - 7); j < min_int32(9, t + 1); ++j) {
            const int i = t - j;
            b[i * 9 + j] = 2.0f * a[i * 9 + j];
        }
    }

    Parameters
    ----------
    transform_map
        Map from the inames to replace to the new ones, in ISL's syntax, one to one on their domain.  A name on both
        sides is kept.  An entry on the right may be an expression: in ``"{[i, j] -> [i, j + i]}"`` the new iname is
        called by the first iname in it that is not kept, here ``j``.  Parameters of the kernel need no declaration.
        The new inames are nested in the order in which the map lists them, in the places of the old.

    Raises
    ------
    TransformError
        ``bad-map``, ``unknown-iname``, ``name-taken``, ``bad-identifier``, ``reserved-name``; ``map-not-bijective``,
        with two instances; ``map-not-affine``; ``partly-mapped``, where an instruction lacks one of the inames;
        ``iname-tagged``, ``data-decides``; ``illegal-order`` and ``illegal-parallel``, with two instances, where the
        new order would change a value.

    Notes
    -----
    A replaced iname loses its ``slabs``, and the mark of a tile loop.  The terms of a reduction are combined in the new
    order; an ``ordered`` reduction refuses that.  Source: Wolf and Lam, "A loop transformation theory and an algorithm
    to maximize parallelism", IEEE TPDS 2(4), 1991, https://doi.org/10.1109/71.97902; the name is Loopy's.
    """

    transform_map: Annotated[str, Takes(str | isl.BasicMap | isl.Map, str)]

    def text(self, kernel: LoopKernel) -> str:
        return self.transform_map


def _equations(given: str | Sequence[str | tuple[str, str]]) -> tuple[str, ...]:
    parts = given.split(",") if isinstance(given, str) else []
    entries = ([given] if any("=" not in part for part in parts) else parts) if isinstance(given, str) else given
    return tuple(entry if isinstance(entry, str) else f"{entry[0]} = {entry[1]}" for entry in entries)


@dataclass(frozen=True)
class AffineMapInames(_Mapping):
    """Replace inames by others that equations relate to them.

    >>> knl = pl.make_kernel("{[i, j]: 0 <= i < 8 and 0 <= j < 9}", "b[i, j] = 2*a[i, j]")
    >>> print(body(knl.affine_map_inames("i, j", "t, u", ["t = i + j", "u = j"])))
    for (int t = 0; t < 16; ++t) {
        for (int u = max_int32(0, t - 7); u < min_int32(9, t + 1); ++u) {
            const int i = t - u;
            b[i * 9 + u] = 2.0f * a[i * 9 + u];
        }
    }

    Parameters
    ----------
    old_inames, new_inames
        The inames to replace, and those in their place.
    equations
        Equations such as ``"t = i + j"``, or pairs of sides ``("t", "i + j")``; as text with commas in between.

    Raises
    ------
    TransformError
        The errors of :func:`map_domain`.

    Notes
    -----
    Source: Loopy's transform of the same name; :func:`map_domain` is the general form.
    """

    old_inames: Inames
    new_inames: NewNames
    equations: Annotated[tuple[str, ...], Takes(str | Sequence[str | tuple[str, str]], _equations)]

    def text(self, kernel: LoopKernel) -> str:
        conditions = " and ".join(self.equations)
        return f"{{[{', '.join(self.old_inames)}] -> [{', '.join(self.new_inames)}]: {conditions}}}"


@dataclass(frozen=True)
class Shift(_Mapping):
    """Add an amount to every value of an iname, which keeps its name.

    >>> knl = pl.make_kernel("{[i]: 0 <= i < 8}", "b[i] = 2*a[i]")
    >>> print(body(knl.shift("i", 2)))
    for (int i = 2; i < 10; ++i)
        b[i - 2] = 2.0f * a[i - 2];

    Parameters
    ----------
    amount
        A number, or text with parameters of the kernel: ``"n - 1"``.

    Raises
    ------
    TransformError
        ``unknown-iname``, ``bad-map``, ``iname-tagged``, ``data-decides``.

    Notes
    -----
    Always legal. Used before :func:`fuse_loops`, so that one loop runs ahead of the other.
    """

    iname: Iname
    amount: int | str

    def text(self, kernel: LoopKernel) -> str:
        return f"{{[{self.iname}] -> [{self.iname} + ({self.amount})]}}"

    def consequences(self, before: LoopKernel, after: LoopKernel) -> Iterable[Diagnostic]:
        return ()  # iterations keep their order


@dataclass(frozen=True)
class Reverse(_Mapping):
    """Run a loop from its last iteration to its first.

    >>> knl = pl.make_kernel("{[i]: 0 <= i < n}", "b[i] = 2*a[i]")
    >>> print(*knl.reverse("i").instructions)
    b[n - i - 1] = 2*a[n - i - 1]

    Raises
    ------
    TransformError
        ``unknown-iname``, ``iname-tagged``, ``data-decides``; ``illegal-order``, with two instances, where an iteration
        needs another.

    Notes
    -----
    Source: Wedel, "Fortran for the Texas Instruments ASC system", SIGPLAN Notices 10(3), 1975,
    https://doi.org/10.1145/390015.808396.
    """

    iname: Iname

    def text(self, kernel: LoopKernel) -> str:
        piece = next((piece for piece in kernel.domains if self.iname in piece.inames), None)
        if piece is None:
            return f"{{[{self.iname}] -> [-{self.iname}]}}"
        own = alone(piece, (self.iname,))
        found = parametric_interval(own.set.intersect_params(kernel.assumptions), 0, own.inames)
        names = set() if found is None else found[0].names() | found[1].names()
        if found is None or not names <= set(kernel.parameters):
            return f"{{[{self.iname}] -> [-{self.iname}]}}"
        ends = found[0].scale(2).add(found[1]).add(Affine((), -1))
        return f"{{[{self.iname}] -> [{show(to_expression(ends))} - {self.iname}]}}"
