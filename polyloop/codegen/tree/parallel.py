"""Loops over blocks whose iterations the threads of a processor share, and loops that its vector unit executes.

::

    for (by ..) for (bx ..) {              ->   #pragma omp parallel for collapse(2)
        for (lane ..) c[.. + lane] = ..;        for (by ..) for (bx ..) {
    }                                               #pragma omp simd
                                                    for (lane ..) c[.. + lane] = ..;
                                                }

    float panel[256][384];                 ->   _Alignas(64) float panel_memory[256][384];
                                                float (*volatile panel_at)[384] = panel_memory;
                                                float (*const panel)[384] = panel_at;

No block of a launch depends on another one, and no lane of a statement on another one, which is proven before there is
text.  Each block has temporaries of its own, declared inside of its loops.  Source: OpenMP
Application Programming Interface 5.2, sections 4.4.1 (canonical loop nests) and 10.4 (simd).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from math import prod
from typing import Final

from polyloop.codegen.tree.c_ast import Assign, Block, Declare, For, If, Node, Union, walk, with_blocks
from polyloop.codegen.tree.c_expr import Apply, Binary, Code, Literal, Name, Parentheses, Subscript, Unary, nodes
from polyloop.frozen import replace

__all__ = [
    "behind_pointers",
    "has_block_loop",
    "has_long_loop",
    "in_steps",
    "in_vectors",
    "lane_by_lane",
    "shared_by_threads",
]

_BLOCKS: Final = "g"
_LANES: Final = "v"
_SIDE_BY_SIDE: Final = "i"
_UNEVEN: Final = "{pragma} schedule(dynamic)"
_MOST_IN_REGISTERS: Final = 1024
"""Elements of the largest array that may be held in vector registers: 32 of 512 bits have 512 of float32."""
_LINE: Final = "_Alignas(64) "
_LINEAR: Final = frozenset("+-*")
"""Operators that give no element to several iterations."""


def has_block_loop(block: Block) -> bool:
    """Return whether *block* has a loop over blocks."""
    return any(isinstance(node, For) and node.axis == _BLOCKS for node in walk(block))


def has_long_loop(block: Block) -> bool:
    """Return whether *block* has a loop whose number of iterations is not a constant."""
    return any(isinstance(node, For) and len(node.start.names | node.test.names) > 1 for node in walk(block))


def shared_by_threads(block: Block, pragma: str) -> Block:
    """Return the body of a function with *pragma* at its outermost loops over blocks."""
    return _in(block, pragma, {node.name for node in _declarations(block) if not _is_constant(node)})


def _declarations(block: Block) -> Iterator[Declare | Union]:
    return (node for node in walk(block) if isinstance(node, Declare | Union))


def _is_constant(node: Declare | Union) -> bool:
    return isinstance(node, Declare) and node.type.startswith("const ")


def _in(block: Block, pragma: str, variables: Collection[str]) -> Block:
    return tuple([_of(node, pragma, variables) for node in block])


def _of(node: Node, pragma: str, variables: Collection[str]) -> Node:
    if not (isinstance(node, For) and node.axis == _BLOCKS):
        return with_blocks(node, lambda inner: _in(inner, pragma, variables))
    own = {inner.name for inner in _declarations((node,))}
    outside = (node.names | node.uses).intersection(variables) - own
    assert not outside, f"blocks would share {', '.join(sorted(outside))}"
    nest = list(_nest(node))
    pragma = f"{pragma} collapse({len(nest)})" if len(nest) > 1 else pragma
    is_uneven = any(_has_longest(loop.test) for loop in nest) or _is_uneven(nest[-1].body, {loop.var for loop in nest})
    return replace(node, pragma=_UNEVEN.format(pragma=pragma) if is_uneven else pragma)


def _is_uneven(body: Block, of_block: Collection[str]) -> bool:
    """Return whether some blocks have more work than others, except for what their edges leave out.

    That is a loop whose length depends on the block and has no constant limit, as in a triangle.
    """
    known = set(of_block)
    for node in body:
        match node:
            case Declare():
                known.update(new for new, code in node.initial if _varies(code, known))
            case For(start=start, test=test, body=inner):
                varies = not known.isdisjoint(start.names) or _varies(test, known)
                if (varies and not _is_limited(test)) or _is_uneven(inner, known):
                    return True
            case If(body=inner, orelse=orelse):
                if _is_uneven(inner, known) or _is_uneven(orelse, known):
                    return True
            case _:
                pass
    return False


def _varies(code: Code, of_block: Collection[str]) -> bool:
    return not code.names.isdisjoint(of_block) and not _is_limited(code)


def _is_limited(code: Code) -> bool:
    """Return whether *code* is, or compares with, a minimum of a number and something else."""
    last = code.rest[-1][1] if isinstance(code, Binary) and code.rest[-1][0].symbol in {"<", "<="} else code
    if isinstance(last, Apply) and last.function.startswith("min_"):
        return any(isinstance(argument, Literal) for argument in last.arguments)
    return isinstance(last, Literal)


def _has_longest(test: Code) -> bool:
    """Return whether a loop over blocks is as long as the longest of several nests, of which others have fewer."""
    calls = (node for node in nodes(test) if isinstance(node, Apply) and node.function.startswith("max_"))
    return any(not any(isinstance(argument, Literal) for argument in call.arguments) for call in calls)


def _nest(loop: For) -> Iterator[For]:
    """Yield loops over blocks that enclose nothing but the next one, with bounds that do not depend on one another."""
    variables: set[str] = set()
    inner: For | None = loop
    while inner is not None and variables.isdisjoint(inner.start.names | inner.test.names):
        yield inner
        variables.add(inner.var)
        first = inner.body[0]
        inner = first if len(inner.body) == 1 and isinstance(first, For) and first.axis == _BLOCKS else None


def in_vectors(block: Block, pragma: str) -> Block:
    """Return *block* with *pragma* at loops over the lanes of vectors that set one element in each iteration.

    So do loops with the tag ``ilp`` that go through memory in steps of one element, in place of being unrolled.
    A compiler that unrolls such a loop first, as GCC does with 16 iterations, finds no vectors in it.
    """
    loops = [node for node in walk(block) if isinstance(node, For) and _may_be_vector(node)]
    held = {_array(one.target) for loop in loops if _reads_memory(loop) for one in walk(loop.body)
            if isinstance(one, Assign)}  # fmt: skip
    return tuple([_in_vectors(node, pragma, held) for node in block])


def _in_vectors(node: Node, pragma: str, held: Collection[str]) -> Node:
    if isinstance(node, For) and node.axis == _LANES and not node.pragma and _sets_elements(node):
        return replace(node, pragma=pragma)
    if isinstance(node, For) and _may_be_vector(node):
        (target,) = (one.target for one in walk(node.body) if isinstance(one, Assign))
        if _reads_memory(node) or _array(target) in held:
            return replace(node, pragma=pragma)
    if isinstance(node, For) and not node.axis and not node.pragma and _is_independent(node):
        return replace(node, pragma=pragma)
    return with_blocks(node, lambda inner: tuple([_in_vectors(one, pragma, held) for one in inner]))


def lane_by_lane(block: Block, called: Collection[str]) -> Iterator[tuple[str, str]]:
    """Yield the instructions in loops over lanes that are not executed on vectors, each with the reason.

    *called* are functions that compute one number.
    """
    for loop in walk(block):
        if not (isinstance(loop, For) and loop.axis == _LANES):
            continue
        for node in walk(loop.body):
            if not isinstance(node, Assign) or not node.instruction:
                continue
            functions = [part.function for part in nodes(node.value) if isinstance(part, Apply)]
            if node.pragma:
                yield node.instruction, "an atomic update is of a single element"
            elif not loop.pragma:
                yield node.instruction, "its lanes do not set one element each"
            elif once := [name for name in functions if name in called]:
                yield node.instruction, f"'{once[0]}' is called for one lane at a time"


def _is_independent(loop: For) -> bool:
    """Return whether *loop* sets neighbours of an array of the caller's that it reads nothing of.

    Arrays that are written overlap no other array.  The compiler does not see this where a team of threads executes
    the loop, and would compare addresses ahead of each one.
    """
    if any(isinstance(node, If) for node in loop.body) or not (_sets_elements(loop) and _has_neighbours(loop)):
        return False
    (node,) = (node for node in walk(loop.body) if isinstance(node, Assign))
    read = {_array(part) for code in (node.value, loop.test) for part in nodes(code) if isinstance(part, Subscript)}
    return _is_counted(loop) and not node.target.temporaries and _array(node.target) not in read


def _is_counted(loop: For) -> bool:
    """Return whether the number of iterations is known ahead of the loop."""
    test = loop.test
    is_plain = isinstance(test, Binary) and len(test.rest) == 1 and test.rest[0][0].symbol in {"<", "<="}
    return is_plain and isinstance(test, Binary) and test.first == Name(loop.var)


def _may_be_vector(loop: For) -> bool:
    return loop.axis == _SIDE_BY_SIDE and _sets_elements(loop) and _has_neighbours(loop)


def _array(code: Code) -> str:
    """Return the name of the array that an element lies in."""
    while isinstance(code, Subscript):
        code = code.base
    return code.text if isinstance(code, Name) else ""


def _reads_memory(loop: For) -> bool:
    """Return whether iterations read an array of the caller's at indices of their own.

    Tiles of rows, which are registers, are written out: only their own elements are neighbours.
    """
    indices = {loop.var}
    for node in walk(loop.body):
        if isinstance(node, Declare):
            indices.update(new for new, code in node.initial if not code.names.isdisjoint(indices))
    values = [part for node in walk(loop.body) if isinstance(node, Assign) for part in nodes(node.value)]
    return any(
        isinstance(part, Subscript) and not part.temporaries and not part.index.names.isdisjoint(indices)
        for part in values
    )


def _has_neighbours(loop: For) -> bool:
    """Return whether each iteration of *loop* uses the elements behind those of the one before, or the same ones."""
    steps: dict[str, int | None] = {loop.var: 1}
    codes = list[Code]()
    for node in walk(loop.body):
        match node:
            case Declare():
                steps |= {new: _step(code, steps) for new, code in node.initial}
            case Assign(target=target, value=value):
                codes += [target, value]
            case If(condition=condition):
                codes.append(condition)
            case _:
                return False
    used = [part for code in codes for part in nodes(code) if isinstance(part, Subscript)]
    rows = [part.base.index for part in used if isinstance(part.base, Subscript)]
    is_even = all(_step(part.index, steps) in {0, 1} for part in used) and not any(_step(row, steps) for row in rows)
    return is_even and any(isinstance(code, Subscript) and _step(code.index, steps) == 1 for code in codes)


def in_steps(index: Code, var: str, declared: Mapping[str, Code]) -> bool:
    """Return whether *index* grows by one with *var*; the variables *declared* have these values."""
    steps: dict[str, int | None] = {var: 1}
    for name, code in declared.items():
        steps[name] = _step(code, steps)
    return _step(index, steps) == 1


def _step(code: Code, steps: Mapping[str, int | None]) -> int | None:
    """Return by how much *code* grows with each iteration; None if that is not a constant number."""
    match code:
        case Name(text=text):
            return steps.get(text, 0)
        case Parentheses(inside=inside):
            return _step(inside, steps)
        case Binary(first=first, rest=rest) if all(operator.symbol in {"+", "-"} for operator, _ in rest):
            total = _step(first, steps)
            for operator, term in rest:
                step = _step(term, steps)
                if total is None or step is None:
                    return None
                total += step if operator.symbol == "+" else -step
            return total
        case _:
            return 0 if all(steps.get(name, 0) == 0 for name in code.names) else None


def _sets_elements(loop: For) -> bool:
    """Return whether *loop* has one assignment, of another element in each iteration; conditions may be around it."""
    indices, targets = {loop.var}, list[Code]()
    for node in walk(loop.body):
        match node:
            case Declare(value=value) if value is not None:
                indices.update(new for new, code in node.initial if _selects(code, indices))
            case Assign(target=target, type="", pragma=""):
                targets.append(target)
            case If():
                pass
            case _:
                return False
    return len(targets) == 1 and isinstance(targets[0], Subscript) and _selects(targets[0], indices)


def _selects(code: Code, indices: Collection[str]) -> bool:
    """Return whether a linear index, or one of those of an element, has another value for each index of a loop."""
    if isinstance(code, Subscript):
        return _selects(code.index, indices) or (isinstance(code.base, Subscript) and _selects(code.base, indices))
    return not code.names.isdisjoint(indices) and all(map(_is_linear, nodes(code)))


def _is_linear(node: Code) -> bool:
    if isinstance(node, Binary):
        return all(operator.symbol in _LINEAR for operator, _ in node.rest)
    return isinstance(node, Name | Literal | Unary | Parentheses)


def behind_pointers(block: Block, fresh: Callable[[str], str]) -> Block:
    """Return *block* with large arrays that begin in a cache line and are used through pointers, if it has vectors.

    The compiler is not told where such a pointer comes from, only that no register tile lies there.  GCC (12.2, from
    -O3 on) forgets that of an array's own address when it numbers loops anew, and then stores a register tile to memory
    in each iteration: a product of float32 takes 2.3 times as long.
    """
    if not any(isinstance(node, For) and node.axis == _LANES for node in walk(block)):
        return block
    return tuple([_behind_pointers(node, fresh) for node in block])


def _behind_pointers(node: Node, fresh: Callable[[str], str]) -> Node:
    if not isinstance(node, Declare):
        return with_blocks(node, lambda inner: tuple([_behind_pointers(one, fresh) for one in inner]))
    if node.value is not None or node.then or node.storage or prod(node.dims) <= _MOST_IN_REGISTERS:
        return node
    memory, at = fresh(f"{node.name}_memory"), fresh(f"{node.name}_at")
    row = "".join(f"[{extent}]" for extent in node.dims[1:])
    held, used = (f"(*{kind} {name}){row}" if row else f"*{kind} {name}"
                  for kind, name in (("volatile", at), ("const", node.name)))
    then = f"{node.type} {held} = {memory};\n{node.type} {used} = {at};"
    return replace(node, name=memory, storage=_LINE, then=then)
