"""Integers that a function sets once or only reads: what is computed from them is the same wherever it stands."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from polyloop.codegen.tree.c_ast import Assign, Block, Declare, Node, Verbatim, blocks_of, expressions_of
from polyloop.codegen.tree.c_expr import ADDRESS, Code, Name, Subscript, Unary, changed, root

__all__ = ["steady_names"]

_WORD: Final = re.compile(r"[A-Za-z_]\w*")


def steady_names(body: Block, index_type: str, integers: frozenset[str]) -> frozenset[str]:
    """Return the scalar variables that only their declarations set, and those of *integers* that are only read.

    Parameters
    ----------
    index_type
        C type of indices, which holds all values of such variables.
    integers
        Arrays of numbers of such types.
    """
    declared: set[str] = set()
    other: set[str] = set()
    _look(body, frozenset(), frozenset(("int", index_type)), declared, other)
    return (integers | declared) - other


def _look(body: Block, outside: frozenset[str], types: frozenset[str], declared: set[str], other: set[str]) -> None:
    """Add the integers that a block declares to *declared*, and what it changes or hides to *other*."""
    own = outside
    for node in body:
        for name, is_integer in _declared(node, types):
            (declared if is_integer and name not in own else other).add(name)
            own |= {name}
        other.update(_changed(node))
        _look(blocks_of(node), own, types, declared, other)


def _declared(node: Node, types: frozenset[str]) -> Iterator[tuple[str, bool]]:
    """Yield the names that a statement declares, each with True if it is an integer with a value."""
    match node:
        case Assign(target=Name(text), operator="=", type=kind) if kind:
            yield text, kind in types
        case Declare(type=kind, name=name, dims=dims, value=value, more=more):
            yield name, kind.removeprefix("const ") in types and not dims and value is not None
            yield from ((name, kind.removeprefix("const ") in types) for name, _ in more)


def _changed(node: Node) -> Iterator[str]:
    """Yield the variables that a statement may change."""
    if isinstance(node, Verbatim):
        yield from node.touched
        yield from _WORD.findall(node.text)
    if isinstance(node, Assign) and not node.type and (variable := changed(node.target)) is not None:
        yield variable.text
    for code in expressions_of(node):
        yield from _by_address(code)


def _by_address(code: Code) -> Iterator[str]:
    """Yield the variables whose addresses an expression has, and names that stand by themselves where arrays may."""
    match code:
        case Unary(operator, operand) if operator.symbol == ADDRESS.symbol:
            if (name := root(operand)) is not None:
                yield name
            parts = code.parts
        case Subscript(base=Name(), index=index):
            parts = (index,)
        case _:
            parts = code.parts
    for part in parts:
        yield from _by_address(part)
