"""The program of a seed: kernels of several kinds, with twists."""

from __future__ import annotations

import random
from typing import Final, TypeAlias

from polyloop.testing.drawing.random_barriers import barrier_sources
from polyloop.testing.drawing.random_boxes import staged_source
from polyloop.testing.drawing.random_branches import branch_source
from polyloop.testing.drawing.random_functions import PythonSource, random_function
from polyloop.testing.drawing.random_hosts import host_source
from polyloop.testing.drawing.random_kernels import Source, random_source
from polyloop.testing.drawing.random_meetings import meeting_source
from polyloop.testing.drawing.variations import twisted_and_varied

__all__ = ["AnySource", "drawn_source"]

AnySource: TypeAlias = Source | PythonSource

_BARRIERS: Final = 0.06
_TILES: Final = 0.06
_HOSTS: Final = 0.06
_MEETINGS: Final = 0.05
_PYTHON: Final = 0.08
_BRANCHES: Final = 0.04
_TWISTED: Final = 0.65


def drawn_source(seed: int) -> AnySource:
    """Return the program of *seed*."""
    rng = random.Random(seed + 3_000_000_019)
    kind = rng.random()
    if kind < _BARRIERS:
        return barrier_sources(seed)[1]
    if kind < _BARRIERS + _TILES:
        return staged_source(rng, seed)
    if kind < _BARRIERS + _TILES + _PYTHON:
        return random_function(seed)
    if kind < _BARRIERS + _TILES + _PYTHON + _HOSTS:
        return host_source(seed)
    if kind < _BARRIERS + _TILES + _PYTHON + _HOSTS + _MEETINGS:
        return meeting_source(seed)
    if kind > 1 - _BRANCHES:
        return branch_source(seed)
    source = random_source(seed)
    return twisted_and_varied(rng if rng.random() < _TWISTED else None, random.Random(seed + 5_000_000_029), source)
