"""Notes on a schedule for readers of its text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from polyloop.errors import Diagnostic, Place
from polyloop.kernel.kernel import Reference

__all__ = ["Remarks"]


@dataclass(frozen=True, eq=False)
class Remarks:
    """Notes for readers of the text.

    Attributes
    ----------
    unchecked
        The user's reasons for waiving proofs, and the claims that are not proven.
    left_open
        Questions that ISL gave up on, which affect the speed of the code only, each with the name of the kernel.
    places
        Instruction -> place in the user's text.
    named
        Instructions whose ids the user chose.
    written
        The program that the user wrote.
    """

    unchecked: tuple[str, ...] = ()
    left_open: tuple[tuple[str, Diagnostic], ...] = ()
    places: Mapping[str, Place] = field(default_factory=dict)
    named: frozenset[str] = frozenset()
    written: Reference | None = None

    def lines(self) -> Iterator[str]:
        """Yield the lines of both kinds."""
        yield from self.unchecked
        yield from (f"{found.message}: {' '.join(found.notes)}" for _, found in self.left_open)
