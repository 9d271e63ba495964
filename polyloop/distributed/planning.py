"""Plans for sizes and meshes, each proven when it is made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from polyloop.distributed.analysis import Analysis
from polyloop.distributed.completeness import prove
from polyloop.distributed.early import with_sends
from polyloop.distributed.plan import Plan, plan_of
from polyloop.distributed.regions import Coordinates, Regions
from polyloop.errors import ArgumentError, Diagnostic
from polyloop.kernel.domains import fixed_set
from polyloop.poly.sets import set_text

__all__ = ["other_mesh", "planned"]


def other_mesh(mesh: Sequence[int], rank: int) -> Diagnostic:
    """Return the finding of a mesh that does not have *rank* axes."""
    shown = f"a mesh {'x'.join(map(str, mesh))}" if mesh else "no mesh"
    return Diagnostic("mesh-mismatch", f"{shown} was given, and the kernel is divided over {rank} of its axes", (),
                      (f"give the number of ranks along each axis: mesh=({', '.join(['2'] * rank)},)",))


def _whole(kernel: str, name: str, value: object) -> int:
    """Return a size.

    Raises
    ------
    ArgumentError
        ``wrong-type``.
    """
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        found = Diagnostic("wrong-type", f"'{name}' must be an integer, not {type(value).__name__} {value!r}", (),
                           (f"pass {name}=int(..)",))
        raise ArgumentError("plan", kernel, [found])
    return int(value)


def planned(analysis: Analysis, mesh: Coordinates, sizes: Mapping[str, int], *, overlap: bool) -> Plan:
    """Return the plan for a mesh and sizes, proven complete.

    Raises
    ------
    ArgumentError
        ``mesh-mismatch``, ``missing-size``, ``wrong-type``, ``assumption-violated``.
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
    own = {name: _whole(kernel.name, name, sizes[name]) for name in analysis.homes.kernel.parameters}
    if fixed_set(analysis.homes.kernel.assumptions, own).is_empty():
        found = Diagnostic(
            "assumption-violated", f"the kernel assumes {set_text(analysis.homes.kernel.assumptions)}",
            (f"sizes: {', '.join(f'{name}={value}' for name, value in own.items())}",),
            ("pass sizes that the kernel was made for, or make a kernel without the assumption",))
        raise ArgumentError("plan", kernel.name, [found])
    regions = Regions(analysis.homes, mesh, own, analysis.halos, analysis.deep)
    plan = plan_of(regions, analysis.locals, analysis.steps, overlap=overlap)
    plan = with_sends(plan) if overlap else plan
    prove(plan)
    return plan
