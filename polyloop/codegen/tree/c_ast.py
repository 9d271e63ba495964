"""A small C syntax tree: statements as nodes, expressions as text that is already rendered."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

from polyloop.frozen import quick

__all__ = [
    "Assign",
    "Block",
    "Call",
    "Carve",
    "Comment",
    "Declare",
    "For",
    "Group",
    "If",
    "Node",
    "Sync",
    "Union",
    "Verbatim",
    "walk",
]


@quick
@dataclass(frozen=True)
class Assign:
    """``target operator value;`` where ``operator`` is ``=``, ``+=`` or ``*=``.

    ``writes`` and ``reads`` name the temporaries concerned, as the user calls them.  With a ``type`` the statement
    declares its target.  ``is_constant`` is whether the value is a literal.
    """

    target: str
    operator: str
    value: str
    instruction: str
    writes: str | None
    reads: frozenset[str]
    type: str = ""
    is_constant: bool = False

    @cached_property
    def uses(self) -> frozenset[str]:
        """Temporaries that occur."""
        return self.reads if self.writes is None else self.reads | {self.writes}


@quick
@dataclass(frozen=True)
class Call:
    """``text;``, the call of a function that changes memory; ``reads`` are the temporaries in it."""

    text: str
    instruction: str
    reads: frozenset[str]

    @property
    def uses(self) -> frozenset[str]:
        """Temporaries that occur."""
        return self.reads


@quick
@dataclass(frozen=True)
class Verbatim:
    """``{ const type name = value; .. text }``: C text of the user's, which uses the temporaries ``uses``."""

    constants: tuple[tuple[str, str, str], ...]
    text: str
    instruction: str
    uses: frozenset[str]


@quick
@dataclass(frozen=True)
class Declare:
    """``storage type name[dims] = value;``; ``value`` may be None."""

    type: str
    name: str
    dims: tuple[int, ...] = ()
    value: str | None = None
    storage: str = ""

    uses = frozenset[str]()


@quick
@dataclass(frozen=True)
class Union:
    """``storage union { members } name;``: variables at one address."""

    name: str
    members: tuple[Declare, ...]
    storage: str = ""

    uses = frozenset[str]()


@quick
@dataclass(frozen=True)
class Carve:
    """``type (&name)[dims] = *(type (*)[dims])(memory + start);``: a variable in a piece of memory."""

    type: str
    name: str
    dims: tuple[int, ...]
    memory: str
    start: int

    uses = frozenset[str]()


@quick
@dataclass(frozen=True)
class Sync:
    """A barrier, or another statement that uses no temporary."""

    text: str

    uses = frozenset[str]()


@quick
@dataclass(frozen=True)
class Comment:
    """``// text``."""

    text: str

    uses = frozenset[str]()


@quick
@dataclass(frozen=True)
class For:
    """``for (type var = start; test; var += step) body``.

    ``axis`` is ``"g"`` or ``"l"`` for a loop over blocks or threads, whose iterations are independent; ``reads`` are
    the temporaries in its bounds; ``is_rest`` is whether it runs over the lanes of a vector that is not full.
    """

    type: str
    var: str
    start: str
    test: str
    body: Block
    step: int = 1
    pragma: str = ""
    axis: str = ""
    reads: frozenset[str] = frozenset()
    is_rest: bool = False

    @cached_property
    def uses(self) -> frozenset[str]:
        """Temporaries that occur."""
        return self.reads.union(*(node.uses for node in self.body))


@quick
@dataclass(frozen=True)
class If:
    """``if (condition) body else orelse``; ``reads`` are the temporaries in the condition.

    ``is_choice`` is whether both cases are the same statements, once for whole vectors and once lane by lane.
    """

    condition: str
    body: Block
    orelse: Block = ()
    reads: frozenset[str] = frozenset()
    is_choice: bool = False

    @cached_property
    def uses(self) -> frozenset[str]:
        """Temporaries that occur."""
        return self.reads.union(*(node.uses for node in self.body), *(node.uses for node in self.orelse))


@quick
@dataclass(frozen=True)
class Group:
    """``{ body }``."""

    body: Block

    @cached_property
    def uses(self) -> frozenset[str]:
        """Temporaries that occur."""
        return frozenset[str]().union(*(node.uses for node in self.body))


Node: TypeAlias = Assign | Call | Verbatim | Declare | Union | Carve | Sync | Comment | For | If | Group
Block: TypeAlias = tuple[Node, ...]


def walk(block: Block) -> Iterator[Node]:
    """Yield every node, a parent before its children."""
    for node in block:
        yield node
        if isinstance(node, For | Group):
            yield from walk(node.body)
        elif isinstance(node, If):
            yield from walk(node.body)
            yield from walk(node.orelse)
