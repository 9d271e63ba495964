"""Times that :func:`polyloop.explain` bounds, with the multiprocessors that a grid leaves idle."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from polyloop.kernel.devices import Device
from polyloop.kernel.kernel import LoopKernel
from polyloop.runtime.explain import explain
from polyloop.runtime.explanation import Explanation, LaunchFacts

__all__ = ["estimate"]

_LAUNCH: Final = 2e-6
"""Time from the end of one launch to the first work of the next [s]."""
_ENOUGH: Final = 0.5
"""Part of the multiprocessors that together use all of the memory's bandwidth."""


def estimate(kernel: LoopKernel, sizes: Mapping[str, int], device: Device) -> float:
    """Return the time of *kernel* on *device* [s], to compare schedules of one program.

    It is the bound of ``pl.explain``: the longest of all resources, where a launch whose blocks do not come out even
    takes as long as its last round of blocks, and one with few blocks has a part of the memory's bandwidth.
    """
    return seconds(explain(kernel, {name: sizes[name] for name in kernel.parameters}, device))


def seconds(found: Explanation) -> float:
    """Return the time of *found* [s]."""
    largest = max(found.launches, key=lambda launch: launch.blocks * launch.threads * launch.turns)
    uneven, part = _uneven(largest, found.multiprocessors), _busy(largest, found.multiprocessors)
    times = [bound.seconds / part if bound.resource == "DRAM" else bound.seconds * uneven for bound in found.bounds]
    return max(times, default=0.0) + _LAUNCH * sum(not launch.joins for launch in found.launches)


def _uneven(launch: LaunchFacts, multiprocessors: int) -> float:
    """Return the time of the rounds of blocks, relative to that of blocks that come out even."""
    blocks = launch.blocks * launch.turns
    if blocks <= multiprocessors:
        return 1.0  # explain counts the multiprocessors that have none
    return -(-blocks // multiprocessors) * multiprocessors / blocks


def _busy(launch: LaunchFacts, multiprocessors: int) -> float:
    """Return the part of the memory's bandwidth that the blocks of a launch can use."""
    return min(1.0, max(1, launch.blocks) / (_ENOUGH * multiprocessors))
