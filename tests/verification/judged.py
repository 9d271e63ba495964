"""Variants of a kernel, judged: each is refused, or legal by brute force."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import polyloop as pl
from polyloop.errors import PolyloopError
from polyloop.testing.pairs import legality
from polyloop.transform.loops.auto_local import assign_auto


def check_variants(variants: Iterable[tuple[str, Callable[[], pl.LoopKernel]]], sizes: Iterable[int]) -> None:
    """Check that each variant, a name and a call that makes it, is refused or legal at *sizes*, and one is accepted."""
    sizes, accepted = tuple(sizes), 0
    for name, make in variants:
        try:
            other = make()
            pl.verify(other)
        except PolyloopError:
            continue
        accepted += 1
        found = legality(assign_auto(other), sizes, 0)
        assert found is None, f"{name}: {found}"
    assert accepted
