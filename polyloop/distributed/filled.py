"""Messages that lie ready in a send buffer when an exchange begins, since a kernel packed them as it computed them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import islpy as isl

from polyloop.distributed.fields import Storage
from polyloop.distributed.local import Local
from polyloop.distributed.packs import Pack
from polyloop.distributed.plan import Exchange, Message, Node, Plan, Repeat, Run, is_same_in, nodes_in
from polyloop.distributed.regions import Coordinates, set_of

__all__ = ["ready"]

_IN = isl.dim_type.in_


def ready(plan: Plan, local: Local, pack: Pack, position: Coordinates) -> tuple[Exchange, Message] | None:
    """Return the exchange whose message to a neighbour a send buffer has, and that message; None without one.

    It has where the message is one box, nothing else writes the array between the kernel and the exchange, and the
    kernel writes all elements of the box on this rank, the same in all iterations.
    """
    regions = plan.regions
    neighbour = tuple(own + (pack.side if axis == pack.axis else 0) for axis, own in enumerate(position))
    exchange = _next(plan, local, pack.array)
    if exchange is None or neighbour not in regions.ranks or not exchange.is_fixed or exchange.is_ahead:
        return None
    hosts = dict.fromkeys(exchange.hosts, 0)
    for name in exchange.hosts:
        hosts[name] = next(iter(_turns(plan, name, hosts)), 0)
    me = regions.number(position)
    found = [message for message in plan.messages(exchange, neighbour, hosts) if message.source == me]
    if len(found) != 1:
        return None
    written = regions.writes(local.phase, pack.array)
    if not all(is_same_in(written, len(position) + place) for place in range(len(local.phase.hosts))):
        return None
    for place, value in enumerate(position):
        written = written.fix_val(_IN, place, value)
    return (exchange, found[0]) if set_of(found[0].box).is_subset(written.range().reset_tuple_id()) else None


def _turns(plan: Plan, iname: str, hosts: Mapping[str, int]) -> range:
    repeat = next(node for node in _loops(plan.nodes) if node.iname == iname)
    return plan.iterations(repeat, hosts)


def _loops(nodes: Sequence[Node]) -> Iterator[Repeat]:
    for node in nodes:
        if isinstance(node, Repeat):
            yield node
            yield from _loops(node.body)


def _next(plan: Plan, local: Local, array: str) -> Exchange | None:
    """Return the first exchange of an array behind a phase, with no other write in between."""
    for body, is_loop in ((plan.nodes, False), *((loop.body, True) for loop in _loops(plan.nodes))):
        steps = [*_steps(body)]
        place = next((place for place, step in enumerate(steps)
                      if isinstance(step, Run) and step.phase is local.phase), None)
        if place is None:
            continue
        for step in (*steps[place + 1 :], *(steps[:place] if is_loop else ())):
            if isinstance(step, Exchange):
                if step.field.array == array:
                    return step if step.field.storage is Storage.BLOCK else None
            elif array in _written(plan, step):
                return None
    return None


def _steps(body: Sequence[Node]) -> Iterator[Node]:
    """Yield nodes in the order in which they begin."""
    for node in body:
        if isinstance(node, Run):
            yield from node.during
        yield node


def _written(plan: Plan, node: Node) -> frozenset[str]:
    """Return the arrays that a node writes, or exchanges inside."""
    phases = {entry.phase.number for _, entry in nodes_in((node,)) if isinstance(entry, Run)}
    inside = {entry.field.array for _, entry in nodes_in((node,)) if isinstance(entry, Exchange)}
    if isinstance(node, Run):
        inside = set()
    return frozenset(inside).union(*({entry.array for entry in local.fields if entry.is_written}
                                     for local in plan.locals if local.phase.number in phases))
