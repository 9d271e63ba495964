"""Loop trees: the shape of a program, without its statements.

The reference program and every schedule are such trees.  A tree is a tuple of nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import TypeAlias

from polyloop.frozen import quick

__all__ = [
    "Barrier",
    "Group",
    "Loop",
    "Node",
    "Run",
    "Scope",
    "Tree",
    "has_barrier",
    "paths",
    "runs",
    "show_tree",
    "with_collectives",
]


class Scope(Enum):
    """The threads that a barrier waits for."""

    THREAD = "thread"
    """The thread itself, for what it has started; only code generation knows such barriers."""
    WARP = "warp"
    BLOCK = "block"
    CLUSTER = "cluster"
    GRID = "grid"


@quick
@dataclass(frozen=True)
class Run:
    """One execution of the statement *name*; a ``collective`` one synchronises the threads of a block."""

    name: str
    collective: bool = False


@dataclass(frozen=True)
class Group:
    """The end of a group of copies; with ``arrivals``, the wait for all groups but the last ``pending`` ones.

    ``arrivals`` are the statements whose copies it awaits.  A group may be of matrix ``products`` in place of copies.
    The end of such a group is where its statements ``issued`` run.
    """

    pending: int = 0
    arrivals: frozenset[str] = frozenset()
    products: bool = False
    issued: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Barrier:
    """A barrier of *scope*; ``name`` is the id of the user's barrier, None for a derived one.

    A barrier of scope ``THREAD`` is for asynchronous operations: it ends a ``group``, or waits for groups.  One that
    ``publishes`` lets matrix instructions see what threads have stored, which read memory on a way of their own.  One
    that ``starts`` is followed by the first copies of the next block that the same threads execute.  One that ``opens``
    waits until all blocks of the cluster have begun: threads arrive at the beginning of the launch.  ``why`` says in a
    comment what it is for.
    """

    scope: Scope = Scope.BLOCK
    name: str | None = None
    group: Group | None = None
    publishes: bool = False
    starts: bool = False
    opens: bool = False
    why: str = field(default="", compare=False, repr=False)


@dataclass(frozen=True)
class Loop:
    """Execute *body* for each value of *iname*, upward.

    The bounds are not written here: they follow from the domains of the statements inside.
    """

    iname: str
    body: tuple[Node, ...]


Node: TypeAlias = Loop | Run | Barrier
Tree: TypeAlias = tuple[Node, ...]


def runs(tree: Tree) -> Iterator[str]:
    """Yield the statement names in text order."""
    for node in tree:
        if isinstance(node, Run):
            yield node.name
        elif isinstance(node, Loop):
            yield from runs(node.body)


def has_barrier(tree: Tree) -> bool:
    """Return whether *tree* contains a barrier or a collective statement."""
    return any(
        isinstance(node, Barrier)
        or (isinstance(node, Run) and node.collective)
        or (isinstance(node, Loop) and has_barrier(node.body))
        for node in tree
    )


def with_collectives(tree: Tree, names: Collection[str]) -> Tree:
    """Return *tree* in which the statements *names* are collective."""
    if not names:
        return tree
    return tuple(
        Loop(node.iname, with_collectives(node.body, names))
        if isinstance(node, Loop)
        else Run(node.name, collective=True)
        if isinstance(node, Run) and node.name in names
        else node
        for node in tree
    )


def paths(tree: Tree) -> dict[str, tuple[int | str, ...]]:
    """Return each statement's place: positions and loop inames from the root, alternating.

    ``(2, "i", 0)`` is the first node in the loop ``i``, which is the third node of the tree.
    Two statements share a loop exactly where their paths agree up to and including its iname.
    """
    found: dict[str, tuple[int | str, ...]] = {}

    def visit(nodes: Tree, prefix: tuple[int | str, ...]) -> None:
        for position, node in enumerate(nodes):
            if isinstance(node, Run):
                found[node.name] = (*prefix, position)
            elif isinstance(node, Loop):
                visit(node.body, (*prefix, position, node.iname))

    visit(tree, ())
    return found


def _show_barrier(barrier: Barrier) -> str:
    if barrier.name is None:
        return f"... {barrier.scope.value} barrier"
    return f"... {'gbarrier' if barrier.scope is Scope.GRID else 'lbarrier'}    {{id={barrier.name}}}"


def show_tree(tree: Tree, describe: Callable[[str], str], indent: str = "") -> str:
    """Return *tree* as indented text; *describe* gives the line for a statement name."""
    lines: list[str] = []
    for node in tree:
        if isinstance(node, Run):
            lines.append(f"{indent}{describe(node.name)}")
        elif isinstance(node, Barrier):
            lines.append(f"{indent}{_show_barrier(node)}")
        else:
            lines.append(f"{indent}for {node.iname}")
            lines.append(show_tree(node.body, describe, indent + "    "))
    return "\n".join(line for line in lines if line)
