"""Placement of declarations: as deep in the tree, and as late, as live ranges allow."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from polyloop.codegen.tree.c_ast import Assign, Block, Declare, For, Group, If, Node, Union, walk
from polyloop.codegen.tree.c_expr import Name, changed
from polyloop.frozen import replace

__all__ = ["declare_private", "declare_shared"]


def declare_private(block: Block, names: Iterable[str], declaration: Callable[[str], Declare]) -> Block:
    """Return *block* with a declaration of each of *names* that occurs in it.

    ::

        for (..) {t = a[i]; b[i] = t;}   ->   for (..) {float t = a[i]; b[i] = t;}

    The first assignment of a scalar declares it, if it is unconditional and in the block of all uses.  A declaration
    moves into the branches of a condition always, into a loop only if each iteration begins with such an assignment:
    otherwise a value may be live from one iteration to the next.  If the first use is a conditional assignment of a
    constant, the declaration has the constant, because nothing reads the scalar without the condition.
    """
    for name in names:
        if any(name in node.uses for node in block):
            block = _place(block, name, declaration(name))
    return block


def declare_shared(block: Block, names: frozenset[str], declaration: Declare | Union) -> Block:
    """Return *block* with storage that all threads of a block share, declared before the first use of *names*."""
    users = [position for position, node in enumerate(block) if names & node.uses]
    if not users:
        return block
    first = block[users[0]]
    inner: Node | None = None
    if len(users) == 1 and (isinstance(first, Group) or (isinstance(first, For) and first.axis == "g")):
        inner = replace(first, body=declare_shared(first.body, names, declaration))
    elif len(users) == 1 and isinstance(first, If) and names.isdisjoint(first.reads):
        parts = [declare_shared(part, names, declaration) for part in (first.body, first.orelse)]
        inner = replace(first, body=parts[0], orelse=parts[1])
    if inner is not None:
        return (*block[: users[0]], inner, *block[users[0] + 1 :])
    return (*block[: users[0]], declaration, *block[users[0] :])


def _place(block: Block, name: str, declaration: Declare) -> Block:
    """Return *block* with *name* declared somewhere in it."""
    inside = _place_inside(block, name, declaration)
    if inside is not None:
        return inside
    first = next(position for position, node in enumerate(block) if name in node.uses)
    if sum(name in node.uses for node in block) == 1:
        node = block[first]
        moved = _into_alternatives(node, name, declaration)
        if moved is not None:
            return (*block[:first], moved, *block[first + 1 :])
    return (*block[:first], *_declared(block[first], name, declaration), *block[first + 1 :])


def _declared(node: Node, name: str, declaration: Declare) -> Block:
    """Return *name*'s declaration and its first use, *node*."""
    return _with_constant(node, name, declaration) or (declaration, node)


def _with_constant(node: Node, name: str, declaration: Declare) -> Block | None:
    """Return a declaration with the constant that a condition sets, and the rest of *node*; None if it sets none."""
    if isinstance(node, If) and not node.orelse and not node.reads and not declaration.dims:
        start = next(position for position, inner in enumerate(node.body) if name in inner.uses)
        init = node.body[start]
        if isinstance(init, Assign) and init.is_constant and _begins(init, name):
            rest = (*node.body[:start], *node.body[start + 1 :])
            return (replace(init, type=declaration.type), *((replace(node, body=rest),) if rest else ()))
    return None


def _into_alternatives(node: Node, name: str, declaration: Declare) -> Node | None:
    """Return *node* with declarations in its parts, if each execution of a part may have its own variable, else None.

    That holds for branches, for groups, and for loops over blocks or threads.
    """
    match node:
        case If(_, body, orelse) if name not in node.reads:
            parts = [
                _place(part, name, declaration) if any(name in inner.uses for inner in part) else part
                for part in (body, orelse)
            ]
            return replace(node, body=parts[0], orelse=parts[1])
        case For(body=body, axis="g" | "l") if name not in node.reads:
            return replace(node, body=_place(body, name, declaration))
        case Group(body=body):
            return replace(node, body=_place(body, name, declaration))
        case _:
            return None


def _place_inside(
    block: Block, name: str, declaration: Declare, varying: frozenset[str] = frozenset()
) -> Block | None:
    """Return *block* with declarations inside, None if a value may enter or leave the block.

    *varying* are the variables that differ between executions of the block.  Where a condition without them sets a
    constant first, each execution sets it, or none does.
    """
    users = [position for position, node in enumerate(block) if name in node.uses]
    first = block[users[0]]
    if isinstance(first, Assign) and _begins(first, name) and not declaration.dims:
        return (*block[: users[0]], replace(first, type=declaration.type), *block[users[0] + 1 :])
    if varying and isinstance(first, If) and first.condition.names.isdisjoint(varying):
        begun = _with_constant(first, name, declaration)
        if begun is not None:
            return (*block[: users[0]], *begun, *block[users[0] + 1 :])
    out = list(block)
    for position in users:
        moved = _enclose(out[position], name, declaration, varying)
        if moved is None:
            return None
        out[position] = moved
    return tuple(out)


def _begins(node: Assign, name: str) -> bool:
    return node.writes == name and node.operator == "=" and name not in node.reads and node.target == Name(name)


def _enclose(node: Node, name: str, declaration: Declare, varying: frozenset[str]) -> Node | None:
    """Return *node* with the declarations inside of it, None if a value may pass between executions of its parts."""
    match node:
        case For(var=var, body=body) if name not in node.reads:
            inside = _place_inside(body, name, declaration, varying.union({var}, _names_in(body)))
            return None if inside is None else replace(node, body=inside)
        case Group(body=body):
            inside = _place_inside(body, name, declaration, varying)
            return None if inside is None else replace(node, body=inside)
        case If(_, body, orelse) if name not in node.reads:
            parts: list[Block] = []
            for part in (body, orelse):
                if any(name in inner.uses for inner in part):
                    inside = _place_inside(part, name, declaration, varying)
                    if inside is None:
                        return None
                    parts.append(inside)
                else:
                    parts.append(part)
            return replace(node, body=parts[0], orelse=parts[1])
        case _:
            return None


def _names_in(block: Block) -> frozenset[str]:
    """Return the variables that the statements in a block declare or set."""
    found: set[str] = set()
    for node in walk(block):
        match node:
            case Declare(name=name, more=more):
                found |= {name, *(other for other, _ in more)}
            case Assign(target=target) if (variable := changed(target)) is not None:
                found.add(variable.text)
            case For(var=var):
                found.add(var)
            case _:
                pass
    return frozenset(found)
