"""Plans for sizes and meshes, each proven when it is made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from polyloop.distributed.analysis import Analysis
from polyloop.distributed.completeness import prove
from polyloop.distributed.plan import Plan, plan_of
from polyloop.distributed.regions import Coordinates, Regions
from polyloop.errors import ArgumentError, Diagnostic

__all__ = ["other_mesh", "planned"]


def other_mesh(mesh: Sequence[int], rank: int) -> Diagnostic:
    """Return the finding of a mesh that does not have *rank* axes."""
    shown = f"a mesh {'x'.join(map(str, mesh))}" if mesh else "no mesh"
    return Diagnostic("mesh-mismatch", f"{shown} was given, and the kernel is divided over {rank} of its axes", (),
                      (f"give the number of ranks along each axis: mesh=({', '.join(['2'] * rank)},)",))


def planned(analysis: Analysis, mesh: Coordinates, sizes: Mapping[str, int], *, overlap: bool) -> Plan:
    """Return the plan for a mesh and sizes, proven complete.

    Raises
    ------
    ArgumentError
        ``mesh-mismatch``, ``missing-size``.
    VerificationError
        ``incomplete-exchange``.
    """
    kernel = analysis.source
    if len(mesh) != analysis.division.rank or any(count < 1 for count in mesh):
        raise ArgumentError("plan", kernel.name, [other_mesh(mesh, analysis.division.rank)])
    missing = [name for name in analysis.homes.kernel.parameters if name not in sizes]
    if missing:
        found = Diagnostic("missing-size", f"no value for '{missing[0]}'", (f"sizes: {', '.join(missing)}",),
                           ("parts of arrays do not tell the sizes of the whole: give them by name",))
        raise ArgumentError("plan", kernel.name, [found])
    own = {name: int(sizes[name]) for name in analysis.homes.kernel.parameters}
    regions = Regions(analysis.homes, mesh, own, analysis.halos, analysis.deep)
    plan = plan_of(regions, analysis.locals, analysis.steps, overlap=overlap)
    prove(plan)
    return plan
