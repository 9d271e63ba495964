"""Traversals of expressions, by dispatch on the type of the node.

A rewrite returns the very same object where nothing changed.  Names of functions, and of arrays in front of a
subscript, are not nodes: the former are never touched, the latter can only be renamed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, Final, NamedTuple, TypeAlias

import pymbolic.primitives as p

from polyloop.errors import Diagnostic, KernelError
from polyloop.expr.nodes import (
    CText,
    Expression,
    Lookup,
    Record,
    Reduction,
    Shared,
    Targets,
    Terms,
    TypeCast,
    added,
    negate,
    subtrahend,
)
from polyloop.memo import memoised

__all__ = [
    "Appearances",
    "accesses",
    "appearances",
    "calls",
    "children",
    "free_variables",
    "map_nodes",
    "rebuild",
    "rebuild_changed",
    "reductions",
    "shared",
    "substitute",
    "variables",
]

_NARY: Final = frozenset(
    {p.Sum, p.Product, p.Min, p.Max, p.LogicalAnd, p.LogicalOr, p.BitwiseAnd, p.BitwiseOr, p.BitwiseXor, Terms}
)
_NOTHING: Final[frozenset[str]] = frozenset()
_FIELDS: Final[dict[type, tuple[str, ...]]] = {
    p.Quotient: ("numerator", "denominator"),
    p.FloorDiv: ("numerator", "denominator"),
    p.Remainder: ("numerator", "denominator"),
    p.Power: ("base", "exponent"),
    p.LeftShift: ("shiftee", "shift"),
    p.RightShift: ("shiftee", "shift"),
    p.Comparison: ("left", "right"),
    p.LogicalNot: ("child",),
    p.BitwiseNot: ("child",),
    p.If: ("condition", "then", "else_"),
    TypeCast: ("child",),
    Shared: ("child",),
    Lookup: ("aggregate",),
}


def children(expr: Expression) -> tuple[Expression, ...]:
    """Return the operands of a node from left to right: subscripts, arguments, terms; none of a leaf."""
    kind = type(expr)
    if kind in _NARY:
        return tuple(expr.children)
    if kind is p.Subscript:
        return tuple(expr.index_tuple)
    if kind is p.Call:
        return tuple(expr.parameters)
    if kind is Record:
        return tuple(expr.values)
    if kind is Targets:
        return tuple(expr.elements)
    if kind is CText:
        return (*expr.values, *expr.reads)
    if kind is Reduction:
        return (expr.expr,) if expr.start is None else (expr.expr, expr.start)
    fields = _FIELDS.get(kind)
    if fields is not None:
        return tuple(getattr(expr, field) for field in fields)
    assert kind is p.Variable or not isinstance(expr, p.ExpressionNode), f"unexpected node {kind.__name__}"
    return ()


def rebuild(expr: Expression, new: tuple[Expression, ...]) -> Expression:
    """Return *expr* with the operands *new*, in the order of :func:`children`."""
    kind = type(expr)
    if kind in _NARY:
        return kind(new)
    if kind is p.Subscript:
        return p.Subscript(expr.aggregate, new[0] if len(new) == 1 else new)
    if kind is p.Call:
        return p.Call(expr.function, new)
    if kind is p.Comparison:
        return p.Comparison(new[0], expr.operator, new[1])
    if kind is TypeCast:
        return TypeCast(expr.dtype, new[0])
    if kind is Lookup:
        return Lookup(new[0], expr.field)
    own = _OWN.get(kind)
    return kind(*new) if own is None else own(expr, new)


def _rebuild_c(expr: CText, new: tuple[Expression, ...]) -> CText:
    count = len(expr.values)
    return CText(expr.code, expr.names, new[:count], new[count:], expr.touched, expr.convergent)


_OWN: Final[dict[type, Callable[[Any, tuple[Expression, ...]], Expression]]] = {
    Record: lambda expr, new: Record(expr.dtype, new),
    Shared: lambda expr, new: Shared(new[0], expr.name),
    Reduction: lambda expr, new: replace(expr, expr=new[0], start=new[1] if len(new) > 1 else None),
    Targets: lambda _, new: Targets(new),
    CText: _rebuild_c,
}


def rebuild_changed(expr: Expression, old: tuple[Expression, ...], new: tuple[Expression, ...]) -> Expression:
    """Return *expr* with its operands *old* become *new*; *expr* itself if they are the same objects."""
    for before, after in zip(old, new, strict=True):
        if before is not after:
            is_negative = type(expr) is p.Product and len(new) == 2 and type(new[0]) is int and new[0] == -1
            if is_negative and not _is_multiple(old[1]):
                return negate(added(new[1]))
            if type(expr) is p.Sum:  # what a name stands for is added, whatever its sign
                pairs = zip(old[1:], new[1:], strict=True)
                new = (new[0], *(n if subtrahend(o) is not None else added(n) for o, n in pairs))
            return rebuild(expr, new)
    return expr


def _is_multiple(expr: Expression) -> bool:
    """Return whether *expr* begins with a constant, which stays apart from a -1 ahead: -2 may not fit where 2 does."""
    return type(expr) is p.Product and type(expr.children[0]) is int


def substitute(
    expr: Expression,
    mapping: Mapping[str, Expression],
    bound: Mapping[str, tuple[str, ...]] | None = None,
) -> Expression:
    """Replace names by expressions, all at once.

    A reduction that would capture a name of the value is refused.  It cannot happen where the reductions around each
    other, and the loops around them, are over different inames, as :mod:`polyloop.kernel.apart` makes them.

    Parameters
    ----------
    mapping
        Name to expression.  The name of an array can only become another name.
    bound
        New inames for the inames of reductions: with ``{"k": ("ko", "ki")}`` a reduction over ``k`` becomes one over
        both, and *mapping* holds in its body.  A reduction iname in *mapping* but not here is renamed if it maps to a
        variable; otherwise its occurrences belong to the reduction and stay.

    Raises
    ------
    KernelError
        ``captured-name``.
    """
    if not mapping and not bound:
        return expr
    renamed = bound or {}

    def visit(node: Expression) -> Expression:
        kind = type(node)
        if kind is p.Variable:
            return mapping.get(node.name, node)
        if kind is int or kind is float:
            return node
        if kind is p.Subscript:
            array = mapping.get(node.aggregate.name, node.aggregate)
            assert type(array) is p.Variable, f"array '{node.aggregate.name}' cannot become an expression"
            old = node.index_tuple
            new = tuple(map(visit, old))
            if array is node.aggregate:
                return rebuild_changed(node, old, new)
            return p.Subscript(array, new[0] if len(new) == 1 else new)
        if kind is Reduction:
            return _substitute_reduction(node, mapping, renamed, visit)
        if not isinstance(node, p.ExpressionNode):
            return node
        old = children(node)
        return rebuild_changed(node, old, tuple(map(visit, old)))

    return visit(expr)


def _substitute_reduction(
    node: Reduction,
    mapping: Mapping[str, Expression],
    bound: Mapping[str, tuple[str, ...]],
    visit: Callable[[Expression], Expression],
) -> Expression:
    inames: list[str] = []
    own: list[str] = []
    shadowed: set[str] = set()
    for iname in node.inames:
        value = mapping.get(iname)
        if iname in bound:
            inames.extend(bound[iname])
            continue
        own.append(value.name if type(value) is p.Variable else iname)
        inames.append(own[-1])
        if value is not None and type(value) is not p.Variable:
            shadowed.add(iname)
    _refuse_capture(node, own, mapping)
    if shadowed:
        body = substitute(node.expr, {k: v for k, v in mapping.items() if k not in shadowed}, bound)
    else:
        body = visit(node.expr)
    start = None if node.start is None else visit(node.start)
    along = tuple(name for iname in node.along for name in _renamed(iname, mapping, bound))
    if body is node.expr and tuple(inames) == node.inames and start is node.start and along == node.along:
        return node
    return replace(node, inames=tuple(inames), expr=body, start=start, along=along)


def _refuse_capture(node: Reduction, own: Iterable[str], mapping: Mapping[str, Expression]) -> None:
    """Raise ``captured-name`` if the inames *own*, bound by *node*, would capture a name in a substituted value."""
    for name in mapping.keys() & free_variables(node.expr):
        if name not in node.inames and (found := free_variables(mapping[name]).intersection(own)):
            message = f"'{min(found)}' would mean the iname of a reduction inside of it"
            hint = "give the reduction an iname of its own: duplicate_inames, or another name in the text"
            raise KernelError("substitute", None, [Diagnostic("captured-name", message, hints=(hint,))])


def _renamed(
    iname: str, mapping: Mapping[str, Expression], bound: Mapping[str, tuple[str, ...]]
) -> tuple[str, ...]:
    value = mapping.get(iname)
    return bound.get(iname) or ((value.name,) if type(value) is p.Variable else (iname,))


def map_nodes(expr: Expression, function: Callable[[Expression], Expression]) -> Expression:
    """Rewrite bottom-up: *function* gets each node, leaves included, after its operands were rewritten."""

    def visit(node: Expression) -> Expression:
        if not isinstance(node, p.ExpressionNode):
            return function(node)
        old = children(node)
        return function(rebuild_changed(node, old, tuple(map(visit, old))) if old else node)

    return visit(expr)


def variables(expr: Expression) -> frozenset[str]:
    """Return every name that is read, arrays and reduction inames in use included; no function names."""
    whole: type = type(expr)
    if whole is int:
        return _NOTHING
    if whole is p.Variable:
        return frozenset((expr.name,))
    return _variables(expr) if isinstance(expr, p.ExpressionNode) else _NOTHING


@memoised
def _variables(expr: Expression) -> frozenset[str]:
    found: set[str] = set()

    def visit(node: Expression) -> None:
        kind = type(node)
        if kind is p.Variable:
            found.add(node.name)
        elif kind is p.Subscript:
            found.add(node.aggregate.name)
            for index in node.index_tuple:
                visit(index)
        elif kind is not int and kind is not float:
            for child in children(node):
                visit(child)

    visit(expr)
    return frozenset(found)


class Appearances(NamedTuple):
    """The names in an expression in order of appearance, the subscripted ones, and those inside of subscripts."""

    names: tuple[str, ...]
    subscripted: frozenset[str]
    inside: frozenset[str]


def appearances(expr: Expression) -> Appearances:
    """Return the distinct names in *expr* from left to right, an array before its subscripts."""
    return _appearances(expr) if isinstance(expr, p.ExpressionNode) else Appearances((), _NOTHING, _NOTHING)


@memoised
def _appearances(expr: Expression) -> Appearances:
    names: dict[str, None] = {}
    subscripted, inside = set[str](), set[str]()
    stack = [expr]
    while stack:
        node = stack.pop()
        kind = type(node)
        if kind is p.Variable:
            names[node.name] = None
        elif kind is p.Subscript:
            names[node.aggregate.name] = None
            subscripted.add(node.aggregate.name)
            inside.update(*map(variables, node.index_tuple))
        stack.extend(reversed(children(node)))
    return Appearances((*names,), frozenset(subscripted), frozenset(inside))


def free_variables(expr: Expression) -> frozenset[str]:
    """Return the names that are read, less the reduction inames inside their reductions."""
    if not reductions(expr):
        return variables(expr)
    return _free_variables(expr)


def _free_variables(expr: Expression) -> frozenset[str]:
    if type(expr) is p.Variable:
        return frozenset((expr.name,))
    kind: type = type(expr)
    found: set[str] = {expr.aggregate.name} if kind is p.Subscript else set()
    for child in children(expr):
        found |= _free_variables(child)
    return frozenset(found.difference(expr.inames) if type(expr) is Reduction else found)


def accesses(expr: Expression) -> tuple[Any, ...]:
    """Return each ``Variable`` and ``Subscript`` in the order of evaluation, subscripts before their array."""
    found: list[Any] = []

    def visit(node: Expression) -> None:
        for child in children(node):
            visit(child)
        if type(node) is p.Variable or type(node) is p.Subscript:
            found.append(node)

    visit(expr)
    return tuple(found)


_LOOKED_FOR: Final = frozenset({Reduction, Shared, p.Call})


def _collect(expr: Expression, kinds: frozenset[type]) -> tuple[Any, ...]:
    found: list[Any] = []

    def visit(node: Expression) -> None:
        kind = type(node)
        if kind in kinds:
            found.append(node)
        if kind is not p.Variable and kind is not int and kind is not float:
            for child in children(node):
                visit(child)

    visit(expr)
    return tuple(found)


def reductions(expr: Expression) -> tuple[Reduction, ...]:
    """Return the reductions from left to right, outer before inner."""
    return _looked_for(expr)[0]


_Looked: TypeAlias = tuple[tuple[Reduction, ...], tuple[Shared, ...], tuple[Any, ...]]


def _looked_for(expr: Expression) -> _Looked:
    return _found(expr) if isinstance(expr, p.ExpressionNode) else ((), (), ())


@memoised
def _found(expr: Expression) -> _Looked:
    nodes = _collect(expr, _LOOKED_FOR)
    own = tuple(node for node in nodes if type(node) is Reduction)
    same = tuple(node for node in nodes if type(node) is Shared)
    return own, same, tuple(node for node in nodes if type(node) is p.Call)


def shared(expr: Expression) -> tuple[Shared, ...]:
    """Return the ``cse`` nodes from left to right, outer before inner."""
    return _looked_for(expr)[1]


def calls(expr: Expression) -> tuple[Any, ...]:
    """Return the ``Call`` nodes from left to right, outer before inner."""
    return _looked_for(expr)[2]
