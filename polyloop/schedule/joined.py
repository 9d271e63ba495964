"""Launches whose blocks are executed by those of the launch in front (:mod:`polyloop.sync.arrivals`)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from polyloop.schedule.plan import Launch

__all__ = ["launch_behind", "launch_in_front"]


def launch_behind(launches: Sequence[Launch], launch: Launch) -> Launch | None:
    """Return the launch whose blocks those of *launch* execute that arrive last; None if there is none."""
    found = {one.name: other for one, other in pairwise(launches) if other.turns.joins is not None}
    return found.get(launch.name)


def launch_in_front(launches: Sequence[Launch], launch: Launch) -> Launch | None:
    """Return the launch whose last blocks to arrive execute those of *launch*; None if a host starts it."""
    return next((one for one, other in pairwise(launches) if other.name == launch.name and other.turns.joins), None)
