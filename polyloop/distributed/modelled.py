"""The time that ranks compute, by the bounds of their kernels on a device."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from polyloop.distributed.fields import Storage
from polyloop.distributed.local import Local, Names
from polyloop.distributed.plan import Exchange, Node, Plan, Repeat, Run, nodes_in
from polyloop.distributed.regions import Box, Coordinates, box_size, hull_of
from polyloop.kernel.devices import Device
from polyloop.kernel.kernel import LoopKernel
from polyloop.runtime.explain import least_seconds

__all__ = ["computing"]


def computing(
    plan: Plan, names: Names, kernels: Mapping[str, LoopKernel], device: str | Device,
    positions: Sequence[Coordinates],
) -> float:  # fmt: skip
    """Return the least time that the kernels of the rank with the most, of some, take in one call [s].

    The bounds are those of memory and operations in :func:`polyloop.explain`; each phase counts as in its first turn.
    """
    total = 0.0
    for node, turns in _calls(plan, plan.nodes, [{}]):
        local = next(entry for entry in plan.locals if entry.phase is node.phase)
        boxes = [(position, box) for position in positions
                 if turns and (box := plan.active(local, position, turns[0])) is not None]
        if boxes:
            position, box = max(boxes, key=lambda found: box_size(found[1]))
            values = _values(plan, names, local, position, box, turns[0])
            total += least_seconds(kernels[local.kernel.name], values, device) * len(turns)
    return total


def _calls(
    plan: Plan, nodes: Sequence[Node], turns: Sequence[Mapping[str, int]]
) -> Iterator[tuple[Run, Sequence[Mapping[str, int]]]]:
    """Yield the runs of a plan with the iterations of the loops around."""
    for node in nodes:
        if isinstance(node, Run):
            yield node, turns
        elif isinstance(node, Repeat):
            inner = [{**turn, node.iname: value} for turn in turns for value in plan.iterations(node, turn)]
            yield from _calls(plan, node.body, inner)


def _values(
    plan: Plan, names: Names, local: Local, position: Coordinates, box: Box, hosts: Mapping[str, int]
) -> dict[str, int]:
    """Return the parameters of a call of a phase."""
    values = {**plan.regions.sizes, **hosts}
    for axis, (low, high) in enumerate(box):
        values[names.low[axis]], values[names.count[axis]] = low, high - low
        values[names.at[axis]] = low - plan.regions.block(position, axis)[0]
    for entry in local.fields:
        if entry.storage is Storage.WINDOW:
            exchange = next((node for _, node in nodes_in(plan.nodes) if isinstance(node, Exchange)
                             and node.phase == local.phase.number and node.field.name == entry.name), None)
            hull = None if exchange is None else hull_of(plan.received(exchange, position, hosts))
            stored = plan.window(entry, position, hull)
        else:
            stored = plan.regions.stored(position, entry.array)
        for place, (low, high) in enumerate(stored):
            if (entry.name, place) in local.extents:
                values[local.extents[entry.name, place]] = high - low
            if (entry.name, place) in local.origins:
                values[local.origins[entry.name, place]] = low
    for pack in local.packs:
        stored = plan.regions.stored(position, pack.array)
        starts = pack.idle([high - low for low, high in stored], plan.regions.halos[pack.array])
        values |= {**dict(zip(pack.starts, starts, strict=True)), **dict.fromkeys(pack.extents, 0)}
    return {name: value for name, value in values.items() if name in local.kernel.parameters}
