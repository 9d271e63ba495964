"""Conversion of expressions in a Python function to kernel expressions, with Python's names and calls."""

from __future__ import annotations

import ast
import builtins
import math
import operator
from collections.abc import Callable, Collection, Sequence
from typing import Any, ClassVar, Final, NoReturn

import numpy as np
import pymbolic.primitives as p

from polyloop.errors import Diagnostic, unknown_name
from polyloop.expr.converter import Converter
from polyloop.expr.dtypes import DType, dtype_diagnostic, dtype_name, find_dtype
from polyloop.expr.foreign import ForeignFunction, ForeignName
from polyloop.expr.functions import FUNCTIONS
from polyloop.expr.nodes import Expression, Lookup, Operation, Reduction, Terms, TypeCast
from polyloop.expr.operations import MODIFIERS, OPERATIONS, find_operation
from polyloop.expr.rewrite import variables
from polyloop.expr.source import Source
from polyloop.frontend import intrinsics
from polyloop.frontend.functions import Functions
from polyloop.frontend.loops import Loops, isl_condition
from polyloop.frontend.scope import NOTHING, Number, Scope, Use
from polyloop.frontend.source import DECORATOR, Node
from polyloop.kernel.reductions import ReductionOperation
from polyloop.kernel.text.parser import ParsedRule
from polyloop.kernel.text.statements import UPDATES
from polyloop.memo import Same
from polyloop.poly.affine import affine_of, to_expression

__all__ = ["PythonConverter"]

_REDUCTION_FORM: Final = "sum(a[k] for k in range(n))"
_WHAT: Final[dict[type[ast.AST], tuple[str, str]]] = {
    ast.Slice: ("a slice", "write one subscript for each axis, inside of a loop over it"),
    ast.Lambda: ("a lambda", "define a function in the body: def f(x): return ..."),
    ast.List: ("a list", "a kernel computes numbers, element by element"),
    ast.Tuple: ("a tuple", "a kernel computes numbers, element by element"),
    ast.Dict: ("a dictionary", "a kernel computes numbers, element by element"),
    ast.Set: ("a set", "a kernel computes numbers, element by element"),
    ast.NamedExpr: ("':='", "assign on a line of its own"),
    ast.Starred: ("'*' before an argument", "write the arguments one by one"),
    ast.GeneratorExp: ("a generator", f"a generator stands inside of a reduction: {_REDUCTION_FORM}"),
    ast.ListComp: ("a list comprehension", f"write a loop, or a reduction: {_REDUCTION_FORM}"),
    ast.SetComp: ("a set comprehension", f"write a loop, or a reduction: {_REDUCTION_FORM}"),
    ast.DictComp: ("a dictionary comprehension", f"write a loop, or a reduction: {_REDUCTION_FORM}"),
    ast.JoinedStr: ("a string", "a kernel computes numbers"),
    ast.Await: ("'await'", "a kernel computes numbers"),
    ast.Yield: ("'yield'", "assign to an array argument"),
    ast.YieldFrom: ("'yield'", "assign to an array argument"),
}

_UPDATE: Final[dict[type[ast.operator], str]] = {
    ast.Add: "+=",
    ast.Sub: "-=",
    ast.Mult: "*=",
    ast.Div: "/=",
    ast.FloorDiv: "//=",
    ast.Mod: "%=",
    ast.Pow: "**=",
    ast.LShift: "<<=",
    ast.RShift: ">>=",
    ast.BitAnd: "&=",
    ast.BitOr: "|=",
    ast.BitXor: "^=",
}
_PARTS: Final = {"real": "real", "imag": "imag"}
_METHODS: Final = {"conj": "conj", "conjugate": "conj"}

_FORMS: Final = {"minimum": "min(x, y)", "maximum": "max(x, y)"}

_ARRAYS: Final = frozenset({"zeros", "empty", "ones", "full", "zeros_like", "empty_like", "ones_like", "array"})
"""Functions of NumPy that make an array."""

_DIFFERENT: Final = frozenset({"round", "sign", "min", "max", "fmin", "fmax"})
"""Names for which NumPy, Python and C do not agree on every value, or which are treated apart."""

_ALIASES: Final = {
    "arccos": "acos",
    "arcsin": "asin",
    "arctan": "atan",
    "arctan2": "atan2",
    "arccosh": "acosh",
    "arcsinh": "asinh",
    "arctanh": "atanh",
    "absolute": "abs",
    "power": "pow",
    "fmin": "fmin",
    "fmax": "fmax",
    "angle": "arg",
}


def _known_functions() -> list[tuple[object, str]]:
    """Return functions of Python, ``math`` and ``numpy``, with the names that kernels have for them."""
    found: list[tuple[object, str]] = [(builtins.abs, "abs"), (operator.abs, "abs")]
    for module in (math, np):
        names = [name for name in FUNCTIONS if name not in _DIFFERENT and callable(getattr(module, name, None))]
        found += [(getattr(module, name), name) for name in names]
    found += [(getattr(np, name), meant) for name, meant in _ALIASES.items() if meant in FUNCTIONS]
    return found


_FUNCTIONS: Final = {Same(function): name for function, name in _known_functions()}
_REDUCING: Final = {
    Same(builtins.sum): "sum",
    Same(builtins.any): "any",
    Same(builtins.all): "all",
    Same(builtins.min): "min",
    Same(builtins.max): "max",
    Same(math.prod): "product",
    Same(intrinsics.product): "product",
}
_TRUTHS: Final = frozenset({"any", "all", "isnan", "isinf", "isfinite"})
"""Functions and reductions that give true or false."""

_NEUTRAL: Final[dict[str, Expression]] = {"sum": 0, "product": 1}


class PythonConverter(Converter):
    """Turns the nodes of a function's body into expressions over inames."""

    handlers: ClassVar[dict[type[ast.AST], Any]] = {}

    def __init__(
        self,
        scope: Scope,
        keep: Callable[[Node, Expression, str], str],
        around: Callable[[], Collection[str]],
        typed: Callable[[Node], DType],
        add: Callable[[ParsedRule], None],
    ) -> None:
        super().__init__(Source.of(""), None, DECORATOR)
        self.scope = scope
        self.loops = Loops(scope, self.convert, keep, around)
        self.functions = Functions(scope, self.convert, self.condition, self.updated, typed, add)
        self.in_condition: set[ast.AST] = set()
        self.operations: dict[str, ReductionOperation] = {}

    # errors

    def fail(self, node: Node, diagnostic: Diagnostic) -> NoReturn:
        """Raise *diagnostic* at *node*, in the user's file."""
        self.scope.report(node, diagnostic)

    def refuse(self, node: Node) -> NoReturn:
        """Refuse a node that is no expression of a kernel."""
        hint = "expressions are arithmetic, comparisons, subscripts, calls of known functions and reductions"
        what, hint = _WHAT.get(type(node), ("this", hint))
        self.scope.deny(node, "unsupported-expression", f"{what} is not an expression of a kernel", hint)

    # names and numbers

    def name(self, node: ast.Name) -> Expression:
        """Return the variable, iname or captured number of a name."""
        scope, name = self.scope, node.id
        if name in scope.bound:
            return scope.bound[name]
        if name in scope.aliases:
            scope.deny(node, "unsupported-expression", f"'{name}' is an array", f"write its subscripts: {name}[i]")
        if name in scope.assigned and name not in scope.hidden:
            return p.Variable(name)
        if name in scope.hidden or name in scope.names.locals:
            if name in scope.arrays and name not in scope.hidden:
                hint = f"write its subscripts: {name}[i]"
                scope.deny(node, "unsupported-expression", f"'{name}' is an array", hint)
            hint = f"assign it in a line above: {name} = ..."
            scope.deny(node, "read-before-write", f"variable '{name}' is read before anything is assigned to it", hint)
        if name in scope.arguments:
            if scope.arguments[name] is Use.ARRAY:
                hint = f"write its subscripts: {name}[i], or {name}[()] if it has no axes"
                scope.deny(node, "unsupported-expression", f"'{name}' is an array", hint)
            return p.Variable(name)
        if name in scope.functions:
            scope.deny(node, "unsupported-expression", f"'{name}' is a function", f"call it: {name}(...)")
        value = scope.number(node)
        return scope.unknown(node) if value is None else self._number(node, value)

    def _number(self, node: Node, value: Number) -> Expression:
        if not isinstance(value, complex) and value < 0:
            return -self.constant(ast.copy_location(ast.Constant(-value), node))
        return self.constant(ast.copy_location(ast.Constant(value), node))

    def constant(self, node: ast.Constant) -> Expression:
        """Return a number."""
        if type(node.value) in (bool, int, float, complex):
            return super().constant(node)
        hint = "a kernel computes numbers and truth values"
        self.scope.deny(node, "unsupported-expression", f"{node.value!r} is no value of a kernel", hint)

    def attribute(self, node: ast.Attribute) -> Expression:
        """Return a module's number such as ``math.pi``, or a field of a reduction's result."""
        if self.reduces(node.value):
            return Lookup(self.convert(node.value), node.attr)
        value = self.scope.number(node)
        if value is not None:
            return self._number(node, value)
        if self.scope.find(node) is not NOTHING:
            what = f"'{ast.unparse(node)}' is no number"
            self.scope.deny(node, "bad-capture", what, "only numbers are taken over from outside of the function")
        if node.attr in _PARTS and not self._is_around(node.value):
            return p.Call(p.Variable(_PARTS[node.attr]), (self.convert(node.value),))
        root: Node = node
        while isinstance(root, ast.Attribute):
            root = root.value
        if isinstance(root, ast.Name) and not self.scope.is_own(root.id) and self.scope.captured(root.id) is NOTHING:
            self.scope.unknown(root)
        hint = "assign the number to a variable outside of the function, and use that"
        if node.attr in ("shape", "size", "ndim"):
            hint = 'name the sizes in the type: a: pl.Array[np.float32, "n", "m"], and write n and m'
        self.scope.deny(node, "unsupported-expression", "attributes have no meaning in a kernel", hint)

    def _is_around(self, node: Node) -> bool:
        """Return whether *node* is a name from outside of the function that is no number, or its attribute."""
        while isinstance(node, ast.Attribute):
            node = node.value
        return isinstance(node, ast.Name) and not self.scope.is_own(node.id) and self.scope.number(node) is None

    def subscript(self, node: ast.Subscript) -> Expression:
        """Return an element of an array."""
        array = node.value
        if isinstance(array, ast.Subscript):
            hint = "write a[i, j], not a[i][j]"
            self.scope.deny(node, "unsupported-expression", "an array has one pair of brackets", hint)
        if not isinstance(array, ast.Name):
            what = "only the name of an array can be subscripted"
            self.scope.deny(node, "unsupported-expression", what, "write a[i]")
        name = self._array(array)
        index = node.slice
        if isinstance(index, ast.Tuple):
            parts = tuple(map(self.index, index.elts))
            if not parts:
                return p.Variable(name)
            return p.Subscript(p.Variable(name), parts[0] if len(parts) == 1 else parts)
        return p.Subscript(p.Variable(name), self.index(index))

    def index(self, node: Node) -> Expression:
        """Return a subscript; where loops run downward, as an affine form."""
        expr = self.convert(node)
        used = variables(expr)
        if self.scope.open.isdisjoint(used) or isinstance(expr, p.Variable):
            return expr
        if self.scope.new.turned.isdisjoint(used) or not all(map(self.loops.is_integer, used)):
            return expr
        form = affine_of(expr)
        return expr if form is None else to_expression(form)

    def _array(self, node: ast.Name) -> str:
        """Return the array of whose elements *node* is the name."""
        name = self.element_array(node)
        if name is None:
            self._no_array(node)
        return name

    def _no_array(self, array: ast.Name) -> NoReturn:
        name = array.id
        if name not in self.scope.hidden and (name in self.scope.bound or name in self.scope.names.loops):
            what = f"'{name}' is a loop variable and has no elements"
            self.scope.deny(array, "unsupported-expression", what, "write it alone")
        if name in self.scope.names.locals or name in self.scope.hidden:
            hint = f"declare it first: {name}: pl.Array[np.float32, 16]"
            self.scope.deny(array, "unsupported-expression", f"variable '{name}' is no array", hint)
        if name in self.scope.arguments:
            hint = f'give it the type of an array: {name}: pl.Array[np.float32, "n"]'
            self.scope.deny(array, "unsupported-expression", f"argument '{name}' is a scalar", hint)
        self.scope.unknown(array)

    # operators

    def binary(self, node: ast.BinOp) -> Expression:
        """Return arithmetic."""
        left: Node = node
        while isinstance(left, ast.BinOp):
            if isinstance(left.op, ast.MatMult):
                hint = "write a reduction: sum(a[i, k]*b[k, j] for k in range(n))"
                self.scope.deny(left, "unsupported-expression", "'@' multiplies whole arrays", hint)
            left = left.left
        return super().binary(node)

    def condition(self, node: Node) -> Expression:
        """Return a condition, where ``and`` and ``or`` may join any values."""
        self._mark(node)
        return self.convert(node)

    def _mark(self, node: Node) -> None:
        if isinstance(node, ast.BoolOp):
            self.in_condition.add(node)
            for value in node.values:
                self._mark(value)

    def is_condition(self, node: Node) -> bool:
        """Return whether the value of *node* is true or false, never another number."""
        match node:
            case ast.Compare():
                return True
            case ast.BoolOp():
                return all(map(self.is_condition, node.values))
            case ast.UnaryOp():
                return isinstance(node.op, ast.Not)
            case ast.Constant():
                return isinstance(node.value, bool)
            case ast.Name(id=name) if name in self.scope.hidden:
                return False
            case ast.Name():
                known = node.id in self.scope.conditions or self.scope.assigned.get(node.id, False)
                return known or isinstance(self.scope.number(node), bool)
            case ast.Subscript(value=ast.Name(id=name)):
                return name in self.scope.conditions
            case ast.IfExp():
                return self.is_condition(node.body) and self.is_condition(node.orelse)
            case ast.Call():
                function = self.scope.find(node.func)
                known_as = _REDUCING.get(Same(function)) or _FUNCTIONS.get(Same(function))
                return known_as in _TRUTHS or function is bool or function is np.bool_
            case _:
                return False

    def boolean(self, node: ast.BoolOp) -> Expression:
        """Return ``and`` or ``or``; as a value only of conditions, because Python gives one of the operands."""
        if node not in self.in_condition:
            for value in node.values:
                if not self.is_condition(value):
                    word = "and" if isinstance(node.op, ast.And) else "or"
                    what = f"'{word}' would give the value of an operand that is no condition"
                    self.scope.deny(value, "unsupported-expression", what, "compare: x != 0, or write x if c else y")
        return super().boolean(node)

    def unary(self, node: ast.UnaryOp) -> Expression:
        """Return a negation."""
        if isinstance(node.op, ast.Not):
            self._mark(node.operand)
        return super().unary(node)

    def choice(self, node: ast.IfExp) -> Expression:
        """Return ``x if c else y``."""
        self._mark(node.test)
        return super().choice(node)

    # calls

    def call(self, node: ast.Call) -> Expression:
        """Return a call of a known function, a conversion, or a reduction."""
        match node.func:
            case ast.Name(id=name) as function if self.scope.is_own(name):
                return self._own_call(node, function)
            case ast.Attribute(attr=name) as method if name in _METHODS and not self._is_around(method.value):
                return self._method(node, method)
        return self._outer_call(node, node.func)

    def _outer_call(self, node: ast.Call, function: ast.expr) -> Expression:
        """Return a call of what Python, a module or the user defines outside of the kernel."""
        found = self.scope.find(function)
        if Same(found) in _REDUCING:
            return self._reducing_call(node, _REDUCING[Same(found)])
        self._only_positional(node)
        if isinstance(found, ForeignFunction):
            return p.Call(ForeignName(found.name, (found,)), tuple(map(self.convert, node.args)))
        if found is intrinsics.reduce:
            return self._reduce_call(node)
        if found is builtins.len:
            return self._length(node)
        if found is intrinsics.cast:
            return self._cast_call(node)
        if found is np.where:
            if len(node.args) != 3:
                self._count(node, "np.where(condition, x, y)")
            return p.If(self.condition(node.args[0]), *map(self.convert, node.args[1:]))
        if isinstance(found, type) and find_dtype(found) is not None:
            if len(node.args) != 1:
                self._count(node, "x + 1j*y" if found is complex else f"{ast.unparse(function)}(x)")
            return self._converted(function, found, node.args[0])
        return self._function_call(node, found)

    def _length(self, node: ast.Call) -> Expression:
        """Return ``len(a)``, the extent of the first axis of an array."""
        if len(node.args) != 1:
            self._count(node, "len(a)")
        array = node.args[0]
        if not isinstance(array, ast.Name):
            what = "'len' takes the name of an array"
            self.scope.deny(array, "unsupported-expression", what, "write len(a), or the name of the extent")
        name = self._array(array)
        extent = self.scope.lengths.get(name)
        if extent is None:
            hint = f'give it a shape: {name}: pl.Array[np.float32, "n"]; an array without axes has no length'
            self.scope.deny(array, "unsupported-expression", f"the extent of '{array.id}' is not given", hint)
        return extent

    def element_array(self, node: ast.Name) -> str | None:
        """Return the array of whose elements *node* is the name, None if it is no array."""
        scope, name = self.scope, self.scope.aliases.get(node.id, node.id)
        is_hidden = node.id in scope.hidden and node.id not in scope.aliases
        is_array = name in scope.arrays or scope.arguments.get(name) is Use.ARRAY
        return None if is_hidden or not is_array or node.id in scope.bound else name

    def _method(self, node: ast.Call, function: ast.Attribute) -> Expression:
        """Return ``z.conjugate()``."""
        if node.args or node.keywords:
            self._count(node, f"{ast.unparse(function)}()")
        return p.Call(p.Variable(_METHODS[function.attr]), (self.convert(function.value),))

    def _own_call(self, node: ast.Call, function: ast.Name) -> Expression:
        name = function.id
        if name not in self.scope.functions or name in self.scope.hidden:
            what, hint = f"'{name}' is a variable and cannot be called", "write f(x)"
            if name in self.scope.names.defined:
                what, hint = f"'{name}' is called before it is defined", "define it in a line above"
            self.scope.deny(function, "unknown-function", what, hint)
        return self.functions.call(node)

    def updated(self, node: ast.AugAssign, target: Expression) -> Expression:
        """Return the value that ``target += value`` and the like assign."""
        spelling = _UPDATE.get(type(node.op))
        if spelling is None:
            hint = "write a reduction: sum(a[i, k]*b[k, j] for k in range(n))"
            self.scope.deny(node, "unsupported-expression", "'@' multiplies whole arrays", hint)
        return UPDATES[spelling](target, self.convert(node.value))

    def _only_positional(self, node: ast.Call) -> None:
        if node.keywords:
            hint = "pass the arguments by position"
            self.scope.deny(node.keywords[0], "unsupported-expression", "a kernel has no keyword arguments", hint)

    def _count(self, node: ast.Call, form: str) -> NoReturn:
        count = len(node.args)
        what = f"'{ast.unparse(node.func)}' does not take {count} argument{'' if count == 1 else 's'}"
        self.scope.deny(node, "wrong-argument-count", what, f"write {form}")

    def _function_call(self, node: ast.Call, found: object) -> Expression:
        written = ast.unparse(node.func)
        name = _FUNCTIONS.get(Same(found))
        if name is None and found is NOTHING and isinstance(node.func, ast.Name) and node.func.id in FUNCTIONS:
            name = node.func.id
        if name is None:
            short = written.rpartition(".")[2]
            hints = unknown_name("function", short, FUNCTIONS).hints
            if short in _FORMS:
                hints = (f"write {_FORMS[short]}; NaN may be treated differently",)
            elif short in FUNCTIONS:
                hints = (f"the '{short}' of kernels gives other results; leave '{short}' undefined to mean that one",)
            elif short in _ARRAYS and isinstance(node.func, ast.Attribute):
                hints = (
                    "declare an array of the kernel's own at the beginning, t: pl.Array[np.float32, 16], and set its"
                    " elements in a loop",
                )
            elif isinstance(node.func, ast.Attribute) and found is NOTHING:
                hints = (f"functions have plain names: {short}(x), or math.{short}(x), if kernels know it",)
            elif callable(found):
                hints = (f"define it inside of the kernel, as 'def {short}(x): return ...'",)
            self.scope.deny(node.func, "unknown-function", f"a kernel cannot call '{written}'", *hints)
        if not FUNCTIONS[name].accepts(len(node.args)):
            self._count(node, f"{name}({', '.join('xyz'[: FUNCTIONS[name].arity])})")
        return p.Call(p.Variable(name), tuple(map(self.convert, node.args)))

    def _converted(self, where: Node, spelling: object, value: Node) -> Expression:
        dtype = find_dtype(spelling)
        if dtype is None:
            self.fail(where, dtype_diagnostic(spelling))
        return TypeCast(dtype_name(dtype), self.convert(value))

    def _cast_call(self, node: ast.Call) -> Expression:
        if len(node.args) != 2:
            self._count(node, "pl.cast(np.float32, x)")
        wanted = node.args[0]
        spelling = wanted.value if isinstance(wanted, ast.Constant) else self.scope.find(wanted)
        if spelling is NOTHING:
            hint = "write pl.cast(np.float32, x)"
            self.scope.deny(wanted, "unknown-dtype", "'pl.cast' needs an element type first", hint)
        return self._converted(wanted, spelling, node.args[1])

    # reductions

    def _reducing_call(self, node: ast.Call, operation: str) -> Expression:
        if len(node.args) == 1 and isinstance(node.args[0], ast.GeneratorExp) and not node.keywords:
            return self.generator(OPERATIONS[operation], node.args[0])
        self._only_positional(node)
        if operation in ("min", "max") and len(node.args) > 1:
            arguments = tuple(map(self.convert, node.args))
            return p.Min(arguments) if operation == "min" else p.Max(arguments)
        written = ast.unparse(node.func)
        if len(node.args) == 1:
            what = f"'{written}' reduces a generator"
            self.scope.deny(node.args[0], "unsupported-expression", what, f"write {written}(a[k] for k in range(n))")
        self._count(node, f"{written}(a[k] for k in range(n))")

    def _reduce_call(self, node: ast.Call) -> Expression:
        form = 'pl.reduce("max", (a[k] for k in range(n)))'
        if len(node.args) != 2:
            self._count(node, form)
        first, terms = node.args
        operation = self._operation(first)
        if operation is None:
            known = ", ".join([*sorted(OPERATIONS), *(f"{name}(...)" for name in MODIFIERS), "a pl.ReductionOperation"])
            self.scope.deny(first, "unsupported-expression", "this is no reduction operation", f"known: {known}")
        if not isinstance(terms, ast.GeneratorExp):
            self.scope.deny(terms, "unsupported-expression", "'pl.reduce' reduces a generator", f"write {form}")
        return self.generator(operation, terms)

    def _operation(self, node: Node) -> Operation | None:
        """Return the operation that *node* says: ``"max"``, ``max``, or a :class:`ReductionOperation`."""
        if isinstance(node, ast.Constant):
            return find_operation(str(node.value))
        found = self.scope.find(node)
        if isinstance(found, ReductionOperation):
            if self.operations.setdefault(found.name, found) != found:
                what = f"two reduction operations are called '{found.name}'"
                self.scope.deny(node, "name-taken", what, "rename one of them")
            return found.operation()
        name = _REDUCING.get(Same(found))
        return None if name is None else OPERATIONS[name]

    def reduces(self, node: Node) -> bool:
        """Return whether *node* is a call of ``pl.reduce``."""
        return isinstance(node, ast.Call) and self.scope.find(node.func) is intrinsics.reduce

    def generator(self, operation: Operation, node: ast.GeneratorExp) -> Expression:
        """Return the reduction over the values of a generator."""
        return self._over(operation, node, node.generators, [], [])

    def _over(
        self,
        operation: Operation,
        node: ast.GeneratorExp,
        left: Sequence[ast.comprehension],
        inames: list[str],
        filters: list[tuple[Node, Expression]],
    ) -> Expression:
        if not left:
            value = self._terms(operation, node.elt) if operation.fields else self.convert(node.elt)
            return Reduction(operation, tuple(inames), self._filtered(str(operation), value, filters))
        part = left[0]
        if part.is_async:
            self.refuse(node)
        opened = self.loops.open(part.target, part.iter, hides=True)
        with self.scope.looping(opened.bind, opened.inames):
            conditions = []
            for test in part.ifs:
                expr = self.condition(test)
                text = isl_condition(expr, self.loops.is_integer)
                if text is None:
                    filters.append((test, expr))
                else:
                    conditions.append(f"({text})")
        self.loops.add(opened, " and ".join(conditions))
        with self.scope.looping(opened.bind, opened.inames):
            return self._over(operation, node, left[1:], [*inames, *opened.inames], filters)

    def _terms(self, operation: Operation, node: Node) -> Terms:
        """Return the terms of a generator for each field of the state of *operation*."""
        values = node.elts if isinstance(node, ast.Tuple) else [node]
        if len(values) != len(operation.fields):
            what = f"'{operation}' takes {len(operation.fields)} values: {', '.join(operation.fields)}"
            form = f"pl.reduce(\"{operation}\", (({', '.join(operation.fields)}) for k in range(n)))"
            self.scope.deny(node, "unsupported-expression", what, f"write {form}")
        return Terms(tuple(map(self.convert, values)))

    def _filtered(self, operation: str, value: Expression, filters: Sequence[tuple[Node, Expression]]) -> Expression:
        """Return *value* under the filters, with the neutral element of *operation* elsewhere."""
        if not filters:
            return value
        conditions = tuple(expr for _, expr in filters)
        condition = conditions[0] if len(conditions) == 1 else p.LogicalAnd(conditions)
        if operation in _NEUTRAL:
            return p.If(condition, value, _NEUTRAL[operation])
        if operation == "any":
            return p.LogicalAnd((*conditions, value))
        if operation == "all":
            return p.LogicalOr((p.LogicalNot(condition), value))
        what = f"'{operation}' has no value for terms that a condition on data leaves out"
        hint = f"write what stands for them: {operation}(x if condition else least for ...)"
        self.scope.deny(filters[0][0], "unsupported-expression", what, hint)


PythonConverter.handlers = {
    **Converter.handlers,
    ast.Name: PythonConverter.name,
    ast.Constant: PythonConverter.constant,
    ast.Attribute: PythonConverter.attribute,
    ast.Subscript: PythonConverter.subscript,
    ast.BinOp: PythonConverter.binary,
    ast.BoolOp: PythonConverter.boolean,
    ast.UnaryOp: PythonConverter.unary,
    ast.IfExp: PythonConverter.choice,
    ast.Call: PythonConverter.call,
}
