"""Loops over blocks whose iterations the threads of a processor share.

::

    for (by ..) for (bx ..) {..}   ->   #pragma omp parallel for collapse(2)
                                        for (by ..) for (bx ..) {..}

No block of a launch depends on another one, which is proven before there is text.  Each block has temporaries of its
own, declared inside of its loops.  Source: OpenMP Application Programming Interface 5.2, section 4.4.1, "Canonical Loop
Nest Form".
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final

from polyloop.codegen.tree.c_ast import Block, Declare, For, Node, Union, walk, with_blocks
from polyloop.frozen import replace

__all__ = ["has_block_loop", "has_long_loop", "shared_by_threads"]

_BLOCKS: Final = "g"


def has_block_loop(block: Block) -> bool:
    """Return whether *block* has a loop over blocks."""
    return any(isinstance(node, For) and node.axis == _BLOCKS for node in walk(block))


def has_long_loop(block: Block) -> bool:
    """Return whether *block* has a loop whose number of iterations is not a constant."""
    return any(isinstance(node, For) and len(node.start.names | node.test.names) > 1 for node in walk(block))


def shared_by_threads(block: Block, pragma: str) -> Block:
    """Return the body of a function with *pragma* at its outermost loops over blocks."""
    return _in(block, pragma, {node.name for node in _declarations(block) if not _is_constant(node)})


def _declarations(block: Block) -> Iterator[Declare | Union]:
    return (node for node in walk(block) if isinstance(node, Declare | Union))


def _is_constant(node: Declare | Union) -> bool:
    return isinstance(node, Declare) and node.type.startswith("const ")


def _in(block: Block, pragma: str, variables: Collection[str]) -> Block:
    return tuple([_of(node, pragma, variables) for node in block])


def _of(node: Node, pragma: str, variables: Collection[str]) -> Node:
    if not (isinstance(node, For) and node.axis == _BLOCKS):
        return with_blocks(node, lambda inner: _in(inner, pragma, variables))
    own = {inner.name for inner in _declarations((node,))}
    outside = (node.names | node.uses).intersection(variables) - own
    assert not outside, f"blocks would share {', '.join(sorted(outside))}"
    depth = sum(1 for _ in _nest(node))
    return replace(node, pragma=f"{pragma} collapse({depth})" if depth > 1 else pragma)


def _nest(loop: For) -> Iterator[For]:
    """Yield loops over blocks that enclose nothing but the next one, with bounds that do not depend on one another."""
    variables: set[str] = set()
    inner: For | None = loop
    while inner is not None and variables.isdisjoint(inner.start.names | inner.test.names):
        yield inner
        variables.add(inner.var)
        first = inner.body[0]
        inner = first if len(inner.body) == 1 and isinstance(first, For) and first.axis == _BLOCKS else None
