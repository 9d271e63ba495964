"""Nodes of Python's ``ast`` to expressions: names, numbers, operators, subscripts.

Text of kernels (``text_converter``) and Python functions (``frontend.expressions``) have these in common; calls are
theirs.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, ClassVar, Final, NoReturn, TypeAlias, TypeGuard

import numpy as np
import pymbolic.primitives as p

from polyloop.errors import Diagnostic, KernelError
from polyloop.expr.constants import ConstantError, folded
from polyloop.expr.lexical import IF_NAME, NUMBER_NAME
from polyloop.expr.names import RESERVED, check_identifier, too_many_axes
from polyloop.expr.nodes import LINEAR, Expression, Lookup, Operation, added, negate
from polyloop.expr.operations import OPERATIONS
from polyloop.expr.source import Source

__all__ = ["SIZES_HAVE_NAMES", "Converter", "is_name"]

SIZES_HAVE_NAMES: Final = "sizes have names: write n where the domain has 0 <= i < n"
"""The hint for an extent of an array, which has a name."""

_Node: TypeAlias = Any

_NARY: Final[dict[type[ast.operator], Any]] = {
    ast.Add: p.Sum,
    ast.Sub: p.Sum,
    ast.Mult: p.Product,
    ast.BitAnd: p.BitwiseAnd,
    ast.BitOr: p.BitwiseOr,
    ast.BitXor: p.BitwiseXor,
}
_OPERAND: Final[dict[type, Callable[[Expression], Expression]]] = {
    ast.Add: added,
    ast.Sub: lambda right: negate(added(right)),
}
_BINARY: Final[dict[type[ast.operator], Any]] = {
    ast.Div: p.Quotient,
    ast.FloorDiv: p.FloorDiv,
    ast.Mod: p.Remainder,
    ast.Pow: p.Power,
    ast.LShift: p.LeftShift,
    ast.RShift: p.RightShift,
}
_COMPARISON: Final[dict[type[ast.cmpop], str]] = {
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.Eq: "==",
    ast.NotEq: "!=",
}
_WHAT: Final[dict[type[ast.AST], tuple[str, str]]] = {
    ast.Attribute: ("this attribute", "write a[i].x or t.x for the field x of a record"),
    ast.Slice: ("a slice", "write a loop, with one subscript for each axis: y[i] = 2*x[i]"),
    ast.Lambda: ("a lambda", "define a substitution rule: f(x) := ..."),
    ast.List: ("a list", "only the inames of a reduction are written so: sum([i, j], ...)"),
    ast.Tuple: ("a tuple", "only the inames of a reduction are written so: sum((i, j), ...)"),
    ast.NamedExpr: ("':=' inside an expression", "put the substitution rule on a line of its own"),
    ast.Starred: ("'*' before an argument", "write the arguments one by one"),
    ast.GeneratorExp: ("a generator", "write a reduction over an iname: sum(k, a[k])"),
    ast.ListComp: ("a list comprehension", "write a reduction over an iname: sum(k, a[k])"),
}

def is_name(node: ast.AST) -> TypeGuard[ast.Name]:
    """Return whether *node* is a name that the user wrote, and no literal with a suffix in its place."""
    return type(node) is ast.Name and node.id[:1] != NUMBER_NAME


class Converter:
    """Turns the nodes of one ``ast`` tree into expressions; ``handlers`` has the method for each kind of node."""

    def __init__(
        self,
        source: Source,
        inames: frozenset[str] | None,
        operation: str,
        reductions: Mapping[str, Operation] = OPERATIONS,
    ) -> None:
        self.source = source
        self.inames = inames
        self.reductions = reductions
        self.operation = operation
        self.numbers: dict[int, np.generic] = {}

    # errors

    def fail_at(self, offset: int, width: int, diagnostic: Diagnostic) -> NoReturn:
        """Raise *diagnostic* at *width* characters of the source."""
        raise KernelError(self.operation, None, [replace(diagnostic, span=self.source.span(offset, width))])

    def fail(self, node: _Node, diagnostic: Diagnostic) -> NoReturn:
        """Raise *diagnostic* at *node*."""
        self.fail_at(node.col_offset, node.end_col_offset - node.col_offset, diagnostic)

    def refuse(self, node: _Node) -> NoReturn:
        """Refuse a node that is no expression of a kernel."""
        what, hint = _WHAT.get(type(node), ("this", "expressions are arithmetic, comparisons, subscripts and calls"))
        self.fail(node, Diagnostic("syntax", f"{what} is not an expression of a kernel", hints=(hint,)))

    # nodes

    def convert(self, node: _Node) -> Expression:
        """Return the expression that *node* spells."""
        handler = self.handlers.get(type(node))
        if handler is None:
            self.refuse(node)
        return handler(self, node)

    def name(self, node: ast.Name) -> Expression:
        """Return the variable of a name, or the number that it stands for."""
        name = node.id
        if name[:1] == NUMBER_NAME:
            return self.numbers[node.col_offset]
        if name in RESERVED or name.startswith("__"):
            wrong = check_identifier(name)
            assert wrong is not None, f"'{name}' is reserved but acceptable"
            self.fail(node, wrong)
        if name == IF_NAME:
            self.fail(node, Diagnostic("syntax", "'if' needs three arguments", hints=("write if(condition, a, b)",)))
        return p.Variable(name)

    def constant(self, node: ast.Constant) -> Expression:
        """Return a number."""
        value: Any = node.value
        kind = type(value)
        if kind is bool:
            return value
        if kind is int:
            if -(2**63) <= value < 2**64:
                return value
            self.fail(node, Diagnostic("syntax", "this integer does not fit 64 bits", hints=("use a float: 1e30",)))
        if kind is float or kind is complex:
            if value - value == 0:
                return value
            self.fail(node, Diagnostic("syntax", "this number does not fit float64", hints=("use a smaller one",)))
        self.refuse(node)

    def binary(self, node: ast.BinOp) -> Expression:
        """Return an operation on two operands; a chain of ``+`` or ``*`` is one node."""
        spine: list[ast.BinOp] = []
        left: Any = node
        while type(left) is ast.BinOp:
            spine.append(left)
            left = left.left
        total = self.convert(left)
        pending: Any = None
        children: list[Expression] = []
        for step in reversed(spine):
            operator = type(step.op)
            nary = _NARY.get(operator)
            if pending is not None and nary is not pending:
                total, pending = pending(tuple(children)), None
            right = self.convert(step.right)
            if nary is not None:
                if pending is None:
                    pending = nary
                    total = added(total) if nary is p.Product else total  # (-a)*b is negative in the type of a
                    children = list(total.children) if type(total) is nary else [total]
                children.append(_OPERAND[operator](right) if nary is p.Sum else right)
            elif operator in _BINARY:
                total = self.checked(step, _BINARY[operator](total, right))
            else:
                self.fail(
                    step,
                    Diagnostic(
                        "syntax",
                        "'@' is not an operator of a kernel",
                        hints=("write the matrix product as a reduction: sum(k, a[i, k]*b[k, j])",),
                    ),
                )
        return total if pending is None else self.checked(node, pending(tuple(children)))

    def checked(self, node: ast.expr, expr: Expression) -> Expression:
        """Return *expr*; fail if its constants cannot be computed, as in ``2**10**10``."""
        try:
            folded(expr)
        except ConstantError as fault:
            self.fail(node, fault.diagnostic)
        return expr

    def unary(self, node: ast.UnaryOp) -> Expression:
        """Return an operation on one operand."""
        child = self.convert(node.operand)
        kind = type(node.op)
        if kind is ast.USub:
            return negate(child)
        if kind is ast.UAdd:
            return child
        return p.LogicalNot(child) if kind is ast.Not else p.BitwiseNot(child)

    def boolean(self, node: ast.BoolOp) -> Expression:
        """Return a chain of ``and`` or ``or`` as one node."""
        kind: Any = p.LogicalAnd if type(node.op) is ast.And else p.LogicalOr
        children: list[Expression] = []
        for value in node.values:
            child = self.convert(value)
            if type(child) is kind:
                children.extend(child.children)
            else:
                children.append(child)
        return kind(tuple(children))

    def compare(self, node: ast.Compare) -> Expression:
        """Return a comparison; a chain is the conjunction of its parts."""
        operands = [self.convert(node.left), *map(self.convert, node.comparators)]
        parts = []
        for number, operator in enumerate(node.ops):
            spelling = _COMPARISON.get(type(operator))
            if spelling is None:
                self.fail(
                    node,
                    Diagnostic(
                        "syntax",
                        "'in' and 'is' are not operators of a kernel",
                        hints=("compare with <, <=, ==, !=, >, >=",),
                    ),
                )
            parts.append(p.Comparison(operands[number], spelling, operands[number + 1]))
        return parts[0] if len(parts) == 1 else p.LogicalAnd(tuple(parts))

    def choice(self, node: ast.IfExp) -> Expression:
        """Return a choice between two values."""
        return p.If(self.convert(node.test), self.convert(node.body), self.convert(node.orelse))

    def subscript(self, node: ast.Subscript) -> Expression:
        """Return an element of an array."""
        if not is_name(node.value):
            hint = "write a[i, j], not a[i][j]" if type(node.value) is ast.Subscript else "write a[i]"
            if type(node.value) is ast.Attribute:
                is_shape = node.value.attr == "shape"
                hint = SIZES_HAVE_NAMES if is_shape else "write a[i].x, not a.x[i]"
            self.fail(node, Diagnostic("syntax", "only an array name can be subscripted", hints=(hint,)))
        array = self.name(node.value)
        index = node.slice
        if type(index) is ast.Tuple:
            if not index.elts:
                return array  # a[()]
            if problem := too_many_axes(array.name, len(index.elts)):
                self.fail_at(node.col_offset, len(array.name), problem)
            parts = tuple(map(self.convert, index.elts))
            return p.Subscript(array, parts[0] if len(parts) == 1 else parts)
        if type(index) is ast.List and len(index.elts) == 1:
            return p.Subscript(array, p.Call(p.Variable(LINEAR), (self.convert(index.elts[0]),)))
        return p.Subscript(array, self.convert(index))

    def attribute(self, node: ast.Attribute) -> Expression:
        """Return a field of a record."""
        value: Any = node.value
        is_module = type(value) is ast.Name and value.id in ("np", "numpy", "math")
        is_number = type(value) is ast.Name and not is_name(value)
        if is_module or is_number or type(value) not in (ast.Name, ast.Subscript, ast.Attribute, ast.Call, ast.BinOp):
            self.refuse(node)
        return Lookup(self.convert(value), node.attr)

    handlers: ClassVar[dict[type[ast.AST], Callable[[Any, Any], Expression]]] = {
        ast.Name: name,
        ast.Constant: constant,
        ast.BinOp: binary,
        ast.UnaryOp: unary,
        ast.BoolOp: boolean,
        ast.Compare: compare,
        ast.IfExp: choice,
        ast.Subscript: subscript,
        ast.Attribute: attribute,
    }
