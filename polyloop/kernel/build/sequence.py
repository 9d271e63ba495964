"""Order of the instructions, from ``dep=``, text order and priorities."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from polyloop.errors import Site
from polyloop.frozen import replace
from polyloop.kernel.build.draft import BarrierDraft, Draft, fail
from polyloop.kernel.build.drafts import Drafts
from polyloop.kernel.build.text_order import stable_order
from polyloop.kernel.instruction import ExplicitBarrier, Instruction
from polyloop.kernel.text.match import Glob, Match, Subject, is_glob, matches
from polyloop.kernel.text.options import NoSync, Order
from polyloop.kernel.text.parser import ParsedNop

__all__ = ["Names", "sequenced"]


@dataclass(frozen=True)
class Names:
    """Name resolution of ids and patterns.

    ``order`` are the ids in text order, ``aliases`` what else has a name: the parts of ``a, b = x, y`` and the
    dependences of ``... nop``.
    """

    order: tuple[str, ...]
    aliases: Mapping[str, tuple[str, ...]]
    instructions: Mapping[str, Instruction]

    def of(self, pattern: str, own: frozenset[str], site: Site, may_be_empty: bool) -> frozenset[str]:
        """Return the ids that *pattern* fits, other than *own*."""
        if not is_glob(pattern):
            if pattern not in self.instructions and pattern not in self.order and pattern not in self.aliases:
                known = ", ".join(dict.fromkeys((*self.order, *self.aliases)))
                verb = "depends on" if own else "names"
                problem = f"'{site.instruction}' {verb} '{pattern}', which is no instruction"
                raise fail("unknown-instruction", problem, hints=(f"ids: {known}",), site=site)
            return frozenset(self.aliases.get(pattern, (pattern,)))
        found = {name for name in self.order if fnmatchcase(name, pattern)}
        for name, parts in self.aliases.items():
            if fnmatchcase(name, pattern):
                found.update(parts)
        if not found - own and not may_be_empty:
            problem = f"the pattern '{pattern}' of '{site.instruction}' fits no other instruction"
            hint = f"ids: {', '.join(self.order)}; 'dep=*{pattern}' may fit nothing"
            raise fail("unknown-instruction", problem, hints=(hint,), site=site)
        return frozenset(found - own)

    def meant(self, match: Match, own: frozenset[str], site: Site) -> frozenset[str]:
        """Return the ids of the instructions that *match* means, other than *own*; a single id must exist."""
        if isinstance(match, Glob) and match.subject is Subject.ID:
            return self.of(match.pattern, frozenset(), site, may_be_empty=True)
        return frozenset(name for name, entry in self.instructions.items() if matches(match, entry)) - own

    def named(self, order: Order, own: frozenset[str], site: Site) -> frozenset[str]:
        """Return the ids that ``dep=`` and ``dep_query=`` name."""
        found = [self.of(pattern, own, site, order.depends_star) for pattern in order.depends_on]
        found += [self.meant(query, own, site) - own for query in order.queries]
        return frozenset[str]().union(*found)


def _with_nops(names: Names, nops: Sequence[ParsedNop]) -> Names:
    """Return *names* with an alias from each ``... nop`` to its dependencies, through other nops too."""
    waiting = {nop.options.id: nop for nop in nops if nop.options.id is not None}
    before = {name: {x for x in nop.options.order.depends_on if x in waiting} for name, nop in waiting.items()}
    for name, nop in waiting.items():
        for pattern in nop.options.order.depends_on:
            if is_glob(pattern):
                before[name] |= {x for x in waiting if x != name and fnmatchcase(x, pattern)}
    order = stable_order(tuple(waiting), before)
    if isinstance(order, tuple):
        raise _cycle(order, waiting[order[0]].place.site(order[0]))
    for name in order:
        nop = waiting[name]
        meant = sorted(names.named(nop.options.order, frozenset((name,)), nop.place.site(name)))
        names = replace(names, aliases={**names.aliases, name: tuple(meant)})
    return names


def _cycle(order: Sequence[str], site: Site) -> Exception:
    chain = " -> ".join(f"'{name}'" for name in order)
    message = f"the instructions depend on each other in a cycle: {chain}"
    return fail("dependency-cycle", message, hints=("remove one dep=, or split the temporary in two",), site=site)


def sequenced(
    drafts: Drafts,
    built: Mapping[str, Instruction],
    aliases: Mapping[str, tuple[str, ...]],
    nops: Sequence[ParsedNop],
) -> tuple[tuple[Instruction, ...], tuple[ExplicitBarrier, ...]]:
    """Return the instructions and barriers in the order of the reference program, with their options resolved.

    That is text order, made to agree with ``dep=`` and with the only writer of a temporary before its readers, if no
    barrier is written between a reader and the writer behind it; of several that could come next, the one with the
    highest priority, unless it would pass a write that it can see.

    Raises
    ------
    KernelError
        ``unknown-instruction``, ``dependency-cycle``.
    """
    statements, barriers = drafts.statements, drafts.barriers
    text = _text_order(statements, barriers)
    names = _with_nops(Names(text, aliases, built), nops)
    parts = _parts(statements)
    found = {draft.id: _resolved(draft, built[draft.id], names, parts[draft.id]) for draft in statements}
    before = _before(drafts, found, parts)
    _around_barriers(before, text, barriers, names)
    priority = {draft.id: wish for draft in statements if (wish := draft.parsed.options.order.priority)}

    def keeps_order(earlier: str, later: str) -> bool:
        if earlier not in found or later not in found:
            return True
        a, b = found[earlier], found[later]
        return not b.reads.union(b.writes).isdisjoint(a.writes) or not a.reads.isdisjoint(b.writes)

    order = stable_order(text, before, priority, keeps_order)
    if isinstance(order, tuple):
        sites = {name: entry.site() for name, entry in built.items()} | {entry.id: entry.site() for entry in barriers}
        raise _cycle(order, sites[order[0]])
    marks = {entry.id: entry for entry in barriers}
    explicit = tuple(
        _placed(marks[name], frozenset(order[:position]) & built.keys())
        for position, name in enumerate(order)
        if name in marks
    )
    return tuple(found[name] for name in order if name in found), explicit


def _placed(barrier: BarrierDraft, before: frozenset[str]) -> ExplicitBarrier:
    """Return the barrier behind the instructions *before*."""
    parsed = barrier.parsed
    return ExplicitBarrier(barrier.id, parsed.scope, parsed.loops.blocks(), before, parsed.place)


def _text_order(drafts: Sequence[Draft], barriers: Sequence[BarrierDraft]) -> tuple[str, ...]:
    order: list[str] = []
    for number, draft in enumerate(drafts):
        order += [entry.id for entry in barriers if entry.position == number]
        order.append(draft.id)
    return (*order, *(entry.id for entry in barriers if entry.position == len(drafts)))


def _around_barriers(
    before: dict[str, set[str]], text: Sequence[str], barriers: Sequence[BarrierDraft], names: Names
) -> None:
    """Add dependencies of barriers: after everything before them in the text, before everything behind them."""
    for barrier in barriers:
        position = text.index(barrier.id)
        own = frozenset((barrier.id,))
        before[barrier.id] = {*text[:position], *names.named(barrier.parsed.options.order, own, barrier.site())}
        for name in text[position + 1 :]:
            before.setdefault(name, set()).add(barrier.id)


def _parts(drafts: Sequence[Draft]) -> dict[str, frozenset[str]]:
    """Return id -> ids of all parts of the same statement (``a, b = x, y`` has two parts)."""
    groups: dict[int, list[str]] = {}
    for draft in drafts:
        if draft.parsed.several is not None:
            groups.setdefault(draft.parsed.several, []).append(draft.id)
    several = {draft.id: draft.parsed.several for draft in drafts}
    return {name: frozenset((name, *(() if n is None else groups[n]))) for name, n in several.items()}


def _resolved(draft: Draft, instruction: Instruction, names: Names, own: frozenset[str]) -> Instruction:
    order = draft.parsed.options.order
    if not (order.depends_on or order.queries or order.nosync):
        return instruction
    site = instruction.site()
    nosync = frozenset(
        NoSync(Glob(Subject.ID, name), entry.scope)
        for entry in order.nosync
        for name in names.meant(entry.which, frozenset(), site)
    )
    return replace(instruction, depends_on=names.named(order, own, site), nosync=nosync)


def _before(
    drafts: Drafts, found: Mapping[str, Instruction], parts: Mapping[str, frozenset[str]]
) -> dict[str, set[str]]:  # fmt: skip
    temporaries, place = drafts.temporaries.keys(), {draft.id: n for n, draft in enumerate(drafts.statements)}

    def is_across(reader: str, writer: str) -> bool:  # it reads what an earlier iteration has written
        return any(place[reader] < barrier.position <= place[writer] for barrier in drafts.barriers)

    writers: dict[str, list[str]] = {}
    for name, instruction in found.items():
        for variable in instruction.writes:
            writers.setdefault(variable, []).append(name)
    before: dict[str, set[str]] = {}
    previous: Draft | None = None
    for draft in drafts.statements:
        earlier = before[draft.id] = set(found[draft.id].depends_on)
        if previous is not None and previous.id in parts[draft.id]:
            earlier.add(previous.id)
        previous = draft
        if draft.parsed.depends_on_is_final:
            continue
        for variable in found[draft.id].reads & temporaries:
            only = writers.get(variable, [])
            if len(only) == 1 and only[0] != draft.id and not is_across(draft.id, only[0]):
                earlier.add(only[0])
    return before
