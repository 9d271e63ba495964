"""Homes: the coordinate, along each axis of the mesh, at which an instance runs.

The owner of an element computes it.  An instance that writes ``v[i, 0]`` of an array in blocks along its first axis is
at home at coordinate ``i``; instances at home in a block of coordinates are a rank's.  An instruction that writes
nothing divided is at home at its divided iname, and without one on every rank.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import islpy as isl

from polyloop.distributed.division import Axes, Division, bad_distribution, refuse
from polyloop.distributed.separate import Combined, Separated
from polyloop.errors import Diagnostic
from polyloop.expr.nodes import array_name
from polyloop.frozen import replace
from polyloop.kernel.arrays import ArrayArg
from polyloop.kernel.instruction import Instruction
from polyloop.kernel.kernel import LoopKernel
from polyloop.poly.affine import Affine, affine_of
from polyloop.poly.sets import Row, add_rows
from polyloop.program.lower import Access, Lowered, lower

__all__ = ["Home", "Homes", "dims_of", "homes_of", "pairs_apart"]

Home: TypeAlias = "tuple[Affine | None, ...]"
"""For each axis of the mesh the coordinate, as a form of inames; None for an instance that every rank runs."""

_IN = isl.dim_type.in_
_OUT = isl.dim_type.out


@dataclass(frozen=True, eq=False)
class Homes:
    """The homes of the instructions of a program.

    Attributes
    ----------
    kernel
        The program, as it was written.
    division
        That of the user, with temporaries.
    instructions
        Home of each instruction, by its id; that of the terms of a reduction that ranks combine is in ``terms``.
    """

    kernel: LoopKernel
    division: Division
    combined: Mapping[str, Combined]
    instructions: Mapping[str, Home]
    terms: Mapping[str, Home]

    def of(self, statement: Lowered) -> Home:
        """Return the home of a lowered statement: of the terms, or of the instruction."""
        name = statement.instruction.id
        terms = self.terms.get(name)
        is_term = terms is not None and all(
            form is None or form.names() <= {*statement.inames, *self.kernel.parameters} for form in terms)
        return terms if terms is not None and is_term else self.instructions[name]

    def within(self, name: str, dims: tuple[str, ...]) -> Home:
        """Return the home of the instances of an instruction that have *dims*."""
        terms = self.terms.get(name)
        if terms is not None and all(form is None or form.names() <= {*dims, *self.kernel.parameters}
                                     for form in terms):
            return terms
        return self.instructions[name]

    def statements(self, name: str) -> Iterator[Lowered]:
        """Yield the lowered statements of an instruction."""
        return (entry for entry in lower(self.kernel).statements.values() if entry.instruction.id == name)

    def accesses(self, name: str) -> Iterator[tuple[Lowered, Access]]:
        """Yield the accesses of an instruction's statements to arguments and temporaries."""
        known = self.kernel.arrays()
        return ((entry, access) for entry in self.statements(name) for access in entry.accesses
                if access.array in known)


def homes_of(separated: Separated, division: Division) -> Homes:
    """Return the home of each instruction, and the division with that of temporaries.

    Raises
    ------
    KernelError
        ``bad-distribution``, ``not-the-owner``.
    """
    kernel = separated.kernel
    reference = kernel.reference
    assert reference is not None, "a completed kernel has a reference program"
    program = reference.kernel
    arrays = dict(division.arrays)
    for instruction in program.instructions:
        name = array_name(instruction.assignee)
        if name in kernel.temporaries and name not in arrays:
            axes = _derived(instruction, division, separated.combined.get(instruction.id))
            if any(axis is not None for axis in axes):
                arrays[name] = axes
    division = replace(division, arrays=arrays)
    homes: dict[str, Home] = {}
    terms: dict[str, Home] = {}
    for instruction in program.instructions:
        found = separated.combined.get(instruction.id)
        homes[instruction.id] = _home(program, division, instruction, found)
        if found is not None:
            homes[instruction.id] = tuple(
                None if axis in found.axes else form for axis, form in enumerate(homes[instruction.id]))
            terms[instruction.id] = _term_home(division, instruction, found, homes[instruction.id])
            if found.is_update:
                homes[instruction.id] = terms[instruction.id]
        own = [name for name in division.local if name in instruction.reads]
        if own and all(form is None for form in terms.get(instruction.id, homes[instruction.id])):
            refuse(kernel, bad_distribution(
                f"every rank runs '{instruction.id}', and each has another '{own[0]}'", str(instruction),
                hint=f"let a divided iname decide who reads '{own[0]}'"))
    return Homes(program, division, separated.combined, homes, terms)


def _index(instruction: Instruction) -> tuple[Affine | None, ...]:
    target = instruction.assignee
    return tuple(affine_of(entry) for entry in getattr(target, "index_tuple", ()))


def _derived(instruction: Instruction, division: Division, combined: Combined | None) -> Axes:
    """Return the division of a temporary by that of the inames in its subscripts."""
    axes: list[int | None] = []
    for form in _index(instruction):
        own = [] if form is None else [name for name, factor in form.terms
                                       if factor == 1 and isinstance(name, str) and name in division.inames]
        axis = division.inames[own[0]] if len(own) == 1 else None
        taken = axis in axes or (combined is not None and axis in combined.axes)
        axes.append(None if taken else axis)
    return tuple(axes)


def _home(kernel: LoopKernel, division: Division, instruction: Instruction, combined: Combined | None) -> Home:
    target = array_name(instruction.assignee)
    index = _index(instruction)
    home: list[Affine | None] = []
    for axis in range(division.rank):
        places = [place for place, other in enumerate(division.axes(target)) if other == axis]
        if combined is not None and axis in combined.axes:
            places = []  # each rank has a share of all elements
        divided = [name for name in instruction.inames if division.inames.get(name) == axis]
        if places:
            form = index[places[0]]
            if form is None or not form.names() <= {*instruction.inames, *kernel.parameters}:
                refuse(kernel, Diagnostic(
                    "not-the-owner", f"it depends on data which element of '{target}' '{instruction.id}' writes",
                    (str(instruction),), (f"leave '{target}' whole and update it: ranks add up their parts",),
                    sites=(instruction.site(),)))
            if len(divided) > 1 or any(name not in form.names() for name in divided):
                refuse(kernel, _elsewhere(kernel, instruction, target, divided, axis, form))
            home.append(form)
        elif len(divided) > 1:
            refuse(kernel, bad_distribution(
                f"'{instruction.id}' has {' and '.join(divided)}, both over mesh.{axis}", str(instruction),
                hint="divide one of them, or write to an array in blocks"))
        else:
            home.append(Affine.variable(divided[0]) if divided else None)
            if divided and combined is None and isinstance(kernel.argument(target), ArrayArg):
                refuse(kernel, Diagnostic(
                    "not-the-owner", f"'{instruction.id}' writes '{target}', which is whole on each rank, "
                    f"and '{divided[0]}' is divided over mesh.{axis}", (str(instruction),),
                    (f'divide it: {{"{target}": "block"}}', "or let it be an update by +, *, min or max"),
                    sites=(instruction.site(),)))
    return tuple(home)


def _elsewhere(
    kernel: LoopKernel, instruction: Instruction, target: str, divided: list[str], axis: int, form: Affine
) -> Diagnostic:
    """Return the finding of instances whose iname is at another coordinate than what they write."""
    del kernel
    return Diagnostic(
        "not-the-owner", f"'{instruction.id}' writes '{target}' at {_text(form)} along mesh.{axis}, "
        f"and {' and '.join(divided)} is divided there", (str(instruction),),
        (f"divide the iname that subscripts '{target}', or another axis of it",), sites=(instruction.site(),))


def _text(form: Affine) -> str:
    from_terms = [name if factor == 1 else f"{factor}*{name}" for name, factor in form.terms]
    return " + ".join([*map(str, from_terms), *([str(form.const)] if form.const or not from_terms else [])])


def _term_home(division: Division, instruction: Instruction, combined: Combined, home: Home) -> Home:
    names = {iname for term in instruction.terms for iname in term.inames} - {*instruction.inames}
    if combined.is_update:
        names |= {*instruction.inames}
    found: list[Affine | None] = list(home)
    for axis in combined.axes:
        own = sorted(name for name in names if division.inames.get(name) == axis)
        found[axis] = Affine.variable(own[0])
    return tuple(found)


def dims_of(space: isl.Space, kind: isl.dim_type) -> tuple[str, ...]:
    """Return the names of the dimensions of a space."""
    return tuple(space.get_dim_name(kind, position) or "" for position in range(space.dim(kind)))


def pairs_apart(relation: isl.Map, first: Home, second: Home) -> isl.Map:
    """Return the pairs of *relation* that run on different ranks for some size of the blocks.

    An instance that every rank runs is where the second one is; a second one that every rank runs is also elsewhere.
    """
    sources = dims_of(relation.get_space(), _IN)
    sinks = dims_of(relation.get_space(), _OUT)
    flat = relation.reset_tuple_id(_IN).reset_tuple_id(_OUT).wrap().flatten()
    dims = (*(f"{name}'1" for name in sources), *(f"{name}'2" for name in sinks))
    one = {name: Affine.variable(dims[place]) for place, name in enumerate(sources)}
    two = {name: Affine.variable(dims[len(sources) + place]) for place, name in enumerate(sinks)}
    parts = []
    for mine, other in zip(first, second, strict=True):
        if mine is None:
            continue
        if other is None:
            return relation
        difference = mine.substitute(one).add(other.substitute(two), -1)
        less = Affine((), -1)
        parts += [add_rows(flat, dims, [Row(difference.add(less))]),
                  add_rows(flat, dims, [Row(difference.scale(-1).add(less))])]
    found = isl.Set.empty(flat.get_space())
    for part in parts:
        found = found.union(part)
    nested = isl.Map.from_range(found).move_dims(_IN, 0, _OUT, 0, len(sources))
    return relation.intersect(_named_like(nested, relation))


def _named_like(relation: isl.Map, like: isl.Map) -> isl.Map:
    for kind in (_IN, _OUT):
        if like.has_tuple_name(kind):
            relation = relation.set_tuple_name(kind, like.get_tuple_name(kind))
    return relation
