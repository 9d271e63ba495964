"""Random programs with a barrier in a sequential loop, which must change nothing or be refused."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Final

import numpy as np

from polyloop.kernel.text.specs import GlobalArg
from polyloop.testing.drawing.random_kernels import Source

__all__ = ["DIVIDED", "barrier_sources"]

_LOOP: Final = "for j"
_KINDS: Final = ("... gbarrier", "... lbarrier")
DIVIDED: Final = frozenset({"divided-loop", "crosses-barrier", "read-before-write", "ambiguous-loop"})
"""Codes of refusals of programs with barriers, which are none without them."""


def barrier_sources(seed: int) -> tuple[Source, Source]:
    """Return a random program, and the same program with a barrier in its loop."""
    rng = random.Random(seed)
    lines = _program(rng)
    kind = np.dtype(np.float64)
    data = (GlobalArg("a, b, c", kind, shape=8), GlobalArg("z", kind, shape=1))
    options = (("seq_dependencies", True), ("silenced_warnings", "*"))
    plain = Source(f"divided_{seed}", ("{[j]: 0 <= j < 6}",), tuple(lines), data, options)
    place = rng.randint(lines.index(_LOOP) + 2, len(lines) - 2)
    divided = (*lines[:place], rng.choice(_KINDS), *lines[place:])
    return plain, replace(plain, lines=divided, features=("barrier",), twin=plain)


def _program(rng: random.Random) -> list[str]:
    scalars = ["s", "t"][: rng.randint(0, 2)]

    def element() -> str:
        name = rng.choice("abcz")
        return "z[0]" if name == "z" else f"{name}[j{rng.choice(('', '', ' + 1', ' + 2'))}]"

    def value() -> str:
        return " + ".join(rng.choice([*scalars, element(), "j"]) for _ in range(rng.randint(1, 2)))

    lines = [f"<> {name} = {rng.randint(1, 9)}.0" for name in scalars]
    own = ["w"] if rng.random() < 0.3 else []
    body = [f"<> w = {value()}"] if own else []
    scalars += own
    body += [f"{rng.choice([*scalars, element(), element()])} = {value()}" for _ in range(rng.randint(2, 4))]
    return [*lines, _LOOP, *body, "end"]
