"""Common subexpression elimination of shuffles.

::

    a = shfl(v, 0) + 1;  b = shfl(v, 0) * 2;   ->   const float v_0 = shfl(v, 0);  a = v_0 + 1;  b = v_0 * 2;
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from polyloop.codegen.device.entries import Shuffles
from polyloop.codegen.scope import Scope
from polyloop.codegen.tree.c_ast import Assign, Block, For, Group, If, Node, walk
from polyloop.codegen.tree.c_expr import Apply, Code, Literal, Name, calls, renewed, root
from polyloop.frozen import replace

__all__ = ["shared_shuffles"]


def shared_shuffles(body: Block, scope: Scope) -> Block:
    """Return *body* with equal shuffles computed once as long as their variables do not change, ahead of loops.

    The lanes that reach a shuffle also reach the places around its loops and conditions, because none of these may
    depend on the lane.
    """
    return _Shuffles(scope).block(body) if scope.memory.of_lanes else body


class _Shuffles:
    """Common subexpression elimination and loop-invariant code motion for shuffles."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self.names = scope.memory.of_lanes
        self.shuffles = scope.language.need(Shuffles)

    def block(self, nodes: Block) -> Block:
        """Return *nodes* with each recurring shuffle computed ahead of its first use."""
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

    def _made_once(self, nodes: list[Node], shuffle: Apply) -> list[Node]:
        """Return *nodes* with a shuffle in a variable, for each group of nodes that use one value of it repeatedly."""
        out: list[Node] = []
        group: list[Node] = []
        for node in nodes:
            is_plain = isinstance(node, Assign)
            changes = _changes(node, shuffle)
            if is_plain or not changes:
                group.append(node)
            if changes:
                out += self._group(group, shuffle)
                group = []
                if not is_plain:
                    out.append(node)
        return out + self._group(group, shuffle)

    def _group(self, nodes: list[Node], shuffle: Apply) -> list[Node]:
        """Return *nodes*, of which only the last may change the shuffled variable, with the shuffle computed once."""
        counts = [sum(count for found, count in self._inside(node) if found == shuffle) for node in nodes]
        if sum(counts) < 2:
            return nodes
        value, lane, *_ = shuffle.arguments[self.shuffles.position :]
        variable = root(value)
        assert variable is not None, "what is shuffled is a variable"
        name = Name(self.scope.names.fresh(f"{variable}_{lane if isinstance(lane, Literal) else 'other'}"))
        dtype = self.scope.memory.storage[variable].dtype
        first = next(number for number, count in enumerate(counts) if count)
        made = Assign(name, "=", shuffle, "", f"const {self.scope.ctype(dtype)}")
        return [*nodes[:first], made, *(_renamed(node, shuffle, name) for node in nodes[first:])]

    def _inside(self, node: Node) -> Iterator[tuple[Apply, int]]:
        """Yield the shuffles that are invariant in *node*, with the number of their uses: 2 for a use in a loop."""
        match node:
            case Assign(value=value):
                yield from Counter(self._calls(value)).items()
            case For(var=var, body=body):
                for shuffle in dict.fromkeys(found for part in body for found, _ in self._inside(part)):
                    if var not in shuffle.names and not _changes(node, shuffle):
                        yield shuffle, 2
            case If(body=body, orelse=orelse):
                parts = (*body, *orelse)
                counts = Counter[Apply]()
                for part in parts:
                    for shuffle, count in self._inside(part):
                        counts[shuffle] += count
                yield from ((found, count) for found, count in counts.items() if not _changes(node, found))
            case Group(body=body):
                yield from self._inside(If(Name(""), body))
            case _:
                return

    def _calls(self, code: Code) -> Iterator[Apply]:
        at = self.shuffles.position
        return (call for call in calls(code, self.shuffles.read) if root(call.arguments[at]) in self.names)


def _changes(node: Node, shuffle: Apply) -> bool:
    return any(isinstance(part, Assign) and part.writes in shuffle.names for part in walk((node,)))


def _renamed(node: Node, shuffle: Apply, name: Name) -> Node:
    """Return *node* with a shuffle replaced by the variable that has its value."""
    match node:
        case Assign():
            return replace(node, value=renewed(node.value, lambda code: name if code == shuffle else None))
        case For() | Group():
            return replace(node, body=tuple(_renamed(part, shuffle, name) for part in node.body))
        case If():
            body, orelse = (tuple(_renamed(part, shuffle, name) for part in case) for case in (node.body, node.orelse))
            return replace(node, body=body, orelse=orelse)
        case _:
            return node
