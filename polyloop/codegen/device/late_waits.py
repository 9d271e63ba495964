"""Waits for products of operands in shared memory, as late in their body as their results are used.

::

    issue s; wait; s' = s; issue o; wait; o' = o; m = max(s'); ..; o' = o'*w
    ->
    issue s; issue o; wait for all but one; s' = s; m = max(s'); ..; wait; o' = o; o' = o'*w

Groups of warps run on while the tensor cores multiply.  A wait, and the copy of the results behind it, move past nodes
of one body that use neither the results nor their copy.  They move past no barrier, and past nothing that changes an
operand, so what was proven of other threads holds as it did: an operand is read between the same barriers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from polyloop.codegen.language import Language
from polyloop.expr.nodes import array_name, targets_of
from polyloop.expr.rewrite import variables
from polyloop.frozen import replace
from polyloop.kernel.tree import Barrier, Group, Loop, Node, Run, Scope, Tree, runs
from polyloop.schedule.plan import Assign, Schedule, Share, Statement, Tensor

__all__ = ["with_late_waits"]


def with_late_waits(schedule: Schedule, language: Language) -> Schedule:
    """Return *schedule* with waits for products where their results are used."""
    if not language.has_axes:
        return schedule
    statements = dict(schedule.statements)
    launches = tuple(replace(launch, tree=_late(launch.tree, statements)) for launch in schedule.launches)
    if len(statements) == len(schedule.statements):
        return schedule
    return replace(schedule, launches=launches, statements=statements)


@dataclass(frozen=True)
class _Issued:
    """Products issued in a body: their statement, and the nodes with the copy of their results."""

    name: str
    copies: tuple[Node, ...]


def _late(tree: Tree, statements: dict[str, Statement]) -> Tree:
    """Return a body with waits moved, and add the statements of the waits to *statements*."""
    body: list[Node] = [Loop(n.iname, _late(n.body, statements)) if isinstance(n, Loop) else n for n in tree]
    moved = [found for node in body if (found := _issued(node, body, statements)) is not None]
    for issued in moved:
        place = _latest(issued, body, statements)
        start = body.index(Run(issued.name))
        if place == start + 1 + len(issued.copies) and body[start + 1 : place] == [*issued.copies]:
            continue  # nothing to do meanwhile
        tensor = statements[issued.name].action
        assert isinstance(tensor, Tensor), "a product"
        wait = f"{issued.name} done"
        product = replace(tensor.product, runs_on=True)
        statements[issued.name] = replace(statements[issued.name], action=replace(tensor, product=product))
        statements[wait] = replace(
            statements[issued.name], name=wait, action=replace(tensor, product=product, share=Share.WAIT))
        rest = [node for node in body[start + 1 : place] if node not in issued.copies]
        end = Barrier(Scope.THREAD, group=Group(products=True, issued=frozenset((issued.name,))))
        body[start : place] = [Run(issued.name), end, *rest, Run(wait), *issued.copies]
    _count(body, statements)
    return tuple(body)


def _issued(node: Node, body: list[Node], statements: Mapping[str, Statement]) -> _Issued | None:
    """Return the products that a node issues, if what uses them is in the same body, else None."""
    if not isinstance(node, Run):
        return None
    tensor = statements[node.name].action
    if not isinstance(tensor, Tensor) or not tensor.product.intrinsic.is_shared or tensor.product.runs_on:
        return None
    own, start = array_name(statements[node.name].lhs), body.index(node)
    copies = tuple(n for n in body[start + 1 :] if isinstance(n, Loop | Run) and _is_copy(n, own, statements))
    users = {x for n in body[start + 1 :] for x in runs((n,)) if own in _names(statements[x])}
    if not copies or len(copies) > 1 or users != {*runs(copies)}:
        return None
    return _Issued(node.name, copies)


def _is_copy(node: Node, own: str, statements: Mapping[str, Statement]) -> bool:
    """Return True if a node does nothing but to copy the results *own*."""
    names = [*runs((node,))]
    return bool(names) and all(
        isinstance(statements[x].action, Assign) and own in variables(statements[x].rhs)
        and not statements[x].predicates
        for x in names
    )


def _latest(issued: _Issued, body: list[Node], statements: Mapping[str, Statement]) -> int:
    """Return the place behind the last node that the wait can follow."""
    own = statements[issued.name]
    assert isinstance(own.action, Tensor), "a product"
    operands = {array_name(own.action.product.b)}
    if not own.action.product.from_registers:
        operands.add(array_name(own.action.product.a))
    results = {array_name(own.lhs)}
    for name in runs(issued.copies):
        results |= _names(statements[name])
    place = body.index(Run(issued.name)) + 1
    while place < len(body):
        node = body[place]
        if node not in issued.copies and _holds(node, operands, results, statements):
            break
        place += 1
    return place


def _holds(node: Node, operands: set[str], results: set[str], statements: Mapping[str, Statement]) -> bool:
    """Return True if a wait may not move past *node*."""
    if isinstance(node, Barrier):
        return node.group is None or not node.group.products
    if isinstance(node, Loop) and any(_holds(inner, operands, results, statements) for inner in node.body):
        return True
    for name in runs((node,)):
        statement = statements[name]
        if (together := statement.collective) is not None and not together.is_direct:
            return True
        if not operands.isdisjoint(map(array_name, targets_of(statement.lhs))) or not results.isdisjoint(_names(statement)):
            return True
    return False


def _names(statement: Statement) -> frozenset[str]:
    parts = (statement.lhs, statement.rhs, *statement.predicates)
    return frozenset(statement.bounds).union(*(variables(part) for part in parts))


def _count(body: list[Node], statements: dict[str, Statement]) -> None:
    """Let each wait of a body leave those groups under way that were issued behind its own."""
    for place, node in enumerate(body):
        if not isinstance(node, Run) or not node.name.endswith(" done"):
            continue
        tensor = statements[node.name].action
        assert isinstance(tensor, Tensor), "a wait for products"
        own = node.name.removesuffix(" done")
        ends = [n for n, other in enumerate(body[:place]) if isinstance(other, Barrier) and _ends(other)]
        first = next(n for n in ends if own in _ends(body[n]))
        statements[node.name] = replace(
            statements[node.name], action=replace(tensor, pending=sum(n > first for n in ends)))


def _ends(node: Node) -> frozenset[str]:
    """Return the statements whose group of products ends at *node*."""
    is_end = isinstance(node, Barrier) and node.group is not None and node.group.products
    return node.group.issued if is_end and isinstance(node, Barrier) and node.group is not None else frozenset()
