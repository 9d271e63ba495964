"""Iname inference: the loops around a statement that follow from its reads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from polyloop.expr.nodes import Lookup, Targets, array_name, targets_of
from polyloop.expr.rewrite import reductions, variables
from polyloop.kernel.arrays import TemporaryVariable
from polyloop.kernel.build.domains.data_bounds import BoundVariables
from polyloop.kernel.build.draft import Draft, fail, site_of

__all__ = ["inherit_inames", "refuse_bound"]


def inherit_inames(
    drafts: Sequence[Draft], temporaries: Mapping[str, TemporaryVariable], bounds: BoundVariables
) -> None:
    """Infer inames: a reader of a temporary runs inside the common loops of its writers, unless its inames are given.

    The bounds of its loops and reductions are reads too.  Loops that subscript the temporary at the write do not
    count: the value outlives them.  Nor do ``for`` blocks that are closed before the reader.  The parts of one
    ``a, b = x, y`` run in the same loops.  An assignment of a field is put where the whole record is assigned, or where
    its other fields are.
    """
    together: dict[int, list[Draft]] = {}
    for draft in drafts:
        if draft.parsed.several is not None:
            together.setdefault(draft.parsed.several, []).append(draft)
    shared = _writers(drafts, temporaries)
    changed = bool(shared or together)
    while changed:
        changed = False
        for draft in drafts:
            if draft.parsed.loops.only is not None:
                continue
            bound = {iname for reduction in reductions(draft.expanded) for iname in reduction.inames}
            more = set[str]()
            if draft.parsed.several is not None:
                more = {x for part in together[draft.parsed.several] for x in part.inames}
                refuse_bound(draft, more & bound)
            for name in (_followed(draft) | bounds.read_by(draft)) & shared.keys():
                more |= _around(draft, name, shared[name])
            if not more - bound <= draft.inames:
                draft.inames |= more - bound
                changed = True


def _writers(drafts: Sequence[Draft], temporaries: Mapping[str, TemporaryVariable]) -> dict[str, list[Draft]]:
    """Return the statements that assign each of *temporaries*."""
    found: dict[str, list[Draft]] = {}
    for draft in drafts if temporaries else ():
        for name in dict.fromkeys(map(array_name, targets_of(draft.parsed.assignee))):
            if name in temporaries:
                found.setdefault(name, []).append(draft)
    return found


def _followed(draft: Draft) -> frozenset[str]:
    """Return the variables that determine the loops of *draft*: its reads, and targets that it writes in part."""
    assigned = map(array_name, targets_of(draft.parsed.assignee)) if _is_partial(draft) else ()
    return variables(draft.expanded).union(assigned)


def _is_partial(draft: Draft) -> bool:
    """Return whether *draft* may leave part of its target as it is: a field of a record, or C text."""
    return isinstance(draft.parsed.assignee, Lookup | Targets)


def _around(draft: Draft, name: str, writers: Sequence[Draft]) -> frozenset[str]:
    """Return the loops that *draft* inherits from the *writers* of a temporary.

    An update, ``t = t + 1``, goes where the statements are that set the temporary anew.
    """
    if any(writer is draft for writer in writers) and not _is_partial(draft):
        writers = [writer for writer in writers if name not in variables(writer.expanded)] or writers
    loops = {
        writer.id: writer.inames.difference(
            _closed(writer, draft), *map(variables, targets_of(writer.parsed.assignee, name)))
        for writer in writers
    }  # fmt: skip
    if _is_partial(draft) and targets_of(draft.parsed.assignee, name):
        whole = [loops[writer.id] for writer in writers if not _is_partial(writer)]
        return frozenset.intersection(*whole) if whole else frozenset().union(*loops.values())
    return frozenset.intersection(*loops.values())


def _closed(writer: Draft, reader: Draft) -> frozenset[str]:
    """Return the inames of ``for`` blocks around *writer* that are closed where *reader* is: it sees the last value."""
    mine, theirs = reader.parsed.loops, writer.parsed.loops
    inside = {*zip(mine.written, mine.numbers, strict=True)}
    return frozenset(name for name, number in zip(theirs.written, theirs.numbers, strict=True)
                     if (name, number) not in inside)


def refuse_bound(draft: Draft, inames: Iterable[str]) -> None:
    """Refuse *inames*, each of which is a loop and a reduction of one statement."""
    for iname in inames:
        raise fail(
            "iname-bound-twice",
            f"iname '{iname}' is a loop and a reduction of the same instruction",
            hints=("use another iname for the reduction",),
            site=site_of(draft.parsed, draft.id),
        )
