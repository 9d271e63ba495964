"""The division of inames and arrays over the axes of a mesh, as the user writes it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NoReturn

from polyloop.errors import Diagnostic, KernelError, unknown_name
from polyloop.expr.rewrite import reductions
from polyloop.expr.rules import expand_rules
from polyloop.kernel.arrays import ArrayArg
from polyloop.kernel.kernel import LoopKernel

__all__ = ["Axes", "Division", "bad_distribution", "division_of", "refuse"]

Axes = tuple[int | None, ...]
"""For each axis of an array the axis of the mesh that it is divided over; None for an axis that is whole everywhere."""

_INAME: Final = re.compile(r"\s*(\w+)\s*:\s*mesh\.(\d+)\s*")
_AXIS: Final = re.compile(r"block(?:\.(\d+))?")


@dataclass(frozen=True)
class Division:
    """Inames and arrays over the axes of a mesh.

    Attributes
    ----------
    inames
        Iname -> axis of the mesh.
    arrays
        Array -> axes of the mesh; arrays that are not listed are whole on each rank.
    rank
        Number of axes of the mesh.
    local
        Arrays of which each rank has one of its own, with its own indices and extents: nothing of them is sent.
    """

    inames: Mapping[str, int]
    arrays: Mapping[str, Axes]
    rank: int
    local: tuple[str, ...] = ()

    def axes(self, array: str) -> Axes:
        """Return the axes of the mesh that *array* is divided over, none for one that is whole everywhere."""
        return self.arrays.get(array, ())

    def is_divided(self, array: str) -> bool:
        """Return whether ranks hold different parts of *array*."""
        return any(axis is not None for axis in self.axes(array))


def refuse(kernel: LoopKernel, *found: Diagnostic) -> NoReturn:
    """Raise the findings of ``distribute``.

    Raises
    ------
    KernelError
        The findings.
    """
    raise KernelError("distribute", kernel.name, found)


def bad_distribution(message: str, *notes: str, hint: str) -> Diagnostic:
    """Return the diagnostic ``bad-distribution``."""
    return Diagnostic("bad-distribution", message, notes, (hint,))


def division_of(kernel: LoopKernel, arrays: Mapping[str, str], over: str) -> Division:
    """Return the division that ``{"u": "block, *"}`` and ``"i:mesh.0, j:mesh.1"`` spell.

    Raises
    ------
    KernelError
        ``bad-distribution``, ``unknown-iname``, ``unknown-array``.
    """
    inames: dict[str, int] = {}
    bound = _inames(kernel)
    for entry in over.split(","):
        found = _INAME.fullmatch(entry)
        if found is None:
            refuse(kernel, bad_distribution(f"'{entry.strip()}' divides no iname", hint='over="i:mesh.0, j:mesh.1"'))
        name, axis = found[1], int(found[2])
        if name not in bound:
            refuse(kernel, unknown_name("iname", name, bound))
        if name in inames:
            refuse(kernel, bad_distribution(f"iname '{name}' is divided twice", hint="name one axis of the mesh"))
        inames[name] = axis
    rank = max(inames.values()) + 1
    if missing := sorted(set(range(rank)).difference(inames.values())):
        refuse(kernel, bad_distribution(f"nothing is divided over mesh.{missing[0]}",
                                        hint="number the axes of the mesh from 0"))
    local = tuple(sorted(name for name, text in arrays.items() if text.strip() == "local"))
    for name in local:
        known = kernel.arrays().get(name)
        if known is None:
            refuse(kernel, unknown_name("array", name, kernel.arrays()))
        if not isinstance(known, ArrayArg) or known.is_output:
            refuse(kernel, bad_distribution(f"'{name}' is written, and each rank would have its own",
                                            hint="only arguments that are read can be local"))
    divided = {name: _axes(kernel, name, text, rank) for name, text in arrays.items() if name not in local}
    return Division(inames, divided, rank, local)


def _inames(kernel: LoopKernel) -> frozenset[str]:
    found = set(kernel.inames)
    for instruction in kernel.instructions:
        for node in reductions(expand_rules(instruction.expression, kernel.substitutions)):
            found.update(node.inames)
    return frozenset(found)


def _axes(kernel: LoopKernel, name: str, text: str, rank: int) -> Axes:
    known = kernel.arrays()
    entry = known.get(name)
    if entry is None:
        refuse(kernel, unknown_name("array", name, known))
    parts = [part.strip() for part in text.split(",")]
    axes: list[int | None] = []
    for part in parts:
        found = _AXIS.fullmatch(part)
        if found is None and part != "*":
            refuse(kernel, bad_distribution(f"'{part}' is no way to divide an axis of '{name}'", hint=(
                'write "block", "block.1" (over mesh.1) or "*" (whole), or "local" alone')))
        axes.append(None if found is None else int(found[1]) if found[1] else sum(x is not None for x in axes))
    used = [axis for axis in axes if axis is not None]
    if any(axis >= rank for axis in used) or len(set(used)) < len(used):
        refuse(kernel, bad_distribution(
            f"'{name}' is divided as '{text}', and the mesh has {rank} ax{'i' if rank == 1 else 'e'}s",
            hint='name other axes of the mesh: "block.0, block.1"'))
    count = 0 if entry.shape is None else len(entry.shape)
    if count != len(axes):
        refuse(kernel, bad_distribution(f"'{name}' has {count} axes, and '{text}' says how {len(axes)} are divided",
                                        hint='one entry for each axis: "block, *"'))
    if isinstance(entry, ArrayArg) and not (entry.is_packed and entry.order == "C"):
        refuse(kernel, bad_distribution(f"'{name}' is not stored in C order",
                                        hint='declare it with order="C"'))
    return tuple(axes)
