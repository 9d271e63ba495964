"""Instance counts of statements: all instances, those of one access, and requests per warp or block."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from math import prod
from typing import Final

import islpy as isl

from polyloop.cost.dead_instances import Phantoms, phantoms
from polyloop.cost.tally import CountGranularity
from polyloop.errors import Diagnostic, Site, VerificationError
from polyloop.expr.nodes import Expression
from polyloop.mapping.grid_blocks import blocks_of
from polyloop.mapping.thread_mapping import Placed, Placement
from polyloop.memo import Same, memoised
from polyloop.poly.affine import Affine
from polyloop.poly.counting import UncountableError, count_points
from polyloop.poly.polynomial import PiecewisePolynomial
from polyloop.poly.sets import map_from_forms
from polyloop.program.guards import Guard, exact_parameters, guarded_domain
from polyloop.program.lower import Access
from polyloop.proof.obligation import within_budget

__all__ = ["Census", "block_size", "grid_of", "thread_number"]

_SET: Final = isl.dim_type.set


class Census:
    """Counts of instances of one kernel, each made once.

    Parameters
    ----------
    grids
        For each statement that is executed the blocks of its launch, as sets of one dimension by axis: then work that
        all threads repeat is counted as often as they do. Without them it is counted once.
    """

    def __init__(
        self, placement: Placement, grids: Mapping[str, Mapping[str, isl.Set]] | None = None, warp_size: int = 32
    ) -> None:
        self.placement = placement
        self.kernel = placement.program.kernel
        self.grids = grids
        self.warp_size = warp_size

    @memoised
    def executed(self, placed: Placed) -> isl.Set:
        """Return the instances of a statement over its ``dims``, for given values of its bound variables.

        Where repetition does not count, an axis that repeats the statement stays at its first index.
        """
        domain = placed.exact
        if self.grids is not None and placed.name not in self.grids:  # a copy of a variable that became the same one
            return isl.Set.empty(domain.get_space())
        for position, axis in enumerate(placed.dims):
            if axis not in placed.repeated:
                continue
            if self.grids is None:
                domain = domain.fix_val(_SET, position, 0)
            elif axis in self.grids[placed.name]:
                blocks = self.grids[placed.name][axis]
                before, after = position, len(placed.dims) - position - 1
                domain = domain.intersect(blocks.insert_dims(_SET, 1, after).insert_dims(_SET, 0, before))
        return domain

    def by_use(self, placed: Placed, domain: isl.Set) -> list[tuple[bool | None, PiecewisePolynomial]]:
        """Return counts of useful (False) and dead (True) instances in *domain*.

        Where the second number is not found, both together are None.
        """
        unused = self._unused(placed)
        whole = self.count(placed, domain)
        if unused is None:
            return [(False, whole)]
        part = self._part(placed, domain, unused)
        try:
            count = self.count(placed, part)
        except VerificationError:
            return [(None, whole)]
        return [(False, whole - count), (True, count)]

    @memoised
    def _unused(self, placed: Placed) -> Phantoms | None:
        with within_budget(self.kernel, f"what of '{placed.lowered.instruction.id}' is used"):
            return phantoms(self.placement, placed)

    @memoised
    def _part(self, placed: Placed, domain: isl.Set, unused: Phantoms) -> isl.Set:
        return unused.among(placed, domain)

    def of_access(self, placed: Placed, access: Access) -> isl.Set:
        """Return the instances that make *access*, as far as affine conditions say."""
        domain = self.executed(placed)
        return domain if access.domain is None else domain.intersect(placed.domain_of(access))

    def under(self, placed: Placed, guards: Sequence[Guard]) -> isl.Set:
        """Return the instances in which *guards*, conditions inside of the statement, may hold."""
        if not guards:
            return self.executed(placed)
        return self._under(placed, tuple([(Same(condition), value) for condition, value in guards]))

    @memoised
    def _under(self, placed: Placed, same: tuple[tuple[Same[Expression], bool], ...]) -> isl.Set:
        guards = [(condition.value, value) for condition, value in same]
        domain = self.executed(placed)
        lowered = placed.lowered
        narrowed = guarded_domain(lowered.domain, lowered.inames, guards, exact_parameters(self.kernel))
        if narrowed is lowered.domain:
            return domain
        forms = [placed.forms.get(x) or Affine.variable(x) for x in lowered.inames]
        return domain.intersect(map_from_forms(placed.domain, placed.dims, forms).intersect_range(narrowed).domain())

    def count(
        self, placed: Placed, domain: isl.Set, granularity: CountGranularity = CountGranularity.WORKITEM
    ) -> PiecewisePolynomial:
        """Return the number of points of *domain* over the ``dims`` of a statement, or of warps or blocks with one.

        Raises
        ------
        VerificationError
            ``uncountable``.
        """
        return self._count(placed, domain, granularity)

    @memoised
    def _count(self, placed: Placed, domain: isl.Set, granularity: CountGranularity) -> PiecewisePolynomial:
        if granularity is not CountGranularity.WORKITEM:
            domain = map_from_forms(domain, placed.dims, self._units(placed, granularity)).range()
        return self.points(domain, placed)

    def requests(self, placed: Placed, domain: isl.Set, dropped: Collection[str]) -> PiecewisePolynomial:
        """Return the number of warps that execute *domain*, where the loops *dropped* run once."""
        axes = self.placement.axes
        kept = [Affine.variable(name) for name in placed.dims if name not in axes.local and name not in dropped]
        if axes.local:
            kept.append(thread_number(axes.local).floordiv(self.warp_size))
        return self.points(map_from_forms(domain, placed.dims, kept).range(), placed)

    def elements(self, placed: Placed, domain: isl.Set, dropped: Collection[str]) -> PiecewisePolynomial:
        """Return the number of points of *domain*, where the loops and the thread axes *dropped* run once."""
        kept = [Affine.variable(name) for name in placed.dims if name not in dropped]
        return self.points(map_from_forms(domain, placed.dims, kept).range(), placed)

    def points(self, domain: isl.Set, placed: Placed) -> PiecewisePolynomial:
        """Return the number of points of *domain*; the statement names the count in a message."""
        try:
            with within_budget(self.kernel, f"how many instances '{placed.lowered.instruction.id}' has"):
                return _counted(domain, self.kernel.assumptions)
        except UncountableError as error:
            site = placed.lowered.instruction.site()
            found = _uncountable(placed.lowered.instruction.id, error.reason, site)
            raise VerificationError("count", self.kernel.name, [found]) from error

    def _units(self, placed: Placed, granularity: CountGranularity) -> list[Affine]:
        """Return affine forms that identify a warp (or a block) and the iteration of its loops."""
        axes = self.placement.axes
        rest = [Affine.variable(name) for name in placed.dims if name not in axes.local]
        if granularity is CountGranularity.WORKGROUP or not axes.local:
            return rest
        return [thread_number(axes.local).floordiv(self.warp_size), *rest]


def thread_number(local: Mapping[str, int | None]) -> Affine:
    """Return the number of a thread in its block, as warps are made of them; extents must be known."""
    terms, step = [], 1
    for axis in sorted(local):
        extent = local[axis]
        assert extent is not None, f"the extent of {axis} is not known"
        terms.append((axis, step))
        step *= extent
    return Affine.make(terms)


def block_size(local: Mapping[str, int | None]) -> int | None:
    """Return the threads of a block, None where that is no constant."""
    extents = [extent for extent in local.values() if extent is not None]
    return prod(extents) if len(extents) == len(local) else None


def grid_of(placement: Placement, names: Iterable[str]) -> dict[str, isl.Set]:
    """Return the blocks of a launch that executes the statements *names*, as sets of one dimension by axis."""
    statements = [placement.statements[name] for name in names]
    one = isl.Set("{ [x] : x = 0 }")
    return {axis: blocks_of(statements, axis) or one for axis in placement.axes.group}


@memoised
def _counted(domain: isl.Set, assumptions: isl.Set) -> PiecewisePolynomial:
    return count_points(domain, assumptions)


def _uncountable(instruction: str, reason: str, site: Site) -> Diagnostic:
    return Diagnostic(
        "uncountable",
        f"the instances of '{instruction}' are not counted: the set of them has no polynomial here",
        (reason,),
        ("install Barvinok's algorithm: pip install 'polyloop[count]'", "fix a parameter (pl.fix_parameters)"),
        sites=(site,),
    )
