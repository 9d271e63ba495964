"""``while`` loops that count: their counter, its step and its limit, by syntax.

::

    i = 0
    while i < n:
        ...
        i += 2
    ->
    for i in range(0, n, 2):
        ...

Statements below the increment see the next value.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Final, TypeAlias

from polyloop.frontend.scope import own_nodes

__all__ = ["Count", "Uncounted", "count_of", "counters_of", "first_numbers", "has_own", "written_names"]

_TURNED: Final[dict[type[ast.cmpop], type[ast.cmpop]]] = {
    ast.Lt: ast.Gt, ast.LtE: ast.GtE, ast.Gt: ast.Lt, ast.GtE: ast.LtE, ast.NotEq: ast.NotEq, ast.Eq: ast.Eq,
}  # fmt: skip
_BOUND: Final = "a loop of at most m iterations is: while .. and k < m, with k += 1, or for k in range(m), with break"


@dataclass(frozen=True)
class Count:
    """The loop ``while counter < limit``, in which *increment* adds *step*, or takes it away where it is *down*.

    It ends earlier where one of *others* does not hold: ``while r > tol and counter < limit``.
    """

    node: ast.While
    counter: ast.Name
    operator: type[ast.cmpop]
    limit: ast.expr
    increment: ast.stmt
    step: ast.expr
    down: bool
    others: tuple[ast.expr, ...] = ()


@dataclass(frozen=True)
class Uncounted:
    """Reason why the number of iterations of a loop is not known before it: what is wrong at *node*."""

    node: ast.AST
    message: str
    hint: str


_Increment: TypeAlias = tuple[ast.stmt, ast.expr, bool]


def written_names(body: Sequence[ast.AST]) -> frozenset[str]:
    """Return the variables that *body* assigns, and the arrays of which it assigns elements."""
    found = set()
    for node in (part for statement in body for part in ast.walk(statement)):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store) and isinstance(node.value, ast.Name):
            found.add(node.value.id)
    return frozenset(found)


def has_own(body: Sequence[ast.stmt], kind: type[ast.stmt]) -> bool:
    """Return whether a loop with this *body* has a ``break`` or ``continue``, the *kind*, of its own."""
    return any(
        isinstance(statement, kind)
        or (isinstance(statement, ast.If) and (has_own(statement.body, kind) or has_own(statement.orelse, kind)))
        or (isinstance(statement, ast.With) and has_own(statement.body, kind))
        for statement in body
    )


def count_of(node: ast.While) -> Count | Uncounted:
    """Return the count of the loop *node*, or the reason why it counts nothing."""
    test = node.test
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
        return _counted_among(node, test.values)
    if not isinstance(test, ast.Compare) or len(test.ops) != 1:
        return Uncounted(test, "this condition is no comparison of a counter with a limit", _BOUND)
    left, right, operator = test.left, test.comparators[0], type(test.ops[0])
    for counter, limit, sign in ((left, right, operator), (right, left, _TURNED.get(operator, operator))):
        if isinstance(counter, ast.Name) and (found := _increments(_always(node.body), counter.id)):
            return _counted(node, counter, sign, limit, found)
    inside = [part for part in ast.walk(node) if isinstance(part, ast.stmt)]
    names = [part.id for part in ast.walk(test) if isinstance(part, ast.Name)]
    is_counted = any(_increments(inside, name) for name in names)
    where = ", outside of 'if' and in front of any 'continue'" if is_counted else ""
    hint = f"count in a line of its own{where}: i += 1; {_BOUND}"
    return Uncounted(test, "no variable of this condition is counted by the loop", hint)


def _counted_among(node: ast.While, tests: Sequence[ast.expr]) -> Count | Uncounted:
    """Return the count of a loop that goes on while all *tests* hold, one of which counts."""
    each = [(test, count_of(ast.copy_location(ast.While(test, node.body, node.orelse), node))) for test in tests]
    found = [(test, count) for test, count in each if isinstance(count, Count)]
    if not found:
        return each[0][1]
    test, count = next((entry for entry in found if isinstance(entry[1].step, ast.Constant)), found[0])
    return replace(count, node=node, others=tuple(other for other in tests if other is not test))


def _counted(
    node: ast.While, counter: ast.Name, operator: type[ast.cmpop], limit: ast.expr, found: list[_Increment]
) -> Count | Uncounted:
    name = counter.id
    stores = [x for x in _nodes(node.body) if isinstance(x, ast.Name) and x.id == name and isinstance(x.ctx, ast.Store)]
    if len(stores) > 1:
        what = f"counter '{name}' is assigned in several places of the loop"
        return Uncounted(stores[1], what, f"add a constant to it in one line that always runs; {_BOUND}")
    changed = sorted(written_names(node.body) & {x.id for x in ast.walk(limit) if isinstance(x, ast.Name)})
    if changed:
        what = f"the limit of the loop reads '{changed[0]}', which the loop assigns"
        return Uncounted(limit, what, f"keep the limit in a variable in front of the loop; {_BOUND}")
    increment, step, down = found[0]
    return Count(node, counter, operator, limit, increment, step, down)


def _nodes(body: Sequence[ast.stmt]) -> Iterator[ast.AST]:
    for statement in body:
        yield statement
        yield from own_nodes(statement)


def _always(body: Sequence[ast.stmt]) -> Sequence[ast.stmt]:
    """Return the statements of *body* in front of the first one that may go on with the next iteration."""
    return [*takewhile(lambda statement: not has_own([statement], ast.Continue), body)]


def _increments(body: Sequence[ast.stmt], name: str) -> list[_Increment]:
    """Return the statements of *body* itself that add a number to *name*."""
    found: list[_Increment] = []
    for statement in body:
        match statement:
            case ast.AugAssign(target=ast.Name(id=target), op=ast.Add() | ast.Sub() as op, value=step):
                pass
            case ast.Assign(
                targets=[ast.Name(id=target)],
                value=ast.BinOp(left=ast.Name(id=old), op=ast.Add() | ast.Sub() as op, right=step),
            ) if old == target:
                pass
            case _:
                continue
        if target == name:
            found.append((statement, step, isinstance(op, ast.Sub)))
    return found


def counters_of(tree: ast.FunctionDef) -> frozenset[str]:
    """Return the variables of *tree* that only count ``while`` loops: nothing else reads or assigns them.

    Each of their loops has, in its block, an assignment in front that gives the first value.  A loop ``for`` over the
    same name has a variable of its own.
    """
    found: set[str] = set()
    refused: set[str] = set()
    allowed: set[ast.AST] = set()
    for node in own_nodes(tree):
        allowed.update(_variables_of(node))
    for block in _blocks(tree):
        for number, statement in enumerate(block):
            if not isinstance(statement, ast.While):
                continue
            count = count_of(statement)
            if isinstance(count, Uncounted):
                continue
            name = count.counter.id
            found.add(name)
            first = _first_value(block[:number], name)
            if first is None:
                refused.add(name)
            else:
                allowed.add(first.targets[0])
            allowed.update(x for x in own_nodes(statement) if isinstance(x, ast.Name) and x.id == name)
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node not in allowed:
            refused.add(node.id)
    return frozenset(found - refused)


def _variables_of(node: ast.AST) -> Iterator[ast.Name]:
    """Yield the places of the variables of a ``for`` or a generator, in which they are its own."""
    inside: list[ast.AST] = []
    targets: list[ast.expr] = []
    if isinstance(node, ast.For):
        inside, targets = [node.target, *node.body], [node.target]
    elif isinstance(node, ast.GeneratorExp):
        inside = [part for part in ast.iter_child_nodes(node) if part is not node.generators[0]]
        inside += [node.generators[0].target, *node.generators[0].ifs]
        targets = [part.target for part in node.generators]
    own = {x.id for target in targets for x in ast.walk(target) if isinstance(x, ast.Name)}
    for part in inside:
        yield from (x for x in ast.walk(part) if isinstance(x, ast.Name) and x.id in own)


def _blocks(tree: ast.AST) -> Iterator[list[ast.stmt]]:
    """Yield the blocks of statements of a function, not those of functions in it."""
    for node in (tree, *own_nodes(tree)):
        if isinstance(node, ast.FunctionDef) and node is not tree:
            continue
        for part in ("body", "orelse"):
            block = getattr(node, part, None)
            if isinstance(block, list):
                yield block


def first_numbers(tree: ast.FunctionDef) -> dict[ast.While, int]:
    """Return the first value of the counters of loops that begin with a number, which the block in front assigns."""
    found: dict[ast.While, int] = {}
    for block in _blocks(tree):
        for number, statement in enumerate(block):
            if isinstance(statement, ast.While) and isinstance(count := count_of(statement), Count):
                first = _first_value(block[:number], count.counter.id)
                if first is not None and len(first.targets) == 1 and isinstance(first.value, ast.Constant):
                    value = first.value.value
                    if type(value) is int:
                        found[statement] = value
    return found


def _first_value(block: Sequence[ast.stmt], name: str) -> ast.Assign | None:
    """Return the last assignment to *name* in *block*, if it is a plain one."""
    for statement in reversed(block):
        if name in written_names([statement]):
            match statement:
                case ast.Assign(targets=[ast.Name()]):
                    return statement
                case ast.While():
                    return None
                case _:
                    return None
    return None
