"""Branches: conditions on data as ``if`` and ``else``, loop unswitching, and fusion of loops over lanes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from operator import is_

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
    with_blocks,
)
from polyloop.codegen.tree.c_expr import Code, Name, Subscript, Unary, changed, conjunction, conjuncts, nodes, root
from polyloop.codegen.tree.indices import is_mark
from polyloop.expr.nodes import Expression
from polyloop.expr.rewrite import variables
from polyloop.frozen import replace

__all__ = ["Guarded", "branches", "keeps", "one_rest", "unswitched", "with_early_ends", "with_joined_guards"]


@dataclass(frozen=True)
class Guarded:
    """Code that runs where all of ``predicates`` hold; ``writes`` are the variables that it assigns."""

    predicates: tuple[Expression, ...]
    body: Block
    writes: frozenset[str]


Render = Callable[[Expression], Code]
"""Function from a condition to its C expression."""


def branches(entries: Sequence[Guarded], render: Render) -> Block:
    """Return *entries*, in their order, with each condition that neighbours share tested once.

    ::

        if (p) A;  if (!p) B;  if (p) C;   ->   if (p) {A; C}  else B;

    Entries under ``p`` and entries under ``not p`` may change places, because no instance runs both.
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
    """Return the position after the last neighbour that tests *condition* first, with no write to it in between."""
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
    """Return *loop*, unswitched if its body is a choice between vectors and single lanes.

    ::

        for (i ..) if (p) wide; else by_lane;   ->   if (p) for (i ..) wide; else for (i ..) by_lane;

    The condition is on loop variables and sizes.  So it can be evaluated ahead of the loop, unless it has the variable
    of the loop.
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
    """Return True if *condition* has the same value before and after *block*.

    A condition without elements of arrays consists of loop variables and sizes, which nothing changes.
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
            case Verbatim() | Sync():  # C text of the user, and a barrier behind which other threads write
                return False
            case _:
                pass
    return True


def with_joined_guards(block: Block) -> Block:
    """Return *block* with one test in place of two of the same condition, between which variables only begin.

    ::

        if (p) A;  x = 0;  if (p) B;   ->   x = 0;  if (p) {A; B}
    """
    out: list[Node] = []
    for node in (with_blocks(node, with_joined_guards) for node in block):
        place = _guard_before(out, node) if isinstance(node, If) else None
        if place is not None and isinstance(node, If) and isinstance(guard := out[place], If):
            out[place:] = [*out[place + 1 :], replace(guard, body=with_joined_guards((*guard.body, *node.body)))]
        else:
            out.append(node)
    return block if len(out) == len(block) and all(map(is_, out, block)) else tuple(out)


def _guard_before(nodes: Sequence[Node], node: If) -> int | None:
    """Return the place of a test of the same condition, behind which variables that it does not use begin; or None.

    A condition on temporaries, which have other values behind what is guarded, is tested again.
    """
    place = len(nodes) - 1
    while place >= 0 and isinstance(begin := nodes[place], Assign) and begin.is_constant and begin.operator == "=":
        place -= 1
    guard = nodes[place] if place >= 0 else None
    if not isinstance(guard, If) or guard.condition != node.condition or guard.orelse or node.orelse or guard.reads:
        return None
    used = guard.uses.union(guard.names)
    begun = [changed(begin.target) for begin in nodes[place + 1 :] if isinstance(begin, Assign)]
    is_apart = all(name is not None and name.text not in used and name.temporary not in used for name in begun)
    return place if is_apart and keeps(guard.body, guard.condition) else None


def with_early_ends(block: Block, registers: Collection[str]) -> Block:
    """Return *block* with loops that end where a flag in a register, which their bodies alone set, is false.

    ::

        for (int k = 0; k < m; ++k) { if (goes_on && x < 0) goes_on = false;  if (goes_on) A; }
        ->
        for (int k = 0; k < m && goes_on; ++k) { if (x < 0) goes_on = false;  if (goes_on) A; }

    An iteration with a false flag leaves it false.  Loops with another head, a pragma or independent iterations stay.
    """
    found: list[Node] = []
    for node in (with_blocks(node, lambda inside: with_early_ends(inside, registers)) for node in block):
        if isinstance(node, For) and not (node.axis or node.pragma or node.strided or node.is_rest):
            flag = _flag_around(node.body, registers)
            if flag is not None:
                body = (*_without_flag(node.body[0]), *node.body[1:])
                node = replace(node, test=conjunction([node.test, flag]), body=body)  # noqa: PLW2901
        found.append(node)
    return block if all(map(is_, found, block)) else tuple(found)


def _flag_around(block: Block, registers: Collection[str]) -> Code | None:
    """Return the flag in a register that each statement of *block* tests first and one sets, None if there is none."""
    tests = {conjuncts(node.condition)[0] if isinstance(node, If) and not node.orelse else None for node in block}
    flag = tests.pop() if len(tests) == 1 else None
    name = flag.operand if isinstance(flag, Unary) else flag
    if not isinstance(name, Name) or name.temporary not in registers:
        return None
    is_set = any(isinstance(node, Assign) and changed(node.target) == name for node in walk(block))
    return flag if is_set else None


def _without_flag(guard: Node) -> Block:
    """Return a statement that tests a flag first as it is where the flag is known to hold."""
    assert isinstance(guard, If), "each statement tests the flag"
    _, *others = conjuncts(guard.condition)
    return (replace(guard, condition=conjunction(others)),) if others else guard.body


def one_rest(first: For, second: For) -> For | None:
    """Return the fusion of two loops over the lanes of one partial vector, None if lanes may depend on each other.

    Lanes are independent if each variable that one loop writes and both use is subscripted by the lane itself.
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
    """Return True if a statement defines a named index."""
    return isinstance(node, Declare) and is_mark(node.name)


def _guarded_assignments(loop: For) -> tuple[If | None, tuple[Assign, ...]]:
    """Return the condition around the body of a loop, without its body, and the assignments; none if others occur."""
    guard, nodes = None, tuple(node for node in loop.body if not _is_name(node))
    if len(nodes) == 1 and isinstance(nodes[0], If) and not nodes[0].orelse:
        guard, nodes = replace(nodes[0], body=()), nodes[0].body
    found = tuple(node for node in nodes if isinstance(node, Assign))
    return guard, found if len(found) == len(nodes) else ()


def _is_only(code: Code, name: str, own: Code) -> bool:
    """Return True if all uses of a variable in *code* are of its element *own*."""
    if name not in code.names or code == own:
        return True
    if isinstance(code, Name) or (isinstance(code, Subscript) and code.base == own):
        return False
    return all(_is_only(part, name, own) for part in code.parts)
