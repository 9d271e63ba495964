"""Waits for products that stay behind the arithmetic ahead of them, whatever the assembler moves.

::

    // before                                      // after
    total = ..;                                    total = ..;
    products_done(acc);                            products_behind(total);
                                                   products_done(acc);

``ptxas`` moves a wait for products up over arithmetic that does not need their results, although that is what is to be
done meanwhile.  It does not move one over an instruction that may have an effect.  So a value that was computed last is
the condition of one: of a performance event, which changes nothing, and which is not triggered either, as long as the
value is a number.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Final

import numpy as np

from polyloop.codegen.device.entries import SharedMatrices
from polyloop.codegen.device.helpers import helper_text
from polyloop.codegen.scope import Scope
from polyloop.codegen.tree import c_expr as c
from polyloop.codegen.tree.c_ast import Assign, Block, Call, Node, walk, with_blocks
from polyloop.codegen.tree.divergence import MATRIX
from polyloop.kernel.arrays import AddressSpace

__all__ = ["held_waits"]

_WAIT: Final = f"{MATRIX}products_done"
_BEHIND: Final = "products_behind"
_MOST: Final = 4
"""Elements of a temporary that all become a part of the condition."""


def held_waits(body: Block, scope: Scope) -> Block:
    """Return *body* with waits for products held behind what is computed since products began, or were waited for."""
    names = {name: key for key, name in scope.definitions.helper_names.items() if key.startswith(MATRIX)}
    return _held(body, scope, names) if any(key.startswith(_WAIT) for key in names.values()) else body


def _held(block: Block, scope: Scope, names: dict[str, str]) -> Block:
    out: list[Node] = []
    last: tuple[c.Code, int] | None = None
    for node in block:
        called = [names[name] for name in _functions(node) if name in names]
        if last is not None and called and called[0].startswith(_WAIT):
            out.append(_behind(*last, scope))
        last = None if called else next(_small(node, scope), last)
        out.append(with_blocks(node, lambda inner: _held(inner, scope, names)))
    return tuple(out)


def _functions(node: Node) -> Iterator[str]:
    for inner in walk((node,)):
        if isinstance(inner, Call) and isinstance(inner.code, c.Apply):
            yield inner.code.function


def _small(node: Node, scope: Scope) -> Iterator[tuple[c.Code, int]]:
    """Yield the temporaries of few numbers that a statement assigns, with their extents, 0 of one; the last first."""
    for inner in reversed([*walk((node,))]):
        variable = c.changed(inner.target) if isinstance(inner, Assign) and not inner.is_constant else None
        storage = None if variable is None else scope.memory.storage.get(variable.temporary)
        if variable is None or storage is None or storage.address_space is not AddressSpace.PRIVATE:
            continue
        if storage.dtype == np.float32 and len(storage.shape) < 2 and prod(storage.shape) <= _MOST:
            yield variable, prod(storage.shape) if storage.shape else 0


def _behind(whole: c.Code, count: int, scope: Scope) -> Node:
    """Return the call that holds the wait behind it back until a temporary is computed."""
    lines = scope.language.need(SharedMatrices).behind
    function = scope.shared_helper(f"{MATRIX}{_BEHIND}", _BEHIND, lambda: helper_text(scope, lines, _BEHIND))
    parts = [c.element(whole, c.integer(number)) for number in range(count)] or [whole]
    return Call(c.Apply(function, (c.binary(c.PLUS, *parts) if len(parts) > 1 else parts[0],)), "")
