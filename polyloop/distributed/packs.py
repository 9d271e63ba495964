"""Send buffers that the kernel of a phase fills: packing beside the statement that computes what is sent.

::

    v[i, j] = f(..)                         a face of v goes to the next rank along mesh.1
    ->
    v[i, j] = f(..)
    v_high1[i - s0, j - s1] = v[i, j]       where s0 <= i < s0 + n0 and s1 <= j < s1 + n1

The box is a parameter, in indices of the rank's part; one without elements packs nothing.  The statement is one of the
kernel's reference program: what is done to the kernel later is proven for it, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import islpy as isl
import pymbolic.primitives as p

from polyloop.distributed.division import bad_distribution, refuse
from polyloop.distributed.fields import Storage, uses
from polyloop.distributed.homes import Homes
from polyloop.distributed.phases import Phase
from polyloop.expr.nodes import array_name
from polyloop.expr.rewrite import variables
from polyloop.frozen import replace
from polyloop.kernel.arrays import ArrayArg, TemporaryVariable
from polyloop.kernel.instruction import Copy, Instruction
from polyloop.poly.affine import Affine, affine_of, to_expression
from polyloop.poly.sets import Row, add_rows

__all__ = ["Pack", "buffers", "packs_of", "with_packs"]


@dataclass(frozen=True)
class Pack:
    """A send buffer of a phase.

    Attributes
    ----------
    name
        Of the buffer, in the kernel.
    array
        What is sent of.
    axis
        Axis of the mesh, to a neighbour along which it goes.
    side
        1 for the neighbour above, -1 for the one below.
    starts, extents
        Parameters with the first index of the box in the rank's part, and its lengths.
    """

    name: str
    array: str
    axis: int
    side: int
    starts: tuple[str, ...]
    extents: tuple[str, ...]


def packs_of(homes: Homes, phases: Sequence[Phase], arrays: Sequence[str]) -> Mapping[int, tuple[Pack, ...]]:
    """Return the send buffers of each phase that writes one of *arrays*: one for each neighbour in the mesh.

    Raises
    ------
    KernelError
        ``bad-distribution``.
    """
    kernel = homes.kernel
    for array in arrays:
        if not homes.division.is_divided(array) or not isinstance(kernel.arrays().get(array), ArrayArg):
            refuse(kernel, bad_distribution(f"'{array}' is no argument in blocks, and nothing of it is packed",
                                            hint="name arguments in blocks in packed="))
    found: dict[int, tuple[Pack, ...]] = {}
    for phase in phases:
        written = {access.array for statement, access, storage in uses(homes, phase)
                   if storage is Storage.BLOCK and statement.is_write(access)}
        packs: list[Pack] = []
        for array in sorted(written.intersection(arrays)):
            for axis in homes.division.axes(array):
                for side, word in ((-1, "low"), (1, "high")) if axis is not None else ():
                    name = kernel.fresh(f"{array}_{word}{axis}")
                    rank = len(homes.division.axes(array))
                    starts, extents = (tuple(kernel.fresh(f"{name}_{letter}{place}") for place in range(rank))
                                       for letter in ("s", "n"))
                    packs.append(Pack(name, array, axis or 0, side, starts, extents))
        found[phase.number] = tuple(packs)
    return found


def with_packs(
    instructions: Sequence[Instruction], packs: Sequence[Pack], align: Callable[[isl.Set], isl.Set]
) -> Iterator[Instruction]:
    """Yield the instructions of a phase, each behind it with those that pack what it writes."""
    for entry in instructions:
        yield entry
        for pack in packs:
            if pack.array == array_name(entry.assignee):
                yield _packing(entry, pack, align)


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
    """Yield the arguments that are send buffers."""
    for pack in packs:
        yield ArrayArg(pack.name, arrays[pack.array].dtype, tuple(map(p.Variable, pack.extents)), order="C",
                       is_input=True, is_output=True)
