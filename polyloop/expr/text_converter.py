"""Calls in the text of kernels: functions, reductions, and forms such as ``cast(float32, e)``."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any, ClassVar, Final, NoReturn, TypeAlias

import pymbolic.primitives as p

from polyloop.errors import Diagnostic, unknown_name
from polyloop.expr.converter import SIZES_HAVE_NAMES, Converter, is_name
from polyloop.expr.dtypes import dtype_diagnostic, dtype_name, find_dtype
from polyloop.expr.functions import FUNCTIONS
from polyloop.expr.lexical import IF_NAME
from polyloop.expr.names import RESERVED
from polyloop.expr.nodes import Expression, Operation, Record, Reduction, Shared, Terms, TypeCast
from polyloop.expr.operations import MODIFIERS, OPERATIONS
from polyloop.expr.records import VECTORS, field_names

__all__ = ["TextConverter"]

_Node: TypeAlias = Any

_OWN: Final = frozenset({*FUNCTIONS, *OPERATIONS, "cast", "cse", "reduce", "simul_reduce", IF_NAME})
"""Names that are called and are no substitution rules."""


def _may_vary(node: ast.AST, iname: str, inames: frozenset[str]) -> bool:
    """Return whether an expression may have other values in other iterations of *iname*.

    It may if it mentions *iname*, or anything but numbers and other inames: a temporary may be set in the loop, and a
    substitution rule may mention *iname*.  ``min(i, 3)`` has one value.
    """
    constant = _OWN | inames - {iname}
    return any(is_name(part) and part.id not in constant for part in ast.walk(node))


class TextConverter(Converter):
    """Turns the nodes of an expression in text into expressions."""

    def call(self, node: ast.Call) -> Expression:
        """Return a call, a reduction, or the form that is spelt as a call."""
        if not is_name(node.func):
            hint = "write f(x)"
            match node.func:
                case ast.Attribute(value=ast.Name(id="np" | "numpy" | "math"), attr=name) if name in FUNCTIONS:
                    hint = f"functions have plain names in the text: {name}(x)"
                case ast.Attribute(value=ast.Name(id="np" | "numpy" | "math"), attr=name) if name in self.reductions:
                    hint = f"a reduction is over an iname k of the domain: {name}(k, a[k])"
            self.fail(node.func, Diagnostic("syntax", "only a function name can be called", hints=(hint,)))
        if node.keywords:
            self.fail(
                node,
                Diagnostic(
                    "syntax", "keyword arguments are not allowed in a kernel", hints=("pass the arguments by position",)
                ),
            )
        name = node.func.id
        if name in self._FORMS:
            return self._FORMS[name](self, node)
        if name in self.reductions and self._is_reduction(name, node):
            return self._reduction(self.reductions[name], node, node.args)
        if name in RESERVED or name.startswith("__"):
            return self._vector(name, node)
        arguments = tuple(map(self.convert, node.args))
        if name in ("min", "max"):
            if len(arguments) < 2:
                self._wrong_count(node, f"{name}(a, b), or {name}(k, a[k]) with an iname k")
            return p.Min(arguments) if name == "min" else p.Max(arguments)
        return p.Call(p.Variable(name), arguments)

    def _length(self, node: ast.Call) -> Expression:
        """Return the call of a user's ``len``; sizes of arrays have names."""
        if len(node.args) == 1 and is_name(node.args[0]):
            self.fail(node, Diagnostic("syntax", "'len' is no function of a kernel", hints=(SIZES_HAVE_NAMES,)))
        return p.Call(p.Variable("len"), tuple(map(self.convert, node.args)))

    def _vector(self, name: str, node: ast.Call) -> Expression:
        """Return the vector that ``make_float4(a, b, c, d)`` makes; no other reserved name can be called."""
        dtype = VECTORS.get(name.removeprefix("make_"))
        if dtype is None or not name.startswith("make_"):
            assert type(node.func) is ast.Name, "only names are called"
            return self.name(node.func)
        if len(node.args) != len(field_names(dtype)):
            self._wrong_count(node, f"{name}({', '.join(field_names(dtype))})")
        return Record(dtype, tuple(map(self.convert, node.args)))

    def _wrong_count(self, node: ast.Call, form: str) -> NoReturn:
        assert type(node.func) is ast.Name
        name = "if" if node.func.id == IF_NAME else node.func.id
        count = len(node.args)
        message = f"'{name}' does not take {count} argument{'' if count == 1 else 's'}"
        self.fail(node, Diagnostic("wrong-argument-count", message, hints=(f"write {form}",)))

    def _choice(self, node: ast.Call) -> Expression:
        if len(node.args) != 3:
            self._wrong_count(node, "if(condition, a, b)")
        return p.If(*map(self.convert, node.args))

    def _cast(self, node: ast.Call) -> Expression:
        if len(node.args) != 2:
            self._wrong_count(node, "cast(float32, e)")
        wanted = node.args[0]
        if type(wanted) is ast.Attribute and type(wanted.value) is ast.Name and wanted.value.id in ("np", "numpy"):
            spelling = wanted.attr
        elif is_name(wanted):
            spelling = wanted.id
        else:
            self.fail(
                wanted, Diagnostic("syntax", "'cast' needs the name of a type first", hints=("write cast(float32, e)",))
            )
        dtype = find_dtype(spelling)
        if dtype is None:
            self.fail(wanted, dtype_diagnostic(spelling))
        return TypeCast(dtype_name(dtype), self.convert(node.args[1]))

    def _shared(self, node: ast.Call) -> Expression:
        if len(node.args) not in (1, 2):
            self._wrong_count(node, "cse(e) or cse(e, name)")
        name: Any = node.args[1] if len(node.args) == 2 else None
        if name is not None and not is_name(name):
            self.fail(name, Diagnostic("syntax", "'cse' takes a name second", hints=("write cse(e, name)",)))
        if name is not None:
            self.name(name)
        return Shared(self.convert(node.args[0]), None if name is None else name.id)

    def _reduce(self, node: ast.Call) -> Expression:
        if len(node.args) < 3:
            self._wrong_count(node, "reduce(sum, k, e)")
        return self._reduction(self._reducing(node.args[0]), node, node.args[1:])

    def _reducing(self, node: _Node) -> Operation:
        """Return the operation that *node* names: ``sum``, ``ordered(sum)``, ``segmented(max)``."""
        if type(node) is ast.Name and node.id in self.reductions:
            return self.reductions[node.id]
        is_call = type(node) is ast.Call and type(node.func) is ast.Name and len(node.args) == 1 and not node.keywords
        if not is_call or node.func.id not in MODIFIERS:
            known = ", ".join([*sorted(self.reductions), *(f"{name}(...)" for name in MODIFIERS)])
            self.fail(node, Diagnostic("syntax", "this is not a reduction operation", hints=(f"known: {known}",)))
        inner = self._reducing(node.args[0])
        if inner.fields and node.func.id == "segmented":
            hint = "write segmented(sum), or another operation on single values"
            self.fail(node, Diagnostic("syntax", f"'{inner}' cannot be segmented", hints=(hint,)))
        return MODIFIERS[node.func.id](inner)

    def _is_reduction(self, name: str, node: ast.Call) -> bool:
        if name not in ("min", "max"):
            return True
        if len(node.args) != 2:
            return False
        first: Any = node.args[0]
        if type(first) in (ast.Tuple, ast.List):
            return True
        if not is_name(first) or self.inames is None:
            return is_name(first)
        return first.id in self.inames and _may_vary(node.args[1], first.id, self.inames)

    def _reduction(self, operation: Operation, node: ast.Call, arguments: list[ast.expr]) -> Expression:
        terms, head = ", ".join(operation.fields or "e"), f"{operation}("
        if operation.text:
            head = f"reduce({operation}, "
        form = f"{head}k, {terms}) or {head}(i, j), {terms})"
        written: list[Any] = [*arguments[1:]]
        if operation.fields and len(written) == 1 and type(written[0]) in (ast.Tuple, ast.List):
            written = written[0].elts
        if len(written) != len(operation.fields or "e"):
            self._wrong_count(node, form)
        first: Any = arguments[0]
        if not operation.fields and type(first) in (ast.Tuple, ast.List) and not first.elts:
            return self.convert(written[0])  # over nothing: the one term
        inames = self._reduction_inames(operation, first, form)
        values = tuple(map(self.convert, written))
        return Reduction(operation, inames, Terms(values) if operation.fields else values[0])

    def _reduction_inames(self, operation: Operation, first: _Node, form: str) -> tuple[str, ...]:
        names = first.elts if type(first) in (ast.Tuple, ast.List) else [first]
        inames: list[str] = []
        for part in names:
            if not is_name(part):
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

    handlers: ClassVar[dict[type[ast.AST], Callable[[Any, Any], Expression]]] = {
        **Converter.handlers,
        ast.Call: call,
    }
    _FORMS: ClassVar[dict[str, Callable[[TextConverter, ast.Call], Expression]]] = {
        IF_NAME: _choice,
        "cast": _cast,
        "cse": _shared,
        "len": _length,
        "reduce": _reduce,
        "simul_reduce": _reduce,
    }
    """Special forms, which are spelt as calls."""
