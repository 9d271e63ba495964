"""A drawn program with special numbers, with other types, or with its domains in other words."""

from __future__ import annotations

import random
from typing import Final

from polyloop.testing.drawing.mixed_types import infinite, mixed
from polyloop.testing.drawing.random_kernels import Source
from polyloop.testing.drawing.said_otherwise import said_otherwise
from polyloop.testing.drawing.twists import twisted

__all__ = ["twisted_and_varied", "varied"]

_INFINITE: Final = 0.08
_MIXED: Final = 0.07
_SAID_OTHERWISE: Final = 0.05


def twisted_and_varied(twist: random.Random | None, rng: random.Random, source: Source) -> Source:
    """Return *source* with twists, where *twist* draws them, and with variations that *rng* draws."""
    return varied(rng, source if twist is None else twisted(twist, source))


def varied(rng: random.Random, source: Source) -> Source:
    """Return *source* with other values or types, or with its domains in other words."""
    draw = rng.random()
    if draw < _INFINITE:
        source = infinite(rng, source)
    elif draw < _INFINITE + _MIXED:
        source = mixed(rng, source)
    return said_otherwise(rng, source) if rng.random() < _SAID_OTHERWISE else source
