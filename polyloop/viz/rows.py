"""The transformed loop tree of a kernel as rows of text: launches, axes, loops, statements, barriers with reasons."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import reduce
from itertools import count
from math import prod
from typing import Final

import islpy as isl
import pymbolic.primitives as p

from polyloop.codegen.loops.grid import plain_grid
from polyloop.errors import PolyloopError
from polyloop.expr.nodes import Expression
from polyloop.expr.printer import show
from polyloop.expr.rewrite import substitute
from polyloop.kernel.kernel import LoopKernel
from polyloop.kernel.tags import Sequential
from polyloop.kernel.tree import Barrier, Loop, Run, Scope, Tree, has_barrier, runs, show_tree
from polyloop.poly.axes import CLUSTER_AXIS, is_block_axis, is_thread_axis
from polyloop.poly.interval_text import interval_text
from polyloop.poly.sets import project_onto
from polyloop.program.lower import lower
from polyloop.schedule.build import Verified, build_verified
from polyloop.schedule.joined import launch_behind
from polyloop.schedule.plan import (
    Atomic,
    AwaitCopy,
    AwaitProducts,
    Launch,
    StartCopy,
    Statement,
    Update,
    Wait,
    program_tree,
)
from polyloop.schedule.storage import shared_bytes
from polyloop.schedule.waits import wait_kind
from polyloop.target.base import Target, target_of
from polyloop.target.cuda import CudaTarget
from polyloop.target.source import generate_code

__all__ = ["Kind", "Row", "loop_rows"]

_MOST_LETTERS: Final = 96
"""Characters of a line on the grid of a launch, behind which its blocks have a line of their own."""


class Kind(Enum):
    """Kind of a row."""

    LAUNCH = "launch"
    AXIS = "axis"
    LOOP = "loop"
    STATEMENT = "statement"
    BARRIER = "barrier"
    REASON = "reason"
    END = "end of a launch"
    NOTE = "note"


@dataclass(frozen=True)
class Row:
    """One row: ``name`` is the iname of a loop or the id of an instruction, ``tag`` the way in which a loop runs."""

    depth: int
    kind: Kind
    text: str
    name: str = ""
    tag: str = ""


def loop_rows(kernel: LoopKernel, target: Target | None = None) -> tuple[Row, ...]:
    """Return the rows of the scheduled kernel; of its loops alone, and the reason, where it cannot be scheduled yet."""
    chosen = target_of(kernel, target) or CudaTarget()
    try:
        verified = build_verified(kernel, chosen.limits)
    except PolyloopError as error:
        return tuple(_unscheduled(kernel, error))
    return tuple(_Rows(verified, _grids(kernel, verified, chosen)).all())


def _unscheduled(kernel: LoopKernel, error: PolyloopError) -> Iterator[Row]:
    """Yield the loops of the program, without barriers and launches, and the error."""
    first = error.found[0].message if error.found else str(error)
    yield Row(0, Kind.LAUNCH, f"kernel {kernel.name}")
    for iname in kernel.iname_tags:
        if (axis := kernel.axis(iname)) is not None:
            yield Row(1, Kind.AXIS, f"{axis}: {iname}")
    try:
        program = lower(kernel)
    except PolyloopError:
        program = None
    if program is not None:
        yield from _plain(program.tree, 1, lambda name: program.statements[name].instruction.id, kernel)
    yield Row(1, Kind.NOTE, f"no launches and barriers yet: {first}")


def _plain(tree: Tree, depth: int, owner: Callable[[str], str], kernel: LoopKernel) -> Iterator[Row]:
    for node in tree:
        match node:
            case Loop(iname, body):
                yield Row(depth, Kind.LOOP, f"for {iname}", iname, _tag(kernel, iname))
                yield from _plain(body, depth + 1, owner, kernel)
            case Run(name):
                yield Row(depth, Kind.STATEMENT, str(kernel.instruction(owner(name))), owner(name))
            case Barrier():
                yield Row(depth, Kind.BARRIER, show_tree((node,), str).removeprefix("... "))


def _grids(kernel: LoopKernel, verified: Verified, target: Target) -> Mapping[str, Sequence[Expression]]:
    """Return the numbers of blocks of the launches by name; none where the target cannot express the kernel.

    Code is generated for those alone that the host counts.
    """
    schedule, found = verified.schedule, dict[str, Sequence[Expression]]()
    if not target.language.has_axes:
        return found
    for launch in schedule.launches:
        statements = [schedule.statements[name] for name in runs(launch.tree) if name in schedule.statements]
        grid = plain_grid(launch, statements, schedule.contract.assumptions) if launch.group_axes else ()
        if grid is None:
            break
        found[launch.name] = grid
    else:
        return found
    try:
        return {launch.name: launch.grid for launch in generate_code(kernel, target).launches}
    except PolyloopError:
        return {}


def _tag(kernel: LoopKernel, iname: str) -> str:
    tag = kernel.tag(iname)
    return "" if type(tag) is Sequential else str(tag)


class _Rows:
    """The rows of one scheduled kernel."""

    def __init__(self, verified: Verified, grids: Mapping[str, Sequence[Expression]]) -> None:
        self.kernel, self.verified, self.grids = verified.placement.program.kernel, verified, grids
        self.schedule = verified.schedule
        self.launches = {launch.name: launch for launch in self.schedule.launches}
        self.barriers = count()
        self.names: dict[str, dict[str, Expression]] = {}
        axes = verified.placement.axes
        threads = prod(extent or 1 for extent in axes.extents.values())
        for placed in verified.placement.statements.values():
            own = self.names.setdefault(placed.lowered.instruction.id, {})
            for iname in placed.lowered.inames:
                axis = self.kernel.axis(iname)
                if axis is not None and not axes.first.get(axis, 0):
                    if axis.endswith("."):  # the highest digit, which code generation knows with its extent
                        axis = f"{axis}{threads // int(axis.split('.')[1])}"
                    own.setdefault(axis, p.Variable(iname))

    def all(self) -> Iterator[Row]:
        """Yield the rows of all launches, of the loops of the host around them, and the reasons for their ends."""
        yield from self.host(program_tree(self.schedule.launches), 0, ())

    def host(self, tree: Tree, depth: int, around: Sequence[str]) -> Iterator[Row]:
        """Yield the rows of launches, and of the loops of the host around them."""
        for node in tree:
            match node:
                case Loop(iname, body):
                    inames = (*around, iname)
                    inside = [self.launches[name] for name in runs(body)]
                    bounds = self.common_bounds(inames, [name for launch in inside for name in runs(launch.tree)])
                    yield Row(depth, Kind.LOOP, f"for {bounds}, on the host", iname, _tag(self.kernel, iname))
                    yield from self.host(body, depth + 1, inames)
                    ended = [w for w in self.verified.waits if w.by.startswith("the launches of") and w.loop == iname]
                    yield from self.end(f"each iteration of {iname}", ended, depth + 1)
                case Run(name):
                    yield from self.launch(self.launches[name], depth)

    def launch(self, launch: Launch, depth: int) -> Iterator[Row]:
        """Yield the rows of a launch."""
        yield Row(depth, Kind.LAUNCH, f"launch {launch.name}")
        grid, *others = self.sizes(launch)
        one = ", ".join((grid, *others))
        lines = [one] if len(one) <= _MOST_LETTERS else [grid, ", ".join(others)]
        yield from (Row(depth + 1, Kind.AXIS, line) for line in lines)
        yield from self.axes(launch, depth + 1)
        yield from self.tree(launch.tree, depth + 1)
        if (behind := launch_behind(self.schedule.launches, launch)) is not None:
            arrived = [w for w in self.verified.waits if w.by.startswith(f"blocks of '{launch.name}'")]
            yield Row(depth, Kind.END, f"the last block along {behind.turns.joins} to arrive goes on")
            yield from self.reasons(arrived, depth + 1)
        elif launch.name != self.schedule.launches[-1].name:
            ended = [w for w in self.verified.waits if w.by.startswith(f"launch '{launch.name}' ends")]
            yield from self.end(f"launch {launch.name}", ended, depth)

    def end(self, what: str, waits: Sequence[Wait], depth: int) -> Iterator[Row]:
        """Yield the end of launches, and what waits for it."""
        yield Row(depth, Kind.END, f"end of {what}")
        yield from self.reasons(waits, depth + 1)

    def sizes(self, launch: Launch) -> list[str]:
        """Return ``grid ((n + 15) // 16) x 4``, ``blocks of 16 x 16 threads``, ``2048 bytes of shared memory``."""
        if not launch.group_axes and not launch.local_size:
            return ["one thread"]
        parts = []
        known = self.grids.get(launch.name)
        if known is not None and launch.group_axes:
            sizes = [size if isinstance(size, int) else show(size) for size in known]
            while len(sizes) > 1 and sizes[-1] == 1:
                sizes.pop()
            parts.append(f"grid {' x '.join(f'{size}' if len(sizes) == 1 else f'({size})' for size in sizes)}")
        size = " x ".join(map(str, launch.block)) or "1"
        parts.append(f"blocks of {size} threads")
        if launch.cluster > 1:
            parts.append(f"clusters of {launch.cluster} blocks")
        if launch.order.persists:
            parts.append(f"at most {launch.order.most} that execute the others, too")
        if launch.turns.crew is not None:
            parts += launch.turns.crew.lines()
        if nbytes := shared_bytes(launch.temporaries):
            parts.append(f"{nbytes} bytes of shared memory")
        return parts

    def axes(self, launch: Launch, depth: int) -> Iterator[Row]:
        """Yield the inames on each axis."""
        found: dict[str, dict[str, None]] = {}
        placed = self.verified.placement.statements
        for statement in (placed[name] for name in runs(launch.tree) if name in placed):
            for iname in statement.lowered.inames:
                if (axis := self.kernel.axis(iname)) is not None:
                    found.setdefault(axis, {})[iname] = None
        for axis in sorted(found):
            what = "blocks of a cluster" if axis == CLUSTER_AXIS else "blocks" if is_block_axis(axis) else "threads"
            yield Row(depth, Kind.AXIS, f"{_axis_text(axis)}: {', '.join(found[axis])}", tag=what)

    def tree(self, tree: Tree, depth: int) -> Iterator[Row]:
        """Yield the rows of a block."""
        for node in tree:
            match node:
                case Loop(iname, body) if self.is_shown(node):
                    yield Row(depth, Kind.LOOP, f"for {self.bounds(iname, body)}", iname, _tag(self.kernel, iname))
                    yield from self.tree(body, depth + 1)
                case Loop(_, body):
                    yield from self.tree(body, depth)
                case Run(name) if name in self.schedule.statements:
                    statement = self.schedule.statements[name]
                    yield Row(depth, Kind.STATEMENT, self.statement(statement), statement.instruction)
                case Barrier():
                    yield Row(depth, Kind.BARRIER, _barrier(node))
                    number = next(self.barriers)
                    yield from self.reasons([w for w in self.verified.waits if w.barrier == number], depth)

    def reasons(self, waits: Sequence[Wait], depth: int) -> Iterator[Row]:
        """Yield the dependences that ask for a barrier: one row for each array and pair of instructions."""
        found: dict[tuple[str, str, str], list[str | None]] = {}
        for wait in waits:
            found.setdefault((wait.array, wait.first, wait.second), []).append(wait.loop)
        for (array, first, second), loops in found.items():
            later = sorted({loop for loop in loops if loop is not None})
            when = f"{'this and ' * (None in loops)}a later iteration of {', '.join(later)}" if later else ""
            when = f"in {when}" if when else ""
            kind = wait_kind(self.kernel, array, first, second)
            yield Row(depth + 1, Kind.REASON, " ".join(filter(None, (f"{array}:", kind, f"{first} -> {second}", when))))

    def is_shown(self, loop: Loop) -> bool:
        """Return whether a loop runs, and is no placeholder around an operation that covers all of it."""
        known = self.schedule.statements
        return any(loop.iname in known[name].dims for name in runs(loop.body) if name in known)

    def bounds(self, iname: str, body: Tree) -> str:
        """Return ``k in [0, n)``: the bounds of a loop, of all threads together if these meet in it."""
        inside = [self.schedule.statements[name] for name in runs(body) if name in self.schedule.statements]
        inside = [statement for statement in inside if iname in statement.dims]
        first, known = inside[0], self.kernel.assumptions
        around = first.dims[: first.dims.index(iname) + 1]
        if not has_barrier(body):
            return interval_text(first.domain, first.dims, len(around) - 1, known, self.axis_names(first))
        kept = [name for name in around if not is_thread_axis(name)]
        return self.common_bounds(kept, runs(body))

    def common_bounds(self, dims: Sequence[str], names: Iterable[str]) -> str:
        """Return the bounds of the last of *dims* for all statements of these names together."""
        inside = [s for name in names if {*dims} <= {*(s := self.schedule.statements[name]).dims}]
        whole = reduce(isl.Set.union, [project_onto(s.domain, s.dims, dims) for s in inside]).coalesce()
        return interval_text(whole, dims, len(dims) - 1, self.kernel.assumptions, self.axis_names(inside[0]))

    def axis_names(self, statement: Statement) -> Mapping[str, Expression]:
        """Return the iname of a statement for each axis that stands for one, and others in terms of the thread."""
        digits = {axis: _digit_text(digit.stride, digit.extent) for axis, digit in statement.digits.items()}
        return {**digits, **self.names.get(statement.instruction, {})}

    def statement(self, statement: Statement) -> str:
        """Return the assignment in its inames."""
        names = self.axis_names(statement)
        left, right = (show(substitute(side, names)) for side in (statement.lhs, statement.rhs))
        guard = " and ".join(show(substitute(each, names)) for each in statement.predicates)
        return _assigned(statement, left, right) + (f" if {guard}" if guard else "")


_THREAD = p.Variable("thread")


def _digit_text(stride: int, extent: int | None) -> Expression:
    """Return a digit of the thread number: ``thread // 4 % 8``."""
    found: Expression = _THREAD if stride == 1 else p.FloorDiv(_THREAD, stride)
    return found if extent is None else p.Remainder(found, extent)


def _axis_text(axis: str) -> str:
    """Return the name of an axis; of a digit ``thread // 4 % 8``."""
    _, stride, *extent = axis.split(".")
    if not extent:
        return axis
    return show(_digit_text(int(stride), int(extent[0]) if extent[0] else None))


_SIGNS = {"sum": "+=", "product": "*="}


def _assigned(statement: Statement, left: str, right: str) -> str:
    """Return a statement as text: an assignment, or what it does together with other threads."""
    match statement.action:
        case Update(operation):
            sign = _SIGNS.get(operation.name)
            return f"{left} {sign} {right}" if sign else f"{left} = {operation.name}({left}, {right})"
        case StartCopy():
            return f"start copy {left} = {right}"
        case AwaitCopy(pending):
            return f"await copy {left} = {right}" + (f", but for {pending} later" if pending else "")
        case AwaitProducts(pending=pending):
            return f"await products of {left}" + (f", but for {pending} later" if pending else "")
        case Atomic(operation):
            return f"{left} {operation}= {right} atomically"
    if (together := statement.collective) is not None:
        return f"{left} = {together.operation.name} of {left} over {', '.join(together.across)}"
    return f"{left} = {right}"


_GROUPS = {False: "copies", True: "products"}


def _barrier(barrier: Barrier) -> str:
    """Return the name of a barrier, and the operations that it ends or awaits."""
    if barrier.scope is not Scope.THREAD:
        if barrier.opens:
            return "wait for the blocks of the cluster to begin"
        name = f" '{barrier.name}'" if barrier.name else ""
        return f"barrier of the {barrier.scope.value}{name}"
    group = barrier.group
    if group is None:
        return "fence: stores become visible to matrix instructions"
    what = _GROUPS[group.products]
    if not group.arrivals:
        return f"end of a group of {what}"
    return f"wait for {what}" + (f", all but the last {group.pending} groups" if group.pending else "")
