"""Statements under data-dependent conditions, as ``if`` / ``else if`` / ``else``; conditions ahead of loops."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pymbolic.primitives as p

from polyloop.codegen.tree.c_ast import (
    Assign,
    Block,
    Call,
    Declare,
    For,
    If,
    Node,
    Sync,
    Verbatim,
    expressions_of,
    walk,
)
from polyloop.codegen.tree.c_expr import Code, Name, Subscript, changed, conjunction, nodes, root
from polyloop.codegen.tree.indices import is_mark
from polyloop.expr.nodes import Expression
from polyloop.expr.rewrite import variables
from polyloop.frozen import replace

__all__ = ["Guarded", "branches", "keeps", "one_rest", "unswitched"]


@dataclass(frozen=True)
class Guarded:
    """Code that runs where all of ``predicates`` hold; ``writes`` are the variables that it assigns."""

    predicates: tuple[Expression, ...]
    body: Block
    writes: frozenset[str]


Render = Callable[[Expression], Code]
"""Gives a condition in C."""


def branches(entries: Sequence[Guarded], render: Render) -> Block:
    """Return *entries*, in their order, with each condition that neighbours share written and tested once.

    Entries under ``p`` and entries under ``not p`` may change places: no instance runs both.
    """
    out: list[Node] = []
    position = 0
    while position < len(entries):
        first = entries[position]
        if not first.predicates:
            out += first.body
            position += 1
            continue
        condition = _positive(first.predicates[0])
        end = _end_of_group(entries, position, condition)
        group = entries[position:end]
        position = end
        true = [_without_first(entry) for entry in group if entry.predicates[0] == condition]
        false = [_without_first(entry) for entry in group if entry.predicates[0] != condition]
        out.append(_choice(condition, branches(true, render), branches(false, render), render))
    return tuple(out)


def _positive(predicate: Expression) -> Expression:
    """Return *predicate* without a ``not`` in front."""
    return predicate.child if isinstance(predicate, p.LogicalNot) else predicate


def _end_of_group(entries: Sequence[Guarded], start: int, condition: Expression) -> int:
    """Return the position after the last neighbour that asks for *condition* first, with its value unchanged."""
    reads = variables(condition)
    for position in range(start, len(entries)):
        entry = entries[position]
        if not entry.predicates or _positive(entry.predicates[0]) != condition:
            return position
        if not reads.isdisjoint(entry.writes):
            return position + 1
    return len(entries)


def _without_first(entry: Guarded) -> Guarded:
    return replace(entry, predicates=entry.predicates[1:])


def _choice(condition: Expression, true: Block, false: Block, render: Render) -> If:
    if not true:
        condition, true, false = p.LogicalNot(condition), false, ()
    decides = render(condition)
    if not false and len(true) == 1 and isinstance(true[0], If) and not true[0].orelse:
        inner = true[0]
        return If(conjunction([decides, inner.condition]), inner.body)
    return If(decides, true, false)


def unswitched(loop: For) -> Block:
    """Return *loop*; where a choice between vectors and lanes is all that it does, as the choice between two loops.

    The condition is one on loop variables and sizes, so it can be evaluated ahead of the loop if it does not name its
    variable.
    """
    guard, body = None, loop.body
    if len(body) == 1 and isinstance(body[0], If) and not body[0].orelse:
        guard, body = body[0], body[0].body
    choice = body[0] if len(body) == 1 else None
    if not isinstance(choice, If) or not choice.is_choice or not choice.orelse or choice.reads or loop.axis:
        return (loop,)
    if loop.var in choice.condition.names:
        return (loop,)
    wide, by_lane = (
        replace(loop, body=case if guard is None else (replace(guard, body=case),))
        for case in (choice.body, choice.orelse)
    )
    return (replace(choice, body=(wide,), orelse=(by_lane,)),)


def keeps(block: Block, condition: Code) -> bool:
    """Return whether *condition* has the value after *block* that it has before it.

    Without elements of arrays it consists of loop variables and sizes, which nothing changes.
    """
    if not any(isinstance(part, Subscript) for part in nodes(condition)):
        return True
    for node in walk(block):
        match node:
            case Assign(target):
                variable = changed(target)
                if variable is None or variable.text in condition.names:
                    return False
            case Call(code) if not code.names.isdisjoint(condition.names):
                return False
            case Verbatim() | Sync():  # a user's text; other threads, which a barrier lets write
                return False
            case _:
                pass
    return True


def one_rest(first: For, second: For) -> For | None:
    """Return two loops over the lanes of one cut vector as one loop, None if a lane might see what another one does.

    That is so unless everything that one of them writes and both use is indexed by the lane itself.
    """
    if not (first.is_rest and second.is_rest) or replace(first, body=()) != replace(second, body=()):
        return None
    (condition, before), (other, after) = (_guarded_assignments(loop) for loop in (first, second))
    names = tuple(dict.fromkeys(node for loop in (first, second) for node in loop.body if _is_name(node)))
    if condition != other or not before or not after:
        return None
    codes = [[code for node in nodes for code in expressions_of(node)] for nodes in (before, after)]
    decided = [*expressions_of(first), *([] if condition is None else [condition.condition])]
    for node in (*before, *after):
        name = root(node.target)
        if name is None or any(name in code.names for code in decided):
            return None
        own = Subscript(Name(name), Name(first.var))
        is_shared = all(any(name in code.names for code in part) for part in codes)
        if is_shared and not all(_is_only(code, name, own) for part in codes for code in part):
            return None
    body: Block = (*before, *after)
    return replace(first, body=(*names, *(body if condition is None else (replace(condition, body=body),))))


def _is_name(node: Node) -> bool:
    """Return whether a statement gives an index its name."""
    return isinstance(node, Declare) and is_mark(node.name)


def _guarded_assignments(loop: For) -> tuple[If | None, tuple[Assign, ...]]:
    """Return the condition in a loop, without what it guards, and the assignments; none if there is anything else."""
    guard, nodes = None, tuple(node for node in loop.body if not _is_name(node))
    if len(nodes) == 1 and isinstance(nodes[0], If) and not nodes[0].orelse:
        guard, nodes = replace(nodes[0], body=()), nodes[0].body
    found = tuple(node for node in nodes if isinstance(node, Assign))
    return guard, found if len(found) == len(nodes) else ()


def _is_only(code: Code, name: str, own: Code) -> bool:
    """Return whether all uses of a variable in *code* are of its element *own*."""
    if name not in code.names or code == own:
        return True
    if isinstance(code, Name) or (isinstance(code, Subscript) and code.base == own):
        return False
    return all(_is_only(part, name, own) for part in code.parts)
