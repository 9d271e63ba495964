"""``cse(e)``: a common subexpression, assigned to a temporary ahead of its statement."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

import pymbolic.primitives as p

from polyloop.expr.nodes import Expression, Reduction, Shared
from polyloop.expr.rewrite import children, free_variables, map_nodes, rebuild, shared, variables
from polyloop.expr.rules import expand_rules
from polyloop.frozen import replace
from polyloop.kernel.build.plain.desugar import Names, in_front, names_in, value_under
from polyloop.kernel.instruction import SubstitutionRule
from polyloop.kernel.text.parser import Parsed, ParsedInstruction

__all__ = ["plain_rules", "share"]


def share(
    entries: Sequence[Parsed], rules: Mapping[str, SubstitutionRule], taken: Collection[str]
) -> list[Parsed]:
    """Return *entries* with each ``cse`` value computed by an instruction of its own in front.

    ::

        c[i] = cse(a[i] + b[i])*cse(a[i] + b[i])
        ->
        <> cse = a[i] + b[i]
        c[i] = cse*cse

    A value that reduction inames around it decide, or that is wanted only in a branch of a condition, stays where it
    stands: in front it would be another value, or read elements that the branch leaves out.  So do constants.
    """
    names = Names({*taken, *names_in(entries)})
    numbers = [entry.several for entry in entries if isinstance(entry, ParsedInstruction)]
    group = max((number for number in numbers if number is not None), default=-1) + 1
    found: list[Parsed] = []
    for entry in entries:
        if not isinstance(entry, ParsedInstruction):
            found.append(entry)
            continue
        parts = _shared_in(entry, rules, names)
        if len(parts) > 1 and entry.several is None:
            parts = [replace(part, several=group) for part in parts]
            group += 1
        found += parts
    return found


def plain_rules(rules: Mapping[str, SubstitutionRule]) -> dict[str, SubstitutionRule]:
    """Return *rules* without ``cse`` in their values."""
    return {name: rule.mapped(_plain) for name, rule in rules.items()}


def _shared_in(
    entry: ParsedInstruction, rules: Mapping[str, SubstitutionRule], names: Names
) -> list[ParsedInstruction]:
    expression = entry.expression
    expanded = expand_rules(expression, rules)
    if shared(expanded):
        expression = expanded
    elif not any(shared(part) for part in (entry.assignee, *entry.predicates)):
        return [entry]
    entry = replace(entry, predicates=tuple(map(_plain, entry.predicates)))
    wanted: dict[Expression, str | None] = {}
    for node in (*_always(entry.assignee, frozenset()), *_always(expression, frozenset())):
        wanted.setdefault(_plain(node.child), node.name)
    chosen = {value: names.fresh(name or "cse") for value, name in wanted.items() if variables(value)}
    before = []
    for value, name in chosen.items():
        others = {key: other for key, other in chosen.items() if key is not value}
        inside = next(node.child for node in _nodes(entry.assignee, expression) if _plain(node.child) == value)
        guarded, conditions = value_under(entry.predicates, _replaced(inside, others))
        made = in_front(entry, name, guarded, conditions, entry.id)
        before.append(replace(made, options=replace(made.options, atomic=False)))
    own = replace(entry, assignee=_replaced(entry.assignee, chosen), expression=_replaced(expression, chosen))
    return [*before, own]


def _nodes(*exprs: Expression) -> Iterable[Shared]:
    return (node for expr in exprs for node in shared(expr))


def _always(expr: Expression, bound: frozenset[str]) -> Iterator[Shared]:
    """Yield the ``cse`` values evaluated unconditionally in *expr*, innermost first.

    *bound* are the inames of the reductions around.
    """
    parts = children(expr)
    match expr:
        case p.If():
            parts = (expr.condition,)
        case p.LogicalAnd() | p.LogicalOr():
            parts = parts[:1]
        case Reduction():
            bound |= frozenset(expr.inames)
    for part in parts:
        yield from _always(part, bound)
    if isinstance(expr, Shared) and bound.isdisjoint(free_variables(expr.child)):
        yield expr


def _plain(expr: Expression) -> Expression:
    """Return *expr* with marked values in their places."""
    return map_nodes(expr, lambda node: node.child if isinstance(node, Shared) else node)


def _replaced(expr: Expression, chosen: Mapping[Expression, str]) -> Expression:
    """Return *expr* with the *chosen* values read from their temporaries, and the other marked ones in their places."""
    if isinstance(expr, Shared):
        name = chosen.get(_plain(expr.child))
        return _replaced(expr.child, chosen) if name is None else p.Variable(name)
    return _rebuilt(expr, tuple(_replaced(child, chosen) for child in children(expr)))


def _rebuilt(expr: Expression, new: tuple[Expression, ...]) -> Expression:
    old = children(expr)
    return expr if all(a is b for a, b in zip(old, new, strict=True)) else rebuild(expr, new)
