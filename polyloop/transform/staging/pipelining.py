"""Implementation of ``pipeline``: multi-buffered copies ahead of their use."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum

import islpy as isl
import pymbolic.primitives as p

from polyloop.dataflow.address_spaces import place
from polyloop.expr.nodes import Expression
from polyloop.expr.rewrite import substitute, variables
from polyloop.kernel.arrays import AddressSpace, TemporaryVariable
from polyloop.kernel.instruction import CopyStep, Evaluation, Instruction, Term
from polyloop.kernel.kernel import LoopKernel
from polyloop.kernel.layout import DimTag, Nested
from polyloop.kernel.tags import Box, axis_name
from polyloop.poly.affine import Affine, affine_of, to_expression
from polyloop.poly.sets import constant_bounds, map_from_forms
from polyloop.transform.layout.privatize import with_indices
from polyloop.transform.loops.auto_local import assign_auto
from polyloop.transform.loops.merge import renaming
from polyloop.transform.loops.remap import remap_inames
from polyloop.transform.staging.staging import subscripted

__all__ = ["Rotation", "Via", "copied_inames", "own_inames", "piped", "sliding"]


class Via(Enum):
    """Path of values to their buffer."""

    SHARED = "shared"
    """As before, in one step."""
    REGISTERS = "registers"
    """Read at the beginning of an iteration, held in registers, stored at its end."""
    CP_ASYNC = "cp.async"
    """By asynchronous copies, which are waited for at the end of an iteration."""
    TMA = "tma"
    """By copies of whole boxes, each started by one thread."""


@dataclass(frozen=True)
class Rotation:
    """The temporary ``buffer``, set by the instruction ``producer`` in loop ``iname``, gets ``stages`` places."""

    buffer: str
    producer: str
    iname: str
    stages: int
    window: int | None = None
    """The axis along which the buffer slides with the loop, if it does."""
    lag: int = 0
    """Iterations that products with operands in a buffer run on; these are held besides the one in use."""

    @property
    def distance(self) -> int:
        """Prefetch distance [iterations]."""
        return 1 if self.is_refilled else self.stages - 1 - self.lag

    @property
    def is_refilled(self) -> bool:
        """True if the one place of the buffer is filled for the next iteration when this one has read it."""
        return self.stages == 1 and self.window is None


def moved_ahead(instruction: Instruction, iname: str, distance: int) -> Instruction:
    """Return *instruction* with each of its instances *distance* iterations of loop *iname* earlier."""
    later = Affine.variable(iname).add(Affine((), distance))
    values = {iname: to_expression(later)}

    def domain(old: isl.Set, dims: Sequence[str]) -> isl.Set:
        forms = [Affine.variable(x).add(Affine((), -distance if x == iname else 0)) for x in dims]
        new = map_from_forms(old, dims, forms).range()
        for position, name in enumerate(dims):
            new = new.set_dim_name(isl.dim_type.set, position, name)
        return new

    origin = instruction.origin
    forms = {name: form.substitute({iname: later}) for name, form in origin.forms.items()}
    return replace(
        instruction,
        domain=domain(instruction.domain, instruction.inames),
        assignee=substitute(instruction.assignee, values),
        expression=substitute(instruction.expression, values),
        predicates=tuple(substitute(predicate, values) for predicate in instruction.predicates),
        terms=tuple(Term(term.inames, domain(term.domain, term.inames)) for term in instruction.terms),
        origin=replace(origin, forms=forms),
    )


def rotated(kernel: LoopKernel, rotation: Rotation, space: AddressSpace) -> LoopKernel:
    """Return *kernel* with an axis more of the buffer, which is in *space*: each iteration uses its next place."""
    if rotation.stages == 1:
        return kernel
    place = p.Remainder(p.Variable(rotation.iname), rotation.stages)
    kernel = with_indices(kernel, rotation.buffer, lambda indices: (place, *indices))
    old = kernel.temporaries[rotation.buffer]
    assert old.shape is not None, "the shape was not checked"
    tags: tuple[DimTag, ...] | None = None
    if old.dim_tags is not None:
        tags = (Nested(len(old.dim_tags)), *old.dim_tags)
    new = replace(old, shape=(rotation.stages, *old.shape), address_space=space, dim_tags=tags)
    return replace(kernel, temporaries={**kernel.temporaries, rotation.buffer: new})


def sliding(kernel: LoopKernel, rotation: Rotation) -> tuple[str, int] | None:
    """Return the iname along the axis that slides and its extent, None if the buffer does not slide.

    It does if the element at one place is that of the next place in the iteration before.
    """
    producer = kernel.instruction(rotation.producer)
    shape = kernel.temporaries[rotation.buffer].shape or ()
    indices = producer.assignee.index_tuple if isinstance(producer.assignee, p.Subscript) else ()
    if rotation.window is None or not 0 <= rotation.window < len(indices):
        return None
    index, extent = indices[rotation.window], shape[rotation.window]
    if not isinstance(index, p.Variable) or not isinstance(extent, int):
        return None
    back = {rotation.iname: Affine.variable(rotation.iname).add(Affine((), -1)),
            index.name: Affine.variable(index.name).add(Affine((), 1))}  # fmt: skip
    if any(index.name in variables(other) for other in indices if other is not index):
        return None
    if not isinstance(producer.expression, p.Subscript):
        return None
    forms = [affine_of(part) for part in producer.expression.index_tuple]
    slides = all(form is not None and form.substitute(back) == form for form in forms)
    return (index.name, extent) if slides else None


def _slid(kernel: LoopKernel, rotation: Rotation, space: AddressSpace) -> LoopKernel:
    """Return *kernel* with a buffer of which each iteration fills one place along an axis, and keeps the others.

    The first iterations before the loop's own fill the places that its first one finds.
    """
    found = sliding(kernel, rotation)
    assert found is not None, "the window was not checked"
    assert rotation.window is not None, "a window slides along an axis"
    (iname, extent), axis = found, rotation.window
    count = extent + rotation.stages - 1
    here = p.Variable(rotation.iname)

    def place(indices: tuple[Expression, ...]) -> tuple[Expression, ...]:
        where = affine_of(p.Sum((here, indices[axis])))
        assert where is not None, "the subscripts were not checked"
        return (*indices[:axis], p.Remainder(to_expression(where), count), *indices[axis + 1 :])

    kernel = with_indices(kernel, rotation.buffer, place)
    old = kernel.temporaries[rotation.buffer]
    shape = old.shape or ()
    new = replace(old, shape=(*shape[:axis], count, *shape[axis + 1 :]), address_space=space)
    kernel = replace(kernel, temporaries={**kernel.temporaries, rotation.buffer: new})
    return _with(kernel, _newest(kernel.instruction(rotation.producer), rotation.iname, iname, extent))


def _newest(producer: Instruction, iname: str, along: str, extent: int) -> Instruction:
    """Return *producer* of the last place along *along* alone, in as many more iterations before the first."""
    dims = tuple(x for x in producer.inames if x != along)
    time = Affine.variable(iname).add(Affine.variable(along)).add(Affine((), 1 - extent))
    domain = map_from_forms(
        producer.domain, producer.inames, [time if x == iname else Affine.variable(x) for x in dims]
    ).range()
    for position, name in enumerate(dims):
        domain = domain.set_dim_name(isl.dim_type.set, position, name)
    last = {along: Affine((), extent - 1)}
    values = {name: to_expression(form) for name, form in last.items()}
    forms = {name: form.substitute(last) for name, form in producer.origin.forms.items()}
    return replace(
        producer,
        inames=dims,
        domain=domain,
        assignee=substitute(producer.assignee, values),
        expression=substitute(producer.expression, values),
        origin=replace(producer.origin, forms=forms),
    )


def copied_inames(kernel: LoopKernel, producer: Instruction, iname: str) -> tuple[str, ...]:
    """Return the loops of a producer inside loop *iname*, which hardware axes are not."""
    inside = producer.inames[producer.inames.index(iname) + 1 :]
    return tuple(x for x in inside if axis_name(kernel.tag(x)) is None)


def piped(kernel: LoopKernel, rotations: Sequence[Rotation], via: Via) -> LoopKernel:
    """Return *kernel* with producers running ahead."""
    spaces = place(assign_auto(kernel)).spaces
    first = rotations[0].producer
    helpers = _helpers(kernel, rotations)
    if via is Via.TMA:
        kernel = _boxed(kernel, rotations)
    for rotation in rotations:
        turn = rotated if rotation.window is None else _slid
        kernel = turn(kernel, rotation, spaces[rotation.buffer])
        old = kernel.instruction(rotation.producer)
        ahead = moved_ahead(old, rotation.iname, rotation.distance)
        match via:
            case Via.SHARED:
                kernel = _with(kernel, ahead)
            case Via.REGISTERS:
                kernel = _through_registers(kernel, rotation, old, ahead, first)
            case Via.CP_ASYNC | Via.TMA:
                kernel = _asynchronous(kernel, rotation, old, ahead, first)
                kernel = _refilled(kernel, rotation) if rotation.is_refilled else kernel
    for helper in helpers:
        kernel = _with(kernel, moved_ahead(kernel.instruction(helper), rotations[0].iname, rotations[0].distance))
    return kernel


def _boxed(kernel: LoopKernel, rotations: Sequence[Rotation]) -> LoopKernel:
    """Return *kernel* with producers that one thread executes: their own loops are boxes."""
    inside = (own_inames(kernel, kernel.instruction(rotation.producer)) for rotation in rotations)
    boxes = dict.fromkeys((x for names in inside for x in names), Box())
    return replace(kernel, iname_tags={**kernel.iname_tags, **boxes})


def own_inames(kernel: LoopKernel, producer: Instruction) -> tuple[str, ...]:
    """Return the inames of a producer that no other instruction has, those on hardware axes too."""
    others = [other for other in kernel.instructions if other is not producer]
    used = {x for other in others for x in (*other.inames, *(x for term in other.terms for x in term.inames))}
    return tuple(x for x in producer.inames if x not in used)


def _helpers(kernel: LoopKernel, rotations: Sequence[Rotation]) -> list[str]:
    """Return the fillers of temporaries that only the producers read, transitively."""
    found = [rotation.producer for rotation in rotations]
    count = len(found)
    for name in found:
        for read in sorted(kernel.instruction(name).reads & kernel.evaluations.keys()):
            filler = kernel.evaluations[read]
            readers = {other.id for other in kernel.instructions if read in other.reads}
            inside = rotations[0].iname in kernel.instruction(filler).inames
            if inside and filler not in found and readers <= set(found):
                found.append(filler)
    return found[count:]


def _with(kernel: LoopKernel, changed: Instruction) -> LoopKernel:
    instructions = (changed if old.id == changed.id else old for old in kernel.instructions)
    return replace(kernel, instructions=tuple(instructions))


def _through_registers(
    kernel: LoopKernel, rotation: Rotation, old: Instruction, ahead: Instruction, first: str
) -> LoopKernel:
    """Return *kernel* with the values of *old* read *ahead* into registers, and stored where *old* was to run."""
    loops = copied_inames(kernel, old, rotation.iname)
    indices: list[Expression] = []
    shape: list[Expression] = []
    for iname in loops:
        low, high = constant_bounds(old.domain, old.inames.index(iname))
        assert low is not None, "the extents were not checked"
        assert high is not None, "the extents were not checked"
        indices.append(to_expression(Affine.variable(iname).add(Affine((), -low))))
        shape.append(high - low + 1)
    buffer = kernel.temporaries[rotation.buffer]
    name = kernel.fresh(f"{rotation.buffer}_next")
    held = subscripted(name, indices)
    temporary = TemporaryVariable(name, buffer.dtype, tuple(shape), AddressSpace.PRIVATE)
    load = replace(ahead, assignee=held, origin=Evaluation(rotation.buffer, ahead.origin.forms))
    store = replace(
        old, id=_fresh_id(kernel, f"store_{rotation.buffer}"), expression=held, terms=(), reads=frozenset({name}),
        origin=Evaluation(name) if isinstance(old.origin, Evaluation) else old.origin,
    )  # fmt: skip
    kernel = replace(
        kernel,
        temporaries={**kernel.temporaries, name: temporary},
        evaluations={**kernel.evaluations, name: load.id},
    )
    return _finished(_with(kernel, load), rotation, store, loops, first)


def _asynchronous(
    kernel: LoopKernel, rotation: Rotation, old: Instruction, ahead: Instruction, first: str
) -> LoopKernel:
    """Return *kernel* with copies that are started *ahead*, and waited for where *old* was to run."""
    start = replace(ahead, step=CopyStep.START, origin=Evaluation(rotation.buffer, ahead.origin.forms))
    arrival = replace(old, id=_fresh_id(kernel, f"arrival_{rotation.buffer}"), step=CopyStep.ARRIVAL)
    loops = copied_inames(kernel, old, rotation.iname)
    return _finished(_with(kernel, start), rotation, arrival, loops, first)


def _refilled(kernel: LoopKernel, rotation: Rotation) -> LoopKernel:
    """Return *kernel* with copies to the one place of a buffer that start behind all that reads it."""
    start = kernel.instruction(rotation.producer)
    others = [old for old in kernel.instructions if old is not start]
    behind = 1 + max(n for n, old in enumerate(others) if rotation.buffer in old.reads)
    return replace(kernel, instructions=(*others[:behind], start, *others[behind:]))


def _finished(
    kernel: LoopKernel, rotation: Rotation, last: Instruction, loops: Sequence[str], first: str
) -> LoopKernel:
    """Return *kernel* with *last*, which sets the buffer, inserted before *first* in new copies of *loops*."""
    at = next(n for n, old in enumerate(kernel.instructions) if old.id == first)
    kernel = replace(kernel, instructions=(*kernel.instructions[:at], last, *kernel.instructions[at:]))
    if rotation.buffer in kernel.evaluations:
        kernel = replace(kernel, evaluations={**kernel.evaluations, rotation.buffer: last.id})
    names: dict[str, str] = {}
    for iname in loops:
        names[iname] = kernel.fresh(f"{iname}_s", names.values())
    if not names:
        return kernel
    kernel = remap_inames(kernel, renaming(kernel, names), {last.id})
    tags = {new: kernel.iname_tags[old] for old, new in names.items() if old in kernel.iname_tags}
    return replace(kernel, iname_tags={**kernel.iname_tags, **tags})


def _fresh_id(kernel: LoopKernel, wish: str) -> str:
    return kernel.fresh(wish, {instruction.id for instruction in kernel.instructions})
