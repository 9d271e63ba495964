"""Dead instances, whose results are never read: corners of bounding boxes, elements fetched ahead of the last step."""

from __future__ import annotations

from dataclasses import dataclass

import islpy as isl

from polyloop.dataflow.value_flow import flow_of, is_exact
from polyloop.kernel.instruction import Copy
from polyloop.mapping.thread_mapping import Placed, Placement
from polyloop.poly.affine import Affine
from polyloop.poly.sets import map_from_forms
from polyloop.program.ir import Assign

__all__ = ["Phantoms", "phantoms"]


@dataclass(frozen=True, eq=False)
class Phantoms:
    """Dead instances, identified by the element that each writes and the dimensions that the element leaves open.

    ``forms`` are these, one for each dimension of ``unused``; different instances have different ones.
    """

    forms: tuple[Affine, ...]
    unused: isl.Set

    def among(self, placed: Placed, domain: isl.Set) -> isl.Set:
        """Return the dead instances in *domain*, as values of ``forms``."""
        return map_from_forms(domain, placed.dims, self.forms).range().intersect(self.unused).coalesce()


def phantoms(placement: Placement, placed: Placed) -> Phantoms | None:
    """Return the instances of *placed* whose value no read can see; None if there are none, or it is no transform's.

    Data-dependent reads may leave further dead instances.
    """
    lowered = placed.lowered
    kernel = placement.program.kernel
    if isinstance(lowered.instruction.origin, Copy) or not isinstance(lowered.part, Assign) or len(lowered.writes) != 1:
        return None
    array = lowered.write.array
    if array not in kernel.evaluations and array not in kernel.buffers:
        return None
    if lowered.bounds or lowered.instruction.step is not None or not is_exact(placement, array):
        return None
    used = isl.Set.empty(placed.domain.get_space())
    for sources in flow_of(placement, array).sources:
        for writer, link in sources:
            if writer is placed:
                used = used.union(link.range())
    if placed.domain.is_subset(used):
        return None
    forms = _names(placed)
    every, some = (map_from_forms(part, placed.dims, forms).range() for part in (placed.domain, used))
    left = every.subtract(some.coalesce()).coalesce()
    return None if left.is_empty() else Phantoms(forms, left)


def _names(placed: Placed) -> tuple[Affine, ...]:
    """Return coordinates that distinguish instances: the subscripts written, and the dimensions not in them."""
    indices = [form for form in placed.indices(placed.lowered.write) if form is not None]
    inside = frozenset[str]().union(*(form.names() for form in indices))
    forms = (*(Affine.variable(name) for name in placed.dims if name not in inside), *indices)
    if map_from_forms(placed.domain, placed.dims, forms).is_injective():
        return forms
    return tuple(map(Affine.variable, placed.dims))
