"""Scaling on paper: the time of a divided kernel on meshes of other sizes, and where communication dominates.

The model has three numbers for a call: the bounds of the kernels of the rank with the most work, the time of the
messages and reductions of the rank with the most, and the part of it that passes beside computation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import log2, prod
from typing import Final

from polyloop.display import Shown
from polyloop.distributed.analysis import Analysis
from polyloop.distributed.plan import Plan, Repeat, plan_of
from polyloop.distributed.planning import planned
from polyloop.distributed.regions import Coordinates, Regions
from polyloop.distributed.traffic import Link, Traffic, traffic_of
from polyloop.errors import ArgumentError
from polyloop.expr.rewrite import variables
from polyloop.kernel.devices import Device
from polyloop.kernel.kernel import LoopKernel
from polyloop.runtime.explanation import time_text

__all__ = ["MeshExplanation", "Scaled", "explained"]

_RANKS: Final = (8, 64, 1024)
_DOUBLINGS: Final = 12
_HALVINGS: Final = 5


@dataclass(frozen=True)
class Scaled:
    """The expected time of a call on a mesh.

    Attributes
    ----------
    mesh
        Number of ranks along each axis.
    sizes
        Values of the parameters.
    computing
        Least time of the kernels of the rank with the most [s].
    communicating
        Time of messages and reductions, whether hidden or not [s].
    total
        Time of the call: what is hidden takes time where it is longer than the computation [s].
    efficiency
        Time on one rank over that of all ranks together.
    """

    mesh: Coordinates
    sizes: Mapping[str, int]
    computing: float
    communicating: float
    total: float
    efficiency: float


@dataclass(frozen=True, eq=False)
class MeshExplanation(Shown):
    """Bounds of a divided kernel on a mesh: what is sent, how long it takes, and how that scales.

    Attributes
    ----------
    name, device
        Of the kernel, and of the model of a rank's GPU.
    link
        Model of what carries messages.
    here
        The call that was asked for.
    traffic
        Its messages: ``traffic.links`` are the exact bytes from rank to rank.
    steps
        Number of iterations of the outermost loop of the host; 1 without one.
    dominated
        The greatest sizes at which communication takes longer than computation; None if it does at none.
    strong, weak
        On 8, 64 and 1024 ranks: with the same sizes, and with sizes that keep the elements of a rank.
    """

    name: str
    device: str
    link: Link
    here: Scaled
    traffic: Traffic
    steps: int
    dominated: Mapping[str, int] | None
    strong: tuple[Scaled, ...]
    weak: tuple[Scaled, ...]

    @property
    def links(self) -> dict[tuple[int, int], float]:
        """Bytes of a step from rank to rank."""
        return {pair: size / max(1, self.steps) for pair, size in self.traffic.links.items()}

    def __repr__(self) -> str:
        where = f"{_shape(self.here.mesh)} {self.device}"
        return f"<MeshExplanation '{self.name}' on {where}: {time_text(self.here.total)}>"

    def __str__(self) -> str:
        here, each = self.here, max(1, self.steps)
        step = "a step" if self.steps > 1 else "a call"
        lines = [
            f"'{self.name}' on {_shape(here.mesh)} {self.device}, {_sizes(here.sizes)}",
            f"    computation {time_text(here.computing / each)} {step}; messages "
            f"{time_text(here.communicating / each)}, of which {time_text(self.traffic.hidden / each)} beside it; "
            f"in all {time_text(here.total / each)}",
            f"    a message of b bytes takes {time_text(self.link.latency)} + b/({self.link.bandwidth / 1e9:g} GB/s)",
            f"    {self.traffic.bytes / each:g} bytes {step} in messages"]
        lines += [f"    rank {source} to rank {target}: {size:g} bytes {step}"
                  for (source, target), size in sorted(self.links.items())[:_SHOWN]]
        if (more := len(self.links) - _SHOWN) > 0:
            lines.append(f"    and {more} links more")
        if self.dominated is None:
            lines.append("    computation takes longer at all sizes")
        else:
            lines.append(f"    communication takes longer up to {_sizes(self.dominated)}")
        for word, rows in (("strong", self.strong), ("weak", self.weak)):
            lines += [f"    {word:>6}, {prod(row.mesh):>5} ranks ({_shape(row.mesh)}), {_sizes(row.sizes)}: "
                      f"{time_text(row.total / each)} {step}, efficiency {100 * row.efficiency:.1f} %" for row in rows]
        return "\n".join(lines)


_SHOWN: Final = 12


def explained(
    analysis: Analysis, kernels: Mapping[str, LoopKernel], mesh: Coordinates, sizes: Mapping[str, int],
    model: tuple[Device, Link], *, overlap: bool,
) -> MeshExplanation:  # fmt: skip
    """Return the bytes and the time of a call on a mesh, and of larger ones; *model* is a device and a link.

    Raises
    ------
    ArgumentError, VerificationError
        As :meth:`polyloop.distributed.distribute.DistributedKernel.plan` and :func:`polyloop.explain`.
    """
    plan = planned(analysis, mesh, sizes, overlap=overlap)
    own = plan.regions.sizes
    work = _Scaling(analysis, kernels, model, overlap)
    traffic = traffic_of(plan, model[1], model[0], analysis.names, kernels)
    here = work.scaled(mesh, own, traffic)
    repeat = next((node for node in plan.nodes if isinstance(node, Repeat)), None)
    steps = 1 if repeat is None else len(plan.iterations(repeat, {}))
    strong = tuple(work.scaled(work.mesh(count), own) for count in _RANKS)
    grown = [work.grown(own, count / prod(mesh)) for count in _RANKS]
    weak = tuple(work.scaled(work.mesh(count), other) for count, other in zip(_RANKS, grown, strict=True))
    return MeshExplanation(analysis.source.name, model[0].name, model[1], here, traffic, steps,
                           work.dominated(mesh, own), strong, weak)


@dataclass(eq=False)
class _Scaling:
    analysis: Analysis
    kernels: Mapping[str, LoopKernel]
    model: tuple[Device, Link]
    overlap: bool

    def __post_init__(self) -> None:
        arrays = self.analysis.homes.kernel.arrays()
        self.names = tuple(sorted({
            name for array, axes in self.analysis.homes.division.arrays.items()
            for extent, axis in zip(arrays[array].shape or (), axes, strict=True) if axis is not None
            for name in variables(extent)}))
        self.alone: dict[tuple[tuple[str, int], ...], float] = {}

    def mesh(self, count: int) -> Coordinates:
        """Return a mesh of *count* ranks with axes of nearly one length, the longest first."""
        rank = self.analysis.division.rank
        found: list[int] = []
        for left in range(rank, 0, -1):
            wanted = round(count ** (1 / left))
            length = min((entry for entry in range(1, count + 1) if count % entry == 0),
                         key=lambda entry: (abs(entry - wanted), -entry))
            found.append(length)
            count //= length
        return tuple(sorted(found, reverse=True))

    def plan(self, mesh: Coordinates, sizes: Mapping[str, int]) -> Plan:
        """Return the plan of a mesh, which nothing runs: unproven."""
        regions = Regions(self.analysis.homes, mesh, dict(sizes), self.analysis.halos, self.analysis.deep)
        return plan_of(regions, self.analysis.locals, self.analysis.steps, overlap=self.overlap)

    def traffic(self, mesh: Coordinates, sizes: Mapping[str, int]) -> Traffic:
        """Return the traffic of the ranks at the edges and in the middle of a mesh."""
        chosen = [sorted({0, 1, count // 2, count - 1} & set(range(count))) for count in mesh]
        positions: list[Coordinates] = [()]
        for entries in chosen:
            positions = [(*before, entry) for before in positions for entry in entries]
        if len(positions) == prod(mesh) > 1:
            positions = positions[1:]
        return traffic_of(self.plan(mesh, sizes), self.model[1], self.model[0], self.analysis.names, self.kernels,
                          positions)

    def scaled(self, mesh: Coordinates, sizes: Mapping[str, int], traffic: Traffic | None = None) -> Scaled:
        """Return the time of a call on a mesh."""
        found = traffic or self.traffic(mesh, sizes)
        key = tuple(sorted(sizes.items()))
        if key not in self.alone:
            self.alone[key] = self.traffic((1,) * len(mesh), sizes).computing
        efficiency = self.alone[key] / (prod(mesh) * found.total) if found.total else 1.0
        return Scaled(mesh, dict(sizes), found.computing, found.seconds, found.total, efficiency)

    def grown(self, sizes: Mapping[str, int], factor: float) -> dict[str, int]:
        """Return sizes with *factor* times the elements in divided arrays."""
        order = log2(self.elements(self.times(sizes, 2.0)) / max(1, self.elements(sizes)))
        return self.times(sizes, factor ** (1 / order) if order > 0 else 1.0)

    def times(self, sizes: Mapping[str, int], factor: float) -> dict[str, int]:
        """Return sizes of which those of divided axes are *factor* times as large."""
        return {name: max(1, round(value * factor)) if name in self.names else value for name, value in sizes.items()}

    def elements(self, sizes: Mapping[str, int]) -> int:
        """Return the number of elements of the largest array in blocks."""
        regions = Regions(self.analysis.homes, (1,) * self.analysis.division.rank, dict(sizes), self.analysis.halos)
        return max((prod(regions.shape(array)) for array in self.analysis.homes.division.arrays), default=1)

    def dominated(self, mesh: Coordinates, sizes: Mapping[str, int]) -> dict[str, int] | None:
        """Return the greatest sizes at which messages take longer than computation, None if there are none."""
        def is_dominated(factor: float) -> bool | None:
            try:
                found = self.traffic(mesh, self.times(sizes, factor))
            except ArgumentError:  # sizes that the kernel does not take
                return None
            return found.seconds > found.computing

        if prod(mesh) == 1 or not self.names:
            return None
        low, high = _bracket(is_dominated)
        if low is None:
            return None
        for _ in range(_HALVINGS if high is not None else 0):
            assert high is not None, "it is not, where there are halvings"
            middle = (low * high) ** 0.5
            low, high = (middle, high) if is_dominated(middle) else (low, middle)
        return self.times(sizes, low)


def _bracket(holds: Callable[[float], bool | None]) -> tuple[float | None, float | None]:
    """Return powers of two with and without what holds for small numbers; None for one that is not found."""
    factor = 1.0
    if holds(factor):
        for _ in range(_DOUBLINGS):
            factor *= 2
            if not holds(factor):
                return factor / 2, factor
        return factor, None
    for _ in range(_DOUBLINGS):
        factor /= 2
        found = holds(factor)
        if found:
            return factor, factor * 2
        if found is None:
            break
    return None, factor


def _shape(mesh: Sequence[int]) -> str:
    return " x ".join(map(str, mesh))


def _sizes(sizes: Mapping[str, int]) -> str:
    return ", ".join(f"{name}={value}" for name, value in sizes.items())
