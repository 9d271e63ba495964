"""Sets that the library remembers, and whether a question about one has changed it.

ISL answers some questions by writing the rows of a set anew, in place.  Where such a set is remembered, what is
computed of it depends on who asked before.  :func:`polyloop.poly.sets.settled` makes sets that no question changes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Final

import islpy as isl

from polyloop.kernel.kernel import LoopKernel
from polyloop.memo import Same, watched

__all__ = ["Remembered", "remembering"]

_DEEP: Final = 4
"""Depth of records within records that are looked into for sets."""


@dataclass
class Remembered:
    """The sets and relations that were remembered, with their rows at that time."""

    sets: dict[Same[isl.Set | isl.Map], tuple[str, str]] = field(default_factory=dict)

    def add(self, name: str, value: object) -> None:
        """Note the sets in *value*, made by the function *name*."""
        for where, found in _sets(value, name):
            if Same(found) not in self.sets:
                self.sets[Same(found)] = (where, _rows(found))

    def changed(self) -> Iterator[str]:
        """Yield a sentence for each set whose rows are others now."""
        for found, (where, rows) in self.sets.items():
            if (now := _rows(found.value)) != rows:
                yield f"a question changed what {where} made, from {rows} to {now}"


@contextmanager
def remembering() -> Iterator[Remembered]:
    """Note the sets that are remembered inside of the ``with``."""
    found = Remembered()
    with watched(found.add):
        yield found


def _rows(found: isl.Set | isl.Map) -> str:
    pieces = found.get_basic_sets() if isinstance(found, isl.Set) else found.get_basic_maps()
    return " or ".join(" and ".join(map(str, piece.get_constraints())) or "everything" for piece in pieces) or "nothing"


def _sets(value: object, where: str, deep: int = _DEEP) -> Iterator[tuple[str, isl.Set | isl.Map]]:
    """Yield the sets in a record, with their places; kernels are no parts of other records here."""
    if isinstance(value, isl.Set | isl.Map):
        yield where, value
    elif isinstance(value, tuple | list | frozenset):
        for part in value:
            yield from _sets(part, where, deep)
    elif isinstance(value, Mapping):
        for part in value.values():
            yield from _sets(part, where, deep)
    elif deep and is_dataclass(value) and not isinstance(value, type | LoopKernel):
        for entry in fields(value):
            yield from _sets(getattr(value, entry.name, None), f"{where}.{entry.name}", deep - 1)
