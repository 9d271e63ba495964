"""Fields: how a rank stores each array of a phase.

An array in blocks is stored as its block, widened on both sides by what the phases read beside it, the *halo*.  What a
phase reads elsewhere goes to a *window*: a box of its own, filled before the phase.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from polyloop.distributed.division import Axes
from polyloop.distributed.homes import Home, Homes
from polyloop.distributed.phases import Phase
from polyloop.poly.affine import Affine
from polyloop.program.lower import Access, Lowered

__all__ = [
    "Field", "Halo", "Storage", "distances", "fields_of", "halos_of", "is_near", "kind_of", "reading_home", "uses",
]  # fmt: skip

Halo: TypeAlias = "tuple[tuple[int, int], ...]"
"""For each axis of an array the number of elements below and above its block that a rank stores."""


class Storage(Enum):
    """Storage of an array on a rank."""

    WHOLE = "whole"
    """All elements, with equal values on all ranks."""
    BLOCK = "block"
    """The rank's block and its halo."""
    WINDOW = "window"
    """A box that a phase reads, filled before it."""
    SHARE = "share"
    """All elements of a sum (or product, ..) to which each rank contributes."""


@dataclass(frozen=True)
class Field:
    """An array of a phase.

    Attributes
    ----------
    name
        In the kernel of the phase.
    array
        In the program.
    axes
        Axes of the mesh that it is divided over.
    is_written
        Whether the phase writes it.
    around
        For each axis of a window the number of elements below and above the block of the rank that it holds; None for
        an axis along which it holds others.
    """

    name: str
    array: str
    storage: Storage
    axes: Axes
    is_written: bool = False
    around: tuple[tuple[int, int] | None, ...] = ()


def reading_home(homes: Homes, name: str) -> Home:
    """Return the home of the instances that evaluate the right-hand side of an instruction."""
    return homes.terms.get(name, homes.instructions[name])


def is_near(forms: Sequence[Affine | None], axes: Axes, home: Home) -> bool:
    """Return whether an element is at a constant distance from the home of the instance, along all divided axes."""
    found = distances(forms, axes, home)
    return all(axis is None or distance is not None for distance, axis in zip(found, axes, strict=True))


def distances(forms: Sequence[Affine | None], axes: Axes, home: Home) -> tuple[int | None, ...]:
    """Return the distance of an element from the home of the instance along each axis, None where it varies."""
    found: list[int | None] = []
    for form, axis in zip(forms, axes, strict=True):
        own = None if axis is None else home[axis]
        difference = None if form is None or own is None else form.add(own, -1)
        found.append(difference.const if difference is not None and difference.is_constant() else None)
    return tuple(found)


def kind_of(homes: Homes, statement: Lowered, access: Access) -> Storage:
    """Return the storage that an access of a phase refers to."""
    found = homes.combined.get(statement.instruction.id)
    axes = homes.division.axes(access.array)
    if found is not None and found.array == access.array and {*axes} - {None} <= {*found.axes}:
        return Storage.SHARE
    if all(axis is None for axis in axes):
        return Storage.WHOLE
    home = homes.of(statement) if statement.is_write(access) else reading_home(homes, statement.instruction.id)
    return Storage.BLOCK if is_near(access.indices, axes, home) else Storage.WINDOW


def uses(homes: Homes, phase: Phase) -> Iterator[tuple[Lowered, Access, Storage]]:
    """Yield the accesses of a phase to arguments and temporaries, with the storage that they refer to."""
    for name in phase.instructions:
        for statement, access in homes.accesses(name):
            yield statement, access, kind_of(homes, statement, access)


def halos_of(homes: Homes, phases: Sequence[Phase]) -> Mapping[str, Halo]:
    """Return the halo of each array in blocks: the greatest distances at which a phase reads."""
    widths: dict[str, list[tuple[int, int]]] = {
        array: [(0, 0)] * len(axes) for array, axes in homes.division.arrays.items()}
    for phase in phases:
        for statement, access, storage in uses(homes, phase):
            if storage is Storage.BLOCK:
                home = reading_home(homes, statement.instruction.id)
                if statement.is_write(access):
                    home = homes.of(statement)
                for place, distance in enumerate(distances(access.indices, homes.division.axes(access.array), home)):
                    if distance is not None:
                        low, high = widths[access.array][place]
                        widths[access.array][place] = max(low, -distance), max(high, distance)
    return {array: tuple(entry) for array, entry in widths.items()}


def fields_of(homes: Homes, phase: Phase) -> tuple[Field, ...]:
    """Return the fields of a phase; no name stands for two of them."""
    found: dict[tuple[str, Storage], bool] = {}
    for statement, access, storage in uses(homes, phase):
        key = access.array, storage
        found[key] = found.get(key, False) or statement.is_write(access)
    fields: list[Field] = []
    for (array, storage), is_written in found.items():
        name = array
        around: tuple[tuple[int, int] | None, ...] = ()
        if storage is Storage.WINDOW:
            name = homes.kernel.fresh(f"{array}_part", [entry.name for entry in fields])
            around = _around(homes, phase, array)
        if storage is Storage.SHARE and homes.division.is_divided(array):
            name = homes.kernel.fresh(f"{array}_share", [entry.name for entry in fields])
        fields.append(Field(name, array, storage, homes.division.axes(array), is_written, around))
    return tuple(fields)


def _around(homes: Homes, phase: Phase, array: str) -> tuple[tuple[int, int] | None, ...]:
    """Return the widths of the window of *array* around the block, for axes along which all reads are near it."""
    axes = homes.division.axes(array)
    reads = [distances(access.indices, axes, reading_home(homes, statement.instruction.id))
             for statement, access, storage in uses(homes, phase)
             if access.array == array and storage is Storage.WINDOW]
    result: list[tuple[int, int] | None] = []
    for along in zip(*reads, strict=True):
        known = [distance for distance in along if distance is not None]
        is_all = len(known) == len(along)
        result.append((max(0, -min(known)), max(0, *known)) if is_all else None)
    return tuple(result)
