"""Correspondence of a transformed program with its reference program: the original of each statement and read.

A *copy* is a statement whose instruction has ``Copy`` or ``Partial`` as its origin.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from functools import cached_property
from itertools import takewhile

import islpy as isl
import numpy as np
import pymbolic.primitives as p

from polyloop.dataflow.address_spaces import place
from polyloop.dataflow.pass_through import definitions
from polyloop.dataflow.value_flow import Flow, flow_of, known_flow, readers_of, writes_of
from polyloop.expr.nodes import Expression, Operation, array_name
from polyloop.expr.records import leaf_fields
from polyloop.kernel.domains import parameters_of
from polyloop.kernel.instruction import Carry, Copy, Partial
from polyloop.kernel.kernel import LoopKernel, memoised
from polyloop.mapping.thread_mapping import Placed, Placement
from polyloop.poly.affine import Affine
from polyloop.program.ir import Access, Assign, Combine, Init, Kept, Lowered, Other, Update, leaf_count
from polyloop.program.reference import instruction_tree
from polyloop.verification.unbuffered import unbuffered

__all__ = [
    "Comparison",
    "comparison_of",
    "copies",
    "initial_reads",
    "operation_of",
    "original_leaves",
    "original_read",
    "reference_flow",
]


class Comparison:
    """A transformed program (``new``) beside its reference program (``old``)."""

    def __init__(self, kernel: LoopKernel) -> None:
        reference = kernel.reference
        assert reference is not None, "a reference program has no reference"
        self.kernel = kernel
        self.old = place(reference.kernel)
        assert instruction_tree(self.old.program) == reference.tree, "the reference program has other loops"
        self.flows: dict[str, Flow] = {}
        self.counterparts: dict[str, Placed | None] = {}

    @cached_property
    def new(self) -> Placement:
        """The transformed program, with accesses to buffers as accesses to their arrays (:func:`unbuffered`)."""
        return unbuffered(self.kernel)

    def flow(self, array: str) -> Flow:
        """Return the transformed program's dataflow of *array*, which must be exact.

        Values that one launch saves and another reloads are traced back to their writes.
        """
        if array not in self.flows:
            self.flows[array] = _carried(self.new, known_flow(self.new, array))
        return self.flows[array]

    def counterpart(self, statement: Placed) -> Placed:
        """Return the original of *statement*, a copy that must have one (see :meth:`combines`)."""
        found = self._counterpart(statement)
        assert found is not None, f"{statement.name} combines partial results, as no statement of the program does"
        return found

    def stands_for(self, statement: Placed, reference: Placed) -> bool:
        """Return True if *reference* is the original of *statement*, a copy."""
        return self._counterpart(statement) is reference

    def combines(self, statement: Placed) -> bool:
        """Return True if *statement*, a copy, belongs to a reduction of partial results that a transform made.

        Such a reduction has no accumulator in the reference program, and its statements have no originals.
        """
        return self._counterpart(statement) is None

    def part_of(self, value: Expression) -> tuple[str, int] | None:
        """Return the key of the reference reduction whose partial sum a variable holds, None if it holds none."""
        if not isinstance(value, p.Variable | p.Subscript):
            return None
        name = array_name(value)
        if name in self.kernel.evaluations:
            fills = [i for i in self.kernel.instructions if i.id == self.kernel.evaluations[name]]
            return self.part_of(fills[0].expression) if fills else None
        return self.kernel.partials.get(name)

    def _counterpart(self, statement: Placed) -> Placed | None:
        """Return the original of *statement*, a copy; None if it has none (see :meth:`combines`)."""
        lowered = statement.lowered
        origin = lowered.instruction.origin
        assert isinstance(origin, Copy | Partial), "only a copy has a counterpart"
        if statement.name not in self.counterparts:
            old = _by_instruction(self.old)[origin.instruction]
            found: Placed | None
            kind = Init if isinstance(lowered.part, Combine) else type(lowered.part)  # both run once for each result
            if isinstance(origin, Partial):
                alike = (s for s in old if isinstance(s.lowered.part, kind))
                found = next(s for s in alike if s.lowered.number in (None, origin.number))
            elif isinstance(lowered.part, Assign):
                found = next(s for s in old if isinstance(s.lowered.part, Assign))
            else:
                found = self._update_like(statement, [s for s in old if isinstance(s.lowered.part, Update)])
                if found is not None and kind is Init:
                    array = found.lowered.write.array
                    found = next(s for s in old if isinstance(s.lowered.part, Init) and s.lowered.writes_to(array))
            self.counterparts[statement.name] = found
        return self.counterparts[statement.name]

    def _update_like(self, statement: Placed, candidates: list[Placed]) -> Placed | None:
        """Return the update in the reference program for an init or update, None if it combines partial results.

        Another reduction of the instruction may have been moved into a temporary, so the order of reductions does not
        identify them.  The inames do, and where they are ambiguous, the reads.
        """
        origin = statement.lowered.instruction.origin
        assert isinstance(origin, Copy), "only a copy has a counterpart"
        group = [s for s in self.new.statements.values() if s.lowered.instruction is statement.lowered.instruction]
        updates = [s for s in group if isinstance(s.lowered.part, Update)]
        mine = next(s for s in updates if s.lowered.number == statement.lowered.number)
        inames = {*mine.lowered.inames, *mine.lowered.fixed}
        operation = operation_of(mine)
        part = self.part_of(mine.lowered.rhs) if operation.of_states else None
        if part is not None and part[0] == origin.instruction:
            return next(c for c in candidates if c.lowered.number == part[1])
        candidates = [c for c in candidates if operation_of(c).of_states == operation.of_states]
        candidates = [c for c in candidates if origin.forms.keys() >= {*c.lowered.inames}]  # others have no copy here
        # The original is a function of the copy's inames, and so is each reduction around it: the innermost one, which
        # uses the most of these inames, is the original.
        used = {c.name: {x for i in c.lowered.inames for x in origin.forms[i].names()} & inames for c in candidates}
        inside = [c for c in candidates if all(_known(origin.forms[i], inames, mine) for i in c.lowered.inames)]
        if operation.of_states:
            return next((c for c in inside if used[c.name].issuperset(mine.lowered.own)), None)
        most = max((len(used[c.name]) for c in inside), default=0)
        fitting = [c for c in inside if len(used[c.name]) == most]
        if len(fitting) < 2:
            return fitting[0] if fitting else None
        for access in mine.lowered.reads:
            if access.leaf is not None and access.array not in self.kernel.evaluations:
                number, leaves = _number_of_leaf(self, mine, access), original_leaves(self, origin)
                here = self.old.statements[leaves[number][0].name] if number < len(leaves) else None
                return here if here in fitting else None  # texts with other operands have no originals
        alike = [u for u in updates if {*u.lowered.inames, *u.lowered.fixed} == inames]
        return dict(zip(alike, fitting, strict=False)).get(mine)


def operation_of(statement: Placed) -> Operation:
    """Return the operation of a statement of a reduction."""
    reduction = statement.lowered.reduction
    assert reduction is not None, f"{statement.name} belongs to no reduction"
    return reduction.operation


@memoised
def comparison_of(kernel: LoopKernel) -> Comparison:
    """Return the comparison of *kernel* with its reference program, one object for each kernel: it caches dataflow."""
    return Comparison(kernel)


def _carried(placement: Placement, flow: Flow) -> Flow:
    """Return *flow* with statements that save and reload values replaced by the writers of these values."""
    if not any(_carries(source) for sources in flow.sources for source, _ in sources):
        return flow
    seen = [definitions(placement, s, a, s.domain_of(a).identity(), _carries) for s, a in flow.reads]
    return Flow(flow.reads, tuple(tuple(found) for found, _ in seen), tuple(unwritten for _, unwritten in seen))


def _carries(statement: Placed) -> bool:
    return isinstance(statement.lowered.instruction.origin, Carry)


def _known(form: Affine, inames: Collection[str], statement: Placed) -> bool:
    """Return True if *form* uses only *inames* and parameters of *statement*."""
    return form.names() <= {*inames, *parameters_of(statement.domain)}


def reference_flow(placement: Placement, array: str) -> Flow:
    """Return the reference program's dataflow of *array*, which must be exact."""
    return known_flow(placement, array)


def initial_reads(
    placement: Placement, array: str, dtype: np.dtype[np.generic] | None
) -> Iterator[tuple[Placed, Access, isl.Set]]:
    """Yield the reads of *array* that see its initial value, each with such instances; accesses must be exact.

    Each field of a record is analysed by itself, and an assignment of one field reads none of the others.
    """
    reads = [(s, a) for s, a in readers_of(placement, array) if not isinstance(a.kind, Kept)]
    writes = writes_of(placement, array)
    has_fields = any(write.fields for _, write in writes)
    fields: Iterable[tuple[str, ...]] = [()]
    if has_fields and dtype is not None:
        fields = leaf_fields(dtype)
    elif has_fields:
        named = {access.fields for access in (*(a for _, a in reads), *(a for _, a in writes))}
        fields = sorted((named - {()}) | {("(the rest)",)})
    for field in fields:
        if has_fields:
            sinks = [(s, a) for s, a in reads if a.covers(field)]
            flow = flow_of(placement, array, sinks, [s for s, write in writes if write.covers(field)])
        else:
            flow = reference_flow(placement, array)
        if flow.is_direct:
            continue
        for (statement, access), initial in zip(flow.reads, flow.initial, strict=True):
            if not initial.is_empty():
                yield statement, access, initial


def original_read(comparison: Comparison, reader: Placed, access: Access) -> tuple[Placed, Access]:
    """Return the original, a statement and a read, of a read of a copy."""
    instruction = reader.lowered.instruction
    origin = instruction.origin
    assert isinstance(origin, Copy | Partial), "only a copy has a reference read"
    if access.kind is Other.BOUND:
        same = comparison.counterpart(reader)
        found = next((a for a in same.lowered.reads if a.kind is Other.BOUND and a.array == access.array), None)
        assert found is not None, f"'{access.array}' bounds {reader.name}, but not {same.name}"
        return same, found
    statement, original = original_leaves(comparison, origin)[_number_of_leaf(comparison, reader, access)]
    return comparison.old.statements[statement.name], original


def _number_of_leaf(comparison: Comparison, reader: Placed, access: Access) -> int:
    """Return the number of a read of a copy among the reads of its original."""
    old, new = comparison.old.program, comparison.new.program
    leaves = (candidate for _, candidate in new.leaves(reader.lowered.instruction.id))
    return sum(leaf_count(new, old, candidate) for candidate in takewhile(lambda x: x is not access, leaves))


def original_leaves(comparison: Comparison, origin: Copy | Partial) -> list[tuple[Lowered, Access]]:
    """Return the numbered reads of the original of a copy; for a partial sum, those of its reduction."""
    leaves = comparison.old.program.leaves(origin.instruction)
    if isinstance(origin, Partial):
        return [entry for entry in leaves if entry[0].number == origin.number]
    return leaves


def copies(comparison: Comparison, reference: Placed) -> Iterator[Placed]:
    """Yield the transformed statements that execute instances of *reference*."""
    for statement in _copies_by_instruction(comparison.new).get(reference.lowered.instruction.id, ()):
        if not isinstance(statement.lowered.part, Combine) and comparison.stands_for(statement, reference):
            yield statement


@memoised
def _by_instruction(placement: Placement) -> dict[str, list[Placed]]:
    """Return the statements of each instruction, in their order."""
    found: dict[str, list[Placed]] = {}
    for statement in placement.statements.values():
        found.setdefault(statement.lowered.instruction.id, []).append(statement)
    return found


@memoised
def _copies_by_instruction(placement: Placement) -> dict[str, list[Placed]]:
    """Return the copies of each instruction of the reference program, in their order in the transformed program."""
    found: dict[str, list[Placed]] = {}
    for statement in placement.statements.values():
        if isinstance(origin := statement.lowered.instruction.origin, Copy):
            found.setdefault(origin.instruction, []).append(statement)
    return found
