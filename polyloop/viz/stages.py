"""Events of a loop that is pipelined: who fills and who uses each slot of a buffer, iteration by iteration.

A buffer of several slots is subscripted by a remainder, ``tile[(k + 2) % 3, ..]``: the instance is about tile
``k + 2``, which lies in slot ``(k + 2) % 3``.  Events are read off the schedule, in the order of its text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from itertools import count

import islpy as isl
import pymbolic.primitives as p

from polyloop.expr.nodes import Expression, array_name
from polyloop.expr.rewrite import accesses, variables
from polyloop.kernel.tree import Barrier, Loop, Node, Run, Scope, Tree, runs
from polyloop.poly.affine import Affine, affine_of
from polyloop.poly.sets import constant_bounds, project_onto
from polyloop.schedule.build import Verified
from polyloop.schedule.copy_engine import AwaitBox, StartBox
from polyloop.schedule.plan import AwaitCopy, AwaitProducts, Launch, StartCopy, Statement
from polyloop.viz.instances import at_sizes

__all__ = ["Does", "Phase", "Staged", "Touch", "staged_loops"]


class Does(Enum):
    """Kind of a phase."""

    AWAIT = "wait for copies"
    BARRIER = "barrier"
    START = "start copies"
    LOAD = "load into registers"
    STORE = "store"
    USE = "compute"
    FINISH = "wait for products"


@dataclass(frozen=True, eq=False)
class Touch:
    """An access of one buffer: the tile is ``form`` of the iteration, its slot ``form % slots``."""

    buffer: str
    slots: int
    form: Affine
    statement: Statement

    def tiles(self, iname: str, iteration: int, sizes: Mapping[str, int]) -> Sequence[int]:
        """Return the tiles that an iteration is about."""
        low = high = self.form.const + self.form.coefficient(iname) * iteration
        for name in self.form.names() - {iname}:
            factor = self.form.coefficient(name)
            inside = project_onto(self.statement.domain, self.statement.dims, [iname, name])
            first, last = constant_bounds(at_sizes(inside, sizes).fix_val(isl.dim_type.set, 0, iteration), 1)
            if first is None or last is None:
                return ()
            low += min(factor * first, factor * last)
            high += max(factor * first, factor * last)
        return range(low, high + 1)


@dataclass(frozen=True, eq=False)
class Phase:
    """Neighbouring statements of one kind in the body of the loop, or a barrier.

    Attributes
    ----------
    pending
        Later groups of copies, or of products, that may be under way after a wait.
    number
        The number of a barrier among those of all launches; None for statements.
    is_single
        True if one thread starts the copies of all.
    """

    does: Does
    statements: tuple[Statement, ...] = ()
    touches: tuple[Touch, ...] = ()
    pending: int = 0
    number: int | None = None
    is_single: bool = False
    scope: Scope = Scope.BLOCK
    quiet_before: int | None = None
    """Iterations before this one do not execute the barrier."""

    def runs_at(self, iname: str, iteration: int, sizes: Mapping[str, int]) -> bool:
        """Return whether anything of it is executed in an iteration."""
        if self.number is not None:
            return self.quiet_before is None or iteration >= self.quiet_before
        return any(_is_executed(statement, iname, iteration, sizes) for statement in self.statements)


def _is_executed(statement: Statement, iname: str, iteration: int, sizes: Mapping[str, int]) -> bool:
    kept = at_sizes(project_onto(statement.domain, statement.dims, [iname]), sizes)
    return not kept.fix_val(isl.dim_type.set, 0, iteration).is_empty()


@dataclass(frozen=True, eq=False)
class Staged:
    """A loop in whose body buffers of several slots are filled."""

    launch: Launch
    iname: str
    phases: tuple[Phase, ...]
    buffers: Mapping[str, int] = field(default_factory=dict)
    """Number of slots by buffer; 1 for registers that hold a tile until it is stored."""

    def bounds(self, sizes: Mapping[str, int]) -> tuple[int | None, int | None]:
        """Return the first and the last iteration."""
        found = [
            constant_bounds(at_sizes(project_onto(s.domain, s.dims, [self.iname]), sizes), 0)
            for phase in self.phases for s in phase.statements
        ]  # fmt: skip
        lows, highs = [low for low, _ in found if low is not None], [high for _, high in found if high is not None]
        return min(lows, default=None), max(highs, default=None)


def staged_loops(verified: Verified) -> Iterator[Staged]:
    """Yield the loops of all launches that fill buffers of several slots, each the innermost that turns these slots."""
    start = 0
    for launch in verified.schedule.launches:
        yield from _visited(verified, launch, launch.tree, start)
        start += _barriers(launch.tree)


def _barriers(tree: Tree) -> int:
    return sum(isinstance(node, Barrier) for node in _flat(tree))


def _visited(verified: Verified, launch: Launch, tree: Tree, start: int) -> Iterator[Staged]:
    """Yield the loops of *tree*, whose first barrier has number *start*."""
    for node in tree:
        if isinstance(node, Barrier):
            start += 1
        elif isinstance(node, Loop):
            found = _staged(verified, launch, node, start)
            yield from () if found is None else (found,)
            yield from _visited(verified, launch, node.body, start)
            start += _barriers(node.body)


def _staged(verified: Verified, launch: Launch, loop: Loop, start: int) -> Staged | None:
    """Return the events of *loop*; None if it turns no slots, or in a way that is not told by its iname."""
    statements = verified.schedule.statements
    inside = [statements[name] for name in runs(loop.body) if name in statements]
    turned = {
        name: slots for statement in inside if not _is_wait(statement)
        for name, slots, form in _rotated(statement.lhs) if loop.iname in form.names()
    }  # fmt: skip
    for statement in inside:  # all accesses have to be told
        for name in {*turned} & {array_name(part) for side in _sides(statement) for part in accesses(side)}:
            own = [touch for touch in _touches(statement, turned) if touch.buffer == name]
            times = sum(array_name(part) == name for side in _sides(statement) for part in accesses(side))
            both = not _is_wait(statement) and array_name(statement.lhs) == name and times > 1
            if both or len(own) != times or not all(_is_told(touch, loop.iname) for touch in own):
                turned.pop(name)
    if not turned:
        return None
    front = verified.schedule.loops.fronts.get(loop.iname)
    quiet = front.end if front is not None and front.is_quiet else None
    phases, held = [*_phases(statements, loop, turned, start, quiet)], _held(inside, turned)
    if held:
        phases = [*_with_registers(phases, held)]
    return Staged(launch, loop.iname, tuple(phases), {**dict.fromkeys(held, 1), **turned})


def _is_wait(statement: Statement) -> bool:
    return isinstance(statement.action, AwaitCopy | AwaitBox | AwaitProducts)


def _sides(statement: Statement) -> tuple[Expression, ...]:
    """Return the sides that are accessed: a wait has those of what it waits for."""
    return (statement.lhs,) if _is_wait(statement) else (statement.lhs, statement.rhs)


def _rotated(side: Expression) -> Iterator[tuple[str, int, Affine]]:
    """Yield the arrays that a side of a statement subscripts by a remainder: slots, and the form of the tile."""
    for part in accesses(side):
        if isinstance(part, p.Subscript):
            for index in part.index_tuple:
                if isinstance(index, p.Remainder) and isinstance(index.denominator, int):
                    form = affine_of(index.numerator)
                    if form is not None:
                        yield array_name(part), index.denominator, form
                        break


def _touches(statement: Statement, turned: Mapping[str, int]) -> list[Touch]:
    return [
        Touch(name, slots, form, statement)
        for side in _sides(statement) for name, slots, form in _rotated(side) if turned.get(name) == slots
    ]  # fmt: skip


def _is_told(touch: Touch, iname: str) -> bool:
    """Return whether the tile of an access follows from the iteration, up to loops of constant bounds inside."""
    dims, domain = touch.statement.dims, touch.statement.domain
    for name in touch.form.names() - {iname}:
        if name not in dims or iname not in dims or dims.index(name) < dims.index(iname):
            return False
        if None in constant_bounds(domain, dims.index(name)):
            return False
    return True


def _phases(
    statements: Mapping[str, Statement], loop: Loop, turned: Mapping[str, int], start: int, quiet: int | None
) -> Iterator[Phase]:
    """Yield the phases of the body, in the order of the text."""
    numbers, group, kind = count(start), list[Statement](), Does.USE

    def made() -> Phase:
        touches = [touch for statement in group for touch in _touches(statement, turned)]
        pending = max((getattr(s.action, "pending", 0) or 0 for s in group), default=0)
        single = kind is Does.START and all(_is_box(s) for s in group)
        return Phase(kind, tuple(group), tuple(touches), pending, is_single=single)

    for node in _flat(loop.body):
        if isinstance(node, Barrier):
            number = next(numbers)
            if node.scope is Scope.THREAD:
                continue
            if group:
                yield made()
                group = []
            yield Phase(Does.BARRIER, number=number, scope=node.scope, quiet_before=quiet)
        elif isinstance(node, Run):
            statement = statements[node.name]
            does = _does(statement, turned)
            if group and does is not kind:
                yield made()
                group = []
            kind = does
            group.append(statement)
    if group:
        yield made()


def _is_box(statement: Statement) -> bool:
    """Return whether one thread starts the copies for all."""
    return isinstance(statement.action, StartBox) or bool(getattr(statement.action, "box", None))


def _flat(tree: Tree) -> Iterator[Node]:
    for node in tree:
        if isinstance(node, Loop):
            yield from _flat(node.body)
        else:
            yield node


def _does(statement: Statement, turned: Mapping[str, int]) -> Does:
    match statement.action:
        case AwaitCopy() | AwaitBox():
            return Does.AWAIT
        case AwaitProducts():
            return Does.FINISH
        case StartCopy() | StartBox():
            return Does.START
    if any(name in turned for name, _, _ in _rotated(statement.lhs)):
        return Does.STORE
    return Does.USE


def _held(inside: Sequence[Statement], turned: Mapping[str, int]) -> dict[str, Touch]:
    """Return the registers that hold a tile from its load to its store, in the next iteration: the store of each."""
    found: dict[str, Touch] = {}
    order = {statement.name: number for number, statement in enumerate(inside)}
    for store in inside:
        into = [touch for touch in _touches(store, turned) if touch.buffer == array_name(store.lhs)]
        if not into or _does(store, turned) is not Does.STORE:
            continue
        for load in inside:
            name = array_name(load.lhs)
            if order[load.name] > order[store.name] and name in variables(store.rhs) and name not in turned:
                found[name] = into[0]
    return found


def _with_registers(phases: Sequence[Phase], held: Mapping[str, Touch]) -> Iterator[Phase]:
    """Yield the phases with the loads of registers apart, and with accesses of these registers."""
    for phase in phases:
        groups: dict[Does, list[Statement]] = {}
        for statement in phase.statements:
            is_load = phase.does is Does.USE and array_name(statement.lhs) in held
            groups.setdefault(Does.LOAD if is_load else phase.does, []).append(statement)
        if not groups:
            yield phase
        for does, group in groups.items():
            touches = [touch for touch in phase.touches if touch.statement in group]
            for statement in group:
                for name, store in held.items():
                    if does is Does.LOAD and array_name(statement.lhs) == name:
                        ahead = {x: Affine.variable(x).add(Affine((), 1)) for x in store.form.names()}
                        touches.append(Touch(name, 1, store.form.substitute(ahead), statement))
                    elif does is Does.STORE and statement is store.statement:
                        touches.append(Touch(name, 1, store.form, statement))
            yield Phase(does, tuple(group), tuple(touches))
