"""Conditions of ``if`` that its own statements change, and loops that end early or go on with the next iteration.

Python evaluates a condition once.  In a kernel each statement of the block has the condition, so one that a statement
changes while others still follow is kept in a variable.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from copy import copy

from polyloop.frontend.counting import written_names

__all__ = ["changed_inside", "end_of", "without_skips"]


def without_skips(tree: ast.FunctionDef) -> ast.FunctionDef:
    """Return a function in which statements behind a branch with ``continue`` stand in the other branch.

    ::

        for i in range(n):                  for i in range(n):
            if a[i] > 0:                        if a[i] > 0:
                c[i] = 1            =>              c[i] = 1
                continue                        else:
            c[i] = 2                                c[i] = 2

    A branch that only may go on with the next iteration is left alone.
    """
    found = copy(tree)
    found.body = _block(tree.body, False)
    return found


def _block(body: Sequence[ast.stmt], is_last: bool) -> list[ast.stmt]:
    """Return a block without ``continue``, where it *is_last* in its loop; else with those of loops inside gone."""
    found: list[ast.stmt] = []
    for number, statement in enumerate(body):
        rest, part = body[number + 1 :], copy(statement)
        match part:
            case ast.Continue() if is_last:
                return found or [ast.copy_location(ast.Pass(), statement)]
            case ast.For() | ast.While():
                part.body = _block(part.body, True)
            case ast.With():
                part.body = _block(part.body, False)
            case ast.If() if is_last and (_leaves(part.body) or _leaves(part.orelse) or not rest):
                ways = [[*way, *(() if _leaves(way) else rest)] for way in (part.body, part.orelse)]
                part.body, part.orelse = (_block(way, True) for way in ways)
                return [*found, part]
            case ast.If():
                part.body, part.orelse = (_block(way, False) for way in (part.body, part.orelse))
            case _:
                pass
        found.append(part)
    return found


def _leaves(body: Sequence[ast.stmt]) -> bool:
    """Return whether *body* always ends with ``continue``."""
    match body:
        case [*_, ast.Continue()]:
            return True
        case [*_, ast.If(body=one, orelse=other)]:
            return _leaves(one) and _leaves(other)
        case _:
            return False


def changed_inside(node: ast.If) -> frozenset[str]:
    """Return the names that ``if``, ``elif`` and ``else`` assign before their last statement, or in a loop."""
    statements = list(_statements([*node.body, *node.orelse], False))
    found = [names for position, (names, is_many) in enumerate(statements) if is_many or position + 1 < len(statements)]
    return frozenset[str]().union(*found)


def _statements(body: Sequence[ast.stmt], in_loop: bool) -> Iterator[tuple[frozenset[str], bool]]:
    """Yield the names that each statement assigns, and whether it stands for several."""
    for statement in body:
        match statement:
            case ast.For() | ast.While():
                yield from _statements(statement.body, True)
                yield written_names([statement]), True
            case ast.If():
                yield from _statements([*statement.body, *statement.orelse], in_loop)
            case ast.With():
                yield from _statements(statement.body, in_loop)
            case ast.Assign(targets=[ast.Name() | ast.Subscript()]) | ast.AnnAssign() | ast.AugAssign():
                yield written_names([statement]), in_loop
            case ast.Assign():
                yield written_names([statement]), True
            case ast.Break() | ast.Continue():
                yield frozenset(), in_loop
            case _:
                pass


def end_of(node: ast.stmt) -> ast.stmt:
    """Return the last statement in the text of *node*."""
    while children := [child for child in ast.iter_child_nodes(node) if isinstance(child, ast.stmt)]:
        node = max(children, key=lambda child: child.lineno)
    return node
