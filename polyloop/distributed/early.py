"""Sends in front of the place where an exchange is received: as soon as nothing writes what goes any more.

::

    c = 0                               begin to send and to receive b
    exchange b              ->          c = 0
    c = c + a*b                         wait for b, and put it into its place
                                        c = c + a*b

The two halves are statements of the plan, and the proof has the times of both: what is sent is what the owner has when
it begins, and what is read comes behind the receive.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from polyloop.distributed.fields import Field, Storage
from polyloop.distributed.inspector import is_selected
from polyloop.distributed.plan import Combine, Exchange, Node, Plan, Repeat, Run, Send, nodes_in

__all__ = ["with_sends"]


def with_sends(plan: Plan) -> Plan:
    """Return a plan whose exchanges begin as early as their elements are there, if there is something to compute since.

    Only the order of statements changes: the proof of the plan is to be made for the result.
    """
    return replace(plan, nodes=_Moving(plan).sequence(plan.nodes))


@dataclass(eq=False)
class _Moving:
    plan: Plan

    def sequence(self, nodes: Sequence[Node]) -> tuple[Node, ...]:
        """Return *nodes* with the sends that can stand in front of some of them."""
        body = [replace(node, body=self.sequence(node.body)) if isinstance(node, Repeat) else node for node in nodes]
        before: list[list[Node]] = [[] for _ in body]
        for place, node in enumerate(body):
            for exchange in _begun_at(node):
                first = place
                while first and self.may_pass(exchange, body[first - 1]):
                    first -= 1
                if any(not isinstance(other, Exchange) for other in body[first:place]):
                    before[first].append(Send(exchange, node if isinstance(node, Repeat) else None))
                    body[place] = _marked(body[place], exchange.number)
        return tuple(entry for found, node in zip(before, body, strict=True) for entry in (*found, node))

    def may_pass(self, exchange: Exchange, node: Node) -> bool:
        """Return whether an exchange may begin in front of *node*: no element that comes or goes is touched by it."""
        regions, array = self.plan.regions, exchange.field.array
        if is_selected(regions.homes, exchange) or regions.deep is not None:
            return False
        in_place = exchange.field.storage is Storage.BLOCK
        for _, entry in nodes_in((node,)):
            match entry:
                case Run():
                    if any(field.array == array and (field.is_written or (in_place and self.reads_halo(entry, field)))
                           for local in self.plan.locals if local.phase is entry.phase for field in local.fields):
                        return False
                case Combine():
                    if entry.combined.array == array:
                        return False
                case Exchange() | Send():
                    if in_place and _of(entry).field.array == array:
                        return False
                case Repeat():
                    raise AssertionError("its nodes are yielded in its place")
        return True

    def reads_halo(self, run: Run, field: Field) -> bool:
        """Return whether a phase reads elements of other ranks where they are received."""
        regions = self.plan.regions
        own = regions.own(field.array, len(run.phase.hosts))
        return field.storage is Storage.BLOCK and not regions.reads(run.phase, field).subtract(own).is_empty()


def _begun_at(node: Node) -> Iterator[Exchange]:
    """Yield the exchanges that begin with a node, those that run ahead with the loop."""
    match node:
        case Exchange():
            yield node
        case Run():
            yield from node.during
        case Repeat() if not node.hosts:
            yield from (entry for entry in node.body if isinstance(entry, Exchange) and entry.is_ahead)


def _marked(node: Node, number: int) -> Node:
    """Return a node whose exchange of some number has begun before."""
    match node:
        case Exchange():
            return replace(node, is_sent=True) if node.number == number else node
        case Run():
            return replace(node, during=tuple(
                replace(entry, is_sent=True) if entry.number == number else entry for entry in node.during))
        case Repeat():
            return replace(node, body=tuple(_marked(entry, number) for entry in node.body))
        case _:
            return node


def _of(node: Exchange | Send) -> Exchange:
    return node.exchange if isinstance(node, Send) else node
