"""Launches of one call in their order: the loops of the host around them, with the grids of this call."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby
from typing import NamedTuple, TypeAlias

import numpy as np

from polyloop.codegen.program import DeviceLaunch, LaunchLoop
from polyloop.expr.nodes import Expression
from polyloop.runtime.evaluate import Read, evaluate, has_reads, holds, names_in, scalar_names

__all__ = ["Grid", "Path", "Step", "Steps", "asked_scalars", "host_names"]

Grid: TypeAlias = tuple[int, int, int]
Path: TypeAlias = tuple[LaunchLoop, ...]
"""Loops of the host, one in the other, outermost first."""


class Step(NamedTuple):
    """One launch with its grid; ``inames`` are the values of the loops of the host around it."""

    launch: DeviceLaunch
    grid: Grid
    inames: Mapping[str, int]


def host_names(launches: Sequence[DeviceLaunch]) -> frozenset[str]:
    """Return the names of the parameters that decide which launches there are, and with which grids."""
    found = set[str]()
    for launch in launches:
        bounds = (bound for loop in launch.around for bound in (loop.lower, loop.upper))
        inames = {loop.iname for loop in launch.around}
        found |= frozenset[str]().union(*map(names_in, (*launch.grid, *bounds))) - inames
    return frozenset(found)


def asked_scalars(launches: Sequence[DeviceLaunch]) -> frozenset[str]:
    """Return the names of the arguments that conditions of the host depend on."""
    return scalar_names(launches) - {loop.iname for launch in launches for loop in launch.around}


@dataclass(frozen=True)
class Steps:
    """The launches of a call that have something to do; they are made anew at each iteration, and not kept.

    Attributes
    ----------
    sizes
        Values of the integer parameters.
    scalars
        Values of the other scalars that conditions depend on.
    """

    launches: tuple[DeviceLaunch, ...]
    sizes: Mapping[str, int]
    scalars: Mapping[str, np.generic] = field(default_factory=dict)

    def __iter__(self) -> Iterator[Step]:
        return self.asking(None)

    def asking(self, read: Read | None) -> Iterator[Step]:
        """Yield the launches, each once the one before has been started.

        *read* gives the elements of memory that decide whether a loop of the host goes on.  Without it all iterations
        are there, of which the threads leave out the same.
        """
        def goes_on(path: Path, values: Mapping[str, int]) -> bool:
            return holds(path[-1].test, {**self.scalars, **values}, read)

        return self._steps(self.launches, 0, self.sizes, {}, goes_on)

    def listing(self, begins: Callable[[Path, Mapping[str, int]], None]) -> Iterator[Step]:
        """Yield all launches, and call *begins* ahead of each iteration for which memory is to be read.

        It is called with the loops around the launches of the iteration, its own last, and the values of integers.
        """
        def goes_on(path: Path, values: Mapping[str, int]) -> bool:
            test = path[-1].test
            if test is not None and test.elements:
                begins(path, values)
            return holds(test, {**self.scalars, **values}, None)

        return self._steps(self.launches, 0, self.sizes, {}, goes_on)

    @cached_property
    def has_reads(self) -> bool:
        """True if elements of memory decide how often a loop of the host runs."""
        return has_reads(self.launches)

    def __bool__(self) -> bool:
        return self.count > 0

    @cached_property
    def count(self) -> int:
        """The number of launches."""
        return self.check(lambda _: None)

    @cached_property
    def key(self) -> tuple[int | bytes, ...]:
        """The values that decide which launches there are, and with which grids."""
        scalars = (self.scalars[name].tobytes() for name in sorted(self.scalars))
        return *(self.sizes[name] for name in sorted(host_names(self.launches))), *scalars

    def check(self, look: Callable[[Step], None]) -> int:
        """Call *look* for launches of each grid, and return the number of all launches.

        Iterations of a loop are looked at one by one only if a grid, or a loop inside, depends on them.
        """
        return self._count(self.launches, 0, self.sizes, look)

    def _steps(
        self, launches: Sequence[DeviceLaunch], depth: int, values: Mapping[str, int], inames: Mapping[str, int],
        goes_on: Callable[[Path, Mapping[str, int]], bool],
    ) -> Iterator[Step]:  # fmt: skip
        for loop, members in _groups(launches, depth):
            if loop is None:
                yield from (Step(launch, grid, inames) for launch, grid in self._placed(members, values))
                continue
            fixed = [*self._placed(members, values)] if _is_plain(members, depth, loop.iname) else None
            for value in _values(loop, values):
                if loop.test is not None and not goes_on(members[0].around[: depth + 1], values):
                    break
                own = {**inames, loop.iname: value}
                if fixed is not None:
                    yield from (Step(launch, grid, own) for launch, grid in fixed)
                else:
                    yield from self._steps(members, depth + 1, {**values, loop.iname: value}, own, goes_on)

    def _count(
        self, launches: Sequence[DeviceLaunch], depth: int, values: Mapping[str, int], look: Callable[[Step], None]
    ) -> int:
        total = 0
        for loop, members in _groups(launches, depth):
            if loop is None:
                for launch, grid in self._placed(members, values):
                    look(Step(launch, grid, {}))
                    total += 1
                continue
            goes_on = holds(loop.test, {**self.scalars, **values}, None)
            each = _values(loop, values) if goes_on else range(0)
            depends = any(loop.iname in _names(launch, depth + 1) for launch in members)
            for value in each if depends else each[:1]:
                number = self._count(members, depth + 1, {**values, loop.iname: value}, look)
                total += number if depends else number * len(each)
        return total

    def _placed(
        self, launches: Sequence[DeviceLaunch], values: Mapping[str, int]
    ) -> Iterator[tuple[DeviceLaunch, Grid]]:
        """Yield the launches whose conditions hold, and whose grids are not empty."""
        for launch in launches:
            x, y, z = (evaluate(extent, values) for extent in launch.grid)
            if min(x, y, z) > 0 and (
                launch.condition is None
                or holds(launch.condition, {**self.scalars, **values}, None)
            ):
                yield launch, (x, y, z)


def _groups(
    launches: Sequence[DeviceLaunch], depth: int
) -> Iterator[tuple[LaunchLoop | None, Sequence[DeviceLaunch]]]:
    """Yield neighbouring launches that share their loop at *depth*, and those without one."""
    for loop, members in groupby(launches, key=lambda launch: launch.around[depth] if launch.around[depth:] else None):
        yield loop, [*members]


def _names(launch: DeviceLaunch, depth: int) -> frozenset[str]:
    """Return the names in the grid and condition of a launch, and in its loops from *depth* on."""
    bounds: list[Expression] = [bound for loop in launch.around[depth:] for bound in (loop.lower, loop.upper)]
    asked = (launch.condition, *(loop.test for loop in launch.around[depth:]))
    names = (name for condition in asked if condition is not None for name, _ in condition.types)
    return frozenset(names).union(*map(names_in, (*launch.grid, *bounds)))


def _is_plain(members: Sequence[DeviceLaunch], depth: int, iname: str) -> bool:
    """Return True if launches have no further loops inside of that at *depth*, and their grids do not depend on it."""
    return all(len(x.around) == depth + 1 and iname not in _names(x, depth + 1) for x in members)


def _values(loop: LaunchLoop, values: Mapping[str, int]) -> range:
    return range(evaluate(loop.lower, values), evaluate(loop.upper, values), loop.step)
