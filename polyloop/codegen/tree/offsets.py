"""Named offsets: what several addresses share becomes a constant where that makes the text shorter.

::

    f0 = f[(by + 1) * (n + 2) + x + 1];  f3 = f[3 * (n + 2) * (m + 2) + (by + 1) * (n + 2) + x + 2];  ..
    ->
    const int offset = (by + 1) * (n + 2) + x;
    f0 = f[offset + 1];  f3 = f[3 * (n + 2) * (m + 2) + offset + 2];  ..

Compilers find these themselves; the names are for readers.  A part is named in the block of a statement that computes
it whatever happens, in front of the first one, so that nothing is computed that was not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from operator import is_
from typing import Final, NamedTuple

from polyloop.codegen.tree.c_ast import (
    Assign,
    Block,
    Call,
    Declare,
    For,
    If,
    Node,
    Verbatim,
    blocks_of,
    expressions_of,
    with_blocks,
    with_expressions,
)
from polyloop.codegen.tree.c_expr import (
    Binary,
    Code,
    Literal,
    Name,
    Parentheses,
    Subscript,
    Unary,
    may_skip,
    nodes,
    put,
    renewed,
    root,
)
from polyloop.codegen.tree.steady import steady_names
from polyloop.frozen import replace

__all__ = ["with_named_offsets"]

_LETTER: Final = "\N{LATIN LETTER DENTAL CLICK}"
_LEAST: Final = 9
"""Characters of the shortest sum that is named."""
_LEAST_PRODUCT: Final = 12
"""Characters of the shortest product that is named."""
_OFTEN: Final = 3
"""Uses from which the line of a definition is worth its own length."""
_CHAINS: Final = frozenset("+*")
_QUIET: Final = frozenset("+-*/%")


def with_named_offsets(
    body: Block,
    index_type: str,
    sizes: frozenset[str],
    uniform: frozenset[str],
    integers: frozenset[str],
    fresh: Callable[[str], str],
) -> Block:
    """Return *body* with names for sums and products that addresses share.

    Parameters
    ----------
    index_type
        C type of indices.
    sizes
        Names of sizes: a product of them alone is a stride.
    uniform
        Names that are the same for all threads of a block.
    integers
        Arrays of integers no wider than indices.
    fresh
        Function that reserves a name like the one that it is given, and returns it.
    """
    steady = steady_names(body, index_type, integers)
    return _Offsets(index_type, sizes, sizes | uniform, steady, fresh).block(body, frozenset())


class _Kinds(NamedTuple):
    """Names that are the same for all threads of a block, and integers from memory that stay as they are."""

    uniform: frozenset[str]
    steady: frozenset[str]


@dataclass
class _Shared:
    """A part of addresses: where it is computed first, how often from there on, and in which arrays.

    ``is_index`` is True if it is computed elsewhere, too, as in a test against a size.
    """

    part: Binary
    first: int
    count: int = 0
    arrays: dict[str, None] = field(default_factory=dict)
    is_index: bool = False


class _Offsets:
    def __init__(
        self,
        index_type: str,
        sizes: frozenset[str],
        uniform: frozenset[str],
        steady: frozenset[str],
        fresh: Callable[[str], str],
    ) -> None:
        self.index_type = index_type
        self.sizes = sizes
        self.kinds = _Kinds(uniform, steady)
        self.fresh = fresh
        self.names: dict[str, list[str]] = {}
        self.known: dict[tuple[Code, bool], tuple[tuple[Binary, str], ...]] = {}

    def block(self, nodes: Block, taken: frozenset[str]) -> Block:
        """Return *nodes* with names for what they share, and the blocks inside with names for what these do."""
        wishes: dict[str, str] = {}
        while (best := self._best(nodes)) is not None:
            mark = Name(f"{_LETTER}{len(wishes)}{_LETTER}")
            wishes[mark.text] = self._wish(best)
            made = Declare(f"const {self.index_type}", mark.text, (), best.part)
            nodes = (
                *nodes[: best.first],
                made,
                *(_renamed(node, best.part, mark, self.kinds) for node in nodes[best.first :]),
            )
        if wishes:
            nodes, taken = self._named(nodes, wishes, taken)
        found = [with_blocks(node, lambda inside: self.block(inside, taken)) for node in nodes]
        return nodes if all(map(is_, found, nodes)) else tuple(found)

    def _named(self, nodes: Block, wishes: Mapping[str, str], taken: frozenset[str]) -> tuple[Block, frozenset[str]]:
        """Return *nodes* with names in the place of marks, numbered from top to bottom, and all names that are taken.

        Blocks beside each other use the same names.
        """
        values: dict[str, Code] = {}
        for node in nodes:
            if isinstance(node, Declare) and node.name in wishes:
                wish = wishes[node.name]
                known = self.names.setdefault(wish, [])
                free = [name for name in known if name not in taken]
                if not free:
                    free = [self.fresh(wish)]
                    known += free
                values[node.name] = Name(free[0])
                taken |= {free[0]}
        return tuple([_with(node, values) for node in nodes]), taken

    def _wish(self, shared: _Shared) -> str:
        kind = "stride" if shared.part.names <= self.sizes else "position" if shared.is_index else "offset"
        own = "index" if kind == "position" else kind
        return kind if len(shared.arrays) > 1 else f"{next(iter(shared.arrays))}_{own}"

    def _best(self, nodes: Block) -> _Shared | None:
        """Return the part whose name saves most characters, None if no name saves any."""
        found: dict[str, _Shared] = {}
        for position, node in enumerate(nodes):
            if isinstance(node, Assign | Call | If):
                for code in expressions_of(node):
                    for part, _ in self._candidates(code, is_sure=True):
                        found.setdefault(part.text, _Shared(part, position))
            for code in _inside(node) if found else ():
                for part, array in self._candidates(code):
                    if (shared := found.get(part.text)) is not None:
                        shared.count += 1
                        shared.arrays |= {array: None} if array else {}
                        shared.is_index |= not array
        in_addresses = [shared for shared in found.values() if shared.arrays]
        best = max(in_addresses, key=self._saved, default=None)
        return best if best is not None and self._saved(best) > 0 else None

    def _candidates(self, code: Code, *, is_sure: bool = False) -> tuple[tuple[Binary, str], ...]:
        """Return the results of :func:`_candidates`, for which blocks around the expression ask, too."""
        found = self.known.get((code, is_sure))
        if found is None:
            found = self.known[code, is_sure] = tuple(_candidates(code, self.kinds, is_sure=is_sure))
        return found

    def _saved(self, shared: _Shared) -> int:
        """Return the number of characters that a name saves; of what comes from memory without its definition."""
        name, part = len(self._wish(shared)), len(shared.part.text)
        is_from_memory = shared.part.temporaries or any(isinstance(node, Subscript) for node in nodes(shared.part))
        line = len(f"const {self.index_type}  = ;") if shared.count < _OFTEN else 0
        cost = 0 if is_from_memory and shared.count > 1 else name + part + line
        return shared.count * (part - name) - cost


def _inside(node: Node) -> Iterator[Code]:
    """Yield the expressions in a statement and in the statements inside, but not in C text of the user."""
    if not isinstance(node, Verbatim):
        yield from expressions_of(node)
    for inner in blocks_of(node):
        yield from _inside(inner)


def _candidates(
    code: Code, kinds: _Kinds, array: str = "", *, is_sure: bool = False
) -> Iterator[tuple[Binary, str]]:
    """Yield the sums and products that may have a name, each with the array in whose subscript it is, empty if in none.

    With *is_sure*, those that are evaluated whatever the values of others are.
    """
    if isinstance(code, Subscript):
        yield from _candidates(code.base, kinds, array, is_sure=is_sure)
        yield from _candidates(code.index, kinds, array or root(code) or "", is_sure=is_sure)
        return
    if isinstance(code, Binary) and len(code.text) >= _LEAST:
        yield from ((part, array) for _, part in _runs(code, kinds, in_address=bool(array)))
    for part in code.parts[:1] if is_sure and may_skip(code) else code.parts:
        yield from _candidates(part, kinds, array, is_sure=is_sure)


def _runs(code: Binary, kinds: _Kinds, *, in_address: bool = False) -> Iterator[tuple[slice, Binary]]:
    """Yield the runs of operands of a sum or product that may have a name, the longest first.

    A run begins with the first operand, which C computes first, too.  In addresses, others may begin behind *uniform*
    operands, which are the same for all threads: compilers keep these apart as well.  All operators up to the end of a
    run add, or all multiply, so that the whole is at least what the run is.  Numbers at its ends stay where they are.
    """
    operands = code.parts
    symbol = code.rest[0][0].symbol
    if symbol not in _CHAINS:
        return
    same = next((n for n, (operator, _) in enumerate(code.rest) if operator.symbol != symbol), len(code.rest)) + 1
    first, least = 0, _LEAST if symbol == "+" else _LEAST_PRODUCT
    while in_address and first < same and operands[first].names <= kinds.uniform:
        first += 1
    for count in range(same, 1, -1):
        for start in range(min(first, same - count) + 1):
            ends = operands[start], operands[start + count - 1]
            if any(isinstance(end, Literal) for end in ends):
                continue
            part = Binary(operands[start], code.rest[start : start + count - 1])
            if len(part.text) >= least and _is_index(part, kinds.steady):
                yield slice(start, start + count), part


def _is_index(code: Code, steady: frozenset[str]) -> bool:
    """Return True if an expression consists of indices, sizes, *steady* integers and numbers."""
    match code:
        case Name(text, temporary):
            return not temporary or text in steady
        case Subscript(Name(text), index):
            return text in steady and _is_index(index, steady)
        case Literal(text):
            return text.isdigit()
        case Binary(rest=rest):
            is_quiet = all(operator.symbol in _QUIET for operator, _ in rest)
            return is_quiet and all(_is_index(part, steady) for part in code.parts)
        case Unary(operator, operand):
            return operator.symbol == "-" and _is_index(operand, steady)
        case Parentheses(inside):
            return _is_index(inside, steady)
        case _:
            return False


def _with(node: Node, values: Mapping[str, Code]) -> Node:
    """Return a statement with *values* in place of marks."""
    if isinstance(node, Declare) and (name := values.get(node.name)) is not None:
        node = replace(node, name=name.text)
    elif node.names.isdisjoint(values):
        return node
    inner = with_blocks(node, lambda block: tuple([_with(inside, values) for inside in block]))
    return with_expressions(inner, lambda code: put(code, values))


def _renamed(node: Node, part: Binary, name: Name, kinds: _Kinds) -> Node:
    """Return a statement with *part* replaced by *name*."""
    if isinstance(node, Verbatim) or not part.names <= node.names:
        return node
    if isinstance(node, For) and node.var in part.names:
        return node
    inner = with_blocks(node, lambda block: tuple([_renamed(inside, part, name, kinds) for inside in block]))
    return with_expressions(inner, lambda code: _put(code, part, name, kinds))


def _put(code: Code, part: Binary, name: Name, kinds: _Kinds, *, is_address: bool = False) -> Code:
    """Return an expression with *name* in place of *part*."""

    def changed(node: Code) -> Code | None:
        if not part.names <= node.names:
            return node
        if isinstance(node, Subscript) and not is_address:
            inside = _put(node.index, part, name, kinds, is_address=True)
            return Subscript(_put(node.base, part, name, kinds), inside)
        if isinstance(node, Binary):
            for place, run in _runs(node, kinds, in_address=is_address):
                if run == part:
                    return renewed(_without(node, place, name), changed)
        return None

    return renewed(code, changed)


def _without(code: Binary, place: slice, name: Name) -> Code:
    """Return a sum or product with *name* in place of the operands at *place*."""
    operators = [operator for operator, _ in code.rest]
    operands = [*code.parts[: place.start], name, *code.parts[place.stop :]]
    between = [*operators[: place.start], *operators[place.stop - 1 :]]
    rest = tuple(zip(between, operands[1:], strict=True))
    return Binary(operands[0], rest) if rest else name
