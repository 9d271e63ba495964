"""Renaming of bound inames: those of rules and reductions, where an enclosing loop or reduction has the same one.

``f(p) := sum(q, a[q, p])`` reduces over its own ``q`` at each use.  Inames belong to the kernel, each with a domain: if
a reduction is over the iname of a loop or a reduction around it, the inner one gets a copy.  Then nested inames are
distinct in every statement, and substitution cannot capture a name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence

import islpy as isl
import pymbolic.primitives as p

from polyloop.expr.nodes import Expression, Lookup, Reduction, Targets, array_name
from polyloop.expr.printer import show
from polyloop.expr.rewrite import (
    children,
    free_variables,
    map_nodes,
    rebuild_changed,
    reductions,
    substitute,
    variables,
)
from polyloop.expr.rules import MARK, check_rules, expand_apart, names_in
from polyloop.frozen import replace
from polyloop.kernel.build.domains.shared_domains import written
from polyloop.kernel.build.draft import fail, site_of
from polyloop.kernel.build.plain.desugar import Names
from polyloop.kernel.build.plain.foreign import mapped_call
from polyloop.kernel.domains import outer_inames
from polyloop.kernel.instruction import SubstitutionRule
from polyloop.kernel.kernel import Domain
from polyloop.kernel.text.parser import Parsed, ParsedCall, ParsedInstruction, ParsedRule
from polyloop.poly.affine import Affine
from polyloop.poly.sets import rename_dims

__all__ = ["plain_left_sides", "reduced_apart", "refuse_misplaced"]

_SET = isl.dim_type.set
_PARAM = isl.dim_type.param


def plain_left_sides(entries: Sequence[Parsed]) -> list[Parsed]:
    """Return *entries* with rules in right sides only: expanded in subscripts of left sides, conditions and calls."""
    rules = {entry.rule.name: entry.rule for entry in entries if isinstance(entry, ParsedRule)}
    if not rules:
        return list(entries)
    check_rules(rules)

    return [_plain(entry, rules) for entry in entries]


def _plain(entry: Parsed, rules: Mapping[str, SubstitutionRule]) -> Parsed:
    def expanded(expr: Expression) -> Expression:
        return expand_apart(expr, rules)

    if isinstance(entry, ParsedCall):
        frame = _plain_statement(entry.frame, expanded)
        return replace(mapped_call(entry, expanded), frame=frame)
    return _plain_statement(entry, expanded) if isinstance(entry, ParsedInstruction) else entry


def _plain_statement(
    entry: ParsedInstruction, expanded: Callable[[Expression], Expression]
) -> ParsedInstruction:
    predicates = tuple(map(expanded, entry.predicates))
    target = _target(entry.assignee, expanded)
    if type(target) is not p.Subscript:
        return replace(entry, assignee=target, predicates=predicates)
    name = array_name(target)

    def updated(node: Expression) -> Expression:
        """Return an element that equals the target in the target's spelling, by which updates are recognised."""
        is_like = type(node) is p.Subscript and node != target and array_name(node) == name
        return target if is_like and _target(node, expanded) == target else node

    return replace(entry, assignee=target, expression=map_nodes(entry.expression, updated), predicates=predicates)


def _target(assignee: Expression, expanded: Callable[[Expression], Expression]) -> Expression:
    """Return a left side with its subscripts *expanded*; its array keeps its name."""
    if isinstance(assignee, p.Variable):
        return assignee
    if isinstance(assignee, Targets | Lookup):
        old = children(assignee)
        return rebuild_changed(assignee, old, tuple(_target(part, expanded) for part in old))
    old = children(assignee)
    return rebuild_changed(assignee, old, tuple(map(expanded, old)))


def refuse_misplaced(entry: ParsedInstruction, name: str) -> None:
    """Raise ``misplaced-reduction`` for a reduction on the left side or in a condition of *entry*."""
    for what, exprs in (("a condition", entry.predicates), ("the left side", (entry.assignee,))):
        found = next((node for expr in exprs for node in reductions(expr)), None)
        if found is not None:
            text = re.sub(f"{MARK}[0-9]+", "", show(found))
            message = f"{what} of '{name}' has a reduction in it: {text}"
            hint = f"compute it into a temporary: <> t = {text}"
            raise fail("misplaced-reduction", message, hints=(hint,), site=site_of(entry, name))


def reduced_apart(
    entries: Sequence[Parsed], pieces: Sequence[Domain], rules: Mapping[str, SubstitutionRule], taken: Collection[str]
) -> tuple[list[Parsed], tuple[Domain, ...], dict[str, SubstitutionRule]]:
    """Return *entries* in which no reduction is over an iname of a loop or a reduction around it, domains and rules.

    A statement with such reductions is written without rules from then on, and rules with such are gone.  A loop and a
    reduction that the text of one statement has over the same iname stay, to be refused: that is hardly meant.
    """
    apart = _Apart(pieces, rules, Names(taken))
    found = [apart.statement(entry) if isinstance(entry, ParsedInstruction) else entry for entry in entries]
    return found, tuple(apart.pieces), {name: rule for name, rule in rules.items() if name not in apart.gone}


def _meeting(rules: Mapping[str, SubstitutionRule]) -> frozenset[str]:
    """Return the rules with a reduction whose iname has another meaning around it, and the rules that use them."""
    uses = {name: names_in(rule.value) for name, rule in rules.items()}
    found = {name for name, rule in rules.items() if _meets(rule.value, rules)}
    while more := {name for name in uses if name not in found and not found.isdisjoint(uses[name])}:
        found |= more
    return frozenset(found)


def _meets(expr: Expression, rules: Mapping[str, SubstitutionRule]) -> bool:
    """Return whether a reduction in *expr*, expanded, is over an iname that means something else around it."""

    def visit(node: Expression, around: frozenset[str]) -> bool:
        if isinstance(node, Reduction):
            wishes = {iname: iname.partition(MARK)[0] for iname in node.inames}
            outside = around.union(free_variables(node.expr) - {*node.inames})
            if not outside.isdisjoint(wishes.values()):
                return True
            around = around.union(wishes.values())
        return any(visit(part, around) for part in children(node))

    return visit(expand_apart(expr, rules), frozenset())


class _Apart:
    """The domains so far, and the names in use."""

    def __init__(self, pieces: Sequence[Domain], rules: Mapping[str, SubstitutionRule], names: Names) -> None:
        self.pieces = list(pieces)
        self.inames = frozenset(iname for piece in pieces for iname in piece.inames)
        self.rules = rules
        self.names = names
        self.reducing = any(reductions(rule.value) for rule in rules.values())
        self.gone = _meeting(rules) if self.reducing else frozenset[str]()
        self.is_changed = False

    def may_meet(self, expr: Expression) -> bool:
        """Return whether a reduction in *expr* may be over the iname of another one, or of a loop around its rule."""
        found = [iname for node in reductions(expr) for iname in node.inames]
        return self.reducing or len(set(found)) < len(found) or any(MARK in iname for iname in found)

    def statement(self, entry: ParsedInstruction) -> ParsedInstruction:
        """Return *entry* with copies of the inames of its reductions where loops or reductions around have them."""
        if not self.may_meet(entry.expression):
            return entry
        marked = expand_apart(entry.expression, self.rules)
        loops = entry.loops.named().union(free_variables(marked))
        loops = loops.union(*map(variables, (entry.assignee, *entry.predicates))) & self.inames
        written = {iname for node in reductions(entry.expression) for iname in node.inames}
        self.is_changed = any(MARK in iname for iname in written) or not self.gone.isdisjoint(
            names_in(entry.expression)
        )
        expression = self.visit(marked, frozenset(loops), frozenset(), {})
        return replace(entry, expression=expression) if self.is_changed else entry

    def visit(
        self, expr: Expression, loops: frozenset[str], around: frozenset[str], copies: Mapping[str, str]
    ) -> Expression:
        """Return *expr* inside of *loops* and of reductions over *around*, with inames that are *copies* of others."""
        if isinstance(expr, Reduction):
            return self.reduction(expr, loops, around, copies)
        old = children(expr)
        return rebuild_changed(expr, old, tuple(self.visit(part, loops, around, copies) for part in old))

    def reduction(
        self, node: Reduction, loops: frozenset[str], around: frozenset[str], copies: Mapping[str, str]
    ) -> Expression:
        """Return a reduction under the names of the text, or of copies of them."""
        wishes = {iname: iname.partition(MARK)[0] for iname in node.inames}
        twice = [wish for iname, wish in wishes.items() if wish in around or (wish in loops and iname != wish)]
        chosen = self.related([*copies, *twice], [*wishes.values()]) if copies or twice else []
        new = {wish: self.names.fresh(wish) for wish in chosen}
        self.is_changed = self.is_changed or bool(new)
        inside = {**{old: name for old, name in copies.items() if old not in wishes.values()}, **new}
        if new:
            self.copy(new, inside, loops | around)
        names = {iname: new.get(wish, wish) for iname, wish in wishes.items()}
        renamed = {old: p.Variable(name) for old, name in names.items() if name != old}
        if renamed:
            node = _under(node, renamed)
        body = self.visit(node.expr, loops, around.union(node.inames), inside)
        return replace(node, expr=body)

    def related(self, first: Sequence[str], wanted: Sequence[str]) -> list[str]:
        """Return the inames of *wanted* that share a domain with *first* or depend on it, transitively."""
        found = set(first)
        outer = outer_inames(self.pieces)
        together = {iname: piece.inames for piece in self.pieces for iname in piece.inames}
        while more := {
            iname for iname in wanted if iname not in found
            and not found.isdisjoint((*together.get(iname, ()), *outer.get(iname, ())))
        }:
            found |= more
        return [iname for iname in wanted if iname in found]

    def copy(self, new: Mapping[str, str], copies: Mapping[str, str], around: Collection[str]) -> None:
        """Add domains for the copies *new*, bounded by other *copies* and by inames *around*."""
        for place in range(len(self.pieces) - 1, -1, -1):
            piece = self.pieces[place]
            own = [iname for iname in piece.inames if iname in new]
            if own:
                kept = [x for x in piece.inames if x not in new and (x in copies or x in around)]
                whole = written(piece).restricted([*own, *kept])
                result = whole.set
                for _ in kept:
                    if result.involves_dims(_SET, len(own), 1):
                        result = result.move_dims(_PARAM, result.dim(_PARAM), _SET, len(own), 1)
                    else:
                        result = result.project_out(_SET, len(own), 1)
                forms = {old: Affine.variable(name) for old, name in copies.items()}
                inames = tuple(new[iname] for iname in own)
                self.pieces.insert(place + 1, written(whole).changed(inames, rename_dims(result, copies), forms))


def _under(node: Reduction, renamed: Mapping[str, Expression]) -> Reduction:
    """Return *node* with its inames *renamed*, where it does not bind them again further inside."""
    result = substitute(node, renamed)
    assert isinstance(result, Reduction), "a reduction stays one"
    return result
