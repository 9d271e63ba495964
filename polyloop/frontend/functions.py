"""Functions in the body of a kernel, as substitution rules.

A function is read where it is called, so that it sees the names of the kernel as Python would: the loop variables that
are open there, and variables that are assigned before the call.  Calls that see the same share one rule.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

import pymbolic.primitives as p

from polyloop.errors import Place
from polyloop.expr.dtypes import DType, dtype_name
from polyloop.expr.functions import FUNCTIONS
from polyloop.expr.nodes import Expression, TypeCast, function_name
from polyloop.expr.operations import MODIFIERS, OPERATIONS
from polyloop.expr.rewrite import children, variables
from polyloop.frontend.scope import LocalFunction, Scope, Use
from polyloop.frontend.source import Node
from polyloop.kernel.instruction import SubstitutionRule
from polyloop.kernel.text.parser import ParsedRule

__all__ = ["Functions", "called"]

_MEANT: Final = frozenset({*FUNCTIONS, *OPERATIONS, *MODIFIERS, "cast", "cse", "reduce", "simul_reduce"})
"""Names that mean something where a kernel calls them: no rule is called so."""
_MOST_PATHS: Final = 64


class Functions:
    """The functions of a kernel, and the rules that their calls have made.

    ``convert`` and ``condition`` turn nodes into expressions, ``updated`` an update such as ``x += y`` into its value,
    ``typed`` an annotation into an element type; ``add`` takes each rule.
    """

    def __init__(
        self,
        scope: Scope,
        convert: Callable[[Node], Expression],
        condition: Callable[[Node], Expression],
        updated: Callable[[ast.AugAssign, Expression], Expression],
        typed: Callable[[Node], DType],
        add: Callable[[ParsedRule], None],
    ) -> None:
        self.scope = scope
        self.convert = convert
        self.condition = condition
        self.updated = updated
        self.typed = typed
        self.add = add
        self.rules: dict[object, str] = {}
        self.defaults: dict[LocalFunction, dict[str, Expression]] = {}
        self.called: set[LocalFunction] = set()
        self.active: list[LocalFunction] = []
        self.paths = 0

    def define(self, node: ast.FunctionDef) -> None:
        """Enter a function into the scope."""
        scope = self.scope
        if node.decorator_list:
            scope.deny(node, "unsupported-statement", "a function in a kernel has no decorators", "leave them out")
        known = scope.arguments.keys() | scope.arrays | scope.names.locals | scope.names.loops
        if node.name in known:
            scope.deny(node, "name-taken", f"'{node.name}' is a variable or an argument already", "choose another name")
        entries = node.args
        if entries.vararg or entries.kwarg:
            what = "a function in a kernel has a number of parameters"
            scope.deny(node, "unsupported-statement", what, f"write def {node.name}(x, y):")
        before = scope.functions.get(node.name)
        if before is not None and before not in self.called:
            self._rule(before, before.parameters, {})
        function = LocalFunction.of(node)
        self.defaults[function] = {name: self._default(function, value) for name, value in function.defaults().items()}
        scope.functions[node.name] = function

    def _default(self, function: LocalFunction, node: ast.expr) -> Expression:
        """Return the default of a parameter, which Python evaluates where the function is defined."""
        scope = self.scope
        changing = scope.names.locals | scope.names.loops | scope.arrays | scope.hidden
        for name in ast.walk(node):
            if isinstance(name, ast.Name) and (name.id in changing or scope.arguments.get(name.id) is Use.ARRAY):
                what = f"a default of '{function.tree.name}' reads '{name.id}', which may have changed at a call"
                scope.deny(name, "unsupported-statement", what, "pass it in each call")
        return self.convert(node)

    def names(self) -> frozenset[str]:
        """Return the names of the rules."""
        return frozenset(self.rules.values())

    def finish(self) -> None:
        """Make the rules of functions that are never called."""
        for function in self.scope.functions.values():
            if function not in self.called:
                self._rule(function, function.parameters, {})

    def call(self, node: ast.Call) -> Expression:
        """Return the call of a function that the kernel defines."""
        function = self.scope.functions[node.func.id]  # type: ignore[attr-defined] # looked up by its name
        if function in self.active:
            what = f"'{function.tree.name}' calls itself"
            self.scope.deny(node, "unsupported-expression", what, "write a loop: for i in range(n)")
        arrays: dict[str, str] = {}
        values: dict[str, Expression] = {}
        passed = self._passed(function, node)
        for parameter in function.parameters:
            argument = passed.get(parameter)
            array = None if argument is None else self._array(argument)
            if array is not None:
                arrays[parameter] = array
            else:
                known = self.defaults[function]
                values[parameter] = known[parameter] if argument is None else self.convert(argument)
        return p.Call(p.Variable(self._rule(function, values, arrays)), tuple(values.values()))

    def _passed(self, function: LocalFunction, node: ast.Call) -> dict[str, ast.expr]:
        """Return the arguments of a call by parameter."""
        try:
            return function.passed(node)
        except TypeError as error:
            named, count = function.tree.name, len(node.args)
            what = f"'{named}' does not take these arguments: {error}"
            hint = f"write {named}({', '.join(function.parameters)})"
            if not node.keywords and not self.defaults[function] and not function.tree.args.kwonlyargs:
                what = f"'{named}' does not take {count} argument{'' if count == 1 else 's'}"
                hint = f"write as many as 'def {named}' has: {len(function.parameters)}"
            self.scope.deny(node, "wrong-argument-count", what, hint)

    def _array(self, node: Node) -> str | None:
        """Return the array that an argument names."""
        scope = self.scope
        if not isinstance(node, ast.Name) or node.id in scope.bound:
            return None
        if node.id in scope.hidden:
            return scope.aliases.get(node.id)
        is_array = node.id in scope.arrays or scope.arguments.get(node.id) is Use.ARRAY
        return node.id if is_array else None

    def _rule(self, function: LocalFunction, values: Iterable[str], arrays: Mapping[str, str]) -> str:
        """Return the rule for a call that gives *values* of these parameters, and *arrays* for the others."""
        scope, tree = self.scope, function.tree
        words = {name.id for name in ast.walk(tree) if isinstance(name, ast.Name)} - function.locals
        for other in scope.functions.values():
            words |= {name.id for name in ast.walk(other.tree) if isinstance(name, ast.Name)} - other.locals
        seen = tuple((name, scope.bound[name]) for name in sorted(words) if name in scope.bound)
        key = (tree, tuple(sorted(arrays.items())), seen, tuple(other.tree for other in scope.functions.values()))
        if key not in self.rules:
            captured = frozenset[str]().union(*(variables(value) for _, value in seen))
            spelled = {name: self._parameter(function, name, captured) for name in values}
            body = {name: p.Variable(new) for name, new in spelled.items()}
            self.active.append(function)
            with scope.calling(function, body, arrays):
                expression = self._result(function)
            self.active.pop()
            self.rules[key] = name = self._name(function)
            self.called.add(function)
            rule = SubstitutionRule.of(name, tuple(spelled.values()), expression)
            self.add(ParsedRule(rule, Place(scope.source.text(tree), scope.source.span(tree))))
        return self.rules[key]

    def _name(self, function: LocalFunction) -> str:
        name = function.tree.name
        self.scope.check_name(function.tree, name)
        return self.scope.fresh(name) if name in _MEANT or name in self.rules.values() else name

    def _parameter(self, function: LocalFunction, name: str, captured: frozenset[str]) -> str:
        """Return the parameter of a rule: its *name*, unless something that the body may see is called so."""
        scope = self.scope
        entries = function.tree.args
        parameters = (*entries.posonlyargs, *entries.args, *entries.kwonlyargs)
        scope.check_name(next(entry for entry in parameters if entry.arg == name), name)
        is_known = name in scope.arguments or name in scope.arrays or name in scope.functions
        return scope.fresh(name) if is_known or name in captured else name

    # the body

    def _result(self, function: LocalFunction) -> Expression:
        self.paths = 0
        found = self._run(function, function.tree.body)
        if found is None:
            hint = f"end it with a line 'return ...': def {function.tree.name}(x): return x"
            what = f"'{function.tree.name}' does not return a value in every case"
            self.scope.deny(function.tree, "unsupported-statement", what, hint)
        return found

    def _run(self, function: LocalFunction, body: Sequence[ast.stmt]) -> Expression | None:
        """Return the value that *body* returns, None if it ends without one in some case."""
        for number, statement in enumerate(body):
            match statement:
                case ast.Return(value=None):
                    return None
                case ast.Return():
                    return self.convert(statement.value)
                case ast.If():
                    return self._branches(function, statement, body[number + 1 :])
                case _:
                    self._assign(function, statement)
        return None

    def _branches(self, function: LocalFunction, node: ast.If, rest: Sequence[ast.stmt]) -> Expression | None:
        self.paths += 1
        if self.paths > _MOST_PATHS:
            hint = "write x if c else y, and fewer 'if' one after the other"
            self.scope.deny(node, "unsupported-statement", f"'{function.tree.name}' has very many paths", hint)
        condition, before = self.condition(node.test), self.scope.view
        found = self._run(function, [*node.body, *rest])
        self.scope.view = before
        other = self._run(function, [*node.orelse, *rest])
        self.scope.view = before
        return None if found is None or other is None else p.If(condition, found, other)

    def _assign(self, function: LocalFunction, node: ast.stmt) -> None:
        """Read an assignment to variables of *function*; refuse any other statement."""
        match node:
            case ast.Pass() | ast.Expr(value=ast.Constant()):
                return
            case ast.Assign(targets=targets) if all(isinstance(target, ast.Name) for target in targets):
                value = self.convert(node.value)
                self.scope.bind({target.id: value for target in targets if isinstance(target, ast.Name)})
            case ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.Tuple(elts=values)) if (
                len(targets) == len(values) and all(isinstance(target, ast.Name) for target in targets)
            ):
                new = list(map(self.convert, values))
                self.scope.bind({x.id: value for x, value in zip(targets, new, strict=True) if isinstance(x, ast.Name)})
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr()):
                dtype = self.typed(node.annotation)
                self.scope.bind({name: TypeCast(dtype_name(dtype), self.convert(node.value))})
            case ast.AugAssign(target=ast.Name(id=name) as target):
                self.scope.bind({name: self.updated(node, self.convert(target))})
            case _:
                what = "a function in a kernel assigns variables of its own, and returns one value"
                hint = f"write def {function.tree.name}(x): return ..., and loops and arrays outside of it"
                self.scope.deny(node, "unsupported-statement", what, hint)


def called(expr: Expression) -> frozenset[str]:
    """Return the names of the functions that *expr* calls."""
    own = {function_name(expr)} if isinstance(expr, p.Call) else set()
    return frozenset(own).union(*(called(child) for child in children(expr)))
