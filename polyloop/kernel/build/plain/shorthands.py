"""Words of expressions that stand for others: ``clamp(x, low, high)``, ``nan``, ``inf``; tagged names, ``a$left``."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from math import inf, nan
from typing import Final

import pymbolic.primitives as p

from polyloop.expr.names import tagged_name
from polyloop.expr.nodes import Expression, array_name, function_name, targets_of
from polyloop.expr.rewrite import map_nodes
from polyloop.frozen import replace
from polyloop.kernel.build.draft import fail, site_of
from polyloop.kernel.build.plain.foreign import mapped
from polyloop.kernel.instruction import SubstitutionRule
from polyloop.kernel.text.parser import Parsed, ParsedCall, ParsedInstruction, ParsedRule

__all__ = ["without_shorthands", "without_tags"]

_NUMBERS: Final[Mapping[str, float]] = {"nan": nan, "inf": inf}


def without_shorthands(
    parsed: Sequence[Parsed], names: Iterable[str], functions: Collection[str]
) -> Sequence[Parsed]:  # fmt: skip
    """Return the statements with the words that no variable, rule or function is called by written out.

    ::

        y = clamp(x, 0, 1)    =>    y = min(max(x, 0), 1)

    Parameters
    ----------
    names
        Names in kernel data and domains.
    functions
        Names of foreign functions.
    """
    taken = {*names, *functions}
    taken.update(entry.rule.name for entry in parsed if isinstance(entry, ParsedRule))
    taken.update(name for entry in parsed if isinstance(entry, ParsedRule) for name in entry.rule.arguments)
    for entry in parsed:
        if isinstance(entry, ParsedInstruction):
            taken.update(map(array_name, targets_of(entry.assignee)))
    has_clamp = "clamp" not in taken
    numbers = {name: value for name, value in _NUMBERS.items() if name not in taken}

    def written_out(node: Expression) -> Expression:
        if type(node) is p.Variable:
            return numbers.get(node.name, node)
        if has_clamp and type(node) is p.Call and function_name(node) == "clamp" and len(node.parameters) == 3:
            value, low, high = node.parameters
            return p.Min((p.Max((value, low)), high))
        return node

    return [mapped(entry, lambda expr: map_nodes(expr, written_out)) for entry in parsed]


# {{{ tagged names


def without_tags(parsed: Sequence[Parsed], names: Iterable[str]) -> Sequence[Parsed]:
    """Return the statements with a rule for each tag, by which steps can tell some uses of a name from others.

    ::

        b[i] = a$left[i] + a[i]    =>    a_left(i) := a[i]
                                         b[i] = a_left(i) + a[i]

    So for calls of a rule: ``f$one(x)``.  A tag of what is assigned says nothing.

    Raises
    ------
    KernelError
        ``name-taken``: something else is called ``a_left``.
    """
    rules = _TagRules()
    statements: list[Parsed] = []
    uses: dict[str, Parsed] = {}
    for given in parsed:
        entry = given
        if isinstance(given, ParsedInstruction):
            entry = replace(given, assignee=map_nodes(given.assignee, _untagged))
        known = {*rules.found}
        statements.append(mapped(entry, lambda expr: map_nodes(expr, rules.plain)))
        uses.update((name, entry) for name in rules.found.keys() - known)
    if not rules.found:
        return statements
    taken = {*names}.union(name for entry in parsed for name in _named(entry))
    for name in rules.found.keys() & taken:
        where = uses[name]
        site = site_of(where) if isinstance(where, ParsedInstruction) else None
        message = f"the rule of a tagged name would be called '{name}', as something else is"
        raise fail("name-taken", message, hints=("choose another tag",), site=site)
    place = statements[0].frame.place if isinstance(statements[0], ParsedCall) else statements[0].place
    return [*(ParsedRule(rule, place) for rule in rules.found.values()), *statements]


class _TagRules:
    """The rules of tagged names, as they are found."""

    def __init__(self) -> None:
        self.found: dict[str, SubstitutionRule] = {}

    def plain(self, node: Expression) -> Expression:
        """Return a node, whose operands are plain, as a call of its rule if its name is tagged."""
        if type(node) is p.Variable and "$" in node.name:
            return self._ruled(node.name, (), lambda name, _: p.Variable(name))
        if type(node) is p.Subscript and "$" in array_name(node):
            name, index = array_name(node), node.index_tuple
            return self._ruled(name, index, lambda base, over: p.Subscript(p.Variable(base), over))
        if type(node) is p.Call and "$" in function_name(node):
            return self._ruled(function_name(node), node.parameters, lambda name, over: p.Call(p.Variable(name), over))
        return node

    def _ruled(
        self, name: str, arguments: tuple[Expression, ...], spelt: Callable[[str, tuple[Expression, ...]], Expression]
    ) -> Expression:  # fmt: skip
        own, parameters = tagged_name(name), [f"x{number}" for number in range(len(arguments))]
        value = spelt(name.partition("$")[0], tuple(map(p.Variable, parameters)))
        self.found.setdefault(own, SubstitutionRule.of(own, parameters, value))
        return p.Call(p.Variable(own), arguments) if arguments else p.Variable(own)


def _untagged(node: Expression) -> Expression:
    if type(node) is p.Variable:
        return p.Variable(node.name.partition("$")[0])
    if type(node) is p.Subscript:
        return p.Subscript(p.Variable(array_name(node).partition("$")[0]), node.index)
    return node


def _named(entry: Parsed) -> Iterable[str]:
    if isinstance(entry, ParsedInstruction):
        return map(array_name, targets_of(entry.assignee))
    return (entry.rule.name,) if isinstance(entry, ParsedRule) else ()


# }}}
