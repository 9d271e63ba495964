"""Divided kernels inside of JAX's ``shard_map``: the plan of a mesh as collective operations of JAX.

::

    exchange of boxes       ->    lax.ppermute, one for each distance between ranks
    reduction over axes     ->    lax.psum, pmax, pmin; psum_scatter where each rank needs its block alone
    call of a phase         ->    lax.switch over what differs between ranks, of custom calls

One program stands for all ranks, so that parts, windows and messages have one shape on all: blocks that are shorter
have room behind them, and what is sent of it is not written.
"""
# ruff: noqa: ANN401  # arrays of JAX, and tracers

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import numpy as np

from polyloop.distributed.analysis import Analysis
from polyloop.distributed.distribute import DistributedKernel
from polyloop.distributed.execute import neutral
from polyloop.distributed.fields import Storage
from polyloop.distributed.local import Local
from polyloop.distributed.plan import Combine, Exchange, Message, Node, Plan, Repeat, Run, nodes_in
from polyloop.distributed.planning import planned
from polyloop.distributed.regions import Box, Coordinates, hull_of
from polyloop.errors import ArgumentError, Diagnostic, unknown_name
from polyloop.frozen import replace
from polyloop.interop.jaxcall import JaxFunction, call
from polyloop.interop.operands import library_of
from polyloop.kernel.arrays import ArrayArg
from polyloop.kernel.kernel import LoopKernel
from polyloop.target.base import Target

__all__ = ["ShardedFunction", "sharded"]

_STEP: Final = "jax.sharded"
_Hosts: TypeAlias = Mapping[str, int]
_Starts: TypeAlias = "tuple[int, ...]"


def sharded(
    divided: DistributedKernel, axis_names: str | Sequence[str], *, target: Target | None = None
) -> ShardedFunction:
    """Return a divided kernel as a function for the inside of ``jax.shard_map``.

    ::

        divided = pl.distribute(heat, {"u": "block, *"}, over="i:mesh.0")
        step = polyloop.jax.sharded(divided, "x")

        jax.shard_map(lambda u: step(u=u, c=0.1, n=1024, steps=10)["u"],
                      mesh=jax.make_mesh((4,), ("x",)), in_specs=P("x"), out_specs=P("x"), check_vma=False)(u)

    Exchanges become ``lax.ppermute``, reductions over the mesh ``lax.psum`` and its like, from the same plan as of
    other engines, proven as theirs; each phase is a custom call as of :func:`polyloop.jax.call`.  What differs between
    devices is selected by ``lax.switch``.  Where data decides what is read of others, all that may be read is sent.

    Parameters
    ----------
    divided
        The result of :func:`polyloop.distribute`, whose kernels may have been transformed.
    axis_names
        Axes of JAX's mesh, in the order of the kernel's: ``"x"``, ``("x", "y")``.
    target
        As for :func:`polyloop.jax.call`.

    Returns
    -------
    ShardedFunction
        Called with the blocks of a device.  All devices have blocks of one length, as ``shard_map`` wants it: arrays
        whose extent the number of devices does not divide are padded at their end.

    Raises
    ------
    ArgumentError
        ``mesh-mismatch``: another number of axes than the kernel is divided over; ``bad-distribution``: it has
        ``packed=``; as :func:`polyloop.jax.call`.
    CompilerError
        As :func:`polyloop.jax.call`.
    """
    axes = (axis_names,) if isinstance(axis_names, str) else tuple(axis_names)
    analysis = divided.analysis
    if len(axes) != analysis.division.rank:
        raise ArgumentError(_STEP, analysis.source.name, [Diagnostic(
            "mesh-mismatch", f"{len(axes)} axes are named, and the kernel is divided over {analysis.division.rank}", (),
            ("name one axis of JAX's mesh for each of the kernel's",))])
    if any(analysis.packs.values()):
        raise ArgumentError(_STEP, analysis.source.name, [Diagnostic(
            "bad-distribution", "kernels that fill or empty buffers of messages are for engines that send them", (),
            ("divide without packed= and unpacked=: XLA packs beside what surrounds",))])
    kernels = divided.kernels
    functions = {local.phase.number: call(_in_place(kernels[local.kernel.name]), backward=False, target=target)
                 for local in analysis.locals}
    return ShardedFunction(analysis, functions, axes, divided.mesh)


def _in_place(kernel: LoopKernel) -> LoopKernel:
    """Return a kernel whose results begin as what their arrays have: it writes the box of a call alone."""
    return replace(kernel, arguments=tuple(
        replace(entry, is_input=True) if isinstance(entry, ArrayArg) else entry for entry in kernel.arguments))


@dataclass(eq=False)
class ShardedFunction:
    """A divided kernel as a function for the inside of ``jax.shard_map``; made by :func:`polyloop.jax.sharded`.

    A call takes the blocks of this device by name, whole arrays where the division has ``"*"``, and all sizes and
    scalars; sizes are integers of Python.  It returns what the kernel writes, by name.  Arrays of which the kernel
    reads no values before it writes them may be left out: what it does not write of them is 0 then.

    Attributes
    ----------
    axes
        Names of the axes of JAX's mesh, in the order of the kernel's.
    """

    analysis: Analysis
    functions: Mapping[int, JaxFunction]
    axes: tuple[str, ...]
    mesh: Coordinates | None
    _plans: dict[tuple[Coordinates, tuple[tuple[str, int], ...]], Plan] = field(default_factory=dict, init=False)

    def __repr__(self) -> str:
        return f"<ShardedFunction '{self.analysis.source.name}' over {', '.join(self.axes)}>"

    def __call__(self, **arguments: Any) -> dict[str, Any]:
        """Run the program on the blocks of this device, with those of all others.

        Raises
        ------
        ArgumentError
            ``mesh-mismatch``: outside of ``shard_map``, or another mesh; ``wrong-part``: a block of another shape;
            ``missing-argument``, ``unknown-argument``, ``missing-size``; as :func:`polyloop.jax.call`.
        VerificationError
            ``incomplete-exchange``.
        """
        mesh = self._mesh()
        kernel = self.analysis.source
        declared = {entry.name: entry for entry in kernel.arguments}
        for name in arguments:
            if name not in declared:
                raise ArgumentError(_STEP, kernel.name, [unknown_name("argument", name, declared)])
        sizes = {name: int(arguments[name]) for name in kernel.parameters if name in arguments}
        key = (mesh, tuple(sizes.items()))
        if key not in self._plans:
            self._plans[key] = planned(self.analysis, mesh, sizes, overlap=False)
        plan = self._plans[key]
        arrays, scalars = self._parts(plan, arguments)
        work = _Tracing(plan, self.analysis, self.functions, self.axes, arrays, scalars)
        work.run(plan.nodes, {})
        return {entry.name: work.inside(entry.name, work.arrays[entry.name])
                for entry in kernel.arguments if isinstance(entry, ArrayArg) and entry.is_output}

    def _mesh(self) -> Coordinates:
        """Return the number of devices along each axis, which JAX knows when it traces."""
        lax = library_of(_STEP, "jax.lax")
        name = self.analysis.source.name
        try:
            found = tuple(int(lax.psum(1, axis)) for axis in self.axes)
        except NameError as error:
            raise ArgumentError(_STEP, name, [Diagnostic(
                "mesh-mismatch", f"no mesh with the axes {', '.join(self.axes)} is here", (str(error),),
                ("call it inside of jax.shard_map over a mesh with these axes",))]) from error
        if self.mesh is not None and found != self.mesh:
            raise ArgumentError(_STEP, name, [Diagnostic(
                "mesh-mismatch", f"the axes {', '.join(self.axes)} have {found} devices, and the kernel is divided "
                f"over {self.mesh}", (), ("divide it over this mesh, or without mesh=",))])
        return found

    def _parts(self, plan: Plan, arguments: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the parts of arrays with their halos, and the scalars."""
        jnp, kernel, regions = library_of(_STEP, "jax.numpy"), self.analysis.source, plan.regions
        arrays: dict[str, Any] = {}
        for entry in kernel.arguments:
            value = arguments.get(entry.name)
            if not isinstance(entry, ArrayArg):
                if value is None and entry.layout_of is None:
                    raise ArgumentError(_STEP, kernel.name, [Diagnostic(
                        "missing-argument", f"no value for '{entry.name}'", (),
                        ("pass all sizes and scalars by name",))])
                continue
            shape = _block(plan, entry.name)
            if value is None and entry.is_input:
                raise ArgumentError(_STEP, kernel.name, [Diagnostic(
                    "missing-argument", f"no value for '{entry.name}'", (), ("pass this device's block of it",))])
            if value is None:
                value = jnp.zeros(shape, entry.dtype)
            if tuple(value.shape) != shape:
                whole = tuple(extent if axis is None else extent * plan.regions.mesh[axis]
                              for extent, axis in zip(shape, regions.axes(entry.name), strict=True))
                raise ArgumentError(_STEP, kernel.name, [Diagnostic(
                    "wrong-part", f"a device has a block of shape {shape} of '{entry.name}', and got one of shape "
                    f"{tuple(value.shape)}", (f"the whole array has the shape {regions.shape(entry.name)}",),
                    (f"pass shard_map an array of shape {whole} with the specs of its division, padded where it is "
                     "longer than the kernel's",))])
            widths = [(0, 0) if axis is None else regions.halos[entry.name][place]
                      for place, axis in enumerate(regions.axes(entry.name))]
            arrays[entry.name] = jnp.pad(value, widths)
        for name in self.analysis.kept:
            dtype = self.analysis.homes.kernel.arrays()[name].dtype
            arrays[name] = jnp.zeros(_stored(plan, name), dtype)
        return arrays, {name: value for name, value in arguments.items() if name not in arrays}


def _block(plan: Plan, array: str) -> tuple[int, ...]:
    """Return the shape of a block of an array, the same on all devices."""
    regions = plan.regions
    return tuple(extent if axis is None else regions.blocks[axis]
                 for extent, axis in zip(regions.shape(array), regions.axes(array), strict=True))


def _stored(plan: Plan, array: str) -> tuple[int, ...]:
    """Return the shape of a part of an array, the same on all devices."""
    regions = plan.regions
    return tuple(extent if axis is None else extent + sum(regions.halos[array][place]) for place, (extent, axis) in
                 enumerate(zip(_block(plan, array), regions.axes(array), strict=True)))


@dataclass(eq=False)
class _Tracing:
    """The run of a plan while JAX traces: one program for all devices."""

    plan: Plan
    analysis: Analysis
    functions: Mapping[int, JaxFunction]
    axes: tuple[str, ...]
    arrays: dict[str, Any]
    scalars: Mapping[str, Any]
    windows: dict[tuple[int, str], Any] = field(default_factory=dict)
    origins: dict[tuple[int, str], tuple[_Starts, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.lax, self.jnp = library_of(_STEP, "jax.lax"), library_of(_STEP, "jax.numpy")
        self.rank = self.lax.axis_index(self.axes)
        self.locals = {local.phase.number: local for local in self.plan.locals}
        self.shares: dict[str, Any] = {}

    def run(self, nodes: Sequence[Node], hosts: _Hosts) -> None:
        """Trace *nodes* in one iteration of the loops around."""
        for node in nodes:
            match node:
                case Exchange():
                    self.exchange(node, hosts)
                case Run():
                    for exchange in node.during:
                        self.exchange(exchange, hosts)
                    self.call(self.locals[node.phase.number], hosts)
                case Combine():
                    self.combine(node)
                case Repeat():
                    self.repeat(node, hosts)

    def repeat(self, node: Repeat, hosts: _Hosts) -> None:
        """Trace a loop of the host: its body once and a loop of JAX, where all iterations are the same."""
        turns = self.plan.iterations(node, hosts)
        if not self.is_same(node, hosts, turns):
            for value in turns:
                self.run(node.body, {**hosts, node.iname: value})
            return
        for value in turns[:1]:
            self.run(node.body, {**hosts, node.iname: value})

        def body(_: Any, carried: Any) -> Any:
            self.arrays, self.windows = dict(carried[0]), dict(carried[1])
            self.run(node.body, {**hosts, node.iname: turns[0]})
            return self.arrays, self.windows

        if len(turns) > 1:
            self.arrays, self.windows = self.lax.fori_loop(1, len(turns), body, (self.arrays, self.windows))

    def is_same(self, node: Repeat, hosts: _Hosts, turns: range) -> bool:
        """Return whether all iterations of a loop do the same on each device."""
        inside = [entry for _, entry in nodes_in(node.body)]
        if self.plan.regions.deep is not None or any(isinstance(entry, Repeat) for entry in node.body):
            return False
        for entry in inside:
            if isinstance(entry, Exchange) and not entry.is_fixed:
                return False
            if isinstance(entry, Run):
                local = self.locals[entry.phase.number]
                if any(argument.name == node.iname for argument in local.kernel.arguments):
                    return False
                boxes = {tuple(self.plan.active(local, position, {**hosts, node.iname: value})
                               for position in self.plan.regions.ranks) for value in turns}
                if len(boxes) > 1:
                    return False
        return True

    # -- exchanges

    def exchange(self, node: Exchange, hosts: _Hosts) -> None:
        """Bring the elements of an exchange to all devices."""
        plan, regions, array = self.plan, self.plan.regions, node.field.array
        if regions.is_between(node.hosts, hosts):
            return
        key = (node.phase, node.field.name)
        if node.field.storage is Storage.BLOCK:
            place = self.arrays[array]
            targets = [tuple(low for low, _ in regions.stored(position, array)) for position in regions.ranks]
        else:
            boxes = [plan.window(node.field, position, hull_of(plan.received(node, position, hosts)))
                     for position in regions.ranks]
            place, targets = self.window(node, boxes), [tuple(low for low, _ in box) for box in boxes]
            self.origins[key] = tuple(targets)
        sources = [tuple(low for low, _ in regions.stored(position, array)) for position in regions.ranks]
        for distance, messages in self.rounds(node, hosts).items():
            place = self.passed(place, self.arrays[array], messages, (sources, targets), is_own=not any(distance[0]))
        if node.field.storage is Storage.BLOCK:
            self.arrays[array] = place
        else:
            self.windows[key] = place

    def window(self, node: Exchange, boxes: Sequence[Box]) -> Any:
        """Return a window with room for what any device reads."""
        shape = [max(high - low for low, high in along) for along in zip(*boxes, strict=True)]
        return self.jnp.zeros(shape, self.arrays[node.field.array].dtype)

    def rounds(self, node: Exchange, hosts: _Hosts) -> dict[tuple[Coordinates, int], list[Message]]:
        """Return messages of which no two have one source or one target: those over one distance in the mesh."""
        regions, found = self.plan.regions, dict[tuple[Coordinates, int], list[Message]]()
        for target in regions.ranks:
            count: dict[int, int] = {}
            for message in self.plan.messages(node, target, hosts):
                number = count[message.source] = count.get(message.source, -1) + 1
                source = regions.ranks[message.source]
                distance = tuple((mine - other) % length
                                 for mine, other, length in zip(target, source, regions.mesh, strict=True))
                found.setdefault((distance, number), []).append(message)
        return found

    def passed(
        self, place: Any, source: Any, messages: Sequence[Message], starts: tuple[Sequence[_Starts], Sequence[_Starts]],
        *, is_own: bool,
    ) -> Any:  # fmt: skip
        """Return *place* with the boxes of *messages*, which devices take from *source* and send."""
        jnp, count = self.jnp, len(self.plan.regions.ranks)
        rank = len(source.shape)
        lengths = [max(message.box[axis][1] - message.box[axis][0] for message in messages) for axis in range(rank)]
        takes = np.zeros((count, rank), np.int32)
        puts, sizes = np.zeros((count, rank), np.int32), np.zeros((count, rank), np.int32)
        for message in messages:
            low, size = np.array([(low, high - low) for low, high in message.box], np.int32).reshape(-1, 2).T
            takes[message.source] = low - starts[0][message.source]
            puts[message.target], sizes[message.target] = low - starts[1][message.target], size
        mine, to, size = (jnp.asarray(table)[self.rank] for table in (takes, puts, sizes))
        steps = [jnp.arange(length) for length in lengths]
        packed = source[jnp.ix_(*(jnp.clip(mine[axis] + step, 0, source.shape[axis] - 1)
                                  for axis, step in enumerate(steps)))]
        if not is_own:
            packed = self.lax.ppermute(packed, self.axes, [(message.source, message.target) for message in messages])
        indices = [jnp.where(step < size[axis], to[axis] + step, place.shape[axis]) for axis, step in enumerate(steps)]
        return place.at[jnp.ix_(*indices)].set(packed, mode="drop")

    # -- calls

    def call(self, local: Local, hosts: _Hosts) -> None:
        """Call the kernel of a phase: on each device for its own coordinates."""
        function, regions = self.functions[local.phase.number], self.plan.regions
        given, names = self.operands(local), self.outputs(local)
        branches: dict[tuple[tuple[str, int], ...] | None, int] = {}
        which = []
        for number, position in enumerate(regions.ranks):
            box = self.plan.active(local, position, hosts)
            if box is not None and any(low >= high and axis in local.active for axis, (low, high) in enumerate(box)):
                box = None
            which.append(branches.setdefault(
                None if box is None else tuple(self.numbers(local, number, box, hosts).items()), len(branches)))

        def branch(numbers: tuple[tuple[str, int], ...] | None) -> Callable[[dict[str, Any]], tuple[Any, ...]]:
            def run(arrays: dict[str, Any]) -> tuple[Any, ...]:
                if numbers is None:
                    return tuple(arrays[name] for name in names)
                found = function(**{**arrays, **self.used(local, self.scalars), **dict(numbers)})
                made = dict(zip(function.outputs, found if isinstance(found, tuple) else (found,), strict=True))
                return tuple(made.get(name, arrays[name]) for name in names)
            return run

        made = self.lax.switch(self.jnp.asarray(which)[self.rank], [branch(numbers) for numbers in branches], given)
        for name, value in zip(names, made, strict=True):
            entry = next(entry for entry in local.fields if entry.name == name)
            if entry.storage is Storage.SHARE and self.is_update(local, entry.array):
                self.shares[entry.array] = value
            else:
                self.arrays[entry.array] = value

    def operands(self, local: Local) -> dict[str, Any]:
        """Return the arrays of a phase by their names in its kernel."""
        known = {argument.name for argument in local.kernel.arguments}
        found: dict[str, Any] = {}
        for entry in local.fields:
            if entry.name not in known:
                continue
            key = (local.phase.number, entry.name)
            if entry.storage is Storage.WINDOW:
                if key not in self.windows:  # nothing is read through it for these sizes
                    boxes = [self.plan.window(entry, position, None) for position in self.plan.regions.ranks]
                    shape = [max(high - low for low, high in along) for along in zip(*boxes, strict=True)]
                    self.windows[key] = self.jnp.zeros(shape, self.arrays[entry.array].dtype)
                    self.origins[key] = tuple(tuple(low for low, _ in box) for box in boxes)
                found[entry.name] = self.windows[key]
            elif entry.storage is Storage.SHARE and self.is_update(local, entry.array):
                combined = next(combined for combined in self.plan.regions.homes.combined.values()
                                if combined.array == entry.array and combined.is_update)
                dtype = self.arrays[entry.array].dtype
                found[entry.name] = self.jnp.full(self.plan.regions.shape(entry.array),
                                                  neutral(combined.operation, np.dtype(dtype)), dtype)
            else:
                found[entry.name] = self.arrays[entry.array]
        return found

    def outputs(self, local: Local) -> list[str]:
        """Return the names of the arrays that a phase writes."""
        known = {argument.name for argument in local.kernel.arguments}
        return [entry.name for entry in local.fields if entry.is_written and entry.name in known]

    def is_update(self, local: Local, array: str) -> bool:
        """Return whether a phase collects updates of an array."""
        return any(combined.is_update and combined.array == array and name in local.phase.instructions
                   for name, combined in self.plan.regions.homes.combined.items())

    def numbers(self, local: Local, number: int, box: Box, hosts: _Hosts) -> dict[str, int]:
        """Return the numbers that a kernel gets on a device, beside scalars of the program."""
        regions, names = self.plan.regions, self.analysis.names
        position = regions.ranks[number]
        values: dict[str, int] = {**regions.sizes, **hosts}
        for axis, (low, high) in enumerate(box):
            values[names.low[axis]], values[names.count[axis]] = low, high - low
            values[names.at[axis]] = low - regions.block(position, axis)[0]
        for entry in local.fields:
            if entry.storage is Storage.WINDOW:
                for place, low in enumerate(self.origins[local.phase.number, entry.name][number]):
                    if (entry.name, place) in local.origins:
                        values[local.origins[entry.name, place]] = low
        return self.used(local, values)

    def used(self, local: Local, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return those of *values* that the kernel of a phase takes."""
        known = {argument.name for argument in local.kernel.arguments} - {*local.extents.values()}
        return {name: value for name, value in values.items() if name in known}

    # -- reductions over the mesh

    def combine(self, node: Combine) -> None:
        """Combine the shares of an array over some axes of the mesh."""
        combined = node.combined
        whole = self.arrays[combined.array]
        if not combined.is_update:
            self.arrays[combined.array] = self.reduced(node, whole)
            return
        part = self.reduced(node, self.shares.pop(combined.array))
        if node.scattered:
            part = self.block(combined.array, part)
        whole = self.arrays[combined.array]
        inside = self.inside(combined.array, whole)
        match combined.operation:
            case "sum":
                new = inside + part
            case "product":
                new = inside * part
            case other:
                new = self.jnp.maximum(inside, part) if other == "max" else self.jnp.minimum(inside, part)
        self.arrays[combined.array] = self.lax.dynamic_update_slice(whole, new, self.below(combined.array))

    def reduced(self, node: Combine, share: Any) -> Any:
        """Return the combined shares; only the device's own block of them where no more is needed."""
        lax, combined, regions = self.lax, node.combined, self.plan.regions
        names = tuple(self.axes[axis] for axis in combined.axes)
        place = node.scattered.index(combined.axes[0]) if node.scattered and len(combined.axes) == 1 else None
        if place is not None and combined.operation == "sum":
            axis, = combined.axes
            if share.shape[place] == regions.blocks[axis] * regions.mesh[axis]:
                mine = lax.psum_scatter(share, names[0], scatter_dimension=place, tiled=True)
                starts = [0] * len(share.shape)
                starts[place] = lax.axis_index(names[0]) * regions.blocks[axis]
                return lax.dynamic_update_slice(share, mine, starts)
        match combined.operation:
            case "sum":
                return lax.psum(share, names)
            case "product":
                return self.jnp.prod(lax.all_gather(share, names), axis=0)
            case other:
                return lax.pmax(share, names) if other == "max" else lax.pmin(share, names)

    def block(self, array: str, whole: Any) -> Any:
        """Return the elements of a whole array at the places of the device's block; behind the end, the last one."""
        regions = self.plan.regions
        starts = np.array([[low for low, _ in regions.owned(position, array)] for position in regions.ranks], np.int32)
        mine = self.jnp.asarray(starts)[self.rank]
        return whole[self.jnp.ix_(*(self.jnp.clip(mine[axis] + self.jnp.arange(length), 0, whole.shape[axis] - 1)
                                    for axis, length in enumerate(_block(self.plan, array))))]

    # -- parts

    def below(self, array: str) -> tuple[int, ...]:
        """Return the widths of the halo in front of a block."""
        regions = self.plan.regions
        return tuple(0 if axis is None else regions.halos[array][place][0]
                     for place, axis in enumerate(regions.axes(array)))

    def inside(self, array: str, part: Any) -> Any:
        """Return the block of a part, without its halo."""
        return part[tuple(slice(low, low + length)
                          for low, length in zip(self.below(array), _block(self.plan, array), strict=True))]
