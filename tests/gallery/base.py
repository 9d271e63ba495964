"""What a gallery kernel is: how it is built, what it is called with, and what NumPy says the result must be."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, TypeAlias

import numpy as np

import polyloop as pl

__all__ = ["GALLERY", "Case", "Example", "example", "on_threads"]

Case: TypeAlias = tuple[dict[str, Any], dict[str, Any]]
"""Arguments of a call, and the outputs that it must give."""


@dataclass(frozen=True)
class Example:
    """One kernel of the gallery.

    Attributes
    ----------
    make
        Returns the kernel, transformed as its author would.
    case
        ``case(n, rng)`` returns arguments and expected outputs for one size.
    sizes
        The sizes ``n`` to run; the first two also run on fibres.
    refused
        Target name (``"c"``, ``"cuda"``, ``"interpreter"``) -> code of the diagnostic with which it refuses the kernel.
    rtol
        Relative tolerance for floating-point outputs; integers must agree exactly.
    """

    name: str
    make: Callable[[], pl.LoopKernel]
    case: Callable[[int, np.random.Generator], Case]
    sizes: tuple[int, ...]
    refused: Mapping[str, str] = field(default_factory=dict)
    rtol: float = 2e-5

    def build(self) -> pl.LoopKernel:
        """Return the kernel, which is made once: what is proven and generated of it is kept with it."""
        return _built(self.name)


@cache
def _built(name: str) -> pl.LoopKernel:
    return GALLERY[name].make()


GALLERY: dict[str, Example] = {}
"""By name; filled by the modules of this package."""


def example(
    case: Callable[[int, np.random.Generator], Case],
    *,
    sizes: tuple[int, ...] = (1, 7, 33),
    refused: Mapping[str, str] | None = None,
    rtol: float = 2e-5,
) -> Callable[[Callable[[], pl.LoopKernel]], Callable[[], pl.LoopKernel]]:
    """Put the decorated function, which builds a kernel, into the gallery under its name."""

    def enter(build: Callable[[], pl.LoopKernel]) -> Callable[[], pl.LoopKernel]:
        name = build.__name__
        assert name not in GALLERY, f"two gallery kernels are called {name}"
        GALLERY[name] = Example(name, build, case, sizes, refused or {}, rtol)
        return build

    return enter


def on_threads(knl: pl.LoopKernel) -> pl.LoopKernel:
    """Return *knl* with its loop ``i`` in blocks of 32 threads."""
    return pl.split_iname(knl, "i", 32, outer_tag="g.0", inner_tag="l.0")
