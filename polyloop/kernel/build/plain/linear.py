"""Words that ask for more than names: ``a[[e]]`` and ``indexof(a[i, j])`` for shapes, ``dot(u, v)`` for types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import pymbolic.primitives as p

from polyloop.errors import KernelError
from polyloop.expr.nodes import LINEAR, Expression, Lookup, array_name, function_name, targets_of
from polyloop.expr.printer import show
from polyloop.expr.records import field_names, is_vector
from polyloop.expr.rewrite import children, map_nodes, variables
from polyloop.kernel.arrays import ArrayArg, TemporaryVariable
from polyloop.kernel.build.declare import declared
from polyloop.kernel.build.draft import fail, site_of
from polyloop.kernel.build.plain.foreign import mapped
from polyloop.kernel.kernel import Domain
from polyloop.kernel.text.domain_text import parse_domain
from polyloop.kernel.text.parser import Parsed, ParsedCall, ParsedInstruction, ParsedRule
from polyloop.kernel.text.specs import Defaults
from polyloop.poly.affine import affine_of

__all__ = ["settled"]

_WORDS: Final = frozenset({LINEAR, "dot", "indexof"})


def settled(
    parsed: Sequence[Parsed],
    pieces: Sequence[Domain],
    kernel_data: Sequence[object] | None,
    fixed: Mapping[str, int],
    defaults: Defaults,
) -> Sequence[Parsed]:
    """Return the statements with the words that ask for shapes and types written out.

    ::

        b[[i]] = a[[i + 1]]        =>    b[i // 8, i % 8] = a[(i + 1) // 8, (i + 1) % 8]    shape (8, 8)
        k[i, j] = indexof(a[i, j]) =>    k[i, j] = 8*i + j
        s[i] = dot(u[i], v[i])     =>    s[i] = u[i].x*v[i].x + u[i].y*v[i].y               of float2

    Elements are counted as the declared order of the array has them: the last axis first, with ``order="F"`` the first.
    Layouts that are chosen later do not change which element is meant.

    Raises
    ------
    KernelError
        ``bad-layout``: the array has gaps; ``wrong-rank``; ``type-conflict``: ``dot`` of no declared vector.
    """
    used = {word for entry in parsed for word in _words(entry)}
    if not used:
        return parsed
    rules = {entry.rule.name for entry in parsed if isinstance(entry, ParsedRule)}
    frames = [entry.frame if isinstance(entry, ParsedCall) else entry for entry in parsed]
    statements = [entry for entry in frames if isinstance(entry, ParsedInstruction)]
    data = declared(kernel_data, statements, fixed, defaults)
    arrays: dict[str, ArrayArg | TemporaryVariable] = dict(data.temporaries)
    arrays.update((entry.name, entry) for entry in data.arguments if isinstance(entry, ArrayArg))
    targets = {array_name(target) for entry in statements for target in targets_of(entry.assignee)}
    words = _Words(arrays, tuple(pieces), used - rules - targets)
    return [words.written_out(entry) for entry in parsed]


def _words(entry: Parsed) -> set[str]:
    found: set[str] = set()

    def look(node: Expression) -> Expression:
        if type(node) is p.Call and function_name(node) in _WORDS:
            found.add(function_name(node))
        return node

    mapped(entry, lambda expr: map_nodes(expr, look))
    return found


class _Words:
    """The words of one kernel, whose declared arrays are known."""

    def __init__(
        self, arrays: Mapping[str, ArrayArg | TemporaryVariable], pieces: tuple[Domain, ...], words: set[str]
    ) -> None:  # fmt: skip
        self.arrays, self.pieces, self.words = arrays, pieces, words
        self.entry: Parsed | None = None

    def written_out(self, entry: Parsed) -> Parsed:
        """Return a statement without the words."""
        self.entry = entry
        return mapped(entry, lambda expr: map_nodes(expr, self.node))

    def node(self, node: Expression) -> Expression:
        """Return a node, whose operands are written out, without the word that it is."""
        if type(node) is p.Subscript and len(node.index_tuple) == 1 and _is_call(node.index_tuple[0], LINEAR, 1):
            return self.element(node, children(node.index_tuple[0])[0])
        if _is_call(node, "indexof", 1) and "indexof" in self.words and type(node.parameters[0]) is p.Subscript:
            return self.number(node.parameters[0])
        if _is_call(node, "dot", 2) and "dot" in self.words:
            return self.product(*node.parameters)
        return node

    def element(self, node: Expression, offset: Expression) -> Expression:
        """Return the element of an array at an offset."""
        shape, reverse = self.axes(array_name(node))
        if len(shape) < 2:
            return p.Subscript(node.aggregate, offset)
        index: list[Expression] = []
        for extent in (shape if reverse else shape[::-1])[:-1]:
            offset, rest = self.divided(offset, extent)
            index.append(rest)
        index.append(offset)
        return p.Subscript(node.aggregate, tuple(index if reverse else index[::-1]))

    def number(self, node: Expression) -> Expression:
        """Return the offset of an element."""
        name, index = array_name(node), node.index_tuple
        shape, reverse = self.axes(name)
        if len(index) != len(shape) and len(index) > 1:
            hint = f"declare it: pl.GlobalArg('{name}', shape=..) with {len(index)} axes"
            raise self.fault("wrong-rank", f"the number of an element of '{name}' asks for its shape", hint)
        pairs = list(zip(index, shape, strict=False)) if len(index) > 1 else [(index[0], 1)]
        found: Expression = 0
        for position, extent in pairs[::-1] if reverse else pairs:
            found = position if found == 0 else p.Sum((p.Product((extent, found)), position))
        return found

    def product(self, left: Expression, right: Expression) -> Expression:
        """Return the sum of the products of the components of two vectors."""
        names = variables(left) | variables(right)
        types = [self.arrays[name].dtype for name in sorted(names) if name in self.arrays]
        vectors = [dtype for dtype in types if is_vector(dtype)]
        if not vectors:
            hint = "declare a vector: pl.GlobalArg('u', pl.vec.float4), <float4> t = ..; or write the sum of products"
            raise self.fault("type-conflict", "neither operand of 'dot' is declared as a vector", hint)
        fields = field_names(vectors[0])
        return p.Sum(tuple(p.Product((Lookup(left, name), Lookup(right, name))) for name in fields))

    def axes(self, name: str) -> tuple[tuple[Expression, ...], bool]:
        """Return the extents of an array, and whether the first axis is the one of neighbours; none if not known."""
        found = self.arrays.get(name)
        shape = found.shape if found is not None else None
        if found is None or shape is None or len(shape) < 2:
            return shape or (), False
        tags = found.dim_tags if isinstance(found.dim_tags, tuple) else None
        if (isinstance(found, ArrayArg) and not found.is_packed) or (tags is not None and isinstance(found, ArrayArg)):
            message = f"elements of '{name}' cannot be counted: it has a layout of its own"
            raise self.fault("bad-layout", message, "give it order='C' or order='F', or one subscript for each axis")
        return shape, isinstance(found, ArrayArg) and found.order == "F"

    def divided(self, offset: Expression, extent: Expression) -> tuple[Expression, Expression]:
        """Return quotient and remainder of an offset: those that are written, where they are proven to be them."""
        multiples: list[Expression] = []
        rest: list[Expression] = []
        for term in offset.children if type(offset) is p.Sum else (offset,):
            factors = list(term.children) if type(term) is p.Product else [term]
            if extent in factors:
                factors.remove(extent)
                multiples.append(1 if not factors else factors[0] if len(factors) == 1 else p.Product(tuple(factors)))
            else:
                rest.append(term)
        if multiples and self.is_below(rest, extent):
            return _sum(multiples), _sum(rest)
        return p.FloorDiv(offset, extent), p.Remainder(offset, extent)

    def is_below(self, terms: Sequence[Expression], extent: Expression) -> bool:
        """Return whether a sum is at least 0 and below *extent* in all iterations."""
        value = _sum(terms)
        if affine_of(value) is None or affine_of(extent) is None:
            return False
        own = variables(value)
        inames = {iname for piece in self.pieces for iname in piece.inames} & own
        piece = next((piece for piece in self.pieces if inames <= {*piece.inames}), None)
        if piece is None or not inames:
            return bool(value == 0)
        names = sorted((own | variables(extent)) - {*piece.inames})
        text = f"[{', '.join(names)}] -> {{ [{', '.join(piece.inames)}] : 0 <= {show(value)} < {show(extent)} }}"
        try:
            return bool(piece.set.is_subset(parse_domain(text)))
        except KernelError:
            return False

    def fault(self, code: str, message: str, hint: str) -> KernelError:
        """Return an error with the statement."""
        site = site_of(self.entry) if isinstance(self.entry, ParsedInstruction) else None
        return fail(code, message, hints=(hint,), site=site)


def _is_call(node: Expression, name: str, count: int) -> bool:
    return bool(isinstance(node, p.Call) and function_name(node) == name and len(node.parameters) == count)


def _sum(terms: Sequence[Expression]) -> Expression:
    return 0 if not terms else terms[0] if len(terms) == 1 else p.Sum(tuple(terms))
