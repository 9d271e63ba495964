"""Enumeration of domains for the interpreter: all points at once, or level by level under data-dependent bounds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import islpy as isl

__all__ = ["DataPoints", "Points", "Trie", "at", "is_there", "level", "trie"]

_PARAM: Final = isl.dim_type.param
_SET: Final = isl.dim_type.set

Trie: TypeAlias = dict[int, Any]
"""Points by their first coordinate, then their second, ..; a leaf is an empty dictionary."""


@dataclass(frozen=True)
class DataPoints:
    """Points of *domain*, with parameters that are variables of the program.

    Attributes
    ----------
    present
        Gives the value of a variable, None while it has none here.
    """

    domain: isl.Set
    present: Callable[[str], int | None]

    def fixed(self) -> isl.Set:
        """Return the domain for the present values."""
        domain = self.domain
        for position in range(domain.dim(_PARAM)):
            value = self.present(domain.get_dim_name(_PARAM, position) or "")
            if value is not None:
                domain = domain.fix_val(_PARAM, position, value)
        return domain

    def level(self) -> Mapping[int, Points]:
        """Return the rest of the points for each value of the first coordinate, under the current variables."""
        domain = self.fixed()
        count = domain.dim(_PARAM)
        if all(self.present(domain.get_dim_name(_PARAM, position) or "") is not None for position in range(count)):
            return trie(domain.project_out(_PARAM, 0, count))
        first = domain.project_out(_SET, 1, domain.dim(_SET) - 1).project_out(_PARAM, 0, count)
        return {value: self.at(value) for value in trie(first)}

    def at(self, value: int) -> DataPoints:
        """Return the rest of the points with *value* as first coordinate."""
        domain = self.domain.fix_val(_SET, 0, value).project_out(_SET, 0, 1)
        return DataPoints(domain, self.present)


Points: TypeAlias = Trie | DataPoints


def trie(domain: isl.Set) -> Trie:
    """Return the points of a bounded set without parameters, in ascending order."""
    found: list[tuple[int, ...]] = []
    count = domain.dim(_SET)

    def note(point: isl.Point) -> None:
        found.append(tuple([point.get_coordinate_val(_SET, k).to_python() for k in range(count)]))

    domain.foreach_point(note)
    root: Trie = {}
    for coordinates in sorted(found):
        here = root
        for value in coordinates:
            here = here.setdefault(value, {})
    return root


def level(points: Points) -> Mapping[int, Points]:
    """Return the rest of *points* for each value of the first coordinate."""
    return points if isinstance(points, dict) else points.level()


def at(points: Points, value: int) -> Points:
    """Return the rest of *points* with *value* as first coordinate."""
    return points.get(value, {}) if isinstance(points, dict) else points.at(value)


def is_there(points: Points) -> bool:
    """Return whether the point that is left when all coordinates are taken is one."""
    return isinstance(points, dict) or not points.fixed().is_empty()
