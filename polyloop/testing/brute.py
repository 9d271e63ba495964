"""Brute force: kernels executed instance by instance, to judge legality without any of the analyses that prove it.

For given sizes every instance of every statement is enumerated and executed in the order of the loop tree, all threads
at once, with symbolic values (``symbols.py``).  A kernel is legal at these sizes when each of its instances computes
what the reference program's instance computes, every argument ends with the same writes, no access leaves its array,
and no two threads access one cell at one time if one of them writes.  Accesses that a barrier, or the end of a launch,
could order are no race; with the launches of a schedule (``launch_parts.py``), only the ends of these.

Only the statements, their loop tree, which threads run them and see which variable, and which loops a host can run are
taken from the library.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby, product
from typing import Any, Final, TypeAlias, assert_never

import islpy as isl
import numpy as np

from polyloop.dataflow.address_spaces import place
from polyloop.expr.nodes import Expression, array_name
from polyloop.kernel.arrays import AddressSpace, ArrayArg
from polyloop.kernel.instruction import Copy
from polyloop.kernel.kernel import LoopKernel
from polyloop.kernel.tags import is_lane
from polyloop.kernel.updates import EXCHANGE
from polyloop.mapping.thread_mapping import Placed, Placement
from polyloop.poly.affine import Affine
from polyloop.poly.axes import is_grid_axis
from polyloop.program.ir import Assign, Combine, Init, Lowered, Update
from polyloop.schedule.plan import Launch
from polyloop.testing.launch_parts import LaunchParts, race
from polyloop.testing.storage import shared_pools
from polyloop.testing.symbols import Bag, Closure, Symbols, UnsupportedError, Value, ValueCompiler

__all__ = ["Data", "Event", "Execution", "Instance", "Run", "Violation", "execute", "judge", "reference_run"]

_PARAM: Final = isl.dim_type.param
_SET: Final = isl.dim_type.set
_SHOWN: Final = 20
"""Violations that are kept, where not everything is."""

Data: TypeAlias = Mapping[str, np.ndarray[Any, Any]]
"""Input arrays by name."""
Cell: TypeAlias = tuple[Any, ...]
Instance: TypeAlias = tuple[str, tuple[int, ...]]
"""Id of an instruction of the reference program, and the values of its inames."""

_NUMBER: Final = "number of "
"""Of writes of one value by all instances of a statement, which may happen at one time."""


@dataclass(frozen=True)
class Violation:
    """One way in which a kernel is not its reference program."""

    kind: str
    text: str
    instance: Instance | None = None


@dataclass(frozen=True, slots=True)
class Execution:
    """One instance of the transformed program, executed by a thread.

    ``instruction`` and ``inames`` name the instance of the reference program that it is.
    """

    time: tuple[int, ...]
    thread: tuple[int, ...]
    statement: str
    point: tuple[int, ...]
    instruction: str
    inames: tuple[tuple[str, int], ...]

    def __str__(self) -> str:
        return f"{self.statement}{self.point}"


@dataclass(frozen=True, slots=True)
class Event:
    """One access by an executed instance.  A write that ``adds`` leaves what was there before in the element."""

    by: Execution
    array: str
    index: tuple[int, ...]
    is_write: bool
    symbol: int
    adds: bool = False


@dataclass
class Run:
    """Result of one execution of a kernel.

    Attributes
    ----------
    computed
        Values computed, by instance of the reference program.
    final
        Final values of the arguments' elements.
    undefined
        True if an instance read an undefined value.
    events
        Every access, if that was asked for.
    """

    symbols: Symbols
    computed: dict[Instance, int] = field(default_factory=dict)
    final: dict[Cell, int] = field(default_factory=dict)
    violations: list[Violation] = field(default_factory=list)
    undefined: bool = False
    events: list[Event] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Code:
    """A statement, ready to be executed."""

    placed: Placed
    points: list[tuple[int, ...]]
    predicates: list[Closure]
    subscripts: list[Closure]
    target: str
    rhs: Closure | None
    forms: list[Affine]
    named: dict[str, Affine]
    allowed: dict[tuple[int, ...], frozenset[tuple[int, ...]]]


_Step: TypeAlias = tuple[tuple[int, ...], tuple[int, ...], _Code, tuple[int, ...]]
"""Time, thread, statement and point of one instance."""


class _Machine:
    """The state of one execution."""

    def __init__(
        self, placement: Placement, sizes: Mapping[str, int], data: Data, symbols: Symbols, most: int, recording: bool,
        launches: Sequence[Launch] | None = None,
    ) -> None:  # fmt: skip
        self.placement = placement
        self.kernel = placement.program.kernel
        self.sizes = sizes
        self.data = data
        self.symbols = symbols
        self.most = most
        self.recording = recording
        self.lockstep = False
        self.meetings: dict[tuple[Any, ...], list[Bag]] = {}
        self.axes = placement.axes.all
        self.group_count = len(placement.axes.group)
        self.memory: dict[Cell, Value | Bag] = {}
        self.touched: dict[Cell, dict[tuple[Any, ...], set[tuple[int, ...]]]] = {}
        self.parts = LaunchParts.of(placement, launches)
        self.run = Run(symbols)
        inames = {name for s in placement.statements.values() for name in s.lowered.inames}
        self.env: dict[str, int] = {**dict.fromkeys(inames, 0), **sizes}
        arrays = self.kernel.arrays()
        self.names = frozenset((*arrays, *placement.program.accumulators))
        self.shapes = {name: self.extents(array.shape or ()) for name, array in arrays.items()}
        self.pools = shared_pools(self.kernel)
        self.origin: Copy | None = None
        self.now = Execution((), (), "", (), "", ())
        self.kind: object = "read"

    def extents(self, shape: Sequence[Expression]) -> tuple[int, ...]:
        compiler = ValueCompiler({**self.sizes}, self, frozenset(), self.symbols)
        return tuple(int(compiler.value(extent)().number) for extent in shape)

    # {{{ memory

    def cell(self, array: str, index: tuple[int, ...]) -> Cell:
        space = self.placement.spaces[array]
        if array in self.pools:
            base, strides = self.pools[array]
            array, index = base, (sum(s * i for s, i in zip(strides, index, strict=True)),)
        if space is AddressSpace.PRIVATE:
            return (array, index, self.now.thread, self.parts.life(self.now.statement, self.now.time))
        if space is AddressSpace.LOCAL:
            life = self.parts.life(self.now.statement, self.now.time)
            return (array, index, self.now.thread[: self.group_count], life)
        if space is AddressSpace.CLUSTER:
            grid = tuple(n for axis, n in zip(self.axes, self.now.thread, strict=True) if is_grid_axis(axis))
            return (array, index, grid, self.parts.life(self.now.statement, self.now.time))
        return (array, index)

    def inside(self, array: str, index: tuple[int, ...]) -> bool:
        shape = self.shapes.get(array)
        if shape is None or all(0 <= i < extent for i, extent in zip(index, shape, strict=True)):
            return True
        self.problem("out-of-bounds", f"{self.now} accesses {array}{list(index)}")
        return False

    def problem(self, kind: str, text: str, instance: Instance | None = None) -> None:
        if self.recording or len(self.run.violations) < _SHOWN:
            self.run.violations.append(Violation(kind, text, instance))

    def note(self, cell: Cell, array: str, index: tuple[int, ...], symbol: int, is_write: bool) -> None:
        if self.axes and self.placement.spaces[array] is not AddressSpace.PRIVATE:
            part = self.parts.part(self.now.statement, self.now.time)
            key = (self.now.time, part, self.kind if is_write else "read")
            self.touched.setdefault(cell, {}).setdefault(key, set()).add(self.now.thread)
        if self.recording:
            self.record(array, index, symbol, is_write=is_write)

    def record(self, array: str, index: tuple[int, ...], symbol: int, *, is_write: bool) -> None:
        adds = is_write and self.kind not in ("write", EXCHANGE) and not str(self.kind).startswith(_NUMBER)
        self.run.events.append(Event(self.now, array, index, is_write, symbol, adds))

    def read(self, array: str, index: tuple[int, ...]) -> Value:
        """Return the value of an element."""
        value = self.present(array, index)
        self.note(self.cell(array, index), array, index, value.symbol, is_write=False)
        return value

    def present(self, array: str, index: tuple[int, ...]) -> Value:
        """Return the value of an element, which is not noted as a read."""
        is_inside = self.inside(array, index)
        held = self.memory.get(self.cell(array, index))
        if held is None and not is_inside:
            return Value(self.symbols.of("outside", array, index), 0)
        if held is None:
            return self.initial(array, index)
        return held.value(self.symbols) if isinstance(held, Bag) else held

    def initial(self, array: str, index: tuple[int, ...]) -> Value:
        declared = self.kernel.arrays().get(array)
        if isinstance(declared, ArrayArg):
            values = self.data.get(array)
            if values is None:
                return Value(self.symbols.of("input", array, index), 0)
            return Value(self.symbols.of("input", array, index), values[index].item())
        if declared is not None and declared.initializer is not None:
            return Value(self.symbols.of("input", array, index), declared.initializer.array[index].item())
        if self.origin is not None:
            self.run.undefined = True
        return Value(self.symbols.of("undefined", array, index), 0)

    def write(self, array: str, index: tuple[int, ...], value: Value | Bag, symbol: int) -> None:
        cell = self.cell(array, index)
        self.inside(array, index)
        self.memory[cell] = value
        self.note(cell, array, index, symbol, is_write=True)

    # }}}
    # {{{ statements

    def code(self, placed: Placed) -> _Code:
        lowered = placed.lowered
        if lowered.instruction.is_c or len(lowered.writes) != 1 or any(a.fields for a in lowered.accesses):
            raise UnsupportedError("C text or records")

        compiled = ValueCompiler(self.env, self, self.names, self.symbols).value
        forms: list[Affine] = []
        origin = lowered.instruction.origin
        known = {*lowered.inames, *self.sizes}
        named = {x: f for x, f in origin.forms.items() if f.names() <= known} if isinstance(origin, Copy) else {}
        if isinstance(lowered.part, Assign) and isinstance(origin, Copy):
            reference = self.kernel if self.kernel.reference is None else self.kernel.reference.kernel
            forms = [origin.forms[x] for x in reference.instruction(origin.instruction).inames]
        subscripts = [] if not hasattr(lowered.lhs, "index_tuple") else [compiled(e) for e in lowered.lhs.index_tuple]
        rhs = None if lowered.rhs is None else compiled(lowered.rhs)
        points, allowed = self.points(placed)
        predicates = [compiled(e) for e in lowered.predicates]
        return _Code(placed, points, predicates, subscripts, array_name(lowered.lhs), rhs, forms, named, allowed)

    def points(
        self, placed: Placed
    ) -> tuple[list[tuple[int, ...]], dict[tuple[int, ...], frozenset[tuple[int, ...]]]]:
        """Return the points of a statement, without repeated axes, and the points for each value of its bounds."""
        domain = placed.exact
        for position in range(len(placed.dims) - 1, -1, -1):
            if placed.dims[position] in placed.repeated:
                domain = domain.project_out(_SET, position, 1)
        for name, value in self.sizes.items():
            position = domain.find_dim_by_name(_PARAM, name)
            if position >= 0:
                domain = domain.fix_val(_PARAM, position, value)
        allowed: dict[tuple[int, ...], frozenset[tuple[int, ...]]] = {}
        bounds = placed.lowered.bounds
        if not bounds:
            return _points(domain, self.most), allowed
        most = max((int(v.max()) for v in self.data.values() if v.dtype.kind in "iu" and v.size), default=0)
        for values in product(range(max(most, 7) + 1), repeat=len(bounds)):
            fixed = domain
            for name, value in zip(bounds, values, strict=True):
                fixed = fixed.fix_val(_PARAM, fixed.find_dim_by_name(_PARAM, name), value)
            allowed[values] = frozenset(_points(fixed, self.most))
        return sorted(frozenset[tuple[int, ...]]().union(*allowed.values())), allowed

    def instances(self, codes: Sequence[_Code]) -> list[_Step]:
        """Return every (time, thread, statement, point), in the order of execution."""
        extents = self.axis_extents(codes)
        found: list[_Step] = []
        for code in codes:
            placed = code.placed
            dims = [x for x in placed.dims if x not in placed.repeated]
            path = self.placement.program.places[placed.name]
            own = {x: dims.index(x) for x in dims}
            repeated = [range(extents[axis]) for axis in self.axes if axis in placed.repeated]
            if len(code.points) * math.prod(map(len, repeated)) + len(found) > self.most:
                raise UnsupportedError("too many instances")
            for point in code.points:
                time = tuple(entry if isinstance(entry, int) else point[own[entry]] for entry in path)
                for values in product(*repeated):
                    others = iter(values)
                    thread = tuple(point[own[axis]] if axis in own else next(others) for axis in self.axes)
                    found.append((time, thread, code, point))
        found.sort(key=lambda entry: (entry[0], entry[1]))
        return found

    def axis_extents(self, codes: Sequence[_Code]) -> dict[str, int]:
        local = self.placement.axes.local
        extents = {axis: local.get(axis) or 1 for axis in self.axes}
        for code in codes:
            for position, name in enumerate(x for x in code.placed.dims if x not in code.placed.repeated):
                if name in extents and (values := {point[position] for point in code.points}):
                    if not 0 <= min(values) <= max(values) < (local.get(name) or math.inf):
                        self.problem("thread", f"'{code.placed.name}' has instances beyond the ends of axis '{name}'")
                    extents[name] = max(extents[name], max(values) + 1)
        return extents

    def execute(self) -> Run:
        codes = [self.code(placed) for placed in self.placement.statements.values()]
        for _, group in groupby(self.instances(codes), self.moment):
            for effect in [effect for step in group if (effect := self.step(*step)) is not None]:
                effect()
        self.finish()
        return self.run

    def moment(self, step: _Step) -> tuple[object, ...]:
        """Return the key of a step: one for lanes in lockstep, of all threads, and for threads that combine values."""
        time, _, code, _ = step
        if isinstance(code.placed.lowered.part, Combine):
            return (code.placed.name, time)
        if not self.lockstep:
            return (step,)
        path = self.placement.program.places[code.placed.name]
        outer = [t for t, entry in zip(time, path, strict=True) if not self.is_lane(entry)]
        return (code.placed.name, *outer)

    def is_lane(self, entry: int | str) -> bool:
        """Return whether an entry of a statement's place is a loop over lanes."""
        return isinstance(entry, str) and is_lane(self.kernel.tag(entry))

    def step(
        self, time: tuple[int, ...], thread: tuple[int, ...], code: _Code, point: tuple[int, ...]
    ) -> Callable[[], None] | None:
        """Execute one instance up to its write, which is returned, if there is one."""
        placed, env = code.placed, self.env
        lowered = placed.lowered
        local = dict(zip(self.axes, thread, strict=True))
        local.update(zip((x for x in placed.dims if x not in placed.repeated), point, strict=True))
        env.update(local)
        for iname, form in placed.forms.items():
            env[iname] = form.evaluate({**self.sizes, **local})
        origin = lowered.instruction.origin
        self.origin = origin if isinstance(origin, Copy) else None
        instance = None
        if self.origin is not None and isinstance(lowered.part, Assign):
            instance = (self.origin.instruction, tuple([form.evaluate(env) for form in code.forms]))
        inames: tuple[tuple[str, int], ...] = ()
        if self.recording:
            inames = tuple(sorted((name, form.evaluate(env)) for name, form in code.named.items()))
        instruction = lowered.instruction.id if self.origin is None else self.origin.instruction
        self.now = Execution(time, thread, placed.name, point, instruction, inames)
        stored = f"{_NUMBER}{placed.name}" if lowered.stores_one_value else "write"
        self.kind = lowered.atomic or stored
        bounds = [self.read(name, ()) for name in lowered.bounds]
        if bounds and point not in code.allowed.get(tuple([int(b.number) for b in bounds]), ()):
            return None
        seen = [b.symbol for b in bounds]
        skipped = False
        for predicate in code.predicates:
            value = predicate()
            seen.append(value.symbol)
            if not value.number:
                skipped = True
                break
        index = () if skipped else self.index(code, seen)
        if isinstance(lowered.part, Combine):
            return self.combined(code, lowered.part, time, index)
        result = None if skipped or code.rhs is None else code.rhs()
        if isinstance(lowered.part, Assign) and instance is not None:
            self.run.computed[instance] = self.symbols.of("computed", *seen, -1 if result is None else result.symbol)
            self.compare(instance)
        if skipped:
            return None
        return partial(self.effect, (self.now, self.kind), code.target, lowered, (instance, result, tuple(seen)), index)

    def combined(self, code: _Code, part: Combine, time: tuple[int, ...], index: tuple[int, ...]) -> Callable[[], None]:
        """Record this thread's value for a combination; return the effect that stores the combined value."""
        now = self.now
        others = tuple(n for axis, n in zip(self.axes, now.thread, strict=True) if axis not in part.across)
        bags = self.meetings.setdefault((code.placed.name, time, others, index), [])
        mine = self.memory.get(self.cell(code.target, index))
        first = len(bags)  # threads come in their order
        if isinstance(mine, Bag):
            bags.append(mine)
        else:
            self.problem("accumulator", f"{now} has nothing to combine on a thread")

        def effect() -> None:
            self.now = now
            total = Bag.of(part.reduction.operation)
            for bag in bags[: first + (not part.after)] if part.reduction.along else bags:
                total.join(bag)
            self.memory[self.cell(code.target, index)] = total

        return effect

    def index(self, code: _Code, seen: list[int]) -> tuple[int, ...]:
        values = [closure() for closure in code.subscripts]
        seen.extend(v.symbol for v in values if self.symbols.key(v.symbol)[0] != "number")  # layouts may change
        return tuple([int(value.number) for value in values])

    def effect(
        self,
        now: tuple[Execution, object],
        target: str,
        lowered: Lowered,
        computed: tuple[Instance | None, Value | None, tuple[int, ...]],
        index: tuple[int, ...],
    ) -> None:
        """Carry out the write of an instance."""
        self.now, self.kind = now
        instance, value, seen = computed
        match lowered.part:
            case Init(reduction):
                bag = Bag.of(reduction.operation)
                if value is not None and not bag.merge(value, self.symbols):
                    bag.add(value)
                self.write(target, index, bag, -1 if value is None else value.symbol)
            case Update(reduction):
                assert value is not None, f"{lowered.name} has no term"
                bounds = seen[: len(lowered.bounds)]
                symbol = self.symbols.of("term", *bounds, value.symbol) if bounds else value.symbol
                self.accumulate(target, index, Value(symbol, value.number), of_states=reduction.operation.of_states)
            case Assign(atomic=atomic):
                assert value is not None, f"{lowered.name} has no value"
                is_number = self.symbols.key(value.symbol)[0] == "number"  # the same one, whichever instance stores it
                written = value
                if instance is not None and not is_number:
                    written = Value(self.symbols.of("write", *instance), value.number)
                if instance is None or atomic is None or atomic == EXCHANGE:
                    self.write(target, index, written, written.symbol)
                else:
                    self.update(target, index, atomic, written)
            case Combine():
                raise AssertionError(f"{lowered.name} takes effect for all threads together")
            case _:
                assert_never(lowered.part)

    def accumulate(self, array: str, index: tuple[int, ...], term: Value, *, of_states: bool) -> None:
        bag = self.memory.get(self.cell(array, index))
        if not isinstance(bag, Bag):
            self.problem("accumulator", f"{self.now} has no neutral element to begin with")
            return
        if not (of_states and bag.merge(term, self.symbols)):
            bag.add(term)
        self.note(self.cell(array, index), array, index, term.symbol, is_write=True)

    def update(self, array: str, index: tuple[int, ...], operation: str, term: Value) -> None:
        cell = self.cell(array, index)
        held = self.memory.get(cell)
        if not (isinstance(held, Bag) and held.operation == operation):
            held = Bag.updated(operation, self.present(array, index))
        if self.recording and held.base is not None:
            self.record(array, index, held.base.symbol, is_write=False)
        self.write(array, index, held, term.symbol)
        held.add(term)

    # }}}

    expected: Run | None = None

    def compare(self, instance: Instance) -> None:
        """Note it if an instance computed something else than the reference program's."""
        if self.expected is None:
            return
        if instance not in self.expected.computed:
            self.problem("extra", f"{_shown(instance)} is no instance of the program", instance)
        elif self.expected.computed[instance] != self.run.computed[instance]:
            self.problem("value", f"{_shown(instance)} computes another value than in the program", instance)

    def finish(self) -> None:
        """Record the final values of the arguments, and the races."""
        for cell, held in self.memory.items():
            if isinstance(self.kernel.arrays().get(cell[0]), ArrayArg):
                value = held.value(self.symbols) if isinstance(held, Bag) else held
                self.run.final[cell] = value.symbol
        if self.expected is not None:
            for cell in dict.fromkeys((*self.run.final, *self.expected.final)):
                untouched = self.symbols.of("input", *cell)
                if self.run.final.get(cell, untouched) != self.expected.final.get(cell, untouched):
                    self.problem("final", f"{cell[0]}{list(cell[1])} ends with another write than in the program")
        for cell, kinds in self.touched.items():
            found = race(kinds, self.group_count if len(cell) == 2 else None)
            if found is not None:
                self.problem("race", f"{found} touch {cell[0]}{list(cell[1])}")


def _shown(instance: Instance) -> str:
    return f"'{instance[0]}' ({', '.join(map(str, instance[1]))})"


def _points(domain: isl.Set, most: int) -> list[tuple[int, ...]]:
    """Return the points of a bounded set with fixed parameters, in ascending order."""
    domain = domain.project_out(_PARAM, 0, domain.dim(_PARAM))
    count = domain.dim(_SET)
    if not domain.is_bounded():
        raise UnsupportedError("a domain without bounds")
    if count == 0:
        return [] if domain.is_empty() else [()]
    if domain.count_val().to_python() > most:
        raise UnsupportedError("too many instances")
    found: list[tuple[int, ...]] = []

    def note(point: isl.Point) -> None:
        found.append(tuple([point.get_coordinate_val(_SET, k).to_python() for k in range(count)]))

    domain.foreach_point(note)
    return sorted(found)


def execute(
    kernel: LoopKernel,
    sizes: Mapping[str, int],
    data: Data,
    symbols: Symbols,
    *,
    expected: Run | None = None,
    most: int = 20_000,
    recording: bool = False,
    launches: Sequence[Launch] | None = None,
) -> Run:
    """Execute *kernel* instance by instance, with symbolic values, and return the events.

    Parameters
    ----------
    sizes
        A value for every parameter of the kernel.
    data
        Integer inputs that data-dependent conditions, subscripts and bounds may use; other inputs may be left out.
    expected
        The run of the reference program for the same sizes and data, with the same symbols.
    most
        Instances, above which :class:`UnsupportedError` is raised.
    recording
        Whether every access is noted.
    launches
        The launches of the kernel's schedule, to be executed one after the other; None for any launches.

    Raises
    ------
    UnsupportedError
        C text, records, or too many instances.
    """
    runs = []
    for lockstep in (False, True)[: 1 + any(map(is_lane, kernel.iname_tags.values()))]:
        machine = _Machine(place(kernel), sizes, data, symbols, most, recording, launches)
        machine.expected, machine.lockstep = expected, lockstep
        runs.append(machine.execute())
    runs[0].violations += [violation for run in runs[1:] for violation in run.violations]
    return runs[0]


def reference_run(
    kernel: LoopKernel,
    sizes: Mapping[str, int],
    data: Data,
    *,
    most: int = 20_000,
    recording: bool = False,
) -> Run:
    """Execute the reference program of *kernel*."""
    assert kernel.reference is not None, "a reference program has no reference"
    return execute(kernel.reference.kernel, sizes, data, Symbols(), most=most, recording=recording)


def judge(
    kernel: LoopKernel,
    sizes: Mapping[str, int],
    data: Data,
    *,
    most: int = 20_000,
    launches: Sequence[Launch] | None = None,
) -> Iterator[Violation]:
    """Yield the violations of *kernel* at *sizes*, none if it is legal there; see :func:`execute`."""
    before = reference_run(kernel, sizes, data, most=most)
    run = execute(kernel, sizes, data, before.symbols, expected=before, most=most, launches=launches)
    yield from run.violations
