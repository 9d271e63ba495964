"""Order of scans over blocks: independent work of a block is moved ahead of its look-back at other blocks.

::

    total; look back; use; other work   ->   total; other work; look back; use

A block stores its own total as soon as it has it.  The later it looks back, the more of the preceding blocks have
stored their totals, and the less it waits.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from polyloop.kernel.arrays import AddressSpace
from polyloop.kernel.kernel import LoopKernel
from polyloop.kernel.tree import Barrier, Node, Run, Tree, runs
from polyloop.poly.axes import is_grid_axis
from polyloop.program.ir import Combine, Lowered

__all__ = ["waits_last"]


def waits_last(
    kernel: LoopKernel, tree: Tree, statements: Mapping[str, Lowered], accumulators: Collection[str]
) -> Tree:
    """Return *tree* with each wait for other blocks, and the nodes that depend on it, behind independent nodes.

    Conflicting nodes keep their order.  Nodes with effects that other blocks could see stay where they are, so the
    launches of the program do not change.
    """
    waits = [node for node in tree if isinstance(node, Run) and _is_wait(statements[node.name])]
    if not waits:
        return tree
    written = {access.array for statement in statements.values() for access in statement.writes}
    own = {name for name, t in kernel.temporaries.items() if t.address_space is not AddressSpace.GLOBAL}
    moves = _Moves(kernel, statements, frozenset(written.difference(own, accumulators)))
    result = tree
    for node in waits:
        position = result.index(node)
        result = (*result[:position], *moves.divided(result[position:]))
    return result


def _is_wait(statement: Lowered) -> bool:
    return isinstance(statement.part, Combine) and any(map(is_grid_axis, statement.across))


@dataclass(frozen=True)
class _Uses:
    """Reads and writes of nodes, their instructions, and the instructions that they must follow."""

    reads: frozenset[str]
    writes: frozenset[str]
    instructions: frozenset[str]
    after: frozenset[str]

    def union(self, other: _Uses) -> _Uses:
        """Return the union of the uses."""
        return _Uses(
            self.reads | other.reads, self.writes | other.writes, self.instructions | other.instructions,
            self.after | other.after,
        )  # fmt: skip

    def precedes(self, later: _Uses) -> bool:
        """Return True if *later* must stay behind these nodes."""
        return not (
            self.instructions.isdisjoint(later.after | later.instructions)
            and self.writes.isdisjoint(later.reads | later.writes)
            and self.reads.isdisjoint(later.writes)
        )


@dataclass(frozen=True)
class _Moves:
    """Legal reorderings of nodes; ``shared`` are the arrays in which other blocks may see a change."""

    kernel: LoopKernel
    statements: Mapping[str, Lowered]
    shared: frozenset[str]

    def divided(self, nodes: Tree) -> Tree:
        """Return the nodes that are independent of the first of *nodes*, then the others; no node crosses a barrier."""
        waiting, free = [nodes[0]], list[Node]()
        uses = self.uses(nodes[0])
        for position, node in enumerate(nodes[1:], 1):
            if isinstance(node, Barrier):
                return (*free, *waiting, *nodes[position:])
            own = self.uses(node)
            if uses.precedes(own) or not self.is_alone(node):
                waiting.append(node)
                uses = uses.union(own)
            else:
                free.append(node)
        return (*free, *waiting)

    def is_alone(self, node: Node) -> bool:
        """Return True if *node* shares no variable with other blocks, and has no C text or asynchronous copy."""
        found = [self.statements[name] for name in runs((node,))]
        return not any(
            s.instruction.is_c or s.instruction.step is not None or any(a.array in self.shared for a in s.accesses)
            for s in found
        )

    def uses(self, node: Node) -> _Uses:
        """Return the uses of *node*."""
        found = [self.statements[name] for name in runs((node,))]
        return _Uses(
            frozenset(self.memory(access.array) for s in found for access in s.reads),
            frozenset(self.memory(access.array) for s in found for access in s.writes),
            frozenset(s.instruction.id for s in found),
            frozenset(name for s in found for name in s.instruction.depends_on),
        )

    def memory(self, array: str) -> str:
        """Return the name of the storage of an array, which several arrays may share."""
        temporary = self.kernel.temporaries.get(array)
        return array if temporary is None or temporary.base_storage is None else temporary.base_storage
