"""The hardware axes of a kernel, as a value."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

__all__ = ["Axes"]


@dataclass(frozen=True)
class Axes:
    """The hardware axes of a kernel.

    ``local`` maps each thread axis to its extent (None where that is not a constant),
    ``group`` lists the block axes; ``first`` gives
    the iname value that runs on index 0 of each axis.
    """

    group: tuple[str, ...]
    local: Mapping[str, int | None]
    first: Mapping[str, int]
    block: Mapping[str, int | None] = field(default_factory=dict)
    """Where inames are digits of the thread number: the extents of ``l.0`` to ``l.2``, of which ``local`` are parts."""

    @cached_property
    def key(self) -> tuple[Hashable, ...]:
        """The axes as a value that can be looked up."""
        mappings = (self.local, self.first, self.block)
        return (self.group, *(tuple(mapping.items()) for mapping in mappings))

    @property
    def has_digits(self) -> bool:
        """Whether inames are digits of the thread number."""
        return bool(self.block)

    @property
    def is_elementary(self) -> bool:
        """Whether the thread axes are digits themselves."""
        return self.has_digits and self.local != self.block

    @property
    def extents(self) -> Mapping[str, int | None]:
        """Threads along ``l.0`` to ``l.2``."""
        return self.block or self.local

    @property
    def all(self) -> tuple[str, ...]:
        """Every axis, blocks first."""
        return (*self.group, *self.local)
