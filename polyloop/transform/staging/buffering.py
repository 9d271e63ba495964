"""Implementation of ``buffer_array``: the elements of the buffer, and the instructions that move them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import reduce as fold
from math import gcd

import islpy as isl
import pymbolic.primitives as p

from polyloop.dataflow.address_spaces import place
from polyloop.dataflow.value_flow import flow_of, is_exact
from polyloop.errors import Diagnostic, TransformError
from polyloop.expr.nodes import Expression
from polyloop.expr.rewrite import substitute, variables
from polyloop.kernel.instruction import Instruction, Move, MoveRole
from polyloop.kernel.kernel import LoopKernel
from polyloop.kernel.reads import with_reads
from polyloop.kernel.tags import parse_tag
from polyloop.mapping.thread_mapping import Placed, Placement
from polyloop.poly.affine import Affine, affine_of, to_expression
from polyloop.poly.sets import Row, add_rows, map_from_forms, universe
from polyloop.program.infer_types import infer_dtypes
from polyloop.program.ir import Access, Other
from polyloop.program.lower import loop_order
from polyloop.transform.loops.reorder import add_priority
from polyloop.transform.staging.plan import Filling, Plan, Temporary
from polyloop.transform.staging.redirect import replace_uses
from polyloop.transform.staging.staging import (
    Footprint,
    assign_auto,
    boxed,
    new_domain,
    out_of_bounds,
    subscripted,
)
from polyloop.transform.staging.uses import Use, expanded_to

_ONE = Affine((), 1)

__all__ = ["BufferPlan", "Transfer", "accessing", "buffered"]


@dataclass(frozen=True)
class Transfer:
    """An instruction that moves elements between an array and its buffer.

    Attributes
    ----------
    role
        Its part in the use of the buffer; None if there is no such instruction.
    expression
        The value with which the buffer begins, or in terms of ``base`` and ``buffer`` that of the element; None for a
        copy.
    """

    id: str
    role: MoveRole | None
    expression: Expression | None


@dataclass(frozen=True)
class BufferPlan:
    """Plan of a buffer over the loops ``inames``, which the instructions ``chosen`` access in place of the array."""

    array: str
    chosen: tuple[Instruction, ...]
    inames: tuple[str, ...]
    temporary: Temporary
    load: Transfer
    store: Transfer
    tag: str | None
    bounding_box: bool

    def staging(self) -> Plan:
        """Return the plan in the form that footprints and redirections take."""
        return Plan(self.array, False, self.inames, None, self.temporary, Filling(self.load.id, self.tag))


def accessing(kernel: LoopKernel, array: str) -> tuple[Instruction, ...]:
    """Return the instructions that assign elements of *array* or have them in their expressions."""
    return tuple(
        i
        for i in kernel.instructions
        if array in i.writes or array in variables(expanded_to(kernel, i.expression, array))
    )


def buffered(kernel: LoopKernel, plan: BufferPlan) -> LoopKernel:
    """Return *kernel* with the plan carried out; its arguments have been checked.

    Raises
    ------
    TransformError
        ``not-affine``, ``footprint-not-constant``, ``not-used``, ``out-of-bounds``.
    """
    common = fold(frozenset.intersection, (frozenset(i.inames) for i in plan.chosen)).difference(plan.inames)
    outer = loop_order([x for x in plan.chosen[0].inames if x in common], kernel.loop_priority)
    elements = _Elements(kernel, plan, outer)
    used, stored = elements.of(elements.accesses), elements.of(elements.writes)
    rank = len(kernel.arrays()[plan.array].shape or ())
    use = Use(plan.chosen[0], (), outer, plan.chosen[0].domain)
    whole = used if used is None else boxed(plan.staging(), used, outer, rank, use)
    if whole is None or isinstance(whole, Diagnostic):
        raise _refused(kernel, whole or _nothing(plan))
    box = _packed(whole, elements)
    filled = whole.domain if plan.bounding_box or plan.load.role is MoveRole.START else elements.loaded()
    moves: list[Instruction] = []
    result = kernel
    for transfer, domain, word in ((plan.load, filled, "init"), (plan.store, stored, "store")):
        if domain is None or domain.is_empty() or transfer.role is None:
            continue
        new = tuple(
            result.fresh(f"{plan.temporary.name}_{word}_{number}") if extent != _ONE else None
            for number, extent in enumerate(box.extents)
        )
        moves.append(_move(plan, transfer, box, domain, new))
        own = moves[-1].inames[len(outer) :]
        if not own:
            continue
        result = replace(result, domains=(*result.domains, new_domain(whole, own, moves[-1].domain)))
        if plan.tag is not None:
            tag = parse_tag(plan.tag)
            assert tag is not None, f"tag {plan.tag} was not checked"
            result = replace(result, iname_tags={**result.iname_tags, **dict.fromkeys(own, tag)})
    result = _with_moves(result, plan, box, moves)
    for move in moves:
        if (outside := out_of_bounds(kernel, result, move)) is not None:
            raise _refused(kernel, outside)
    chains = [(*outer, iname) for iname in plan.inames]
    result = add_priority(result, chains) if outer else result
    return infer_dtypes(assign_auto(result))


def _refused(kernel: LoopKernel, problem: Diagnostic) -> TransformError:
    return TransformError("buffer_array", kernel.name, [problem])


def _nothing(plan: BufferPlan) -> Diagnostic:
    return Diagnostic(
        "not-used",
        f"no instance accesses '{plan.array}' inside the loops of the buffer",
        hints=("there is nothing to buffer",),
        sites=(plan.chosen[0].site(),),
    )


class _Elements:
    """The elements of the array that the chosen instructions touch, for each iteration of the loops around."""

    def __init__(self, kernel: LoopKernel, plan: BufferPlan, outer: tuple[str, ...]) -> None:
        self.plan = plan
        self.outer = outer
        self.placement: Placement = place(kernel)
        ids = {instruction.id for instruction in plan.chosen}
        self.statements = [s for s in self.placement.statements.values() if s.lowered.instruction.id in ids]
        self.accesses = [
            (s, a, s.domain_of(a)) for s in self.statements for a in s.lowered.accesses if a.array == plan.array
        ]
        self.writes = [entry for entry in self.accesses if entry[0].lowered.is_write(entry[1])]
        for statement, access, _ in self.accesses:
            if not access.is_affine() or access.kind is Other.BOUND:
                raise _refused(kernel, _not_affine(plan, statement))

    def around(self, statement: Placed) -> list[Affine]:
        return [statement.forms.get(iname) or Affine.variable(iname) for iname in self.outer]

    def of(self, entries: Iterable[tuple[Placed, Access, isl.Set]]) -> isl.Set | None:
        """Return the elements accessed, over the outer loops and the axes of the array; None if there are none."""
        found: isl.Set | None = None
        for statement, access, domain in entries:
            forms = [*self.around(statement), *statement.indices(access)]
            image = map_from_forms(domain, statement.dims, forms).range()
            found = image if found is None else found.union(image)
        found = None if found is None else found.coalesce()
        return None if found is None or found.is_empty() else found

    def is_set_first(self, reads: Iterable[tuple[Placed, Access, isl.Set]]) -> bool:
        """Return whether an instruction writes the array before another one reads it, so that a look pays."""
        order = [instruction.id for instruction in self.plan.chosen]
        writers = [order.index(s.lowered.instruction.id) for s, _, _ in self.writes if not s.lowered.is_conditional]
        readers = [order.index(s.lowered.instruction.id) for s, _, _ in reads]
        return any(writer < reader for writer in writers for reader in readers)

    def loaded(self) -> isl.Set | None:
        """Return the elements that are read before they are written in an iteration of the loops around.

        What is written under a condition counts as read, since it is stored in any case.  Some more elements may be
        among them, all of which are read somewhere.
        """
        array = self.plan.array
        reads = [entry for entry in self.accesses if not entry[0].lowered.is_write(entry[1])]
        needed = [entry for entry in self.writes if not entry[0].lowered.is_unconditional(entry[1])]
        if not self.is_set_first(reads) or not is_exact(self.placement, array):
            return self.of([*reads, *needed])
        sinks = [(statement, access) for statement, access, _ in reads]
        flow = flow_of(self.placement, array, sinks) if sinks else None
        for number, (statement, access, everywhere) in enumerate(reads):
            assert flow is not None, "there are reads"
            domain = everywhere
            for writer, link in flow.sources[number]:
                if any(writer is other for other in self.statements):
                    here = map_from_forms(statement.domain, statement.dims, self.around(statement))
                    there = map_from_forms(writer.domain, writer.dims, self.around(writer))
                    same = link.intersect(here.apply_range(there.reverse()))
                    domain = domain.subtract(same.domain())
            needed.append((statement, access, domain))
        return self.of(needed)


def _not_affine(plan: BufferPlan, statement: Placed) -> Diagnostic:
    return Diagnostic(
        "not-affine",
        f"a subscript of '{plan.array}' is not affine, so its footprint is not known",
        hints=("only affine subscripts can be buffered",),
        sites=(statement.lowered.instruction.site(),),
    )


@dataclass(frozen=True)
class _Box:
    """The elements that have a place in the buffer: ``base + stride * x`` for ``0 <= x < extent``, for each axis."""

    outer: tuple[str, ...]
    bases: tuple[Affine, ...]
    strides: tuple[int, ...]
    extents: tuple[Affine, ...]


def _packed(footprint: Footprint, elements: _Elements) -> _Box:
    """Return the box with strides: residues that no subscript has are left out."""
    strides, extents = [], []
    for number, (base, extent) in enumerate(zip(footprint.bases, footprint.extents, strict=True)):
        stride = 0
        for _, access, _ in elements.accesses:
            form = access.indices[number]
            assert form is not None, "an access was not affine"
            offset = form.add(base, -1)
            stride = gcd(stride, offset.const, *(coefficient for _, coefficient in offset.terms))
        stride = stride if stride and not extent.terms else 1
        strides.append(stride)
        extents.append(extent if extent.terms else Affine((), (extent.const - 1) // stride + 1))
    return _Box(footprint.outer, footprint.bases, tuple(strides), tuple(extents))


def _move(
    plan: BufferPlan, transfer: Transfer, box: _Box, elements: isl.Set, new: tuple[str | None, ...]
) -> Instruction:
    """Return one move of *elements*; *new* are its inames, None for an axis along which there is one element."""
    assert transfer.role is not None, "there is no such instruction"
    own = tuple(iname for iname in new if iname is not None)
    forms = [
        base if iname is None else base.add(Affine.variable(iname), stride)
        for base, stride, iname in zip(box.bases, box.strides, new, strict=True)
    ]
    inames = (*box.outer, *own)
    whole = universe(elements, inames)
    there = map_from_forms(whole, inames, [*(Affine.variable(iname) for iname in box.outer), *forms])
    rows = [
        row
        for iname, extent in zip(new, box.extents, strict=True)
        if iname is not None
        for row in (Row(Affine.variable(iname)), Row(extent.add(Affine(((iname, 1),), 1), -1)))
    ]
    domain = add_rows(there.intersect_range(elements).domain(), inames, rows).coalesce()
    element = subscripted(plan.array, [to_expression(form) for form in forms])
    kept = subscripted(plan.temporary.name, [p.Variable(iname) for iname in own])
    assignee, expression = element, kept
    match transfer.role:
        case MoveRole.LOAD:
            assignee, expression = kept, element
        case MoveRole.START:
            assignee, expression = kept, transfer.expression
        case MoveRole.ADD:
            expression = substitute(transfer.expression, {"base": element, "buffer": kept})
        case MoveRole.STORE:
            pass
    neighbour = plan.chosen[0] if transfer is plan.load else plan.chosen[-1]
    return Instruction(
        id=transfer.id,
        inames=inames,
        domain=domain,
        assignee=assignee,
        expression=expression,
        origin=Move(plan.array, transfer.role, {str(number): form for number, form in enumerate(forms)}),
        blocks=tuple(entry for entry in neighbour.blocks if entry[0] in box.outer),
    )


def _with_moves(
    kernel: LoopKernel, plan: BufferPlan, box: _Box, moves: Sequence[Instruction]
) -> LoopKernel:
    def kept(arguments: Sequence[Expression]) -> Expression:
        indices = []
        for argument, base, stride, extent in zip(arguments, box.bases, box.strides, box.extents, strict=True):
            form = affine_of(argument)
            assert form is not None, "an access was not affine"
            if extent != _ONE:
                offset = form.add(base, -1)
                terms = tuple((name, coefficient // stride) for name, coefficient in offset.terms)
                indices.append(to_expression(Affine(terms, offset.const // stride)))
        return subscripted(plan.temporary.name, indices)

    by_id = {move.id: move for move in moves}
    ids = [instruction.id for instruction in plan.chosen]
    instructions: list[Instruction] = []
    for old in kernel.instructions:
        if old.id == ids[0] and plan.load.id in by_id:
            instructions.append(by_id[plan.load.id])
        instructions.append(_redirected(kernel, old, plan, kept) if old.id in ids else old)
        if old.id == ids[-1] and plan.store.id in by_id:
            instructions.append(by_id[plan.store.id])
    array = kernel.arrays()[plan.array]
    extents = [extent for extent in box.extents if extent != _ONE]
    shape = tuple(to_expression(extent) if extent.terms else extent.const for extent in extents)
    temporary = plan.temporary.declared(shape, array.dtype)
    result = replace(
        kernel,
        instructions=tuple(instructions),
        temporaries={**kernel.temporaries, plan.temporary.name: temporary},
        buffers={**kernel.buffers, plan.temporary.name: plan.array},
    )
    return with_reads(result)


def _redirected(
    kernel: LoopKernel, old: Instruction, plan: BufferPlan, kept: Callable[[Sequence[Expression]], Expression]
) -> Instruction:
    """Return an instruction that works on the buffer where it worked on the array."""
    everywhere = replace(plan.staging(), sweep=())
    inames = frozenset(old.inames)
    expression = replace_uses(expanded_to(kernel, old.expression, plan.array), everywhere, inames, kept)
    assignee = old.assignee
    if plan.array in old.writes:
        assignee = replace_uses(old.assignee, everywhere, inames, kept)
    return replace(old, assignee=assignee, expression=expression)
