"""Conditions of ``if`` that its own statements change.

Python evaluates a condition once.  In a kernel each statement of the block has the condition, so one that a statement
changes while others still follow is kept in a variable.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from polyloop.frontend.counting import written_names

__all__ = ["breaks", "changed_inside"]


def breaks(body: Sequence[ast.stmt]) -> bool:
    """Return whether a loop with this *body* has a ``break`` of its own."""
    return any(
        isinstance(statement, ast.Break)
        or (isinstance(statement, ast.If) and (breaks(statement.body) or breaks(statement.orelse)))
        or (isinstance(statement, ast.With) and breaks(statement.body))
        for statement in body
    )


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
            case _:
                pass
