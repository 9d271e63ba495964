"""Groups of products that have none: their ends are left out where no wait counts them.

::

    // before                                      // after
    products_commit();                             begin; products of acc; products_commit();
    begin; products of acc; products_commit();     products_done(acc);
    products_done(acc);

Groups end in each iteration, with products or without, so that waits may count them.  In iterations that are written
one by one, a wait for all groups needs no count, and neither do groups ahead of all products.
"""

from __future__ import annotations

import re
from typing import Final

from polyloop.codegen.scope import Scope
from polyloop.codegen.tree import c_expr as c
from polyloop.codegen.tree.c_ast import Block, Call, Node, walk, with_blocks
from polyloop.codegen.tree.divergence import MATRIX

__all__ = ["without_empty_groups"]

_END: Final = f"{MATRIX}products_commit"
_WAIT: Final = re.compile(rf"{re.escape(MATRIX)}products_(?:wait_(\d+)|done_(?:(\d+)_)?\d+)$")
_READY: Final = f"{MATRIX}products_ready"


def without_empty_groups(body: Block, scope: Scope, *, is_whole: bool) -> Block:
    """Return *body* without ends of groups that no wait counts; *is_whole* if nothing runs ahead of it."""
    names = {name: key for key, name in scope.definitions.helper_names.items() if key.startswith(MATRIX)}
    if _END not in names.values():
        return body
    first = next((n for n, node in enumerate(body) if any(key != _END for key in _keys(node, names))), len(body))
    ahead = [node for node in body[:first] if not (is_whole and isinstance(node, Call) and _keys(node, names))]
    return _without((*ahead, *body[first:]), names)


def _without(block: Block, names: dict[str, str]) -> Block:
    out: list[Node] = []
    is_empty = True  # since the beginning of the block: groups end in the block of their products
    for place, node in enumerate(block):
        keys = _keys(node, names)
        if keys == [_END] and isinstance(node, Call):
            if is_empty and not _is_counted(block[place + 1 :], names):
                continue
            is_empty = True
        elif any(key != _END and not key.startswith(_READY) and not _WAIT.match(key) for key in keys):
            is_empty = _END in keys and not isinstance(node, Call)
        out.append(with_blocks(node, lambda inner: _without(inner, names)))
    return tuple(out)


def _is_counted(rest: Block, names: dict[str, str]) -> bool:
    """Return True if a wait may count a group that ends ahead of *rest*: if there is none for all, and before it."""
    behind = 0
    for node in rest:
        keys = _keys(node, names)
        if not isinstance(node, Call) and any(key == _END or _WAIT.match(key) for key in keys):
            return True
        behind += keys == [_END]
        if keys and (wait := _WAIT.match(keys[0])):
            pending = int(wait[1] or wait[2] or 0)
            if pending > behind or not pending:
                return pending > behind
    return True


def _keys(node: Node, names: dict[str, str]) -> list[str]:
    """Return the functions of products that a node calls."""
    calls = (inner.code.function for inner in walk((node,))
             if isinstance(inner, Call) and isinstance(inner.code, c.Apply))  # fmt: skip
    return [names[name] for name in calls if name in names]
