"""Functions of a program: from the loop tree of a launch to a C tree."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from polyloop.codegen.arguments import held_dtype
from polyloop.codegen.language import AXIS_NAMES
from polyloop.codegen.loops.blocks import Numbering, numbering_of
from polyloop.codegen.loops.context import Context
from polyloop.codegen.loops.digits import digits_of
from polyloop.codegen.loops.grid import GridAxis, hardware_axes
from polyloop.codegen.loops.hosts import HostLoop, host_loops
from polyloop.codegen.loops.joined import launch_axes
from polyloop.codegen.loops.loops import Loops
from polyloop.codegen.loops.regions import sequential_tree
from polyloop.codegen.loops.roles import in_roles
from polyloop.codegen.memory import asks_for_shared, declare_temporaries
from polyloop.codegen.scope import Memory, NameTypes, Scope
from polyloop.codegen.tree.c_ast import Block
from polyloop.codegen.tree.divergence import refuse_divergent
from polyloop.codegen.tree.empty_groups import without_empty_groups
from polyloop.codegen.tree.held_waits import held_waits
from polyloop.codegen.tree.indices import Indices
from polyloop.codegen.tree.shuffles import shared_shuffles
from polyloop.codegen.unit import Unit
from polyloop.codegen.walk import Walker
from polyloop.frozen import replace
from polyloop.kernel.arrays import AddressSpace
from polyloop.kernel.tree import runs
from polyloop.poly.affine import Affine
from polyloop.poly.axes import AXES, CLUSTER_AXIS, is_axis, thread_axis
from polyloop.schedule.copy_engine import AwaitBox
from polyloop.schedule.joined import launch_behind, launch_in_front
from polyloop.schedule.plan import Launch, Tensor
from polyloop.schedule.storage import Storage

__all__ = ["Function", "function_of", "hardware_of"]

_ZERO: Final = ((Affine((), 0),),)


@dataclass(frozen=True, eq=False)
class Function:
    """The function of a launch as a C tree.

    Attributes
    ----------
    dynamic_shared
        Dynamic shared memory of the launch [bytes].
    axes
        Group axes, with their extents.
    around
        Loops of the host around the launch, outermost first.
    loops
        The generator of its loops.
    known
        Facts that hold inside of the loops of the host.
    numbering
        The numbers of blocks that have an order of their own, None in the order of the grid.
    asked
        Rows over parameters and inames of the host that the host tests, beside the conditions of the launch.
    """

    launch: Launch
    scope: Scope
    body: Block
    dynamic_shared: int
    axes: Sequence[GridAxis]
    around: Sequence[HostLoop] = ()
    loops: Loops | None = None
    known: Context = field(default_factory=Context)
    numbering: Numbering | None = None
    asked: Sequence[Affine] = ()


def function_of(launch: Launch, unit: Unit) -> Function:
    """Return the function of *launch*: for one thread of a device, or on a host with loops over threads."""
    if not any(True for _ in runs(launch.tree)):  # the opening alone has no effect
        nothing = [GridAxis(axis, _ZERO, _ZERO, 0, ()) for axis in launch.grid_axes]
        return Function(launch, _scope(launch, unit), (), 0, nothing)
    return _on_device(launch, unit) if unit.language.has_axes else _on_host(launch, unit)


def hardware_of(launch: Launch, unit: Unit) -> dict[str, str]:
    """Return the grid axis of each group axis of a launch (see :func:`hardware_axes`)."""
    return hardware_axes(launch.grid_axes if unit.language.has_axes else ())


def _on_host(launch: Launch, unit: Unit) -> Function:
    """Return a function with loops over blocks and threads."""
    taken = unit.names({a.name for a in unit.inputs.arguments} | {t.name for t in launch.temporaries})
    sequential = sequential_tree(launch, unit.schedule, taken)
    launch = replace(launch, temporaries=(*launch.temporaries, *sequential.temporaries))
    scope = _scope(launch, unit, sequential.expanded)
    schedule = replace(unit.schedule, statements={**unit.schedule.statements, **sequential.statements})
    walker = Walker(scope, schedule, launch.hosts, _extents(launch), launch.local_size)
    around, context = host_loops(launch, unit.schedule.launches, walker.loops, unit.known.context)
    body = walker.run(sequential.tree, context)
    return Function(launch, scope, *declare_temporaries(body, launch, scope), (), around, walker.loops, context)


def _on_device(launch: Launch, unit: Unit) -> Function:
    """Return a function for one thread of a device."""
    statements, magnitudes = unit.statements(launch), unit.findings.magnitudes
    scope = _scope(launch, unit)
    extents, digits = _extents(launch), digits_of(statements)
    extents |= {axis: digit.extent for axis, digit in digits.items()}
    extents |= {axis: launch.cluster for axis in launch.group_axes if axis == CLUSTER_AXIS}
    walker = Walker(scope, unit.schedule, (*launch.hosts, *launch.grid_axes, *extents), extents, launch.local_size)
    around, outside = host_loops(launch, unit.schedule.launches, walker.loops, unit.known.context)
    axes = launch_axes(launch, unit.schedule, outside, unit.known.divisibility)
    context = outside.add(row for axis in axes for row in axis.rows)
    for axis in axes:
        magnitudes.define(axis.name, (*axis.upper, *axis.lower), context.interval(axis.name)[0])
    for name, size in extents.items():
        context = context.add([Affine(((name, 1),), 0), Affine(((name, -1),), size - 1)])
        magnitudes.define(name, ((Affine((), size),),), 0)
    asked = _asked(launch, unit, walker, outside, context)
    outside, context = outside.add(asked), context.add(asked)
    numbering = numbering_of(launch, axes, scope, context)
    opening = walker.run(launch.turns.opening, context) if launch.turns.opening else ()
    crew = launch.turns.crew
    front = launch_in_front(unit.schedule.launches, launch)
    meeting = crew if crew is not None or front is None else front.turns.crew
    walker.role = 0 if meeting is None else meeting.threads
    ahead = walker.run(launch.ahead, context) if launch.ahead else ()
    if numbering is not None and ahead:
        walker.ahead = (numbering.of_next(ahead, has_axes=crew is None),)
    closing = walker.run(launch.turns.closing, context) if launch.turns.closing else ()
    body = walker.run(launch.tree, context)
    for axis in axes:
        if axis.name in scope.used and not axis.starts_at_zero:
            magnitudes.record(Affine.variable(axis.name))
    body = held_waits(shared_shuffles(body, scope), scope)
    body = without_empty_groups(body, scope, is_whole=not launch.order.persists)
    tensors = [statement.action for statement in statements if isinstance(statement.action, Tensor)]
    together = max((tensor.product.intrinsic.lanes for tensor in tensors), default=1)
    refuse_divergent(body, scope, digits.values(), together, next(iter(launch.local_size), 1))

    copies = {watch.thread: walker.run(watch.tree, context) for watch in (() if crew is None else crew.watches)}

    def in_turn(body: Block) -> Block:
        turns, parts = numbering if launch.order.persists else None, copies
        if turns is not None:
            first = (turns.of_first(ahead, has_axes=crew is None),) if ahead else ()
            body = (*first, turns.in_turn(body), *closing)
            parts = {thread: (turns.in_turn(block),) for thread, block in copies.items()}
        if crew is not None:
            goes_on = launch_behind(unit.schedule.launches, launch) is not None
            body = in_roles(crew, scope.language, parts, body, goes_on=goes_on)
        return body if turns is None and crew is None else (*opening, *body)

    kept = {s.action.phases for s in statements if isinstance(s.action, AwaitBox)} if launch.order.persists else set()
    kept |= set() if crew is None else {name for watch in crew.watches for name in watch.private}
    body, dynamic = declare_temporaries(body, launch, scope, in_turn, kept)
    return Function(launch, scope, body, dynamic, axes, around, walker.loops, outside, numbering, asked)


def _asked(launch: Launch, unit: Unit, walker: Walker, outside: Context, inside: Context) -> Sequence[Affine]:
    """Return the rows that all statements of a launch need, and that no grid without blocks implies.

    ::

        for t:  x[i] = ..  {if=t % 10 == 0}
        ->
        for t:  if t % 10 == 0: launch
    """
    schedule = unit.schedule
    if not launch.hosts and len(schedule.launches) == 1:
        return ()
    if launch_behind(schedule.launches, launch) is not None or launch_in_front(schedule.launches, launch) is not None:
        return ()
    return [row for row in walker.guard(launch.tree, outside, frozenset(launch.hosts)) if not inside.implies(row)]


def _extents(launch: Launch) -> dict[str, int]:
    return {thread_axis(n): size for n, size in enumerate(launch.local_size)}


# {{{ names, types and storage


def _scope(launch: Launch, unit: Unit, expanded: Mapping[str, tuple[str, ...]] | None = None) -> Scope:
    """Return the names, types and storage of the function of *launch*."""
    schedule, inputs = unit.schedule, unit.inputs
    statements = unit.statements(launch)
    storage = {t.name: t for t in launch.temporaries}
    storage |= {n: Storage(n, t.dtype, t.shape, AddressSpace.GLOBAL) for n, t in schedule.file_scope.tables.items()}
    bounds = frozenset(name for statement in statements for name in statement.bounds)
    for name in bounds:
        unit.findings.magnitudes.define_read(name, storage[name].dtype)
    dims = {dim for statement in statements for dim in statement.dims}.union(launch.hosts)
    own = [dim for dim in dims if dim not in bounds and not is_axis(dim)]
    taken = {*(a.name for a in inputs.arguments), *storage, *own, *unit.table_names.values(), *unit.reserved}
    names = unit.names(taken.union(unit.definitions.records.values(), unit.definitions.helper_names.values()))
    values: dict[str, str | int] = {p: p for p in inputs.index_names}
    hardware = hardware_of(launch, unit)
    values |= {axis: names.fresh(AXIS_NAMES[hardware.get(axis, axis)]) for axis in AXES}
    values |= {axis: names.fresh(schedule.indices.digit_names.get(axis, "t")) for axis in digits_of(statements)}
    values |= {dim: dim for dim in own}
    pools = dict(_pools(launch, unit, names.fresh))
    dtypes: dict[str, np.dtype[np.generic] | None] = {a.name: held_dtype(a) for a in inputs.arguments}
    dtypes |= {name: array.dtype for name, array in inputs.arrays.items()}
    dtypes |= {t.name: t.dtype for t in storage.values()}
    dtypes |= dict.fromkeys(values, np.dtype(f"int{unit.index_bits}"))
    value_dtypes = dict.fromkeys(values, schedule.indices.dtype)
    value_dtypes |= dict.fromkeys(schedule.indices.long & values.keys(), np.dtype(np.int64))
    value_dtypes |= {a.name: a.dtype for a in inputs.arguments if a.name in values and a.dtype is not None}
    memory = Memory(inputs.arrays, storage, inputs.split, pools, unit.table_names, expanded or {}, bounds)
    return Scope(
        unit.definitions, unit.findings, unit.known.divisibility, names, values,
        NameTypes(dtypes, value_dtypes, unit.index_bits), memory, Indices(_indices(dims, unit), inputs.index_names),
    )  # fmt: skip


def _pools(launch: Launch, unit: Unit, fresh: Callable[[str], str]) -> Iterator[tuple[str, str]]:
    """Yield the temporaries that share storage, with the C name of the storage."""
    members: dict[str, list[str]] = {}
    for temporary in launch.temporaries if not asks_for_shared(launch, unit.language) else ():
        if temporary.pool is not None:
            members.setdefault(temporary.pool, []).append(temporary.name)
    for pool, many in members.items():
        if len(many) > 1:
            yield from dict.fromkeys(many, fresh(pool)).items()


def _indices(dims: Iterable[str], unit: Unit) -> Iterator[tuple[str, Affine]]:
    """Return the named indices whose parts all are dimensions or parameters of a function over *dims*."""
    known = {*dims, *unit.inputs.index_names}
    return ((name, form) for name, form in unit.schedule.indices.named if form.names() <= known)


# }}}
