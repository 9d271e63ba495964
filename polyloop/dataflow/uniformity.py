"""Uniformity of data-dependent loop bounds: thread groups with one trip count, which barriers inside require.

The bound of such a loop is a temporary that each thread has computed for itself.  Two threads have the same value if it
is the value of one reference instance.  So the value varies only along the thread axes that determine this instance.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import islpy as isl

from polyloop.dataflow.value_flow import writers_of
from polyloop.errors import Diagnostic
from polyloop.kernel.instruction import Copy
from polyloop.kernel.limits import WARP_SIZE
from polyloop.mapping.collective_shape import meeting_of
from polyloop.mapping.thread_mapping import Placed, Placement
from polyloop.poly.affine import Affine
from polyloop.poly.axes import CLUSTER_AXIS, THREAD_AXES
from polyloop.poly.sets import map_from_forms, sample_set
from polyloop.program.ir import Combine
from polyloop.proof.witness import instance

__all__ = ["Uniformity", "divergent_reductions", "uniformity_of"]


@dataclass(frozen=True, eq=False)
class Uniformity:
    """Uniformity of loop bounds and of thread numbers in a block.

    Attributes
    ----------
    varying
        For each bound variable, the axes of threads, and of blocks of a cluster, along which its value may differ.
    warp_axes
        Thread axes on which all threads of a warp have the same index.
    """

    varying: Mapping[str, frozenset[str]] = field(default_factory=dict)
    warp_axes: frozenset[str] = frozenset()


def uniformity_of(placement: Placement) -> Uniformity:
    """Return the uniformity of bound variables and thread indices in the blocks of *placement*."""
    return Uniformity(_varying(placement), _warp_axes(placement))


def _varying(placement: Placement) -> Mapping[str, frozenset[str]]:
    """Return, for each bound variable, the thread axes along which its value may differ."""
    found: dict[str, frozenset[str]] = {}
    for statement in placement.statements.values():
        for name in statement.lowered.bounds:
            if name not in found:
                found[name] = _of_writers(placement, name)
            for writer in writers_of(placement, name):
                found[name] |= _depends(placement, statement, writer)
    return found


def _of_writers(placement: Placement, name: str) -> frozenset[str]:
    """Return the thread axes along which the value written to *name* may differ, or some threads do not write it."""
    axes = frozenset((*placement.axes.in_cluster, *placement.axes.local))
    if _is_combined(placement, name):
        return axes
    found = frozenset[str]()
    for writer in writers_of(placement, name):
        found |= (axes - writer.repeated) | _depends(placement, writer, writer)
    return found


def _depends(placement: Placement, statement: Placed, writer: Placed) -> frozenset[str]:
    """Return the thread axes that determine the reference instance of *writer* whose value *statement* uses."""
    axes = frozenset((*placement.axes.in_cluster, *placement.axes.local))
    mine, its = statement.lowered.instruction.origin, writer.lowered.instruction.origin
    reference = placement.program.kernel.reference
    if not axes or reference is None or not isinstance(mine, Copy) or not isinstance(its, Copy):
        return axes
    inames = reference.kernel.instruction(its.instruction).inames
    if not mine.forms.keys() >= {*inames}:
        return axes
    return axes & {name for x in inames for name in mine.forms[x].substitute(statement.forms).names()}


def _is_combined(placement: Placement, name: str) -> bool:
    """Return True if *name* depends on a value that threads combine, which each of them rounds in its own order."""
    pending, seen = [name], {name}
    while pending:
        for statement in writers_of(placement, pending.pop()):
            if isinstance(statement.lowered.part, Combine):
                return True
            new = {read.array for read in statement.lowered.reads} - seen
            seen |= new
            pending += new
    return False


def _warp_axes(placement: Placement) -> frozenset[str]:
    """Return the thread axes on which all threads of a warp have the same index."""
    found, stride = set(), 1
    if placement.axes.has_digits:
        return frozenset()
    for axis, extent in sorted(placement.axes.local.items()):
        if extent is None:
            break
        if stride % WARP_SIZE == 0:
            found.add(axis)
        stride *= extent
    return frozenset(found)


def divergent_reductions(placement: Placement, accumulator: str | None = None) -> Iterator[Diagnostic]:
    """Yield a diagnostic if not all threads reach a combine statement, of one *accumulator* or of any.

    All threads of a warp must reach it together if they exchange values by shuffles, all threads of a block if they
    exchange them through shared memory.
    """
    every = placement.statements.values() if accumulator is None else writers_of(placement, accumulator)
    statements = [s for s in every if isinstance(s.lowered.part, Combine) and s.lowered.bounds]
    if not statements:
        return
    uniform = uniformity_of(placement)
    for statement in statements:
        sizes = [placement.axes.local.get(axis, 1) for axis in THREAD_AXES]
        known = [size or 0 for size in sizes]
        in_a_warp = 0 not in known and meeting_of(known, statement.lowered.across, WARP_SIZE).parts == 1
        in_a_warp = in_a_warp and CLUSTER_AXIS not in statement.lowered.across
        alone = frozenset(placement.axes.in_cluster).difference(statement.lowered.across)  # blocks do not meet
        allowed = alone | uniform.warp_axes if in_a_warp else alone
        for name in statement.lowered.bounds:
            if not (differing := uniform.varying[name]) <= allowed:
                yield _divergent(placement, statement, name, differing - allowed, is_warp=in_a_warp)
                return


def _divergent(
    placement: Placement, statement: Placed, name: str, axes: frozenset[str], *, is_warp: bool
) -> Diagnostic:
    lowered = statement.lowered
    over_cluster = CLUSTER_AXIS in lowered.across
    group = "cluster" if over_cluster else "warp" if is_warp else "block"
    outside = "clusters" if over_cluster else "warps (w) or blocks" if is_warp else "blocks"
    where = ", ".join(f"'{axis}'" for axis in sorted(axes))
    notes = [f"the loops around it use '{name}', which may differ along {where} among the threads of a {group}"]
    notes += _example(placement, name, axes)
    return Diagnostic(
        "divergent-reduction",
        f"the threads combine their terms in '{lowered.instruction.id}', and whether they do depends on data",
        tuple(notes),
        (
            f"let it be the same for the whole {group}: run the loops that it is computed in on "
            f"{outside}, or keep the loops of this reduction sequential",
        ),
        sites=(lowered.instruction.site(),),
    )


def _example(placement: Placement, name: str, axes: frozenset[str]) -> Iterator[str]:
    """Yield a note on two neighbouring threads that have the values of two different instances."""
    for writer in writers_of(placement, name):
        origin = writer.lowered.instruction.origin
        if not isinstance(origin, Copy):
            continue
        forms = [form.substitute(writer.forms) for form in origin.forms.values()]
        for axis in sorted(axes):
            if not any(axis in form.names() for form in forms):
                continue
            point = sample_set(writer.domain.intersect(_next_to(writer, axis)), writer.dims)
            if point is None:
                continue
            other = {**point, axis: point[axis] + 1}
            if instance(writer, point) == instance(writer, other):
                continue
            yield (
                f"the thread with {axis}={point[axis]} has '{name}' of instance {instance(writer, point)}, "
                f"that with {axis}={other[axis]} has it of instance {instance(writer, other)}"
            )
            return


def _next_to(writer: Placed, axis: str) -> isl.Set:
    """Return the instances of *writer* with a next instance along *axis*."""
    forms = [Affine(((name, 1),), int(name == axis)) for name in writer.dims]
    space = isl.Set.universe(writer.domain.get_space())
    return map_from_forms(space, writer.dims, forms).intersect_range(writer.domain).domain()
