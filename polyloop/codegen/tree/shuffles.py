"""Shuffles of a temporary that would be made several times with one result are made once, into a variable."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from polyloop.codegen.scope import Scope
from polyloop.codegen.tree.c_ast import Assign, Block, For, Group, If, Node, walk
from polyloop.frozen import replace

__all__ = ["shared_shuffles"]


@dataclass(frozen=True)
class _Shuffle:
    """A call that reads *lane* of *variable*."""

    text: str
    variable: str
    lane: str


def shared_shuffles(body: Block, scope: Scope) -> Block:
    """Return *body* with each shuffle made once as long as its variable does not change, ahead of loops.

    The lanes that are there at a shuffle are there around the loops and conditions that it stands in too, because
    none of these may depend on the lane.
    """
    return _Shuffles(scope).block(body) if any(s.lane is not None for s in scope.storage.values()) else body


class _Shuffles:
    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self.names = {storage.name for storage in scope.storage.values() if storage.lane is not None}
        self.call = scope.language.shuffle.split("(", maxsplit=1)[0] + "("

    def block(self, nodes: Block) -> Block:
        """Return *nodes* with shuffles that recur in them made ahead of the first."""
        left = list(nodes)
        for shuffle in dict.fromkeys(found for node in left for found, _ in self._inside(node)):
            left = self._made_once(left, shuffle)
        return tuple(self._with_parts(node) for node in left)

    def _with_parts(self, node: Node) -> Node:
        match node:
            case For() | Group():
                return replace(node, body=self.block(node.body))
            case If():
                return replace(node, body=self.block(node.body), orelse=self.block(node.orelse))
            case _:
                return node

    def _made_once(self, nodes: list[Node], shuffle: _Shuffle) -> list[Node]:
        """Return *nodes* with a shuffle in a variable where it is made more than once."""
        out: list[Node] = []
        group: list[Node] = []
        for node in nodes:
            is_plain = isinstance(node, Assign)
            changes = _changes(node, shuffle.variable)
            if is_plain or not changes:
                group.append(node)
            if changes:
                out += self._group(group, shuffle)
                group = []
                if not is_plain:
                    out.append(node)
        return out + self._group(group, shuffle)

    def _group(self, nodes: list[Node], shuffle: _Shuffle) -> list[Node]:
        """Return nodes of which only the last may change the variable that is read."""
        counts = [sum(count for found, count in self._inside(node) if found == shuffle) for node in nodes]
        if sum(counts) < 2:
            return nodes
        wish = f"{shuffle.variable}_{shuffle.lane if shuffle.lane.isdigit() else 'other'}"
        name = self.scope.names.fresh(wish)
        dtype = next(s.dtype for s in self.scope.storage.values() if s.name == shuffle.variable)
        reads = frozenset({shuffle.variable})
        first = next(number for number, count in enumerate(counts) if count)
        made = Assign(name, "=", shuffle.text, "", None, reads, f"const {self.scope.ctype(dtype)}")
        return [*nodes[:first], made, *(_renamed(node, shuffle.text, name) for node in nodes[first:])]

    def _inside(self, node: Node) -> Iterator[tuple[_Shuffle, int]]:
        """Yield the shuffles in *node* that have one value while it runs, with how often each is made: 2 in a loop."""
        match node:
            case Assign(value=value):
                yield from Counter(self._calls(value)).items()
            case For(var=var, body=body):
                for shuffle in dict.fromkeys(found for part in body for found, _ in self._inside(part)):
                    if not _mentions(shuffle.text, var) and not _changes(node, shuffle.variable):
                        yield shuffle, 2
            case If(body=body, orelse=orelse):
                parts = (*body, *orelse)
                counts = Counter[_Shuffle]()
                for part in parts:
                    for shuffle, count in self._inside(part):
                        counts[shuffle] += count
                yield from ((found, count) for found, count in counts.items() if not _changes(node, found.variable))
            case Group(body=body):
                yield from self._inside(If("", body))
            case _:
                return

    def _calls(self, text: str) -> Iterator[_Shuffle]:
        start = text.find(self.call)
        while start >= 0:
            depth, end, commas = 1, start + len(self.call), list[int]()
            while depth:
                depth += {"(": 1, ")": -1}.get(text[end], 0)
                if text[end] == "," and depth == 1:
                    commas.append(end)
                end += 1
            variable = text[commas[0] + 1 : commas[1]].strip()
            lane = text[commas[1] + 1 : commas[2] if len(commas) > 2 else end - 1].strip()
            if variable in self.names:
                yield _Shuffle(text[start:end], variable, lane)
            start = text.find(self.call, end)


def _mentions(text: str, name: str) -> bool:
    return re.search(rf"\b{re.escape(name)}\b", text) is not None


def _changes(node: Node, variable: str) -> bool:
    return any(isinstance(part, Assign) and part.writes == variable for part in walk((node,)))


def _renamed(node: Node, text: str, name: str) -> Node:
    """Return *node* with a call replaced by the variable that has its value."""
    match node:
        case Assign():
            return replace(node, value=node.value.replace(text, name))
        case For() | Group():
            return replace(node, body=tuple(_renamed(part, text, name) for part in node.body))
        case If():
            body, orelse = (tuple(_renamed(part, text, name) for part in case) for case in (node.body, node.orelse))
            return replace(node, body=body, orelse=orelse)
        case _:
            return node
