"""One team of threads for all launches of a program, in place of one for each.

::

    for (t ..) {                           ->   #pragma omp parallel
        #pragma omp parallel for                for (t ..) {
        for (block ..) ..                           #pragma omp for
        s = ..;                                     for (block ..) ..
    }                                               #pragma omp single
                                                    s = ..;
                                                }

Every thread runs the loops of the host, each with a variable of its own, and finds the same bounds.  All wait for each
other where a launch ends, as they did when its team broke up.  One of them executes what is no loop over blocks.

A bound or a condition that reads memory is evaluated by each thread: they wait before the first one of them goes on,
which may change what the others still read.  Source: OpenMP Application Programming Interface 5.2, sections 10.1
(parallel), 11.1 (single), 11.5 (worksharing loops) and 15.3.1 (barrier).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from polyloop.codegen.tree.c_ast import (
    Assign,
    Block,
    Comment,
    Declare,
    For,
    Group,
    If,
    Node,
    Sync,
    Union,
    Verbatim,
    expressions_of,
    walk,
    with_blocks,
)
from polyloop.codegen.tree.c_expr import TARGET, Apply, Binary, Code, Literal, Name, Parentheses, Unary, nodes
from polyloop.frozen import replace

__all__ = ["Team", "in_one_team"]

_TWICE: Final = 2
_OF_INDICES: Final = ("min_", "max_", "floordiv_", "floormod_")
"""Beginnings of names of functions of indices."""


@dataclass(frozen=True)
class Team:
    """Directives of a team of threads.

    Attributes
    ----------
    whole
        Ahead of what all threads of a team execute.
    share
        Ahead of a loop in it whose iterations they share, and behind which they wait for each other.
    alone
        Ahead of what one of them executes while the others wait.
    meet
        A place where they wait for each other.
    unmet
        Behind a directive: no thread waits for others at its end.
    """

    whole: str
    share: str
    alone: str
    meet: str
    unmet: str

    @property
    def launch(self) -> str:
        """Directive of a loop that a team of its own shares."""
        return f"{self.whole} {self.share.rpartition(' ')[2]}"


def in_one_team(block: Block, team: Team) -> Block:
    """Return the body of a function with one team around launches that follow each other, or run repeatedly."""
    if sum(_teams(node, team) for node in block) < _TWICE:
        return tuple([with_blocks(node, lambda inner: in_one_team(inner, team)) for node in block])
    places = [n for n, node in enumerate(block) if _teams(node, team)]
    first, end = places[0], places[-1] + 1
    members = _members(block[first:end], block[end:], team)
    if members is None:
        return tuple([with_blocks(node, lambda inner: in_one_team(inner, team)) for node in block])
    members = _without_last_wait(members, team)
    (only, *others) = members
    whole: Node = Group(members, team.whole)
    if not others and isinstance(only, For) and not only.pragma:
        whole = replace(only, pragma=team.whole)
    return (*block[:first], whole, *block[end:])


def _teams(node: Node, team: Team) -> int:
    """Return the number of teams that begin in *node*, up to two."""
    match node:
        case For(pragma=pragma) | Group(pragma=pragma) if pragma.startswith(team.whole):
            return 1
        case For(body=body):
            return _TWICE if any(_teams(inner, team) for inner in body) else 0
        case If(body=body, orelse=orelse):
            return min(_TWICE, sum(_teams(inner, team) for inner in (*body, *orelse)))
        case Group(body=body):
            return min(_TWICE, sum(_teams(inner, team) for inner in body))
        case _:
            return 0


def _members(block: Block, behind: Sequence[Node], team: Team) -> Block | None:
    """Return *block* as all threads of a team execute it; None if one would set a variable of the others'.

    *behind* are statements that may use what *block* declares.
    """
    found: list[Node] = []
    alone: list[Node] = []
    for place, node in enumerate(block):
        if _is_known_to_all(node) and node.names.isdisjoint(_declared(alone)):
            found.append(node)
        elif _has_own_team(node, team):
            return None
        elif not _teams(node, team):
            alone.append(node)
        else:
            if not _is_closed(alone, (*block[place:], *behind)):
                return None
            own = _shared(node, team)
            if own is None:
                return None
            found += [*_by_one(alone, team), *own]
            alone = []
    if not _is_closed(alone, behind):
        return None
    return (*found, *_by_one(alone, team))


def _has_own_team(node: Node, team: Team) -> bool:
    """Return whether C text of the user's has a team of threads, which inside of another one would be one thread."""
    return any(isinstance(inner, Verbatim) and team.whole in inner.text for inner in walk((node,)))


def _shared(node: Node, team: Team) -> Block | None:
    """Return a statement that has launches as all threads execute it; None if that cannot be."""
    match node:
        case For(pragma=pragma) if pragma.startswith(team.launch):
            return (replace(node, pragma=team.share + pragma.removeprefix(team.launch)),)
        case Group(body=body, pragma=pragma) if pragma == team.whole:
            return (*body, Sync(team.meet))
        case For(body=body):
            inside = _members(body, (), team)
            return None if inside is None else _read_by_all(node, replace(node, body=_met(node, inside, team)), team)
        case If(body=body, orelse=orelse):
            parts = _members(body, (), team), _members(orelse, (), team)
            if parts[0] is None or parts[1] is None:
                return None
            own = replace(node, body=_met(node, parts[0], team), orelse=_met(node, parts[1], team))
            return _read_by_all(node, own, team)
        case Group(body=body):
            inside = _members(body, (), team)
            return None if inside is None else (replace(node, body=inside),)
        case _:
            return None


def _met(node: Node, body: Block, team: Team) -> Block:
    """Return the body of a loop or condition, behind a wait if its head reads memory."""
    return (Sync(team.meet), *body) if body and _reads_memory(node) else body


def _read_by_all(old: Node, new: Node, team: Team) -> Block:
    return (new, Sync(team.meet)) if _reads_memory(old) else (new,)


def _reads_memory(node: Node) -> bool:
    return not all(map(_is_of_indices, expressions_of(node)))


def _is_of_indices(code: Code) -> bool:
    """Return whether *code* is a number, a name, or arithmetic of these, which every thread finds for itself."""
    return not code.temporaries and all(
        isinstance(part, Name | Literal | Parentheses | Binary)
        or (isinstance(part, Unary) and part.operator != TARGET)
        or (isinstance(part, Apply) and part.function.startswith(_OF_INDICES))
        for part in nodes(code)
    )


def _is_known_to_all(node: Node) -> bool:
    """Return whether *node* names a number that depends on nothing that threads change."""
    return (
        isinstance(node, Declare)
        and node.type.startswith("const ")
        and not node.then
        and not _reads_memory(node)
    )


def _is_closed(alone: Sequence[Node], behind: Sequence[Node]) -> bool:
    """Return whether nothing *behind* uses a variable that one thread declares."""
    declared = set(_declared(alone))
    return all(declared.isdisjoint(node.names | node.uses) for node in behind) if declared else True


def _declared(block: Sequence[Node]) -> Iterator[str]:
    for node in block:
        match node:
            case Declare(name=name, more=more):
                yield name
                yield from (other for other, _ in more)
            case Union(name=name, members=members):
                yield name
                yield from _declared(members)
            case Assign(target=target, type=kind) if kind:
                yield from target.names
            case _:
                pass


def _by_one(nodes: Sequence[Node], team: Team) -> Block:
    """Return *nodes* as one statement of one thread."""
    if all(isinstance(node, Comment) for node in nodes):
        return tuple(nodes)
    (only, *others) = nodes
    if not others and isinstance(only, For | Group) and not only.pragma:
        return (replace(only, pragma=team.alone),)
    return (Group(tuple(nodes), team.alone),)


def _without_last_wait(members: Block, team: Team) -> Block:
    """Return *members* whose last launch has no wait of its own: the end of the team is one."""
    *before, last = members
    match last:
        case For(pragma=pragma) | Group(pragma=pragma) if pragma.startswith((team.share, team.alone)):
            return (*before, replace(last, pragma=f"{pragma} {team.unmet}"))
        case Group(body=body, pragma="") if body:
            return (*before, replace(last, body=_without_last_wait(body, team)))
        case Sync(text=text) if text == team.meet and before:
            return tuple(before)
        case _:
            return members
