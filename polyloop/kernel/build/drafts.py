"""Statements of plain text as drafts: with ids, and with the loops around them, inferred where the text is silent."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, count, pairwise

from polyloop.expr.rewrite import free_variables, reductions, variables
from polyloop.expr.rules import expand_rules
from polyloop.frozen import replace
from polyloop.kernel.arrays import TemporaryVariable
from polyloop.kernel.build.domains.data_bounds import BoundVariables, check_bounds
from polyloop.kernel.build.draft import BarrierDraft, Draft, fail, site_of
from polyloop.kernel.build.function import Function
from polyloop.kernel.build.infer_inames import inherit_inames, refuse_bound
from polyloop.kernel.build.plain.binders import refuse_misplaced
from polyloop.kernel.build.plain.inline import check_calls
from polyloop.kernel.build.plain.passes import PlainText
from polyloop.kernel.build.scalar_expansion import expand_crossing
from polyloop.kernel.text.parser import Parsed, ParsedBarrier, ParsedInstruction

__all__ = ["Drafts", "drafts_of", "ids_of"]


@dataclass(frozen=True)
class Drafts:
    """Statements and barriers of a kernel, and its temporaries, some of them expanded along loops."""

    statements: Sequence[Draft]
    barriers: Sequence[BarrierDraft]
    temporaries: Mapping[str, TemporaryVariable]


def drafts_of(
    text: PlainText,
    temporaries: Mapping[str, TemporaryVariable],
    bounds: BoundVariables,
    functions: Mapping[str, Function],
    *,
    are_chained: bool,
) -> Drafts:
    """Return the statements of *text* with their ids and loops.

    Raises
    ------
    KernelError
        ``name-taken``, ``misplaced-reduction``, ``unknown-iname``, ``iname-bound-twice``, ``call-in-expression``,
        ``call-needs-loop``, ``crosses-barrier``, ``bad-bound``, ``bound-changed``.
    """
    inames = frozenset(text.inames)
    drafts = [_draft(entry, name, text, inames) for entry, name in zip(text.statements, ids_of(text), strict=True)]
    inherit_inames(drafts, temporaries, bounds)
    check_calls(drafts, text.inlined, functions)
    if are_chained:
        _chain(drafts)
    barriers = _barriers(text.entries, {*text.other_ids(), *(draft.id for draft in drafts)})
    temporaries = expand_crossing(drafts, barriers, temporaries, text.rules, text.inames)
    check_bounds(bounds, drafts, temporaries)
    return Drafts(drafts, barriers, temporaries)


def ids_of(text: PlainText) -> list[str]:
    """Return the ids of the statements, made up where the text gives none.

    Raises
    ------
    KernelError
        ``name-taken``.
    """
    statements = text.statements
    given = [*text.other_ids(), *(statement.id for statement in statements if statement.id)]
    taken = set(given)
    if len(taken) < len(given):
        twice = next(name for name, count in Counter(given).items() if count > 1)
        site = next((site_of(s) for s in reversed(statements) if s.id == twice), None)
        raise fail("name-taken", f"two instructions have the id '{twice}'", site=site, hints=("rename one of them",))
    ids = []
    wishes: dict[str, Iterator[str]] = {}
    for statement in statements:
        name = statement.id
        if name is None:
            base = statement.options.id_prefix or "insn"
            if base not in wishes:
                wishes[base] = chain((base,), (f"{base}_{i}" for i in count(1)))
            name = next(wish for wish in wishes[base] if wish not in taken)
            taken.add(name)
        ids.append(name)
    return ids


def _draft(statement: ParsedInstruction, name: str, text: PlainText, inames: frozenset[str]) -> Draft:
    """Return the statement with the loops that it names or reads."""
    refuse_misplaced(statement, name)
    expanded = expand_rules(statement.expression, text.rules)
    used = free_variables(expanded) | variables(statement.assignee)
    for predicate in statement.predicates:
        used |= variables(predicate)
    bound = {iname for reduction in reductions(expanded) for iname in reduction.inames}
    own = statement.loops.named()
    if statement.loops.only is None:
        own |= used & inames
    for found, problem in ((bound, "reduction over '{}', which is in no domain"), (own, "no iname '{}'")):
        for iname in found - inames:
            hint = f"inames: {', '.join(sorted(inames))}"
            raise fail("unknown-iname", problem.format(iname), hints=(hint,), site=site_of(statement, name))
    draft = Draft(statement, name, own, expanded)
    refuse_bound(draft, own & bound)
    return draft


def _chain(drafts: Sequence[Draft]) -> None:
    """Make each statement depend on the one before."""
    for before, draft in pairwise(drafts):
        options = draft.parsed.options
        order = replace(options.order, depends_on=(*options.order.depends_on, before.id))
        draft.parsed = replace(draft.parsed, options=replace(options, order=order))


def _barriers(entries: Sequence[Parsed], taken: set[str]) -> list[BarrierDraft]:
    """Return the barriers of the text with their places among the statements."""
    found: list[BarrierDraft] = []
    names = chain(("barrier",), (f"barrier_{i}" for i in count(1)))
    position = 0
    for entry in entries:
        if isinstance(entry, ParsedInstruction):
            position += 1
        elif isinstance(entry, ParsedBarrier):
            name = entry.options.id or next(wish for wish in names if wish not in taken)
            found.append(BarrierDraft(entry, name, position))
    return found
