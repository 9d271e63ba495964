"""Printer of C trees."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from textwrap import dedent

from polyloop.codegen.tree.c_ast import (
    Assign,
    Block,
    Call,
    Carve,
    Comment,
    Declare,
    For,
    Group,
    If,
    Node,
    Numbered,
    Sync,
    Union,
    Verbatim,
)

__all__ = ["KEEP", "MARK", "print_block"]

_STEP = "    "
MARK = "\x01"
"""Stands behind the text of a statement, and again behind the name of its instruction."""
KEEP = "\x02"
"""Stands in front of a line of the user's, which stays as it is."""


def print_block(block: Block, indent: int = 1, *, named: Collection[str] = ()) -> list[str]:
    """Return the lines of *block*, with marks for :func:`polyloop.codegen.lines.finished`.

    Parameters
    ----------
    named
        The instructions that a comment names beside each of their assignments.
    """
    return list(_Printer(named).block(block, _STEP * indent))


class _Printer:
    def __init__(self, named: Collection[str]) -> None:
        self.named = named

    def block(self, block: Block, indent: str) -> Iterator[str]:
        for node in block:
            yield from self.node(node, indent)

    def node(self, node: Node, indent: str) -> Iterator[str]:
        match node:
            case Assign():
                yield from self.assignment(node, indent)
            case Call(code, instruction):
                yield f"{indent}{code};{self.comment(instruction)}"
            case Verbatim():
                yield from self.verbatim(node, indent)
            case Declare() | Carve():
                yield from (f"{indent}{line}" for line in _declaration(node).splitlines())
            case Union(name, members, storage):
                yield f"{indent}{storage}union {{"
                yield from self.block(members, indent + _STEP)
                yield f"{indent}}} {name};"
            case Sync() | Comment():
                yield indent + _remark(node)
            case For():
                yield from self.loop(node, indent)
            case If():
                yield from self.choice(node, indent)
            case Group() | Numbered():
                yield from self.enclosed(node, indent)

    def assignment(self, node: Assign, indent: str) -> Iterator[str]:
        if node.pragma:
            yield f"{indent}{node.pragma}"
        declared = f"{node.type} {node.target}" if node.type else node.target
        yield f"{indent}{declared} {node.operator} {node.value};{self.comment(node.instruction)}"

    def enclosed(self, node: Group | Numbered, indent: str) -> Iterator[str]:
        head, lines = (f"{node.head} ", node.lines) if isinstance(node, Numbered) else ("", ())
        if isinstance(node, Group) and node.pragma:
            yield f"{indent}{node.pragma}"
        yield f"{indent}{head}{{"
        yield from (f"{indent}{_STEP}{line}" for line in lines)
        yield from self.block(node.body, indent + _STEP)
        yield f"{indent}}}"

    def verbatim(self, node: Verbatim, indent: str) -> Iterator[str]:
        yield f"{indent}{{{self.comment(node.instruction)}"
        for ctype, name, value in node.constants:
            yield f"{indent}{_STEP}const {ctype} {name} = {value};"
        for line in dedent(node.text).strip("\n").splitlines():
            yield f"{KEEP}{indent}{_STEP}{line}".rstrip()
        yield f"{indent}}}"

    def comment(self, instruction: str) -> str:
        shown = f"  // {instruction}" if instruction in self.named else ""
        return f"{shown}{MARK}{instruction}{MARK}" if instruction else ""

    def loop(self, node: For, indent: str) -> Iterator[str]:
        if node.pragma:
            yield f"{indent}{node.pragma}"
        step = f"++{node.var}" if node.step == 1 else f"{node.var} += {node.step}"
        head = f"for ({node.type} {node.var} = {node.start}; {node.test}; {step})"
        yield from self.body(head, node.body, indent)

    def body(self, head: str, block: Block, indent: str) -> Iterator[str]:
        lines = list(self.block(block, indent + _STEP))
        is_single = len(block) == 1 and len(lines) == 1 and not _declares(block[0])
        yield f"{indent}{head}" if is_single else f"{indent}{head} {{"
        yield from lines
        if not is_single:
            yield f"{indent}}}"

    def choice(self, node: If, indent: str) -> Iterator[str]:
        if not node.orelse:
            yield from self.body(f"if ({node.condition})", node.body, indent)
            return
        yield f"{indent}if ({node.condition}) {{"
        yield from self.block(node.body, indent + _STEP)
        if len(node.orelse) == 1 and isinstance(node.orelse[0], If):
            head, *rest = self.choice(node.orelse[0], indent)
            if head.endswith("{"):
                yield f"{indent}}} else {head.lstrip()}"
                yield from rest
                return
        yield f"{indent}}} else {{"
        yield from self.block(node.orelse, indent + _STEP)
        yield f"{indent}}}"


def _remark(node: Sync | Comment) -> str:
    """Return a comment, or a barrier with its reason beside it."""
    if isinstance(node, Comment):
        return f"// {node.text}"
    return f"{node.text}  // {node.why}" if node.why else node.text


def _declaration(node: Declare | Carve) -> str:
    extents = "".join(f"[{extent}]" for extent in node.dims)
    if isinstance(node, Declare):
        init = "" if node.value is None else f" = {node.value}"
        init += "".join(f", {name} = {value}" for name, value in node.more)
        return f"{node.storage}{node.type} {node.name}{extents}{init};\n{node.then}"
    declared, pointer = (f"(&{node.name}){extents}", f"(*){extents}") if extents else (f"&{node.name}", "*")
    place = f"({node.memory} + {node.start})" if node.start else node.memory
    return f"{node.type} {declared} = *({node.type} {pointer}){place};"


def _declares(node: Node) -> bool:
    """Return True if a statement is a declaration, which cannot be the body of a loop or condition in C."""
    return isinstance(node, Declare | Union | Carve) or (isinstance(node, Assign) and bool(node.type))
