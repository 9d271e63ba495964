"""Scalar expansion at written barriers: the loop that a barrier divides, and temporaries that are live across it.

A barrier inside ``for`` divides the innermost loop of the statements around it into two loops.  A scalar set in the
first loop and read in the second would have the value of the last iteration only: it is expanded to one element for
each iteration.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import pymbolic.primitives as p

from polyloop.expr.nodes import CText, Expression, array_name, targets_of
from polyloop.expr.rewrite import accesses, map_nodes, reductions, variables
from polyloop.expr.rules import expand_rules
from polyloop.frozen import replace
from polyloop.kernel.arrays import TemporaryVariable
from polyloop.kernel.build.draft import BarrierDraft, Draft, fail, site_of
from polyloop.kernel.instruction import SubstitutionRule
from polyloop.kernel.text.options import Division, Loops
from polyloop.kernel.text.parser import Parsed, ParsedBarrier, ParsedInstruction

__all__ = ["expand_crossing", "settle_barriers"]

Rules: TypeAlias = Mapping[str, SubstitutionRule]
_Numbered: TypeAlias = tuple[str, int | None]
"""A loop: its iname, and the number of its written block if it has one."""


# {{{ which loop a barrier closes


def settle_barriers(
    entries: Sequence[Parsed], rules: Rules, inames: frozenset[str], division: Division = Division.INNERMOST
) -> list[Parsed]:
    """Return *entries* in which barriers close no written loop around statements that have loops further inside.

    ``for t`` / ``b[i] = a[i]`` / ``... lbarrier`` / ``a[i] = b[i - 1]`` / ``end``: the innermost loop is that over
    ``i``, which the barrier divides, and it runs in each iteration of ``t``.
    """
    found = list(entries)
    for iname, numbers in _cut_loops(entries):
        if any(_is_around_others(entry, iname, numbers, rules, inames) for entry in entries):
            found = [_uncut(entry, iname, numbers) for entry in found]
        elif division is Division.OUTER:
            found = _turned(found, iname, numbers, rules)
        elif division is Division.NONE:
            found = [_uncut(entry, iname, numbers) for entry in found]
    return found


def _turned(entries: Sequence[Parsed], iname: str, numbers: frozenset[int], rules: Rules) -> list[Parsed]:
    """Return *entries* with a divided loop around the one that was around it, which is divided in its place.

    ::

        for i: s[i] = 0; for t: barrier; r = s[7 - i]; barrier; s[i] = r + a[t]
        ->
        (for i: s[i] = 0); for t: barrier; (for i: r[i] = s[7 - i]); barrier; (for i: s[i] = r[i] + a[t])

    What stands in the loop around beside the divided one is in loops of its own.  If a scalar is passed between the
    two, or from an iteration of the divided loop to the next, the result is *entries*.
    """
    placed = [entry for entry in entries if isinstance(entry, ParsedInstruction | ParsedBarrier)]
    inside = [isinstance(e, ParsedInstruction) and not numbers.isdisjoint(e.loops.numbers) for e in entries]
    first, last = inside.index(True), len(inside) - 1 - inside[::-1].index(True)
    found = [entry.loops for entry in placed if not numbers.isdisjoint(entry.loops.numbers)]
    around = {loops.numbers[: loops.written.index(iname)] for loops in found}
    if len(around) != 1 or not (outside := next(iter(around))):
        return [*entries]
    depth, whole = len(outside) - 1, outside[-1]
    if _passes_scalars(entries, whole, (first, last), rules):
        return [*entries]
    free = max(*numbers, *(n for entry in placed for n in entry.loops.numbers)) + 1
    parts = {n: free + k for k, n in enumerate(sorted(numbers))}
    if not any(isinstance(e, ParsedInstruction) and whole in e.loops.numbers for e in entries[:first]):
        parts[min(numbers)] = whole
    outer = found[0].written[depth]

    def turned(place: int, entry: Parsed) -> Parsed:
        if not isinstance(entry, ParsedInstruction | ParsedBarrier):
            return entry
        written, given = entry.loops.written, entry.loops.numbers
        if isinstance(entry, ParsedBarrier) and entry.closed is not None and entry.closed[1] in numbers:
            _, old, new = entry.closed
            loops = replace(entry.loops, written=(*written[:depth], iname), numbers=(*outside[:depth], min(numbers)))
            return replace(entry, loops=loops, closed=(outer, parts[old], parts[new]))
        if numbers.isdisjoint(given):
            if place < last or whole not in given:
                return entry
            behind = tuple(free + len(numbers) if n == whole else n for n in given)
            return replace(entry, loops=replace(entry.loops, numbers=behind))
        loops = replace(
            entry.loops,
            written=(*written[:depth], iname, outer, *written[depth + 2 :]),
            numbers=(*given[:depth], min(numbers), parts[given[depth + 1]], *given[depth + 2 :]),
        )
        return replace(entry, loops=loops)

    return [turned(place, entry) for place, entry in enumerate(entries)]


def _passes_scalars(entries: Sequence[Parsed], whole: int, inside: tuple[int, int], rules: Rules) -> bool:
    """Return whether the loop *whole* sets a scalar for statements on the other side of the ends of *inside*.

    An iteration of the loop inside sets it for the next one, too, if it does not begin with a value of its own.
    """
    users: dict[str, list[tuple[int, bool]]] = {}
    for place, entry in enumerate(entries):
        if not isinstance(entry, ParsedInstruction) or whole not in entry.loops.numbers:
            continue
        used = variables(expand_rules(entry.expression, rules)).union(
            *(variables(expand_rules(predicate, rules)) for predicate in entry.predicates))  # fmt: skip
        piece = (place >= inside[0]) + (place > inside[1])
        name = entry.assignee.name if isinstance(entry.assignee, p.Variable) else None
        for each in used.union(variables(entry.assignee)):
            begins = each == name and each not in used and not entry.predicates
            users.setdefault(each, []).append((piece, begins))
    scalars = {e.assignee.name for e in entries if isinstance(e, ParsedInstruction) and whole in e.loops.numbers
               and isinstance(e.assignee, p.Variable)}  # fmt: skip
    return any(
        len({piece for piece, _ in users[name]}) > 1 or (users[name][0][0] == 1 and not users[name][0][1])
        for name in scalars
    )


def _cut_loops(entries: Sequence[Parsed]) -> list[tuple[str, frozenset[int]]]:
    """Return the written loops that barriers close, each with the numbers of its parts."""
    loops: list[tuple[str, frozenset[int]]] = []
    for entry in entries:
        if not isinstance(entry, ParsedBarrier) or entry.closed is None:
            continue
        iname, old, new = entry.closed
        known = next((loop for loop in loops if old in loop[1]), None)
        if known is None:
            loops.append((iname, frozenset((old, new))))
        else:
            loops[loops.index(known)] = (iname, known[1] | {new})
    return loops


def _is_around_others(
    entry: Parsed, iname: str, numbers: frozenset[int], rules: Rules, inames: frozenset[str]
) -> bool:
    """Return whether *entry* is in the loop *iname* and has loops inside it or beside it."""
    if not isinstance(entry, ParsedInstruction) or numbers.isdisjoint(entry.loops.numbers):
        return False
    around = entry.loops.written[: entry.loops.written.index(iname) + 1]
    own = {*entry.loops.named()}
    if entry.loops.only is None:
        value = expand_rules(entry.expression, rules)
        own |= variables(value) & inames - {x for reduction in reductions(value) for x in reduction.inames}
        for expr in (entry.assignee, *entry.predicates):
            own |= variables(expr) & inames
    return not own <= {*around}


def _uncut(entry: Parsed, iname: str, numbers: frozenset[int]) -> Parsed:
    if not isinstance(entry, ParsedInstruction | ParsedBarrier):
        return entry
    first = min(numbers)
    loops = replace(entry.loops, numbers=tuple(first if n in numbers else n for n in entry.loops.numbers))
    if isinstance(entry, ParsedBarrier) and entry.closed is not None and entry.closed[1] in numbers:
        return replace(entry, loops=Loops((*loops.written, iname), (*loops.numbers, first)), closed=None)
    return replace(entry, loops=loops)


# }}}
# {{{ temporaries live across barriers


@dataclass(frozen=True)
class _Crossing:
    """Temporary ``name`` holds values across a barrier in ``loops``, which are over ``inames``."""

    name: str
    loops: frozenset[_Numbered]
    inames: tuple[str, ...]


class _Users:
    """The statements that mention each temporary."""

    def __init__(self, drafts: Sequence[Draft], temporaries: Mapping[str, TemporaryVariable], rules: Rules) -> None:
        self.drafts = drafts
        self.rules = rules
        self.of: dict[str, list[int]] = {}
        for number, draft in enumerate(drafts):
            mentioned = frozenset[str]().union(*(variables(expr) for expr in self.expressions(draft)))
            for name in mentioned & temporaries.keys():
                self.of.setdefault(name, []).append(number)

    def expressions(self, draft: Draft) -> Iterator[Expression]:
        """Yield the parts of a statement, rules expanded."""
        yield draft.parsed.assignee
        yield draft.expanded
        for predicate in draft.parsed.predicates:
            yield expand_rules(predicate, self.rules)

    def subscripted(self, name: str) -> frozenset[str]:
        """Return the names that occur in subscripts of *name*."""
        return frozenset(
            used
            for number in self.of[name]
            for expr in self.expressions(self.drafts[number])
            for access in accesses(expr)
            if array_name(access) == name
            for index in getattr(access, "index_tuple", ())
            for used in variables(index)
        )

    def begins(self, number: int, name: str) -> bool:
        """Return whether statement *number* sets the scalar *name* whatever it held."""
        draft = self.drafts[number]
        others = (draft.expanded, *draft.parsed.predicates)
        is_scalar = isinstance(draft.parsed.assignee, p.Variable) and draft.parsed.assignee.name == name
        return is_scalar and not draft.parsed.predicates and not any(name in variables(expr) for expr in others)


def expand_crossing(
    drafts: Sequence[Draft],
    barriers: Sequence[BarrierDraft],
    temporaries: Mapping[str, TemporaryVariable],
    rules: Rules,
    order: Sequence[str],
) -> dict[str, TemporaryVariable]:
    """Expand temporaries live across a barrier along the loops that it divides; return all temporaries.

    *order* lists all inames.

    Raises
    ------
    KernelError
        ``crosses-barrier``: a temporary is used outside of the loop too, or has a shape of its own.
    """
    known = dict(temporaries)
    parts = _parts(barriers)
    for barrier in barriers:
        users = _Users(drafts, known, rules)
        for name in users.of:
            loops = _divided(users, name, barrier, parts)
            if loops:
                inames = {iname for iname, _ in loops}
                crossing = _Crossing(name, loops, tuple(x for x in order if x in inames))
                _refuse(crossing, users, known, parts)
                for number in users.of[name]:
                    _subscript(drafts[number], crossing, rules)
                known[name] = replace(known[name], shape=None)
    return known


def _parts(barriers: Sequence[BarrierDraft]) -> dict[int, int]:
    """Return, for the number of each part of a divided loop, the number of the whole."""
    found = {}
    for _, numbers in _cut_loops([barrier.parsed for barrier in barriers]):
        found.update(dict.fromkeys(numbers, min(numbers)))
    return found


def _divided(users: _Users, name: str, barrier: BarrierDraft, parts: Mapping[int, int]) -> frozenset[_Numbered]:
    """Return the loops that *barrier* divides between a write of *name* and a use of its value."""
    outside = {*barrier.parsed.loops.numbers}
    here = [n for n in users.of[name] if outside <= {*users.drafts[n].parsed.loops.numbers}]
    before = [
        n for n in here if n < barrier.position and targets_of(users.drafts[n].parsed.assignee, name)
    ]
    after = [n for n in here if n >= barrier.position]
    if not before or not after or users.begins(after[0], name):
        return frozenset()
    free = frozenset(barrier.parsed.loops.written) | users.subscripted(name)
    written = {loop for n in before for loop in _loops(users.drafts[n], parts)}
    read = {loop for n in after for loop in _loops(users.drafts[n], parts)}
    return frozenset(loop for loop in written & read if loop[0] not in free)


def _loops(draft: Draft, parts: Mapping[int, int]) -> set[_Numbered]:
    """Return the loops of a statement; the parts of a divided one count as one."""
    written = dict(draft.parsed.loops.blocks())
    return {(x, parts.get(written[x], written[x]) if x in written else None) for x in draft.inames}


def _refuse(
    crossing: _Crossing, users: _Users, temporaries: Mapping[str, TemporaryVariable], parts: Mapping[int, int]
) -> None:
    name, first = crossing.name, crossing.inames[0]
    drafts = [users.drafts[n] for n in users.of[name]]
    texts = [d for d in drafts if isinstance(d.expanded, CText) and targets_of(d.parsed.assignee, name)]
    outside = texts or [draft for draft in drafts if not crossing.loops <= _loops(draft, parts)]
    if not outside and not temporaries[name].shape:
        return
    why = "is used outside of that loop too" if outside else "has a shape of its own"
    why = "is assigned by C text" if texts else why
    where = outside[0] if outside else drafts[0]
    raise fail(
        "crosses-barrier",
        f"'{name}' crosses a barrier in the loop '{first}', and {why}",
        notes=("the barrier closes the loop and opens it again: each iteration needs an element of its own",),
        hints=(f"subscript it: {name}[{first}], or put the barrier outside of the loop '{first}'",),
        site=site_of(where.parsed, where.id),
    )


def _subscript(draft: Draft, crossing: _Crossing, rules: Rules) -> None:
    inames = tuple(p.Variable(iname) for iname in crossing.inames)

    def visit(node: Expression) -> Expression:
        if isinstance(node, p.Variable) and node.name == crossing.name:
            return p.Subscript(node, inames[0] if len(inames) == 1 else inames)
        if isinstance(node, p.Subscript) and array_name(node) == crossing.name:
            return p.Subscript(node.aggregate, (*inames, *node.index_tuple))
        return node

    parsed = draft.parsed
    mentioned = crossing.name in variables(parsed.expression)
    draft.expanded = map_nodes(draft.expanded, visit)
    draft.parsed = replace(
        parsed,
        assignee=map_nodes(parsed.assignee, visit),
        expression=map_nodes(parsed.expression, visit) if mentioned else draft.expanded,
        predicates=tuple(map_nodes(expand_rules(predicate, rules), visit) for predicate in parsed.predicates),
    )


# }}}
