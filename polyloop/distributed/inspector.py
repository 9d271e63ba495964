"""Inspectors: which elements of other ranks a phase reads, where data decides it.

::

    for i, e:  y[i] = sum(e, val[e]*x[col[e]])         x in blocks
    ->
    for i, e:  mark[col[e]] = 1                        on each rank, once a call

What is marked is what a rank needs.  It tells the owners, and each exchange brings these elements alone.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, TypeAlias

import islpy as isl
import numpy as np
import pymbolic.primitives as p

from polyloop.creation.create import complete_kernel
from polyloop.distributed.engines.engine import Engine
from polyloop.distributed.fields import Field, Storage
from polyloop.distributed.homes import Homes
from polyloop.distributed.local import Local, iname_domains, over_parameters
from polyloop.distributed.plan import Exchange, Plan
from polyloop.expr.nodes import Expression, array_name
from polyloop.expr.rewrite import children, reductions, variables
from polyloop.frozen import replace
from polyloop.kernel.arrays import Argument, ArrayArg, ValueArg
from polyloop.kernel.domains import align
from polyloop.kernel.instruction import Copy, Instruction, Term
from polyloop.kernel.kernel import LoopKernel
from polyloop.poly.affine import Affine
from polyloop.poly.sets import parameter_space

__all__ = ["Gather", "Inspector", "inspector_of", "is_selected", "lists_of", "moved"]

_PARAM = isl.dim_type.param
_Array: TypeAlias = Any


@dataclass(frozen=True, eq=False)
class Inspector:
    """A kernel that marks what a phase reads through a window.

    Attributes
    ----------
    kernel
        It sets elements of ``mark``, an array with ``extent`` elements, to 1.
    place
        The divided axis of the array.
    origin
        Parameter of the kernel that has the first index of the window: 0, as all elements have a mark.
    """

    kernel: LoopKernel
    place: int
    mark: str
    extent: str
    origin: str


@dataclass(frozen=True, eq=False)
class Gather:
    """Indices along the divided axis of an array that a rank reads, sends and receives.

    Attributes
    ----------
    place
        The axis.
    hull
        First index of those that are read, and the one behind the last.
    own
        Indices that the rank owns itself; a range where they are one behind the other.
    sends, receives
        Other rank -> indices, upward.
    listed
        Bytes of the lists that this rank sent.
    """

    place: int
    hull: tuple[int, int]
    own: _Array
    sends: Mapping[int, _Array]
    receives: Mapping[int, _Array]
    listed: int


def inspector_of(plan: Plan, local: Local, exchange: Exchange) -> Inspector | None:
    """Return the inspector of an exchange; None where data does not decide, or may change between iterations.

    Subscripts have to be read from arguments that the program does not write, by the same instances in all iterations
    of the loops around.
    """
    entry = exchange.field
    places = [place for place, axis in enumerate(entry.axes) if axis is not None]
    if len(places) != 1 or (entry.name, places[0]) not in local.origins or not exchange.is_fixed:
        return None
    return _Making(plan, local, entry, places[0]).result()


def is_selected(homes: Homes, exchange: Exchange) -> bool:
    """Return whether data selects the elements that are read through the window of an exchange."""
    entry = exchange.field
    return entry.storage is Storage.WINDOW and any(
        access.array == entry.array and any(form is None and axis is not None for form, axis in zip(
            access.indices, entry.axes, strict=True))
        for name in exchange.readers for statement in homes.statements(name) for access in statement.reads)


@dataclass(eq=False)
class _Making:
    plan: Plan
    local: Local
    field: Field
    place: int

    def result(self) -> Inspector | None:
        reference = self.local.kernel.reference
        assert reference is not None, "the kernel of a phase is complete"
        base = reference.kernel
        found: list[tuple[Instruction, tuple[str, ...], isl.Set, Expression]] = []
        for entry in base.instructions:
            own = [*self.accesses(entry)]
            if any(place is None for place in own):
                return None
            found += [(entry, *place) for place in own if place is not None]
        if all(variables(index).isdisjoint(base.arrays()) for *_, index in found):
            return None
        mark = base.fresh("mark")
        extent = base.fresh("mark_n", [mark])
        marks = [self.marking(number, mark, *place) for number, place in enumerate(found)]
        kept = self.kept(base, marks)
        if kept is None:
            return None
        instructions = (*kept, *marks)
        used = frozenset[str]().union(*(_used(entry) for entry in instructions)) | {extent}
        arguments = [entry for entry in base.arguments if entry.name in used]
        used |= {name for entry in arguments if isinstance(entry, ArrayArg) for dim in entry.shape or ()
                 for name in variables(dim)}
        hosts = self.local.phase.hosts
        if not used.isdisjoint(hosts) or not all(_is_same(active, hosts) for active in self.local.active.values()):
            return None
        known = {entry.name for entry in arguments}
        scalars = [entry for entry in base.arguments if entry.name in used and entry.name not in known]
        new: list[Argument] = [
            ArrayArg(mark, np.dtype(np.int8), (p.Variable(extent),), order="C", is_input=True, is_output=True),
            ValueArg(extent, base.index_dtype)]
        parameters = (*(name for name in base.parameters if name in used), extent)
        kernel = replace(
            base, name=f"{base.name}_marks", instructions=instructions, arguments=(*arguments, *scalars, *new),
            parameters=parameters, assumptions=over_parameters(base.assumptions, parameter_space(parameters)),
            temporaries={name: entry for name, entry in base.temporaries.items() if name in used},
            domains=tuple(iname_domains(instructions)), conditions=(), substitutions={})
        origin = self.local.origins[self.field.name, self.place]
        return Inspector(complete_kernel(kernel, None), self.place, mark, extent, origin)

    def accesses(self, entry: Instruction) -> Iterator[tuple[tuple[str, ...], isl.Set, Expression] | None]:
        """Yield the instances and the subscript of each read through the field; None for one under a condition."""
        terms = [*zip(reductions(entry.expression), entry.terms, strict=True)]

        def visit(node: Expression, around: Term | None, *, is_sure: bool) -> Iterator[
                tuple[tuple[str, ...], isl.Set, Expression] | None]:
            if isinstance(node, p.Subscript) and array_name(node) == self.field.name:
                inames, domain = (entry.inames, entry.domain) if around is None else (around.inames, around.domain)
                yield (inames, domain, node.index_tuple[self.place]) if is_sure else None
            inner = next((term for other, term in terms if other is node), around)
            for child in children(node):
                yield from visit(child, inner, is_sure=is_sure and not isinstance(node, p.If))

        for expression in (entry.expression, *entry.predicates):
            yield from visit(expression, None, is_sure=not entry.predicates)

    def marking(
        self, number: int, mark: str, entry: Instruction, inames: tuple[str, ...], domain: isl.Set, index: Expression
    ) -> Instruction:
        """Return the instruction that marks what an access reads."""
        name = f"{mark}_{number}"
        return replace(
            entry, id=name, inames=inames, domain=domain, terms=(), predicates=(), atomic=False,
            assignee=p.Subscript(p.Variable(mark), index), expression=1, origin=Copy(
                name, {iname: Affine.variable(iname) for iname in inames}),
            reads=(variables(index) | {*_involved(domain)}) - {*inames}, conflicts=frozenset(), groups=frozenset())

    def kept(self, base: LoopKernel, marks: Sequence[Instruction]) -> tuple[Instruction, ...] | None:
        """Return the instructions that set what subscripts and bounds use, None if these depend on what is computed."""
        written = {entry.name for entry in self.plan.regions.homes.kernel.arguments
                   if isinstance(entry, ArrayArg) and entry.is_output}
        wanted = frozenset[str]().union(*(_used(entry) for entry in marks)) - {array_name(marks[0].assignee)}
        while True:
            found = [entry for entry in base.instructions if array_name(entry.assignee) in wanted]
            more = wanted.union(*(_used(entry) for entry in found))
            if more == wanted:
                break
            wanted = more
        arrays = {entry.name for entry in base.arguments if isinstance(entry, ArrayArg)}
        programs = {entry.name: entry.array for entry in self.local.fields}
        if any(programs.get(name, name) in written or programs.get(name, name) not in
               {entry.name for entry in self.plan.regions.homes.kernel.arguments} for name in wanted & arrays):
            return None
        return tuple(found)


def lists_of(
    plan: Plan, engine: Engine, position: tuple[int, ...], array: str, inspected: tuple[int, np.ndarray[Any, Any]],
    example: _Array,
) -> Gather:  # fmt: skip
    """Return the lists of ranks, from the axis and the indices that each needs; all ranks call it."""
    place, needed = inspected
    regions = plan.regions
    axis = regions.axes(array)[place]
    assert axis is not None, "the axis is divided"
    coordinates = needed // regions.blocks[axis]
    wanted: dict[int, np.ndarray[Any, Any]] = {}
    for coordinate in range(regions.mesh[axis]):
        mine = needed[coordinates == coordinate]
        if len(mine):
            wanted[regions.number((*position[:axis], coordinate, *position[axis + 1 :]))] = mine
    me = regions.number(position)
    own = wanted.pop(me, needed[:0])
    mine_text = json.dumps({peer: len(entry) for peer, entry in wanted.items()})
    counts = [json.loads(text) for text in engine.all_gather(mine_text)]
    requests = {peer: _like(example, entry) for peer, entry in wanted.items()}
    asked = {peer: _like(example, np.empty(found[str(me)], np.int64))
             for peer, found in enumerate(counts) if str(me) in found}
    engine.start([*requests.items()], [*asked.items()])()
    hull = (int(needed[0]), int(needed[-1]) + 1) if len(needed) else (0, 1)
    listed = sum(entry.nbytes for entry in wanted.values())
    is_dense = len(own) > 0 and int(own[-1]) - int(own[0]) + 1 == len(own)
    held = range(int(own[0]), int(own[-1]) + 1) if is_dense else _like(example, own)
    return Gather(place, hull, held, asked, requests, listed)


def moved(indices: range | _Array, by: int) -> slice | _Array:
    """Return indices less a number: a slice for a range."""
    return slice(indices.start - by, indices.stop - by) if isinstance(indices, range) else indices - by


def _like(example: _Array, array: np.ndarray[Any, Any]) -> _Array:
    """Return indices as an array of the library and the device of *example*."""
    array = np.ascontiguousarray(array, np.int64)
    if isinstance(example, np.ndarray):
        return array
    library: Any = import_module("torch")
    return library.from_numpy(array).to(example.device)


def _used(entry: Instruction) -> frozenset[str]:
    found = variables(entry.expression) | variables(entry.assignee)
    sets = (entry.domain, *(term.domain for term in entry.terms))
    return found.union(*map(variables, entry.predicates), *({*_involved(domain)} for domain in sets))


def _involved(domain: isl.Set) -> Iterator[str]:
    for place in range(domain.dim(_PARAM)):
        if domain.involves_dims(_PARAM, place, 1):
            yield domain.get_dim_name(_PARAM, place) or ""


def _is_same(active: isl.Set, hosts: Sequence[str]) -> bool:
    """Return whether coordinates are the same in all iterations of the loops of the host."""
    around, free = active.params(), active
    for name in hosts:
        if (place := free.find_dim_by_name(_PARAM, name)) >= 0:
            free = free.project_out(_PARAM, place, 1)
    return bool(align(free, active).intersect_params(around).is_equal(align(active, free)))
