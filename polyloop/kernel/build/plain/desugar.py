"""Desugaring of one statement to several, ``a, b = x, y``, and of ``dup=`` to a loop of its own."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import groupby

import islpy as isl
import pymbolic.primitives as p

from polyloop.expr.nodes import Expression, Lookup, Reduction, array_name, function_name, targets_of
from polyloop.expr.rewrite import accesses, reductions, substitute, variables
from polyloop.expr.rules import expand_rules
from polyloop.frozen import replace
from polyloop.kernel.build.domains.shared_domains import written
from polyloop.kernel.build.draft import fail, site_of
from polyloop.kernel.domains import parameters_of
from polyloop.kernel.instruction import SubstitutionRule
from polyloop.kernel.kernel import Domain
from polyloop.kernel.layout import auto
from polyloop.kernel.text.parser import Parsed, ParsedBarrier, ParsedInstruction
from polyloop.poly.affine import Affine
from polyloop.poly.sets import insert_dims, rename_dims

__all__ = ["Names", "duplicate_inames", "in_front", "names_in", "spread", "value_under"]

_PARAM = isl.dim_type.param


class Names:
    """The names in use."""

    def __init__(self, taken: Collection[str]) -> None:
        self.taken = set(taken)

    def fresh(self, wish: str) -> str:
        """Return *wish*, with a number if it is taken, and mark the result as taken."""
        found = wish
        number = 0
        while found in self.taken:
            found = f"{wish}_{number}"
            number += 1
        self.taken.add(found)
        return found


def names_in(entries: Sequence[Parsed]) -> frozenset[str]:
    """Return the names of variables that the text mentions."""
    found: set[str] = set()
    for entry in entries:
        if isinstance(entry, ParsedInstruction):
            found.update(*map(variables, entry.parts()))
    return frozenset(found)


def _groups(entries: Sequence[Parsed]) -> Iterator[list[Parsed]]:
    """Yield the parts of each ``a, b = x, y`` together, and everything else alone."""
    numbered = [
        (entry.several if isinstance(entry, ParsedInstruction) and entry.several is not None else -1 - k, entry)
        for k, entry in enumerate(entries)
    ]
    for _, group in groupby(numbered, key=lambda pair: pair[0]):
        yield [entry for _, entry in group]


# {{{ several assignments


def spread(
    entries: Sequence[Parsed], rules: Mapping[str, SubstitutionRule], taken: Collection[str]
) -> tuple[list[Parsed], dict[str, tuple[str, ...]]]:
    """Return *entries* so that the parts of ``a, b = x, y`` can run one after the other.

    ``s, c = sincos(x)`` calls once, into a temporary. A right side that reads what an earlier part writes gets a
    temporary in front, as do conditions that do. Also returned: the ids of the parts, for each id that stands for
    several.
    """
    names = Names(taken)
    found: list[Parsed] = []
    aliases: dict[str, tuple[str, ...]] = {}
    for group in _groups(entries):
        parts = [entry for entry in group if isinstance(entry, ParsedInstruction)]
        if len(parts) < 2:
            found += group
            continue
        name = parts[0].id
        if name is not None:
            aliases[name] = tuple(f"{name}_{k}" for k in range(len(parts)))
            parts = [replace(part, id=new) for part, new in zip(parts, aliases[name], strict=True)]
        found += _in_order(parts, rules, names, name)
    return found, aliases


def _in_order(
    parts: Sequence[ParsedInstruction], rules: Mapping[str, SubstitutionRule], names: Names, name: str | None
) -> list[ParsedInstruction]:
    targets = [array_name(part.assignee) for part in parts]
    before: list[ParsedInstruction] = []
    predicates = parts[0].predicates
    changed = [c for c in predicates if not variables(expand_rules(c, rules)).isdisjoint(targets[:-1])]
    holds = ""
    if changed:
        kept = tuple(c for c in predicates if c not in changed)
        holds = names.fresh("holds")
        plain = tuple(c for c in kept if not _depends_on_data(c))
        condition = _all((*(c for c in kept if c not in plain), *changed))
        before.append(in_front(parts[0], holds, condition, plain, name))
        predicates = (*kept, p.Variable(holds))
    call = _shared_call(parts)
    if call is not None:
        temporary = names.fresh(f"{_called(call)}_value")
        before.append(in_front(parts[0], temporary, call, predicates, name))
        parts = [replace(part, expression=Lookup(p.Variable(temporary), part.expression.field)) for part in parts]
    after: list[ParsedInstruction] = []
    for number, part in enumerate(parts):
        value = part.expression
        if not variables(expand_rules(value, rules)).isdisjoint(targets[:number]):
            temporary = names.fresh(f"{targets[number]}_new")
            guarded, plain = value_under(predicates, value, holds)
            before.append(in_front(part, temporary, guarded, plain, name))
            value = p.Variable(temporary)
        after.append(replace(part, expression=value, predicates=predicates))
    return [*before, *after]


def _shared_call(parts: Sequence[ParsedInstruction]) -> Expression | None:
    """Return the call, or the reduction, of which every part takes a field; None if there is none."""
    values = [part.expression for part in parts]
    if not all(isinstance(value, Lookup) and isinstance(value.aggregate, p.Call | Reduction) for value in values):
        return None
    call = values[0].aggregate
    return call if all(value.aggregate == call for value in values) else None


def _called(call: Expression) -> str:
    """Return the name of a function, or of the operation of a reduction."""
    return call.operation.name if isinstance(call, Reduction) else function_name(call)


def _depends_on_data(condition: Expression, *names: str) -> bool:
    """Return whether *condition* reads elements of arrays, or one of *names*.

    Such a condition becomes part of the value: a temporary that is always set is known exactly.
    """
    used = accesses(condition)
    return any(isinstance(access, p.Subscript) or access.name in names for access in used)


def value_under(
    predicates: tuple[Expression, ...], value: Expression, *names: str
) -> tuple[Expression, tuple[Expression, ...]]:
    """Return *value*, 0 where conditions that depend on data do not hold, and the other conditions.

    The conditions *names* depend on data too.
    """
    plain = tuple(c for c in predicates if not _depends_on_data(c, *names))
    data = tuple(c for c in predicates if c not in plain)
    return (p.If(_all(data), value, 0) if data else value), plain


def _all(conditions: Sequence[Expression]) -> Expression:
    return conditions[0] if len(conditions) == 1 else p.LogicalAnd(tuple(conditions))


def in_front(
    part: ParsedInstruction, name: str, value: Expression, predicates: tuple[Expression, ...], statement: str | None
) -> ParsedInstruction:
    """Return the instruction that sets the temporary *name* to *value* in front of *part*, a part of *statement*."""
    prefix = f"{statement}_{name}" if statement else part.options.id_prefix
    return replace(
        part,
        assignee=p.Variable(name),
        expression=value,
        declared=auto,
        id=None,
        predicates=predicates,
        options=replace(part.options, id_prefix=prefix),
    )


# }}}
# {{{ inames of one instruction only


def duplicate_inames(
    entries: Sequence[Parsed],
    pieces: Sequence[Domain],
    rules: Mapping[str, SubstitutionRule],
    taken: Collection[str],
) -> tuple[list[Parsed], tuple[Domain, ...]]:
    """Give each instruction with ``dup=`` its own copy of the inames that it names."""
    names = Names(taken)
    found: list[Parsed] = []
    domains = list(pieces)
    numbers = [n for e in entries if isinstance(e, ParsedInstruction | ParsedBarrier) for n in e.loops.numbers]
    block = max(numbers, default=-1) + 1
    for group in _groups(entries):
        parts = [entry for entry in group if isinstance(entry, ParsedInstruction)]
        if not parts or not parts[0].options.duplicates:
            found += group
            continue
        renamed = _new_names(parts, rules, names)
        domains = _with_copies(domains, renamed, parts[0], _around(parts, entries, rules, domains))
        found += [_renamed(part, renamed, rules, block) for part in parts]
        block += len(renamed)
    return found, tuple(domains)


def _new_names(
    parts: Sequence[ParsedInstruction], rules: Mapping[str, SubstitutionRule], names: Names
) -> dict[str, str]:
    used = {name for part in parts for name in part.loops.named()}
    used |= {name for part in parts for expr in part.parts() for name in variables(expand_rules(expr, rules))}
    renamed: dict[str, str] = {}
    for iname, wish in parts[0].options.duplicates:
        if iname not in used:
            message = f"'dup={iname}' duplicates an iname that the instruction does not use"
            raise fail("unused-option", message, hints=("drop it",), site=site_of(parts[0]))
        if wish is not None and wish in names.taken:
            message = f"the name '{wish}' for the copy of iname '{iname}' is in use"
            raise fail("name-taken", message, hints=("choose another name",), site=site_of(parts[0]))
        renamed[iname] = names.fresh(wish or f"{iname}_copy")
    return renamed


def _renamed(
    part: ParsedInstruction, renamed: Mapping[str, str], rules: Mapping[str, SubstitutionRule], block: int
) -> ParsedInstruction:
    mapping = {old: p.Variable(new) for old, new in renamed.items()}
    own = {old: block + k for k, old in enumerate(renamed)}
    numbers = tuple(own.get(iname, number) for iname, number in part.loops.blocks())
    return replace(
        part,
        assignee=substitute(part.assignee, mapping),
        expression=substitute(expand_rules(part.expression, rules), mapping),
        predicates=tuple(substitute(expand_rules(c, rules), mapping) for c in part.predicates),
        loops=replace(part.loops.under(renamed), numbers=numbers),
    )


def _around(
    parts: Sequence[ParsedInstruction],
    entries: Sequence[Parsed],
    rules: Mapping[str, SubstitutionRule],
    pieces: Sequence[Domain],
) -> frozenset[str]:
    """Return the names in *parts*, and in statements whose loops may be theirs, because they or bounds read results."""
    found = set(_used(parts, rules)).union(*(parameters_of(piece.set) for piece in pieces))
    others = []
    for group in _groups(entries):
        statements = [entry for entry in group if isinstance(entry, ParsedInstruction)]
        written = {array_name(target) for entry in statements for target in targets_of(entry.assignee)}
        others.append((written, _used(statements, rules)))
    while more := {name for written, used in others if not written.isdisjoint(found) for name in used - found}:
        found |= more
    return frozenset(found)


def _used(parts: Sequence[ParsedInstruction], rules: Mapping[str, SubstitutionRule]) -> frozenset[str]:
    """Return the names that *parts* of one statement use, but for an array of which they assign an element."""
    found: set[str] = set()
    for part in parts:
        whole = not isinstance(part.assignee, p.Variable | p.Subscript)
        subscripts = part.assignee.index_tuple if isinstance(part.assignee, p.Subscript) else ()
        exprs = [expand_rules(expr, rules) for expr in (part.expression, *part.predicates)]
        exprs += [part.assignee] if whole else subscripts
        own = part.loops.named().union(*map(variables, exprs))
        own = own.union(iname for expr in exprs for node in reductions(expr) for iname in node.inames)
        found |= own
    return frozenset(found)


def _with_copies(
    pieces: Sequence[Domain], renamed: Mapping[str, str], statement: ParsedInstruction, around: Collection[str]
) -> list[Domain]:
    """Return the domains with the new inames, each right behind the one that it copies.

    A domain of which every iname is copied, or none of the others is *around* the statement, gives a second one;
    otherwise copy and original share the inames that are not copied: ``{[i, j]: D(i, j)}`` becomes
    ``{[i, i_copy, j]: D(i, j) and D(i_copy, j)}``.
    """
    found: list[Domain] = []
    for piece in pieces:
        old = [iname for iname in piece.inames if iname in renamed]
        bounds = {piece.set.get_dim_name(_PARAM, k) or "" for k in range(piece.set.dim(_PARAM))}
        outer = sorted(bounds & renamed.keys())
        if outer and not old:
            _refuse_open_bounds(piece, outer[0], statement)
        if not old:
            found.append(piece)
            continue
        forms = {iname: Affine.variable(new) for iname, new in renamed.items()}
        if len(old) == len(piece.inames) or not {*piece.inames}.difference(old).intersection(around):
            own = written(piece).restricted(old)
            dims = tuple(renamed[iname] for iname in old)
            found += [piece, written(own).changed(dims, rename_dims(own.set, renamed), forms)]
            continue
        copy = rename_dims(piece.set, renamed)
        whole = piece.set
        inames = list(piece.inames)
        for position in range(len(piece.inames) - 1, -1, -1):
            iname = piece.inames[position]
            if iname in renamed:
                whole = insert_dims(whole, position + 1, [renamed[iname]])
                copy = insert_dims(copy, position, [iname])
                inames.insert(position + 1, renamed[iname])
        found.append(written(piece).times(tuple(inames), whole.intersect(copy), forms))
    return found


def _refuse_open_bounds(piece: Domain, outer: str, statement: ParsedInstruction) -> None:
    used = variables(statement.expression) | variables(statement.assignee) | {*statement.loops.written}
    inner = sorted(used & {*piece.inames})
    if inner:
        raise fail(
            "duplicate-bounds",
            f"the bounds of iname '{inner[0]}' use '{outer}', of which the instruction gets a copy",
            hints=(f"duplicate '{inner[0]}' as well: dup={outer}:{inner[0]}",),
            site=site_of(statement),
        )


# }}}
