"""Waits for products of operands in shared memory, as late in their body as their results are used.

::

    issue s; wait; m = max(s); issue o; wait; p = o*w; ..
    ->
    issue s; issue o; wait for all but one; m = max(s); ..; wait; p = o*w

Groups of warps run on while the tensor cores multiply.  A wait, and the one node of the body that uses the results,
move past other nodes, none of which sets what it uses, or uses what it sets.  They move past no barrier, and past
nothing that changes an operand in shared memory: so what was proven of other threads holds as it did.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from polyloop.codegen.device.box_times import mates_of
from polyloop.codegen.language import Language
from polyloop.expr.nodes import array_name, targets_of
from polyloop.expr.rewrite import variables
from polyloop.frozen import replace
from polyloop.kernel.tree import Barrier, Group, Loop, Node, Run, Scope, Tree, runs
from polyloop.schedule.plan import Product, Schedule, Share, Statement, Tensor

__all__ = ["with_late_waits"]

_END: Final = Barrier(Scope.THREAD, group=Group(products=True))
_DONE: Final = " done"


def with_late_waits(schedule: Schedule, language: Language) -> Schedule:
    """Return *schedule* with waits for products where their results are used."""
    if not language.has_axes:
        return schedule
    statements = dict(schedule.statements)
    launches = tuple(
        replace(launch, tree=_late(launch.tree, statements, mates_of(launch))) for launch in schedule.launches
    )
    if len(statements) == len(schedule.statements):
        return schedule
    return replace(schedule, launches=launches, statements=statements)


def _late(tree: Tree, statements: dict[str, Statement], mates: Mapping[str, frozenset[str]]) -> Tree:
    """Return a body with waits moved, and add the statements of the waits to *statements*."""
    body: list[Node] = [Loop(n.iname, _late(n.body, statements, mates)) if isinstance(n, Loop) else n for n in tree]
    for node in tuple(body):
        if isinstance(node, Run) and (place := _user(node, body, statements)) is not None:
            _move(node, place, body, statements, mates)
    _count(body, statements)
    return tuple(body)


def _move(
    issue: Run, place: int, body: list[Node], statements: dict[str, Statement], mates: Mapping[str, frozenset[str]]
) -> None:
    """Move the node at *place*, which uses the results of products, with the wait for these, if that is of use."""
    start, user = body.index(issue), body[place]
    product = _product(statements[issue.name])
    operands = {array_name(product.b)} | (set() if product.from_registers else {array_name(product.a)})
    held = {*operands}.union(*(mates.get(name, ()) for name in operands))
    if any(_is_fixed(node, held, statements) for node in body[start + 1 : place]):
        return
    end = place + 1
    while end < len(body) and not _is_fixed(body[end], held, statements) and _commute(user, body[end], statements):
        end += 1
    meanwhile = [*body[start + 1 : place], *body[place + 1 : end]]
    if not any(_computes(node, statements) for node in meanwhile):
        return
    tensor = statements[issue.name].action
    assert isinstance(tensor, Tensor), "a product"
    runs_on = replace(tensor, product=replace(product, runs_on=True))
    wait = f"{issue.name}{_DONE}"
    statements[wait] = replace(statements[issue.name], name=wait, action=replace(runs_on, share=Share.WAIT))
    statements[issue.name] = replace(statements[issue.name], action=runs_on)
    body[start:end] = [issue, _END, *meanwhile, Run(wait), user]


def _product(statement: Statement) -> Product:
    assert isinstance(statement.action, Tensor), f"'{statement.name}' is no product"
    return statement.action.product


def _user(issue: Run, body: list[Node], statements: Mapping[str, Statement]) -> int | None:
    """Return the place of the one node that uses the results of products that *issue* issues, None if there is none."""
    tensor = statements[issue.name].action
    if not isinstance(tensor, Tensor) or not tensor.product.intrinsic.is_shared or tensor.product.runs_on:
        return None
    own, start = array_name(statements[issue.name].lhs), body.index(issue)
    places = [n for n in range(start + 1, len(body))
              if any(own in _names(statements[x]) for x in runs((body[n],)))]  # fmt: skip
    return places[0] if len(places) == 1 else None


def _computes(node: Node, statements: Mapping[str, Statement]) -> bool:
    """Return True if a node does more than to set constants and to end groups: what products can run beside."""
    return any(bool(variables(statements[name].rhs)) for name in runs((node,)))


def _is_fixed(node: Node, held: set[str], statements: Mapping[str, Statement]) -> bool:
    """Return True if a wait may not move past *node*: a barrier, or a change of an operand in shared memory."""
    if isinstance(node, Barrier):
        return node.group is None or not node.group.products
    if isinstance(node, Loop) and any(_is_fixed(inner, held, statements) for inner in node.body):
        return True
    for name in runs((node,)):
        statement = statements[name]
        if (together := statement.collective) is not None and not together.is_direct:
            return True
        if not held.isdisjoint(map(array_name, targets_of(statement.lhs))):
            return True
    return False


def _commute(first: Node, second: Node, statements: Mapping[str, Statement]) -> bool:
    """Return True if two nodes of a body may be exchanged: neither sets what the other one uses."""
    sets = [{x for name in runs((node,)) for x in map(array_name, targets_of(statements[name].lhs))}
            for node in (first, second)]  # fmt: skip
    uses = [frozenset[str]().union(*(_names(statements[name]) for name in runs((node,)))) for node in (first, second)]
    return sets[0].isdisjoint(uses[1]) and sets[1].isdisjoint(uses[0])


def _names(statement: Statement) -> frozenset[str]:
    parts = (statement.lhs, statement.rhs, *statement.predicates)
    return frozenset(statement.bounds).union(*(variables(part) for part in parts))


def _count(body: list[Node], statements: dict[str, Statement]) -> None:
    """Let each wait of a body leave those groups under way that were issued behind its own.

    Groups end in each iteration, with products or without: so a wait may count them where conditions leave some out.
    """
    for place, node in enumerate(body):
        if not isinstance(node, Run) or not node.name.endswith(_DONE):
            continue
        tensor = statements[node.name].action
        assert isinstance(tensor, Tensor), "a wait for products"
        first = body.index(Run(node.name.removesuffix(_DONE))) + 1
        pending = sum(other == _END for other in body[first + 1 : place])
        statements[node.name] = replace(statements[node.name], action=replace(tensor, pending=pending))
