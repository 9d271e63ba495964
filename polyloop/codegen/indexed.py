"""Private arrays that may not stay in registers, as a generated program tells of them."""

from __future__ import annotations

from dataclasses import dataclass

from polyloop.display import brief

__all__ = ["IndexedArray"]


@dataclass(frozen=True)
class IndexedArray:
    """A private array with a subscript that is not a constant after unrolling.

    Attributes
    ----------
    launch
        Name of the function.
    element
        The first such access, in the kernel's notation, in ``instruction``.
    varying
        Names in its subscripts that are not constant.
    unrolled
        Unrolled loops in its other accesses, which suggest that the array is meant to be in registers.
    turns
        For a ring buffer: the loop in the subscript modulo the number of places, and that number; else None.
    """

    launch: str
    name: str
    nbytes: int
    element: str
    instruction: str
    varying: tuple[str, ...]
    unrolled: tuple[str, ...]
    turns: tuple[str, int] | None = None

    __repr__ = brief
