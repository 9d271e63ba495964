"""A small C syntax tree: statements; the expressions in them are nodes of :mod:`polyloop.codegen.tree.c_expr`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, TypeVar, cast

from polyloop.codegen.tree.c_expr import Code, changed
from polyloop.frozen import once, quick, replace

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
    "Numbered",
    "Strided",
    "Sync",
    "Union",
    "Verbatim",
    "blocks_of",
    "expressions_of",
    "walk",
    "with_blocks",
    "with_expressions",
]


class _Statement:
    @once
    def uses(self) -> frozenset[str]:
        """Temporaries that occur."""
        node = cast("Node", self)
        parts = [*[code.temporaries for code in expressions_of(node)], *[inner.uses for inner in blocks_of(node)]]
        return frozenset[str]().union(*parts)

    @once
    def names(self) -> frozenset[str]:
        """Variables that occur, in the other head of a loop as well."""
        node = cast("Node", self)
        other = node.strided if isinstance(node, For) else None
        codes = expressions_of(node) if other is None else (*expressions_of(node), other.start, other.test)
        parts = [*[code.names for code in codes], *[inner.names for inner in blocks_of(node)]]
        return frozenset[str]().union(*parts)

    @property
    def reads(self) -> frozenset[str]:
        """Temporaries in the condition, the bounds or the value, also in subscripts."""
        return frozenset[str]().union(*[code.temporaries for code in expressions_of(cast("Node", self))])


@quick
@dataclass(frozen=True)
class Assign(_Statement):
    """``target operator value;`` where ``operator`` is ``=``, ``+=`` or ``*=``.

    With a ``type`` the statement declares its target.  ``is_constant`` is True if the value is a literal.  ``pragma``
    stands ahead of it, empty if there is none.
    """

    target: Code
    operator: str
    value: Code
    instruction: str
    type: str = ""
    is_constant: bool = False
    pragma: str = ""

    @property
    def writes(self) -> str | None:
        """The temporary that the assignment changes, None if it changes another variable."""
        variable = changed(self.target)
        return None if variable is None else variable.temporary or None

    @property
    def reads(self) -> frozenset[str]:
        """Temporaries that the assignment reads: in the value, in subscripts of the target, and an updated target."""
        changes = {self.writes} if self.operator == "=" else ()
        return self.value.temporaries | self.target.temporaries.difference(changes)


@quick
@dataclass(frozen=True)
class Call(_Statement):
    """``code;``, the call of a function that changes memory."""

    code: Code
    instruction: str


@quick
@dataclass(frozen=True)
class Verbatim(_Statement):
    """``{ const type name = value; .. text }``: C text of the user, which accesses the temporaries ``touched``."""

    constants: tuple[tuple[str, str, Code], ...]
    text: str
    instruction: str
    touched: frozenset[str]
    convergent: bool = False

    @property
    def uses(self) -> frozenset[str]:
        """Temporaries that occur."""
        return self.touched.union(*[value.temporaries for _, _, value in self.constants])


@quick
@dataclass(frozen=True)
class Declare(_Statement):
    """``storage type name[dims] = value; then``.

    ``value`` may be None, and ``more`` are further names with values.  ``then`` is a statement that sets its elements,
    empty if there is none.
    """

    type: str
    name: str
    dims: tuple[int, ...] = ()
    value: Code | None = None
    storage: str = ""
    more: tuple[tuple[str, Code], ...] = ()
    then: str = ""

    @property
    def initial(self) -> Iterator[tuple[str, Code]]:
        """The names that begin with a value, with these."""
        if self.value is not None:
            yield self.name, self.value
        yield from self.more


@quick
@dataclass(frozen=True)
class Union(_Statement):
    """``storage union { members } name;``: variables at one address."""

    name: str
    members: tuple[Declare, ...]
    storage: str = ""


@quick
@dataclass(frozen=True)
class Carve(_Statement):
    """``type (&name)[dims] = *(type (*)[dims])(memory + start);``: a reference to a part of dynamic shared memory."""

    type: str
    name: str
    dims: tuple[int, ...]
    memory: str
    start: int


@quick
@dataclass(frozen=True)
class Sync(_Statement):
    """A barrier, or another statement that uses no temporary; ``why`` stands beside it in a comment."""

    text: str
    why: str = ""


@quick
@dataclass(frozen=True)
class Comment(_Statement):
    """``// text``."""

    text: str


@quick
@dataclass(frozen=True)
class Strided:
    """The head of a loop by the index ``var``, which names a sum that rises by ``step`` with each iteration."""

    var: str
    start: Code
    test: Code
    step: int


@quick
@dataclass(frozen=True)
class For(_Statement):
    """``for (type var = start; test; var += step) body``.

    ``axis`` is ``"g"`` or ``"l"`` for a loop over blocks or threads, whose iterations are independent, ``"v"`` for one
    over the lanes of vectors, and ``"i"`` for one that is written out with iterations side by side.  ``is_rest`` is
    True if it runs over the lanes of a partial vector.  ``strided`` is another head of the same loop, for a body that
    uses its variable in one named index alone.
    """

    type: str
    var: str
    start: Code
    test: Code
    body: Block
    step: int = 1
    pragma: str = ""
    axis: str = ""
    is_rest: bool = False
    strided: Strided | None = None


@quick
@dataclass(frozen=True)
class If(_Statement):
    """``if (condition) body else orelse``.

    ``is_choice`` is True if both cases are the same statements, once on whole vectors and once lane by lane.
    """

    condition: Code
    body: Block
    orelse: Block = ()
    is_choice: bool = False


@quick
@dataclass(frozen=True)
class Group(_Statement):
    """``{ body }``, with a ``pragma`` ahead of it, empty if there is none."""

    body: Block
    pragma: str = ""


@quick
@dataclass(frozen=True)
class Numbered(_Statement):
    """``head { lines body }``: what a block of the grid executes, after *lines* that define its indices."""

    head: str
    lines: tuple[str, ...]
    body: Block


Node: TypeAlias = Assign | Call | Verbatim | Declare | Union | Carve | Sync | Comment | For | If | Group | Numbered
Block: TypeAlias = tuple[Node, ...]


def blocks_of(node: Node) -> Block:
    """Return the statements directly inside a statement."""
    match node:
        case For(body=body) | Group(body=body) | Numbered(body=body):
            return body
        case If(body=body, orelse=orelse):
            return (*body, *orelse)
        case _:
            return ()


def with_blocks(node: Node, change: Callable[[Block], Block]) -> Node:
    """Return *node* with *change* applied to the blocks in it; the same object if nothing changes."""
    match node:
        case For(body=body) | Group(body=body) | Numbered(body=body):
            return node if (new := change(body)) is body else replace(node, body=new)
        case If(body=body, orelse=orelse):
            new, other = change(body), change(orelse)
            return node if new is body and other is orelse else replace(node, body=new, orelse=other)
        case _:
            return node


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


def with_expressions(node: _AnyNode, change: Callable[[Code], Code]) -> _AnyNode:
    """Return a statement with its own expressions changed; the same object if nothing changes."""
    new: dict[str, Any] = {}
    match node:
        case Verbatim(constants):
            new["constants"] = tuple([(ctype, name, change(value)) for ctype, name, value in constants])
        case Assign() | Call() | Declare() | For() | If():
            new = {name: change(code) for name in _FIELDS[type(node)] if (code := getattr(node, name)) is not None}
    if isinstance(node, Declare) and node.more:
        more = tuple([(name, change(code)) for name, code in node.more])
        new |= {} if all(old is code for (_, old), (_, code) in zip(node.more, more, strict=True)) else {"more": more}
    if isinstance(node, For) and node.strided is not None:  # its variables are replaced together with those of the loop
        start, test = change(node.strided.start), change(node.strided.test)
        is_same = start is node.strided.start and test is node.strided.test
        new |= {} if is_same else {"strided": replace(node.strided, start=start, test=test)}
    if all(getattr(node, name) is code for name, code in new.items()):
        return node
    changed: _AnyNode = replace(cast("Any", node), **new)
    return changed


_FIELDS: Final = {
    Assign: ("target", "value"), Call: ("code",), Declare: ("value",), For: ("start", "test"), If: ("condition",),
}  # fmt: skip
