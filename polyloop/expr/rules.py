"""Substitution rules: hygienic parameters, and expansion of uses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import count
from typing import Any, Final, NamedTuple, NoReturn, Protocol

import pymbolic.primitives as p

from polyloop.errors import Diagnostic, KernelError
from polyloop.expr.nodes import Expression, Reduction, array_name, function_name
from polyloop.expr.rewrite import (
    accesses,
    calls,
    children,
    map_nodes,
    rebuild_changed,
    reductions,
    substitute,
    variables,
)

__all__ = ["MARK", "Rule", "bind", "check_rules", "expand_apart", "expand_rules", "is_parameter", "names_in", "unbind"]

MARK: Final = "@"
"""Prefix of the names of parameters inside of rules.  No name in a text begins with it."""


class Rule(Protocol):
    """A substitution rule; its value is in terms of its parameters, which :func:`bind` made."""

    @property
    def parameters(self) -> tuple[str, ...]:
        """Names of the parameters."""

    @property
    def value(self) -> Expression:
        """The value, in terms of the parameters."""


def bind(names: Sequence[str], expr: Expression) -> tuple[tuple[str, ...], Expression]:
    """Return the parameters that *names* in *expr* become, and *expr* in terms of them.

    A parameter's name is unique: changes of other names do not affect it, and its argument is substituted unchanged.  A
    reduction in *expr* over one of *names* binds its own.
    """
    parameters = tuple(MARK + name for name in names)
    mapping = {name: p.Variable(parameter) for name, parameter in zip(names, parameters, strict=True)}
    return parameters, _bound(expr, mapping) if mapping else expr


def _bound(expr: Expression, mapping: Mapping[str, Expression]) -> Expression:
    if type(expr) is Reduction and not mapping.keys().isdisjoint(expr.inames):
        inside = {name: value for name, value in mapping.items() if name not in expr.inames}
        start = None if expr.start is None else _bound(expr.start, mapping)
        return replace(expr, expr=_bound(expr.expr, inside), start=start)
    if type(expr) is p.Variable:
        return mapping.get(expr.name, expr)
    if not isinstance(expr, p.ExpressionNode):
        return expr
    old = children(expr)
    new = rebuild_changed(expr, old, tuple(_bound(child, mapping) for child in old))
    if type(new) is p.Subscript and array_name(new) in mapping:
        return p.Subscript(mapping[array_name(new)], new.index)
    return new


def names_in(expr: Expression) -> frozenset[str]:
    """Return the names of variables and functions in *expr*."""
    return variables(expr).union([function_name(call) for call in calls(expr)])


def is_parameter(name: str) -> bool:
    """Return whether *name* is that of a parameter inside of a rule."""
    return name.startswith(MARK)


def unbind(parameters: Sequence[str], expr: Expression) -> tuple[tuple[str, ...], Expression]:
    """Return names for *parameters* that people can read, and *expr* in terms of them.

    A parameter is called what it was called in the text, with a number where *expr* means something else by that.
    """
    taken = {*variables(expr), *(iname for node in reductions(expr) for iname in node.inames)}
    names: list[str] = []
    for parameter in parameters:
        wish = name = parameter.removeprefix(MARK)
        number = 0
        while name in taken:
            name = f"{wish}_{number}"
            number += 1
        taken.add(name)
        names.append(name)
    mapping = {old: p.Variable(new) for old, new in zip(parameters, names, strict=True)}
    return tuple(names), substitute(expr, mapping)


def expand_rules(expr: Expression, rules: Mapping[str, Rule], operation: str = "make_kernel") -> Expression:
    """Replace each use of a substitution rule by its value, until none is left.

    A rule without parameters may be used as ``f`` or ``f()``.

    Raises
    ------
    KernelError
        ``wrong-argument-count``, ``recursive-rule``, ``rule-too-large``, ``bad-rule-argument`` (an expression where
        the rule subscripts its parameter), ``captured-name``.
    """
    if not rules or rules.keys().isdisjoint(names_in(expr)):
        return expr
    return _Expansion(rules, operation).whole(expr)


def expand_apart(expr: Expression, rules: Mapping[str, Rule]) -> Expression:
    """Return *expr* with rules expanded, and fresh names for the inames that each use of a rule reduces over.

    ``q`` becomes ``q@1``, ``q@2``, ..: nothing in a text has such a name, and nothing else that was expanded so, and
    nothing is captured.  :func:`polyloop.kernel.build.plain.binders.reduced_apart` gives them names that people can
    read.
    """
    expansion = _Expansion(rules, "make_kernel")
    expansion.is_apart = True
    return expansion.whole(expr)


_uses: Final = count(1)
"""Numbers of the uses of rules in :func:`expand_apart`."""


def check_rules(rules: Mapping[str, Rule], operation: str = "make_kernel") -> None:
    """Refuse *rules* that cannot be expanded, used or not.

    Raises
    ------
    KernelError
        As :func:`expand_rules`.
    """
    expansion = _Expansion(rules, operation)
    for name in rules:
        expansion.size(name)


_LARGEST: Final = 1 << 16
"""Largest number of nodes of an expression with its rules expanded."""


def _marked(node: Expression) -> Expression:
    if type(node) is not Reduction:
        return node
    number = next(_uses)
    names = {iname: f"{iname.partition(MARK)[0]}{MARK}{number}" for iname in node.inames}
    return substitute(node, {old: p.Variable(new) for old, new in names.items()})


class _Size(NamedTuple):
    """The number of nodes of an expression with its rules expanded, and how often it has each parameter in it."""

    nodes: int
    parameters: Mapping[str, int]


class _Expansion:
    """State of one expansion: the rules, the stack of rules in expansion, and sizes and values found so far."""

    def __init__(self, rules: Mapping[str, Rule], operation: str) -> None:
        self.rules = rules
        self.operation = operation
        self.active: list[str] = []
        self.sizes: dict[str, _Size] = {}
        self.values: dict[str, Expression] = {}
        self.is_apart = False

    def fail(self, diagnostic: Diagnostic) -> NoReturn:
        raise KernelError(self.operation, None, [diagnostic])

    def whole(self, expr: Expression) -> Expression:
        """Return *expr* expanded, if that is not too large."""
        if not any(name in self.rules for name in names_in(expr)):
            return expr
        self.check(self.measured(expr), "the statement")
        return self.expand(expr)

    def expand(self, expr: Expression) -> Expression:
        def use(node: Expression) -> Expression:
            kind = type(node)
            if kind is p.Call and node.function.name in self.rules:
                return self.apply(node.function.name, node.parameters)
            if kind is p.Variable and node.name in self.rules:
                return self.apply(node.name, ())
            return node

        return map_nodes(expr, use)

    def apply(self, name: str, arguments: tuple[Expression, ...]) -> Expression:
        value, parameters = self.value(name), self.rules[name].parameters
        subscripted = {array_name(node) for node in accesses(value) if type(node) is p.Subscript}
        for parameter, argument in zip(parameters, arguments, strict=True):
            if parameter in subscripted and type(argument) is not p.Variable:
                shown = parameter.removeprefix(MARK)
                message = f"rule '{name}' subscripts its parameter '{shown}', which is given an expression"
                self.fail(Diagnostic("bad-rule-argument", message, hints=("pass the name of an array",)))
        if self.is_apart and reductions(value):
            value = map_nodes(value, _marked)
        return substitute(value, dict(zip(parameters, arguments, strict=True)))

    def value(self, name: str) -> Expression:
        """Return the value of a rule, expanded."""
        if name not in self.values:
            self.values[name] = self.expand(self.rules[name].value)
        return self.values[name]

    # sizes

    def check(self, size: _Size, what: str) -> None:
        if size.nodes > _LARGEST:
            hint = "let an instruction compute the value of a rule into a temporary, and use that: <> t = f(i)"
            message = f"{what} has {size.nodes} operations and operands when its rules are expanded"
            self.fail(Diagnostic("rule-too-large", message, (f"at most {_LARGEST} are allowed",), (hint,)))

    def size(self, name: str) -> _Size:
        """Return the size of the value of a rule."""
        if name in self.active:
            circle = " -> ".join([*self.active[self.active.index(name) :], name])
            hint = "a rule is text that is put in place: compute the recurrence with a loop"
            self.fail(Diagnostic("recursive-rule", f"rule '{name}' uses itself", (circle,), (hint,)))
        if name not in self.sizes:
            self.active.append(name)
            self.sizes[name] = self.measured(self.rules[name].value)
            self.check(self.sizes[name], f"rule '{name}'")
            self.active.pop()
        return self.sizes[name]

    def measured(self, expr: Expression) -> _Size:
        """Return the size of *expr*, without expanding it."""
        node: Any = expr
        kind = type(node)
        parts = tuple(map(self.measured, children(node)))
        if kind is p.Variable and is_parameter(node.name):
            return _Size(0, {node.name: 1})
        if kind is p.Variable and node.name in self.rules:
            return self.used(node.name, ())
        if kind is p.Call and node.function.name in self.rules:
            return self.used(node.function.name, parts)
        return _sum(parts, (1,) * len(parts), 1)

    def used(self, name: str, arguments: tuple[_Size, ...]) -> _Size:
        """Return the size of a use of a rule, whose arguments have the sizes *arguments*."""
        parameters = self.rules[name].parameters
        if len(parameters) != len(arguments):
            wanted = f"{len(parameters)} argument{'' if len(parameters) == 1 else 's'}"
            message = f"rule '{name}' takes {wanted}, not {len(arguments)}"
            hint = f"write {name}({', '.join(parameter.removeprefix(MARK) for parameter in parameters)})"
            self.fail(Diagnostic("wrong-argument-count", message, hints=(hint,)))
        own = self.size(name)
        return _sum(arguments, [own.parameters.get(parameter, 0) for parameter in parameters], own.nodes)


def _sum(parts: Sequence[_Size], times: Sequence[int], nodes: int) -> _Size:
    """Return the size of *nodes* and of *parts*, each of which occurs as often as *times* says."""
    found: dict[str, int] = {}
    for part, uses in zip(parts, times, strict=True):
        if uses:
            nodes += uses * part.nodes
            for name, often in part.parameters.items():
                found[name] = found.get(name, 0) + uses * often
    return _Size(nodes, found)
