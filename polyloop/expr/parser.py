"""Text to expression, through Python's own parser, which is ten times faster than pymbolic's.

The grammar is that of Python's expressions, without forms that have no meaning here, plus ``if(c, a, b)``, reductions
such as ``sum(k, a[k])``, ``max((i, j), x[i, j])`` or ``reduce(ordered(sum), k, a[k])``, and ``cast(float32, e)``.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, ClassVar, Final, NoReturn, TypeAlias, TypeGuard

import numpy as np
import pymbolic.primitives as p

from polyloop.errors import Diagnostic, KernelError, unknown_name
from polyloop.expr.constants import ConstantError, folded
from polyloop.expr.dtypes import dtype_diagnostic, dtype_name, find_dtype
from polyloop.expr.functions import FUNCTIONS
from polyloop.expr.lexical import IF_NAME, NUMBER_NAME, check_characters, explain, replace_if_calls, replace_suffixed
from polyloop.expr.names import RESERVED, check_identifier, too_many_axes
from polyloop.expr.nodes import Expression, Lookup, Operation, Record, Reduction, Shared, Terms, TypeCast, added, negate
from polyloop.expr.operations import MODIFIERS, OPERATIONS
from polyloop.expr.records import VECTORS, field_names
from polyloop.expr.source import Source

__all__ = ["Converter", "parse_expression", "parse_source"]

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
    ast.Slice: ("a slice", "write one subscript expression per axis"),
    ast.Lambda: ("a lambda", "define a substitution rule: f(x) := ..."),
    ast.List: ("a list", "only the inames of a reduction are written so: sum([i, j], ...)"),
    ast.Tuple: ("a tuple", "only the inames of a reduction are written so: sum((i, j), ...)"),
    ast.NamedExpr: ("':=' inside an expression", "put the substitution rule on a line of its own"),
    ast.Starred: ("'*' before an argument", "write the arguments one by one"),
    ast.GeneratorExp: ("a generator", "write a reduction over an iname: sum(k, a[k])"),
    ast.ListComp: ("a list comprehension", "write a reduction over an iname: sum(k, a[k])"),
}


_OWN: Final = frozenset({*FUNCTIONS, *OPERATIONS, "cast", "cse", "reduce", "simul_reduce", IF_NAME})
"""Names that are called and are no substitution rules."""


def _is_name(node: ast.AST) -> TypeGuard[ast.Name]:
    """Return whether *node* is a name that the user wrote, and no literal with a suffix in its place."""
    return type(node) is ast.Name and node.id[:1] != NUMBER_NAME


def _may_vary(node: ast.AST, iname: str, inames: frozenset[str]) -> bool:
    """Return whether an expression may have other values in other iterations of *iname*.

    It may if it mentions *iname*, or anything but numbers and other inames: a temporary may be set in the loop, and a
    substitution rule may mention *iname*.  ``min(i, 3)`` has one value.
    """
    constant = _OWN | inames - {iname}
    return any(_is_name(part) and part.id not in constant for part in ast.walk(node))


class _Converter:
    """Turns the nodes of one ``ast`` tree into expressions; ``handlers`` has the method for each kind of node."""

    handlers: ClassVar[dict[type[ast.AST], Callable[[Any, Any], Expression]]] = {}
    forms: ClassVar[dict[str, Callable[[Any, ast.Call], Expression]]] = {}
    """Special forms, which are spelt as calls."""

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
        raise KernelError(self.operation, None, [replace(diagnostic, span=self.source.span(offset, width))])

    def fail(self, node: _Node, diagnostic: Diagnostic) -> NoReturn:
        self.fail_at(node.col_offset, node.end_col_offset - node.col_offset, diagnostic)

    def refuse(self, node: _Node) -> NoReturn:
        what, hint = _WHAT.get(type(node), ("this", "expressions are arithmetic, comparisons, subscripts and calls"))
        self.fail(node, Diagnostic("syntax", f"{what} is not an expression of a kernel", hints=(hint,)))

    # nodes

    def convert(self, node: _Node) -> Expression:
        handler = self.handlers.get(type(node))
        if handler is None:
            self.refuse(node)
        return handler(self, node)

    def name(self, node: ast.Name) -> Expression:
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
        child = self.convert(node.operand)
        kind = type(node.op)
        if kind is ast.USub:
            return negate(child)
        if kind is ast.UAdd:
            return child
        return p.LogicalNot(child) if kind is ast.Not else p.BitwiseNot(child)

    def boolean(self, node: ast.BoolOp) -> Expression:
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
        return p.If(self.convert(node.test), self.convert(node.body), self.convert(node.orelse))

    def subscript(self, node: ast.Subscript) -> Expression:
        if not _is_name(node.value):
            hint = "write a[i, j], not a[i][j]" if type(node.value) is ast.Subscript else "write a[i]"
            hint = "write a[i].x, not a.x[i]" if type(node.value) is ast.Attribute else hint
            self.fail(node, Diagnostic("syntax", "only an array name can be subscripted", hints=(hint,)))
        array = self.name(node.value)
        index = node.slice
        if type(index) is ast.Tuple:
            if not index.elts:
                self.fail(node, Diagnostic("syntax", "a subscript is missing", hints=("a scalar has no brackets",)))
            if problem := too_many_axes(array.name, len(index.elts)):
                self.fail_at(node.col_offset, len(array.name), problem)
            parts = tuple(map(self.convert, index.elts))
            return p.Subscript(array, parts[0] if len(parts) == 1 else parts)
        return p.Subscript(array, self.convert(index))

    def attribute(self, node: ast.Attribute) -> Expression:
        value: Any = node.value
        is_module = type(value) is ast.Name and value.id in ("np", "numpy", "math")
        is_number = type(value) is ast.Name and not _is_name(value)
        if is_module or is_number or type(value) not in (ast.Name, ast.Subscript, ast.Attribute, ast.Call, ast.BinOp):
            self.refuse(node)
        return Lookup(self.convert(value), node.attr)

    # calls

    def call(self, node: ast.Call) -> Expression:
        if not _is_name(node.func):
            self.fail(node.func, Diagnostic("syntax", "only a function name can be called", hints=("write f(x)",)))
        if node.keywords:
            self.fail(
                node,
                Diagnostic(
                    "syntax", "keyword arguments are not allowed in a kernel", hints=("pass the arguments by position",)
                ),
            )
        name = node.func.id
        if name == IF_NAME:
            return self.if_call(node)
        if name in self.forms:
            return self.forms[name](self, node)
        if name in self.reductions and self.is_reduction(name, node):
            return self.reduction(self.reductions[name], node, node.args)
        if name in RESERVED or name.startswith("__"):
            return self.vector(name, node)
        arguments = tuple(map(self.convert, node.args))
        if name in ("min", "max"):
            if len(arguments) < 2:
                self.wrong_count(node, f"{name}(a, b), or {name}(k, a[k]) with an iname k")
            return p.Min(arguments) if name == "min" else p.Max(arguments)
        return p.Call(p.Variable(name), arguments)

    def vector(self, name: str, node: ast.Call) -> Expression:
        """Return the vector that ``make_float4(a, b, c, d)`` makes; no other reserved name can be called."""
        dtype = VECTORS.get(name.removeprefix("make_"))
        if dtype is None or not name.startswith("make_"):
            assert type(node.func) is ast.Name, "only names are called"
            return self.name(node.func)
        if len(node.args) != len(field_names(dtype)):
            self.wrong_count(node, f"{name}({', '.join(field_names(dtype))})")
        return Record(dtype, tuple(map(self.convert, node.args)))

    def wrong_count(self, node: ast.Call, form: str) -> NoReturn:
        assert type(node.func) is ast.Name
        name = "if" if node.func.id == IF_NAME else node.func.id
        count = len(node.args)
        message = f"'{name}' does not take {count} argument{'' if count == 1 else 's'}"
        self.fail(node, Diagnostic("wrong-argument-count", message, hints=(f"write {form}",)))

    def if_call(self, node: ast.Call) -> Expression:
        if len(node.args) != 3:
            self.wrong_count(node, "if(condition, a, b)")
        return p.If(*map(self.convert, node.args))

    def cast(self, node: ast.Call) -> Expression:
        if len(node.args) != 2:
            self.wrong_count(node, "cast(float32, e)")
        wanted = node.args[0]
        if type(wanted) is ast.Attribute and type(wanted.value) is ast.Name and wanted.value.id in ("np", "numpy"):
            spelling = wanted.attr
        elif _is_name(wanted):
            spelling = wanted.id
        else:
            self.fail(
                wanted, Diagnostic("syntax", "'cast' needs the name of a type first", hints=("write cast(float32, e)",))
            )
        dtype = find_dtype(spelling)
        if dtype is None:
            self.fail(wanted, dtype_diagnostic(spelling))
        return TypeCast(dtype_name(dtype), self.convert(node.args[1]))

    def shared(self, node: ast.Call) -> Expression:
        if len(node.args) not in (1, 2):
            self.wrong_count(node, "cse(e) or cse(e, name)")
        name: Any = node.args[1] if len(node.args) == 2 else None
        if name is not None and not _is_name(name):
            self.fail(name, Diagnostic("syntax", "'cse' takes a name second", hints=("write cse(e, name)",)))
        if name is not None:
            self.name(name)
        return Shared(self.convert(node.args[0]), None if name is None else name.id)

    def reduce(self, node: ast.Call) -> Expression:
        if len(node.args) < 3:
            self.wrong_count(node, "reduce(sum, k, e)")
        return self.reduction(self.reducing(node.args[0]), node, node.args[1:])

    def reducing(self, node: _Node) -> Operation:
        """Return the operation that *node* names: ``sum``, ``ordered(sum)``, ``segmented(max)``."""
        if type(node) is ast.Name and node.id in self.reductions:
            return self.reductions[node.id]
        is_call = type(node) is ast.Call and type(node.func) is ast.Name and len(node.args) == 1 and not node.keywords
        if not is_call or node.func.id not in MODIFIERS:
            known = ", ".join([*sorted(self.reductions), *(f"{name}(...)" for name in MODIFIERS)])
            self.fail(node, Diagnostic("syntax", "this is not a reduction operation", hints=(f"known: {known}",)))
        inner = self.reducing(node.args[0])
        if inner.fields and node.func.id == "segmented":
            hint = "write segmented(sum), or another operation on single values"
            self.fail(node, Diagnostic("syntax", f"'{inner}' cannot be segmented", hints=(hint,)))
        return MODIFIERS[node.func.id](inner)

    def is_reduction(self, name: str, node: ast.Call) -> bool:
        if name not in ("min", "max"):
            return True
        if len(node.args) != 2:
            return False
        first: Any = node.args[0]
        if type(first) in (ast.Tuple, ast.List):
            return True
        if not _is_name(first) or self.inames is None:
            return _is_name(first)
        return first.id in self.inames and _may_vary(node.args[1], first.id, self.inames)

    def reduction(self, operation: Operation, node: ast.Call, arguments: list[ast.expr]) -> Expression:
        terms, head = ", ".join(operation.fields or "e"), f"{operation}("
        if operation.text:
            head = f"reduce({operation}, "
        form = f"{head}k, {terms}) or {head}(i, j), {terms})"
        written: list[Any] = [*arguments[1:]]
        if operation.fields and len(written) == 1 and type(written[0]) in (ast.Tuple, ast.List):
            written = written[0].elts
        if len(written) != len(operation.fields or "e"):
            self.wrong_count(node, form)
        inames = self.reduction_inames(operation, arguments[0], form)
        values = tuple(map(self.convert, written))
        return Reduction(operation, inames, Terms(values) if operation.fields else values[0])

    def reduction_inames(self, operation: Operation, first: _Node, form: str) -> tuple[str, ...]:
        names = first.elts if type(first) in (ast.Tuple, ast.List) else [first]
        inames: list[str] = []
        for part in names:
            if not _is_name(part):
                message = f"'{operation}' needs the names of inames first"
                self.fail(part, Diagnostic("syntax", message, hints=(f"write {form}",)))
            if self.inames is not None and part.id not in self.inames:
                self.fail(part, unknown_name("iname", part.id, self.inames))
            if part.id in inames:
                self.fail(
                    part,
                    Diagnostic("duplicate-iname", f"iname '{part.id}' is named twice", hints=("name each iname once",)),
                )
            self.name(part)
            inames.append(part.id)
        if not inames:
            hint = f"write {form.split(' or ', maxsplit=1)[0]}"
            self.fail(first, Diagnostic("syntax", "a reduction needs an iname", hints=(hint,)))
        return tuple(inames)


_HANDLERS: Final[dict[type[ast.AST], Callable[[_Converter, Any], Expression]]] = {
    ast.Name: _Converter.name,
    ast.Constant: _Converter.constant,
    ast.BinOp: _Converter.binary,
    ast.UnaryOp: _Converter.unary,
    ast.BoolOp: _Converter.boolean,
    ast.Compare: _Converter.compare,
    ast.IfExp: _Converter.choice,
    ast.Subscript: _Converter.subscript,
    ast.Attribute: _Converter.attribute,
    ast.Call: _Converter.call,
}
_Converter.handlers = {**_HANDLERS}

_Converter.forms = {
    "cast": _Converter.cast,
    "cse": _Converter.shared,
    "reduce": _Converter.reduce,
    "simul_reduce": _Converter.reduce,
}

Converter = _Converter
"""The converter, for readers of other sources than strings: they say where a node stands."""


_QUOTED: Final = re.compile(r"""(?<=,)(\s*)(["'])([A-Za-z_]\w*)\2(?=\s*\))""", re.ASCII)
"""The quoted name in ``cse(e, "name")``."""


def parse_source(
    source: Source,
    inames: frozenset[str] | None = None,
    operation: str = "make_kernel",
    reductions: Mapping[str, Operation] = OPERATIONS,
) -> Expression:
    """Parse the expression *source*; arguments are those of :func:`parse_expression`."""
    stripped = source.strip()
    text = _QUOTED.sub(r"\1 \3 ", stripped.text) if "cse" in stripped.text else stripped.text
    converter = _Converter(stripped, inames, operation, reductions)
    if not text:
        hint = "write a value, such as 0"
        converter.fail_at(0, 1, Diagnostic("syntax", "an expression is missing", hints=(hint,)))
    fault = check_characters(text)
    if fault is not None:
        converter.fail_at(*fault)
    replaced = replace_if_calls(text) if "if" in text else text
    replaced, converter.numbers = replace_suffixed(replaced)
    try:
        tree = ast.parse(replaced, mode="eval")
        return converter.convert(tree.body)
    except SyntaxError as error:
        converter.fail_at(*explain(replaced, error))
    except (RecursionError, MemoryError):
        hint = "store parts of it in temporaries: <> t = ..."
        converter.fail_at(0, len(text), Diagnostic("syntax", "this expression is nested too deeply", hints=(hint,)))


def parse_expression(
    text: str,
    line: int = 1,
    column: int = 0,
    source_line: str | None = None,
    *,
    inames: frozenset[str] | None = None,
    operation: str = "make_kernel",
) -> Expression:
    """Return the expression that *text* spells.

    Parameters
    ----------
    line, column, source_line
        Where *text* begins in what the user wrote, and that whole line: for the caret of messages.
    inames
        The known inames.  ``max(i, x)`` and ``min(i, x)`` are reductions exactly where ``i`` is one of them, and other
        reductions over unknown names are refused.  If None, a name or a tuple of names first makes a reduction.
    operation
        The public function that messages name.

    Returns
    -------
    Expression
        ``a - b`` is ``Sum((a, Product((-1, b))))``; a chain of ``+`` or ``*`` is one node; a chained comparison is the
        ``LogicalAnd`` of its parts; one subscript is the index itself, several are a tuple.

    Raises
    ------
    KernelError
        ``syntax``, ``unknown-iname``, ``duplicate-iname``, ``unknown-dtype``, ``wrong-argument-count``,
        ``reserved-name``, ``bad-identifier``.
    """
    return parse_source(Source.of(text, line, column, source_line), inames, operation)
