"""Buffers of messages that the kernel of a phase fills and empties: packing and unpacking as statements of its program.

::

    v[i, j] = f(..)                         a face of v goes to the next rank along mesh.1
    ->
    v[i, j] = f(..)
    v_high1[i - s0, j - s1] = v[i, j]       where s0 <= i < s0 + n0 and s1 <= j < s1 + n1

    w[i, j] = v[i, j + 1]                   a face of v has come from there
    ->
    for x0 in [0, n0), x1 in [0, n1):  v[s0 + x0, s1 + x1] = v_from_high1[x0, x1]
    w[i, j] = v[i, j + 1]

The box is a parameter, in indices of the rank's part; one without elements packs nothing.  The statements are of the
kernel's reference program: what is done to the kernel later is proven for them, too, and launches, barriers and
fusion keep the order of what is unpacked and what reads it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import islpy as isl
import pymbolic.primitives as p

from polyloop.distributed.division import bad_distribution, refuse
from polyloop.distributed.fields import Halo, Storage, halos_of, uses
from polyloop.distributed.homes import Homes
from polyloop.distributed.phases import Phase
from polyloop.expr.nodes import array_name
from polyloop.expr.rewrite import variables
from polyloop.frozen import replace
from polyloop.kernel.arrays import ArrayArg, TemporaryVariable
from polyloop.kernel.instruction import Copy, Instruction
from polyloop.poly.affine import Affine, affine_of, to_expression
from polyloop.poly.sets import Row, add_rows, parameter_space, universe

__all__ = ["Pack", "buffers", "packs_of", "with_packs"]


@dataclass(frozen=True)
class Pack:
    """A buffer of a phase for a message.

    Attributes
    ----------
    name
        Of the buffer, in the kernel.
    array
        Array that it has elements of.
    axis
        Axis of the mesh, to or from a neighbour along which they go.
    side
        1 for the neighbour above, -1 for the one below.
    starts, extents
        Parameters with the first index of the box in the rank's part, and its lengths.
    face
        Axis of the array along which the neighbour is, if the elements come from it and the kernel unpacks them: they
        end at the beginning of the block, or begin at its end.
    """

    name: str
    array: str
    axis: int
    side: int
    starts: tuple[str, ...]
    extents: tuple[str, ...]
    face: int | None = None

    @property
    def is_received(self) -> bool:
        """True if the kernel unpacks the elements."""
        return self.face is not None

    def idle(self, shape: Sequence[int], halo: Halo) -> tuple[int, ...]:
        """Return the first index of a box without elements, in the rank's part with a *shape* and a *halo*."""
        found = [0] * len(self.starts)
        if self.face is not None:
            below, above = halo[self.face]
            found[self.face] = below if self.side < 0 else shape[self.face] - above
        return tuple(found)


def packs_of(
    homes: Homes, phases: Sequence[Phase], arrays: Sequence[str], received: Sequence[str]
) -> Mapping[int, tuple[Pack, ...]]:
    """Return the buffers of each phase that writes one of *arrays*, or reads the halo of one *received*.

    There is one for each neighbour in the mesh.

    Raises
    ------
    KernelError
        ``bad-distribution``.
    """
    kernel = homes.kernel
    for word, names in (("packed", arrays), ("unpacked", received)):
        for array in names:
            if not homes.division.is_divided(array) or not isinstance(kernel.arrays().get(array), ArrayArg):
                refuse(kernel, bad_distribution(f"'{array}' is no argument in blocks, and nothing of it is {word}",
                                                hint=f"name arguments in blocks in {word}="))
    found: dict[int, tuple[Pack, ...]] = {}
    for phase in phases:
        used: dict[bool, set[str]] = {True: set(), False: set()}
        for statement, access, storage in uses(homes, phase):
            if storage is Storage.BLOCK:
                used[statement.is_write(access)].add(access.array)
        found[phase.number] = (
            *(pack for array in sorted(used[True].intersection(arrays)) for pack in _packs(homes, array, False)),
            *(pack for array in sorted(used[False].intersection(received))
              if any(map(any, halos_of(homes, (phase,))[array])) for pack in _packs(homes, array, True)))
    return found


def _packs(homes: Homes, array: str, is_received: bool) -> Iterator[Pack]:
    """Yield the buffers for messages of an array, to or from each neighbour.

    What comes from neighbours has one length along axes that none of them is a neighbour along, and lies at the face of
    the block along the other one: with fewer parameters, which values reads see is soon known.
    """
    kernel, axes = homes.kernel, homes.division.axes(array)
    common = [(kernel.fresh(f"{array}_from_s{place}"), kernel.fresh(f"{array}_from_n{place}"))
              for place in range(len(axes))]
    for face, axis in enumerate(axes):
        for side, word in ((-1, "low"), (1, "high")) if axis is not None else ():
            name = kernel.fresh(f"{array}_{'from_' if is_received else ''}{word}{axis}")
            names = [(kernel.fresh(f"{name}_s{place}"), kernel.fresh(f"{name}_n{place}"))
                     if place == face or not is_received else common[place] for place in range(len(axes))]
            starts, extents = zip(*names, strict=True)
            yield Pack(name, array, axis or 0, side, starts, extents, face if is_received else None)


def with_packs(
    instructions: Sequence[Instruction], packs: Sequence[Pack], align: Callable[[isl.Set], isl.Set]
) -> Iterator[Instruction]:
    """Yield the instructions of a phase, each behind what unpacks elements of its reads, before what packs its own."""
    unpacks = [_unpacking(pack, align) for pack in packs if pack.is_received]
    yield from unpacks
    for entry in instructions:
        before = {unpack.id for unpack in unpacks if array_name(unpack.assignee) in entry.reads}
        made = replace(entry, depends_on=entry.depends_on | before)
        yield made
        for pack in packs:
            if pack.array == array_name(entry.assignee) and not pack.is_received:
                yield _packing(made, pack, align)


def _unpacking(pack: Pack, align: Callable[[isl.Set], isl.Set]) -> Instruction:
    """Return the instruction that puts the elements of a buffer into the rank's part."""
    inames = tuple(f"{pack.name}_x{place}" for place in range(len(pack.starts)))
    rows, target, source = [], [], []
    for iname, start, extent in zip(inames, pack.starts, pack.extents, strict=True):
        index = Affine.variable(iname)
        rows += [Row(index), Row(Affine.variable(extent).add(index, -1).add(Affine((), -1)))]
        target.append(to_expression(index.add(Affine.variable(start))))
        source.append(to_expression(index))
    assignee, value = (p.Subscript(p.Variable(name), index[0] if len(index) == 1 else tuple(index))
                       for name, index in ((pack.array, target), (pack.name, source)))
    name = f"unpack_{pack.name}"
    domain = add_rows(universe(align(parameter_space(())), inames), inames, rows)
    return Instruction(
        name, inames, domain, assignee, value, Copy(name, {iname: Affine.variable(iname) for iname in inames}),
        reads=(variables(value) | variables(assignee)) - {*inames, pack.array})


def _packing(entry: Instruction, pack: Pack, align: Callable[[isl.Set], isl.Set]) -> Instruction:
    """Return the instruction that copies an element into the buffer, if it is in the box."""
    assert isinstance(entry.assignee, p.Subscript), "an array in blocks has axes"
    rows, index = [], []
    for place, subscript in enumerate(entry.assignee.index_tuple):
        form = affine_of(subscript)
        assert form is not None, "the owner of an element is known"
        offset = form.add(Affine.variable(pack.starts[place]), -1)
        rows += [Row(offset), Row(Affine.variable(pack.extents[place]).add(offset, -1).add(Affine((), -1)))]
        index.append(to_expression(offset))
    name = f"{entry.id}_{pack.name}"
    target = p.Subscript(p.Variable(pack.name), index[0] if len(index) == 1 else tuple(index))
    reads = (variables(entry.assignee) | variables(target)).union(*map(variables, entry.predicates))
    return replace(
        entry, id=name, assignee=target, expression=entry.assignee, terms=(), atomic=False,
        domain=add_rows(align(entry.domain), entry.inames, rows), depends_on=entry.depends_on | {entry.id},
        origin=Copy(name, {iname: Affine.variable(iname) for iname in entry.inames}),
        reads=reads - {*entry.inames, pack.name})


def buffers(packs: Sequence[Pack], arrays: Mapping[str, ArrayArg | TemporaryVariable]) -> Iterator[ArrayArg]:
    """Yield the arguments that are buffers of messages."""
    for pack in packs:
        yield ArrayArg(pack.name, arrays[pack.array].dtype, tuple(map(p.Variable, pack.extents)), order="C",
                       is_input=True, is_output=not pack.is_received)
