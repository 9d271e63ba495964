"""A small C syntax tree: statements; the expressions in them are nodes of :mod:`polyloop.codegen.tree.c_expr`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, TypeAlias, TypeVar, cast

from polyloop.codegen.tree.c_expr import Code
from polyloop.frozen import quick, replace

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
    "blocks_of",
    "expressions_of",
    "names_in",
    "walk",
    "with_expressions",
]


@quick
@dataclass(frozen=True)
class Assign:
    """``target operator value;`` where ``operator`` is ``=``, ``+=`` or ``*=``.

    ``writes`` and ``reads`` name the temporaries concerned, as the user calls them.  With a ``type`` the statement
    declares its target.  ``is_constant`` is whether the value is a literal.
    """

    target: Code
    operator: str
    value: Code
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
    """``code;``, the call of a function that changes memory; ``reads`` are the temporaries in it."""

    code: Code
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

    constants: tuple[tuple[str, str, Code], ...]
    text: str
    instruction: str
    uses: frozenset[str]


@quick
@dataclass(frozen=True)
class Declare:
    """``storage type name[dims] = value;``; ``value`` may be None, and ``more`` are names with values beside it."""

    type: str
    name: str
    dims: tuple[int, ...] = ()
    value: Code | None = None
    storage: str = ""
    more: tuple[tuple[str, Code], ...] = ()

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
    start: Code
    test: Code
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

    condition: Code
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


def blocks_of(node: Node) -> Block:
    """Return the statements directly inside a statement."""
    match node:
        case For(body=body) | Group(body=body):
            return body
        case If(body=body, orelse=orelse):
            return (*body, *orelse)
        case _:
            return ()


def walk(block: Block) -> Iterator[Node]:
    """Yield every node, a parent before its children."""
    for node in block:
        yield node
        yield from walk(blocks_of(node))


_AnyNode = TypeVar("_AnyNode", bound=Node)


def expressions_of(node: Node) -> tuple[Code, ...]:
    """Return the expressions in a statement itself, not those in statements inside."""
    match node:
        case Assign(target, _, value):
            return (target, value)
        case Call(code):
            return (code,)
        case Verbatim(constants):
            return tuple([value for _, _, value in constants])
        case Declare(value=value, more=more):
            return (*([] if value is None else [value]), *[other for _, other in more])
        case For(start=start, test=test):
            return (start, test)
        case If(condition):
            return (condition,)
        case _:
            return ()


def names_in(node: Node) -> frozenset[str]:
    """Return the variables in a statement and in those inside it."""
    known: frozenset[str] | None = node.__dict__.get("_names")
    if known is None:
        parts = [*[code.names for code in expressions_of(node)], *[names_in(inner) for inner in blocks_of(node)]]
        known = node.__dict__["_names"] = frozenset[str]().union(*parts)
    return known


def with_expressions(node: _AnyNode, change: Callable[[Code], Code]) -> _AnyNode:
    """Return a statement with its own expressions changed; itself where nothing changes."""
    new: dict[str, Any] = {}
    match node:
        case Verbatim(constants):
            new["constants"] = tuple([(ctype, name, change(value)) for ctype, name, value in constants])
        case Assign() | Call() | Declare() | For() | If():
            new = {name: change(code) for name in _FIELDS[type(node)] if (code := getattr(node, name)) is not None}
    if all(getattr(node, name) is code for name, code in new.items()):
        return node
    changed: _AnyNode = replace(cast("Any", node), **new)
    return changed


_FIELDS: Final = {
    Assign: ("target", "value"), Call: ("code",), Declare: ("value",), For: ("start", "test"), If: ("condition",),
}  # fmt: skip
