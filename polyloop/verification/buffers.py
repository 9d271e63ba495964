"""Coherence of buffers, which hold a part of an array: every read sees the present value.

The *present value* of an element is the value of its last write in the program, to the array or to a buffer.  Every
read of an array or of one of its buffers, by instructions and by moves, must see the present value of its element.  By
induction over time this holds under two conditions, as a move writes the value that it read.  The last write to the
location that is read is a write of the same element, and no other location got a newer value of it in between.  When
the program ends, every element of an argument must be back in the array.

A *collecting* buffer begins with a neutral element, collects updates, and is added to its element.  It counts as if it
had begun with the element's value.  No other access to the element may occur until the buffer is added, once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice

import islpy as isl

from polyloop.dataflow.address_spaces import place
from polyloop.dataflow.times import earlier
from polyloop.dataflow.value_flow import Flow, flow_of, hides_others, is_exact, may_flow_of
from polyloop.errors import Diagnostic
from polyloop.kernel.arrays import AddressSpace, ArrayArg
from polyloop.kernel.instruction import Copy, Move, MoveRole
from polyloop.mapping.thread_mapping import Placed, owner_axes, reference_map, storage_map
from polyloop.poly.affine import Affine
from polyloop.poly.relations import common, composed, difference, domain_of, meetings, reverse, within
from polyloop.poly.sets import map_from_forms
from polyloop.program.ir import Access
from polyloop.proof.obligation import Claim, Obligation
from polyloop.proof.witness import instance, pair
from polyloop.verification.correspondence import Comparison

__all__ = ["buffer_obligations"]


@dataclass(frozen=True, eq=False)
class _Touch:
    """An access to the array or to one of its buffers, with the element of the array that it stands for.

    ``element`` is ``{ instance -> element }``.
    """

    statement: Placed
    access: Access
    element: isl.Map
    meant: Access
    """The access to the array that it stands for, for messages."""

    def shown(self, values: dict[str, int]) -> str:
        """Return the text of the element in one instance."""
        forms = [None if form is None else form.substitute(self.statement.forms) for form in self.meant.indices]
        inside = ", ".join(
            "?" if form is None or not form.names() <= values.keys() else str(form.evaluate(values)) for form in forms
        )
        return f"{self.meant.array}[{inside}]" if forms else self.meant.array


def buffer_obligations(comparison: Comparison) -> Iterator[Obligation]:
    """Yield the obligation, for each array with buffers, that every read sees the present value."""
    for array in dict.fromkeys(comparison.kernel.buffers.values()):
        buffers = ", ".join(f"'{name}'" for name, of in comparison.kernel.buffers.items() if of == array)
        says = f"each read of '{array}' and of {buffers} sees the present value, and each value comes back"
        by = "dataflow through array and buffers, writes to other places in between"
        yield Obligation(Claim.VALUES, f"'{array}' in {buffers}", says, by, partial(_first, comparison, array))


def _first(comparison: Comparison, array: str) -> Iterator[Diagnostic]:
    yield from islice(_Places(comparison, array).violations(), 1)


class _Places:
    """Coherence of one array and its buffers: the places in which an element can be."""

    def __init__(self, comparison: Comparison, array: str) -> None:
        self.comparison = comparison
        self.array = array
        self.real = place(comparison.kernel)
        self.names = (array, *(name for name, of in comparison.kernel.buffers.items() if of == array))
        self.space = self.real.spaces[array]
        statements = self.real.statements.values()
        self.touches = {
            access: self.touch(statement, access)
            for statement in statements
            for access in statement.lowered.accesses
            if access.array in self.names
        }
        writes = [touch for touch in self.touches.values() if touch.statement.lowered.is_write(touch.access)]
        self.writes = [touch for touch in writes if not isinstance(_origin(touch), Move)]
        self.returns = [
            touch
            for touch in writes
            if touch.access.array == array
            and (isinstance(_origin(touch), Move) or hides_others(touch.statement, array))
        ]

    def touch(self, statement: Placed, access: Access) -> _Touch:
        origin = statement.lowered.instruction.origin
        if access.array == self.array:
            return _Touch(statement, access, storage_map(self.real, statement, access, self.space), access)
        if isinstance(origin, Move):
            meant = _carried(origin)
            return _Touch(statement, access, self.element(statement, meant), meant)
        other = self.comparison.new.statements[statement.name]
        meant = other.lowered.accesses[[a is access for a in statement.lowered.accesses].index(True)]
        return _Touch(statement, access, storage_map(self.comparison.new, other, meant, self.space), meant)

    def element(self, statement: Placed, access: Access) -> isl.Map:
        """Return ``{ instance -> element }`` of an access that the program does not have, so it is not memoised."""
        owners = owner_axes(self.real, self.space)
        forms = [*(Affine.variable(axis) for axis in owners), *statement.indices(access)]
        return map_from_forms(statement.domain, statement.dims, forms, self.array)

    def violations(self) -> Iterator[Diagnostic]:
        for name in self.names:
            starts = self.starts() if name == self.array else []
            flow = self.flow(name, starts)
            for (statement, access), sources, initial in zip(flow.reads, flow.sources, flow.initial, strict=True):
                origin = statement.lowered.instruction.origin
                if name == self.array and isinstance(origin, Move) and origin.role is MoveRole.ADD:
                    continue
                yield from self.read(self.touches[access], sources, initial)
        yield from self.lost()
        yield from self.added()

    def starts(self) -> list[tuple[Placed, Access]]:
        """Return a read of the array for each start of a collecting buffer, and enter it in ``touches``."""
        adding = {name for name in self.names for t in self.touches.values()
                  if t.access.array == name and _role(t) is MoveRole.ADD}  # fmt: skip
        found = []
        for touch in [*self.touches.values()]:
            if _role(touch) is MoveRole.START and touch.access.array in adding:
                access = touch.meant
                self.touches[access] = _Touch(touch.statement, access, touch.element, access)
                found.append((touch.statement, access))
        return found

    def flow(self, name: str, more: list[tuple[Placed, Access]]) -> Flow:
        """Return the real dataflow of one place, with *more* reads."""
        if is_exact(self.real, name):
            known = flow_of(self.real, name)
            extra = flow_of(self.real, name, more) if more else Flow((), (), ())
        else:
            known = may_flow_of(self.real, name)
            extra = may_flow_of(self.real, name, sinks=more) if more else Flow((), (), ())
        return Flow(known.reads + extra.reads, known.sources + extra.sources, known.initial + extra.initial)

    def read(
        self, read: _Touch, sources: tuple[tuple[Placed, isl.Map], ...], initial: isl.Set
    ) -> Iterator[Diagnostic]:
        """Yield a diagnostic if a read may see another value than the present one of its element."""
        before = within(read.element, initial)
        if not initial.is_empty():
            if read.access.array != self.array:
                yield _unfilled(read, initial)
                return
            for write in self.elsewhere(read):
                late = common(meetings(before, write.element), reverse(self.earlier(write, read)))
                if not late.is_empty():
                    yield self.stale(read, write, late)
                    return
        for source, link in sources:
            for written in self.written_by(source, read.access.array):
                yield from self.passed_on(read, written, link)

    def written_by(self, source: Placed, name: str) -> list[_Touch]:
        return [self.touches[write] for write in source.lowered.writes_to(name)]

    def passed_on(self, read: _Touch, source: _Touch, link: isl.Map) -> Iterator[Diagnostic]:
        """Yield a diagnostic if the write *source*, which *read* sees, is of another element, or is outdated."""
        wrong = difference(link, meetings(read.element, source.element))
        if not wrong.is_empty():
            yield _wrong_element(read, source, wrong)
            return
        if _role(source) is MoveRole.START and not self.collects(source.access.array):
            yield _not_loaded(read, source, link)
            return
        for write in self.elsewhere(read):
            same = self.same_element(read, write)
            if same.is_empty():  # the usual case: an element has one place
                continue
            since = common(composed(link, self.not_before(source, write)), same)
            late = common(since, reverse(self.earlier(write, read)))
            if not late.is_empty():
                yield self.stale(read, write, late)
                return

    def collects(self, buffer: str) -> bool:
        return any(_role(touch) is MoveRole.ADD for touch in self.touches.values() if touch.access.array == buffer)

    def elsewhere(self, read: _Touch) -> list[_Touch]:
        """Return the writes of instructions that may go to another place than the one that *read* reads."""
        if self.space is AddressSpace.GLOBAL and read.access.array == self.array:
            return [write for write in self.writes if write.access.array != self.array]
        return self.writes

    def same_element(self, read: _Touch, write: _Touch) -> isl.Map:
        """Return ``{ read -> write }`` of accesses to one element in two different places."""
        pairs = meetings(read.element, write.element)
        if read.access.array != write.access.array:
            return pairs
        space = self.real.spaces[read.access.array]
        mine = storage_map(self.real, read.statement, read.access, space)
        theirs = storage_map(self.real, write.statement, write.access, space)
        return difference(pairs, meetings(mine, theirs))

    def earlier(self, first: _Touch, second: _Touch) -> isl.Map:
        """Return ``{ first -> second }`` where the first runs strictly earlier in the loop tree."""
        return earlier(self.real, first.statement, second.statement)

    def not_before(self, source: _Touch, write: _Touch) -> isl.Map:
        """Return ``{ source -> write }`` where the write is not earlier, and not a copy of the same reference write."""
        pairs = earlier(self.real, source.statement, write.statement, or_equal=True)
        if isinstance(_origin(source), Copy):
            one, other = (self.comparison.counterpart(self.comparison.new.statements[t.statement.name])
                          for t in (source, write))  # fmt: skip
            if one is other:
                same = meetings(reference_map(source.statement, one), reference_map(write.statement, one))
                pairs = difference(pairs, same)
        return pairs

    def lost(self) -> Iterator[Diagnostic]:
        """Yield a diagnostic for writes to a buffer of an argument that are never stored back."""
        if not isinstance(self.comparison.kernel.arrays().get(self.array), ArrayArg):
            return
        for write in self.writes:
            if write.access.array == self.array:
                continue
            missing = write.element.domain()
            for back in self.returns:
                returned = common(meetings(write.element, back.element), self.earlier(write, back))
                missing = missing.subtract(domain_of(returned))
            if not missing.is_empty():
                at, _ = pair(missing.identity(), write.statement, write.statement)
                note = f"instance {instance(write.statement, at)} writes {write.shown(dict(at))} into the buffer"
                yield Diagnostic(
                    "buffer-not-stored",
                    f"a value of '{self.array}' would stay in '{write.access.array}'",
                    (note, "it is not stored after that"),
                    ("let the buffer be stored: store_expression=None",),
                    sites=(write.statement.lowered.instruction.site(),),
                )
                return

    def added(self) -> Iterator[Diagnostic]:
        """Yield a diagnostic for a buffer that is added to its elements twice after one start, or before any."""
        for touch in [*self.touches.values()]:
            if _role(touch) is not MoveRole.ADD or touch.access.array == self.array:
                continue
            begins = [t for t in self.touches.values()
                      if _role(t) is MoveRole.START and t.access.array == touch.access.array]  # fmt: skip
            reader = (touch.statement, touch.access)
            flow = flow_of(self.real, touch.access.array, [reader], [t.statement for t in begins])
            links = [link for _, link in flow.sources[0]]
            if not flow.initial[0].is_empty() or any(not link.is_injective() for link in links):
                yield Diagnostic(
                    "term-twice",
                    f"the sum in '{touch.access.array}' would not be added to '{self.array}' exactly once",
                    ("the buffer is added more often than it is reset",),
                    ("keep the loops around the buffer as they were when it was made",),
                    sites=(touch.statement.lowered.instruction.site(),),
                )
                return

    def stale(self, read: _Touch, write: _Touch, late: isl.Map) -> Diagnostic:
        at, when = pair(late, read.statement, write.statement)
        reader, writer = read.statement.lowered.instruction, write.statement.lowered.instruction
        into = f"into '{write.access.array}'" if write.access.array != self.array else "in the array itself"
        whose = "it" if read.access.array == self.array else f"'{self.array}'"
        return Diagnostic(
            "buffer-stale",
            f"'{read.access.array}' would be read where {whose} has a newer value elsewhere",
            (
                f"instance {instance(write.statement, when)} of '{writer.id}' writes {write.shown(dict(when))} {into}",
                f"instance {instance(read.statement, at)} of '{reader.id}' reads {read.access.array} after that, and "
                "would see the older value",
            ),
            (
                "let one buffer serve both accesses (within, temporary_address_space), or end it before the other "
                "access: fewer buffer_inames",
            ),
            sites=tuple(dict.fromkeys((writer.site(), reader.site()))),
        )


def _carried(origin: Move) -> Access:
    """Return the access to the array that a move makes."""
    forms = (origin.forms[str(number)] for number in range(len(origin.forms)))
    return Access(origin.array, tuple(forms))


def _origin(touch: _Touch) -> object:
    return touch.statement.lowered.instruction.origin


def _role(touch: _Touch) -> MoveRole | None:
    origin = touch.statement.lowered.instruction.origin
    return origin.role if isinstance(origin, Move) else None


def _unfilled(read: _Touch, initial: isl.Set) -> Diagnostic:
    at, _ = pair(initial.identity(), read.statement, read.statement)
    return Diagnostic(
        "copy-incomplete",
        f"'{read.access.array}' would be read where nothing has been stored",
        (f"instance {instance(read.statement, at)} reads {read.shown(dict(at))} through it",),
        ("buffer inames that are around all accesses to the part of the array, or leave init_expression out",),
        sites=(read.statement.lowered.instruction.site(),),
    )


def _not_loaded(read: _Touch, source: _Touch, link: isl.Map) -> Diagnostic:
    at, _ = pair(link, read.statement, source.statement)
    array = source.meant.array
    return Diagnostic(
        "copy-incomplete",
        f"'{read.access.array}' would be read where it has its initial value, and not that of '{array}'",
        (f"instance {instance(read.statement, at)} of '{read.statement.lowered.instruction.id}' "
         f"reads {read.shown(dict(at))} through it",),
        ("leave init_expression out, or add the buffer to the array: store_expression=\"base + buffer\"",),
        sites=(read.statement.lowered.instruction.site(),),
    )  # fmt: skip


def _wrong_element(read: _Touch, source: _Touch, wrong: isl.Map) -> Diagnostic:
    at, when = pair(wrong, read.statement, source.statement)
    return Diagnostic(
        "copy-wrong-element",
        f"a read of '{read.meant.array}' would see another element",
        (
            f"instance {instance(read.statement, at)} of '{read.statement.lowered.instruction.id}' should read "
            f"{read.shown(dict(at))}",
            f"'{source.statement.lowered.instruction.id}' has put {source.shown(dict(when))} there",
        ),
        ("let the buffer be filled inside all the loops that its elements depend on",),
        sites=(read.statement.lowered.instruction.site(),),
    )
