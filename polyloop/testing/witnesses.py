"""Checks of witnesses by brute force: whether the instances that a refusal names violate its claim."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

from polyloop.dataflow.address_spaces import place
from polyloop.errors import Witness, WitnessInstance, WitnessKind
from polyloop.kernel.arrays import AddressSpace
from polyloop.kernel.kernel import LoopKernel
from polyloop.kernel.tags import is_lane
from polyloop.program.conditions import conditions_of_terms
from polyloop.testing.brute import Data, Event, Instance, Run, execute, reference_run
from polyloop.testing.symbols import UnsupportedError

__all__ = ["Verdict", "check_witness"]


class Verdict(Enum):
    """Verdict of brute force on a witness."""

    REAL = "a real violation"
    FALSE = "no violation"
    UNDECIDED = "not decided: it depends on data, is of a buffered array, or is too large"


@dataclass(frozen=True)
class _Scene:
    """Executions of both programs, for the check of a witness."""

    kernel: LoopKernel
    witness: Witness
    before: Run
    after: Run
    groups: int

    def touching(self, run: Run) -> Iterator[Event]:
        """Yield the accesses to the witness's element, or to any element where its subscripts are unknown."""
        array, element = self.witness.array, self.witness.element[::-1]
        for event in run.events:
            # From the last subscript on: where a temporary is kept once per lane, those of lanes come first.
            known = zip(element, event.index[::-1], strict=False)
            is_there = event.array == array and all(k in (None, i) for k, i in known)
            if is_there or self.kernel.buffers.get(event.array) == array:
                yield event

    def meet(self, a: Event, b: Event) -> bool:
        """Return whether two accesses touch one place, as far as that is known."""
        is_known = a.array in self.kernel.buffers or None not in self.witness.element
        return not is_known or (a.array, a.index) == (b.array, b.index)

    def of(self, instance: WitnessInstance, events: Iterable[Event]) -> list[Event]:
        """Return the *events* of an instance of the transformed program."""
        placed = place(self.kernel).statements.get(instance.statement)
        if placed is None:
            return []
        point = tuple(v for name, v in instance.point if name not in placed.repeated)
        return [event for event in events if event.by.statement == instance.statement and event.by.point == point]

    def of_program(self, instance: WitnessInstance, run: Run) -> list[Event]:
        """Return the accesses to the named element by an instance of the program, or by its copies."""
        named = tuple(sorted(instance.inames))
        return [e for e in self.touching(run) if e.by.instruction == instance.instruction and e.by.inames == named]


def check_witness(
    kernel: LoopKernel, witness: Witness, data: Data, *, sizes: Mapping[str, int] | None = None, most: int = 20_000
) -> Verdict:
    """Return whether *witness*, which a refusal of *kernel* names, is a real violation.

    Parameters
    ----------
    kernel
        What was refused: the kernel that the transform would have made.
    sizes
        Sizes that the witness does not name.
    """
    named = {name: value for name, value in witness.parameters if name in kernel.parameters}
    sizes = {**(sizes or {}), **named}
    try:
        before = reference_run(kernel, sizes, data, most=most, recording=True)
        after = execute(kernel, sizes, data, before.symbols, expected=before, most=most, recording=True)
    except UnsupportedError:
        return Verdict.UNDECIDED
    scene = _Scene(kernel, witness, before, after, len(place(kernel).axes.group))
    if _CHECKS[witness.kind](scene):
        return Verdict.REAL
    is_open = None in witness.element or _is_conditional(scene)
    # What is found of an array of which parts are in a buffer is found in the program without that buffer.
    return Verdict.UNDECIDED if is_open or witness.array in kernel.buffers.values() else Verdict.FALSE


def _is_conditional(scene: _Scene) -> bool:
    """Return whether data decides if the named instances do anything, or if others write the element too.

    A reduction is computed ahead of the branch that it is in: its accesses may be of a value that nothing uses.
    """
    witness = scene.witness
    instances = [instance for instance in (witness.first, witness.second) if instance is not None]
    named = {name for instance in instances for name in (instance.statement, instance.instruction)}
    assert scene.kernel.reference is not None, "a reference program has no reference"
    # A condition of the program may stand in a copy: then nothing shows it where the instance now is.
    programs = (place(scene.kernel), place(scene.kernel.reference.kernel))
    return any(
        not all(map(s.lowered.is_unconditional, s.lowered.accesses))
        or any(conditions_of_terms(placement.program.kernel, s.lowered.instruction))
        for placement in programs
        for s in placement.statements.values()
        if named & {s.name, s.lowered.instruction.id}
        or (witness.kind is not WitnessKind.RACE and witness.array in {a.array for a in s.lowered.writes})
    )


def _race(scene: _Scene) -> bool:
    assert scene.witness.second is not None, "a race has two sides"
    events = list(scene.touching(scene.after))
    first, second = scene.of(scene.witness.first, events), scene.of(scene.witness.second, events)
    return any(
        a.by.thread != b.by.thread and (a.is_write or b.is_write) and _together(a, b, scene.groups)
        for a in first
        for b in second
    )


def _together(a: Event, b: Event, groups: int) -> bool:
    """Return whether nothing can order two accesses on different threads."""
    return a.by.time == b.by.time or (a.by.thread[:groups] != b.by.thread[:groups] and a.by.time[0] == b.by.time[0])


def _is_before(a: Event, b: Event, groups: int) -> bool:
    """Return whether *a* precedes *b* in every order of blocks and threads."""
    return a.by.time < b.by.time and not _together(a, b, groups)


def _early(scene: _Scene) -> bool:
    """Return whether the reader does not see the named write, which it sees in the program, or may see."""
    assert scene.witness.second is not None, "the reader is named"
    reads = _reads(scene.of(scene.witness.second, scene.touching(scene.after)))
    written = {e.symbol for e in scene.of_program(scene.witness.first, scene.before) if e.is_write}
    if _is_read_otherwise(scene, scene.witness.second, reads):
        return True
    begun = {e.symbol: e for e in scene.touching(scene.after) if e.is_write and e.symbol in written}
    return bool(written) and any(
        read.symbol not in begun or not _is_before(begun[read.symbol], read, scene.groups) for read in reads
    )


def _unwritten(scene: _Scene) -> bool:
    reads = _reads(scene.of(scene.witness.first, scene.touching(scene.after)))
    expected = {e.symbol for e in _reads(scene.of_program(scene.witness.first, scene.before))}
    if _is_read_otherwise(scene, scene.witness.first, reads):
        return True
    return any(not _is_surely_written(scene, read) and read.symbol not in expected for read in reads)


def _is_surely_written(scene: _Scene, read: Event) -> bool:
    """Return whether a read sees a written value, and a write to its element precedes it in every order."""
    if _is_initial(scene, read):
        return False
    here = _place(scene, read)
    writes = (e for e in scene.touching(scene.after) if e.is_write and _is_before(e, read, scene.groups))
    return any(_place(scene, e) == here for e in writes)


def _is_initial(scene: _Scene, read: Event) -> bool:
    return scene.after.symbols.key(read.symbol)[0] in ("undefined", "input", "outside")


def _overwritten(scene: _Scene) -> bool:
    assert scene.witness.second is not None, "the reader is named"
    events = list(scene.touching(scene.after))
    writes = [e for e in scene.of(scene.witness.first, events) if e.is_write]
    expected = {e.symbol for e in _reads(scene.of_program(scene.witness.second, scene.before))}
    reads = _reads(scene.of(scene.witness.second, events))
    if _is_read_otherwise(scene, scene.witness.second, reads):
        return True
    return any(_sees(scene, w, r, events) for w in writes if w.symbol not in expected for r in reads)


def _sees(scene: _Scene, write: Event, read: Event, events: Iterable[Event]) -> bool:
    """Return whether *write* precedes *read* at one element, with no certain write in between."""
    here = _place(scene, read)
    if write.by.time >= read.by.time or _place(scene, write) != here:
        return False
    between = (e for e in events if e.is_write and not e.adds and write.by.time < e.by.time < read.by.time)
    return read.symbol == write.symbol or not any(_place(scene, e) == here for e in between)


def _place(scene: _Scene, event: Event) -> tuple[object, ...]:
    """Return the memory that an access touches."""
    placement = place(scene.kernel)
    match placement.spaces[event.array]:
        case AddressSpace.PRIVATE:
            return (event.array, event.index, event.by.thread)
        case AddressSpace.LOCAL:
            return (event.array, event.index, event.by.thread[: scene.groups])
        case AddressSpace.CLUSTER:
            axes = zip(placement.axes.all, event.by.thread, strict=True)
            return (event.array, event.index, *(number for axis, number in axes if axis in placement.axes.grid))
    return (event.array, event.index)


def _reads(events: Iterable[Event]) -> list[Event]:
    return [event for event in events if not event.is_write]


def _reordered(scene: _Scene) -> bool:
    assert scene.witness.second is not None, "two instances are named"
    events = list(scene.touching(scene.after))
    first, second = scene.of(scene.witness.first, events), scene.of(scene.witness.second, events)
    return any(b.by.time <= a.by.time and scene.meet(a, b) for a in first for b in second)


def _is_read_otherwise(scene: _Scene, named: WitnessInstance, reads: Sequence[Event]) -> bool:
    """Return whether an instance computes another value, and reads the named element through copies, too.

    It does where it makes fewer reads of the element itself than in the program.
    """
    by_thread = Counter(read.by.thread for read in reads)
    expected = _reads(scene.of_program(named, scene.before))
    return (not reads or min(by_thread.values()) < len(expected)) and _differs(scene, named)


def _differs(scene: _Scene, named: WitnessInstance) -> bool:
    """Return whether an instance computes another value than in the program, by whatever it reads."""
    return any(v.kind == "value" and _is_part(scene, v.instance, named) for v in scene.after.violations)


def _is_part(scene: _Scene, instance: Instance | None, named: WitnessInstance) -> bool:
    """Return whether an instance of the program is the one named, or contains the term named."""
    if instance is None or instance[0] != named.instruction:
        return False
    wanted = dict(named.inames)
    inames = _inames(scene, instance[0])
    return all(wanted.get(name, value) == value for name, value in zip(inames, instance[1], strict=True))


def _elsewhere(scene: _Scene) -> bool:
    return _differs(scene, scene.witness.first)


def _lanes(scene: _Scene) -> bool:
    assert scene.witness.second is not None, "two lanes are named"
    events = list(scene.touching(scene.after))
    writes = [e for e in scene.of(scene.witness.first, events) if e.is_write]
    reads = _reads(scene.of(scene.witness.second, events))
    return any(
        _outer_time(scene, write) == _outer_time(scene, read) and scene.meet(write, read)
        for write in writes
        for read in reads
    )


def _outer_time(scene: _Scene, event: Event) -> list[int]:
    """Return the time of an event, lanes left out."""
    placement = place(scene.kernel)
    path, kernel = placement.program.places[event.by.statement], placement.program.kernel
    return [t for t, x in zip(event.by.time, path, strict=True) if isinstance(x, int) or not is_lane(kernel.tag(x))]


def _lost(scene: _Scene) -> bool:
    """Return whether the instance does not run, or the result that the term named belongs to is another one."""
    named = scene.witness.first
    if any(_is_part(scene, instance, named) for instance in scene.before.computed.keys() - scene.after.computed):
        return True
    return len(named.inames) > len(_inames(scene, named.instruction)) and _differs(scene, named)


def _inames(scene: _Scene, instruction: str) -> tuple[str, ...]:
    """Return the loops of an instruction of the program."""
    reference = scene.kernel.reference
    assert reference is not None, "a reference program has no reference"
    return reference.kernel.instruction(instruction).inames


def _outside(scene: _Scene) -> bool:
    return any(v.kind == "out-of-bounds" for v in (*scene.before.violations, *scene.after.violations))


_CHECKS: Final[Mapping[WitnessKind, Callable[[_Scene], bool]]] = {
    WitnessKind.RACE: _race,
    WitnessKind.EARLY: _early,
    WitnessKind.UNWRITTEN: _unwritten,
    WitnessKind.OVERWRITTEN: _overwritten,
    WitnessKind.REORDERED: _reordered,
    WitnessKind.ELSEWHERE: _elsewhere,
    WitnessKind.LANES: _lanes,
    WitnessKind.LOST: _lost,
    WitnessKind.OUTSIDE: _outside,
}
