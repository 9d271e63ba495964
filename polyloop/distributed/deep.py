"""Deep halos: several iterations of a loop of the host between two exchanges, at the price of redundant work.

::

    for t:                                    for t:
        exchange 1 element of u                   every 3rd t: exchange 3 elements of u
        v[i] = u[i - 1] + u[i + 1]      ->        v[i] = u[i - 1] + u[i + 1]   for 2, 1, 0 elements more on each side
        u[i] = v[i]                               u[i] = v[i]                  the same

A rank computes what its neighbours compute too, as far as it needs it before the next exchange.  The proof of exchanges
takes what a rank has computed itself as received.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from polyloop.distributed.division import bad_distribution, refuse
from polyloop.distributed.fields import Halo, Storage, distances, reading_home, uses
from polyloop.distributed.homes import Homes
from polyloop.distributed.phases import HostLoop, Phase, Step

__all__ = ["Deep", "Reach", "deep_of", "widened"]

Reach: TypeAlias = "tuple[tuple[int, int], ...]"
"""For each axis of the mesh the number of coordinates below and above its box that a rank computes redundantly."""


_MOST: Final = 256


@dataclass(frozen=True)
class Deep:
    """A loop of the host with an exchange in every few iterations.

    Attributes
    ----------
    iname
        The loop.
    every
        Number of iterations from one exchange to the next.
    reach
        Number of a phase -> for each iteration since the exchange how far it computes.
    widths
        Array -> its halo.
    """

    iname: str
    every: int
    reach: Mapping[int, tuple[Reach, ...]]
    widths: Mapping[str, Halo]

    def most(self, phase: int, axis: int) -> int:
        """Return the number of coordinates below its box that a rank computes in a phase at most."""
        return max((reach[axis][0] for reach in self.reach.get(phase, ())), default=0)


def deep_of(homes: Homes, steps: Sequence[Step], deep: Mapping[str, int]) -> Deep | None:
    """Return the loop with deep halos, None without one.

    Raises
    ------
    KernelError
        ``bad-distribution``.
    """
    if not deep:
        return None
    (iname, every), *more = deep.items()
    loop = next((step for step in steps if isinstance(step, HostLoop) and step.iname == iname), None)
    if more or not 1 <= every <= _MOST or loop is None:
        refuse(homes.kernel, bad_distribution(
            f"deep={deep} names no outermost loop of the host, with a number of iterations",
            f"loops of the host: {', '.join(step.iname for step in steps if isinstance(step, HostLoop)) or 'none'}",
            hint=f'deep={{"t": 4}}: exchange in every fourth iteration, at most in every {_MOST}th'))
    phases = [step for step in loop.body if isinstance(step, Phase)]
    if len(phases) < len(loop.body):
        refuse(homes.kernel, bad_distribution(f"'{iname}' has loops of the host inside", hint="leave out deep="))
    for phase in phases:
        _check(homes, phase)
    return _reaches(homes, iname, every, phases)


def _check(homes: Homes, phase: Phase) -> None:
    """Refuse a phase that a rank cannot run for coordinates of others.

    Raises
    ------
    KernelError
        ``bad-distribution``.
    """
    for statement, access, storage in uses(homes, phase):
        name = statement.instruction.id
        is_written = statement.is_write(access)
        is_everywhere = any(form is None for form in homes.of(statement))
        is_own = access.array in homes.division.local
        is_common = is_written and storage is Storage.WHOLE and access.array not in homes.kernel.temporaries
        if storage not in (Storage.BLOCK, Storage.WHOLE) or is_everywhere or is_common or is_own:
            refuse(homes.kernel, bad_distribution(
                f"'{name}' cannot run for the coordinates of another rank: '{access.array}'",
                str(statement.instruction),
                hint="deep halos are for loops that read blocks at constant distances, and write blocks"))


def _reaches(homes: Homes, iname: str, every: int, phases: Sequence[Phase]) -> Deep:
    """Return the reach of each phase: backward from the last iteration, which computes what the rank owns."""
    rank = homes.division.rank
    needed: dict[str, list[tuple[int, int]]] = {
        array: [(0, 0)] * rank for array in homes.division.arrays}
    reach: dict[int, list[Reach]] = {phase.number: [] for phase in phases}
    for _ in range(every):
        for phase in reversed(phases):
            found = [*uses(homes, phase)]
            written = {access.array for statement, access, storage in found
                       if statement.is_write(access) and storage is Storage.BLOCK}
            own = tuple((max((needed[array][axis][0] for array in written), default=0),
                         max((needed[array][axis][1] for array in written), default=0)) for axis in range(rank))
            reach[phase.number].insert(0, own)
            for statement, access, storage in found:
                if storage is not Storage.BLOCK:
                    continue
                axes = homes.division.axes(access.array)
                home = homes.of(statement) if statement.is_write(access) else reading_home(
                    homes, statement.instruction.id)
                for axis, distance in zip(axes, distances(access.indices, axes, home), strict=True):
                    if axis is not None and distance is not None:
                        (low, high), (below, above) = needed[access.array][axis], own[axis]
                        needed[access.array][axis] = max(low, below - distance), max(high, above + distance)
    widths = {array: tuple((0, 0) if axis is None else needed[array][axis] for axis in axes)
              for array, axes in homes.division.arrays.items()}
    return Deep(iname, every, {number: tuple(found) for number, found in reach.items()}, widths)


def widened(halos: Mapping[str, Halo], deep: Deep | None) -> Mapping[str, Halo]:
    """Return halos that hold what phases compute redundantly, too."""
    if deep is None:
        return halos
    return {array: tuple((max(a, c), max(b, d)) for (a, b), (c, d) in zip(halo, deep.widths[array], strict=True))
            for array, halo in halos.items()}
