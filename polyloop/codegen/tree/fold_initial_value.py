"""Folding of neutral elements: ``acc = 0; acc += x`` becomes ``acc = x``."""

from __future__ import annotations

from typing import Final

from polyloop.codegen.tree.c_ast import Assign, Block, For, Group, If, Node
from polyloop.codegen.tree.c_expr import Literal
from polyloop.frozen import replace

__all__ = ["begun"]

_NEUTRAL: Final = {"+=": 0.0, "*=": 1.0}


def begun(block: Block) -> Block:
    """Return *block* without assignments of neutral elements, if the next statement combines a term into them."""
    out: list[Node] = []
    for node in block:
        match node:
            case For(body=body) | Group(body=body):
                out.append(replace(node, body=begun(body)))
            case If(body=body, orelse=orelse):
                out.append(replace(node, body=begun(body), orelse=begun(orelse)))
            case Assign() if out and isinstance(first := out[-1], Assign) and _is_begun(first, node):
                out[-1] = replace(node, operator="=", type=first.type)
            case _:
                out.append(node)
    return tuple(out)


def _is_begun(first: Assign, second: Assign) -> bool:
    """Return True if *second* combines a term into the neutral element that *first* assigns."""
    if first.target != second.target or first.operator != "=" or not first.is_constant or second.writes is None:
        return False
    is_neutral = isinstance(first.value, Literal) and _NEUTRAL.get(second.operator) == first.value.value
    return is_neutral and second.writes not in second.value.names
