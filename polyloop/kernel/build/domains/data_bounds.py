"""Data-dependent bounds: scalar temporaries that occur in domains."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import islpy as isl
import pymbolic.primitives as p

from polyloop.errors import KernelError
from polyloop.expr.nodes import targets_of
from polyloop.expr.rewrite import reductions
from polyloop.kernel.arrays import TemporaryVariable
from polyloop.kernel.build.draft import Draft, fail, site_of
from polyloop.kernel.domains import outer_inames, parameters_of
from polyloop.kernel.kernel import Domain

__all__ = ["BoundVariables", "check_bounds", "find_bounds", "known_at_launch"]


@dataclass(frozen=True)
class BoundVariables:
    """The bound variables of a kernel.

    ``of`` maps each iname to those that its bounds use, directly or through the inames that bound it.
    """

    names: frozenset[str]
    of: Mapping[str, frozenset[str]]

    def used_by(self, inames: Iterable[str]) -> frozenset[str]:
        """Return the bound variables that loops over *inames* need."""
        return frozenset[str]().union(*(self.of.get(iname, ()) for iname in inames))

    def read_by(self, draft: Draft) -> frozenset[str]:
        """Return the bound variables that the loops and reductions of a statement need."""
        return self.used_by(draft.inames) | self.used_by(_bound_inames(draft))


def _bound_inames(draft: Draft) -> frozenset[str]:
    return frozenset(iname for reduction in reductions(draft.expanded) for iname in reduction.inames)


def find_bounds(pieces: Sequence[Domain], temporaries: Iterable[str]) -> BoundVariables:
    """Return the *temporaries* that the domains mention."""
    names = frozenset(name for piece in pieces for name in parameters_of(piece.set)).intersection(temporaries)
    if not names:
        return BoundVariables(names, {})
    outer = outer_inames(pieces)
    found = {
        iname: names.intersection(parameters_of(piece.set)) for piece in pieces for iname in piece.inames
    }
    changed = True
    while changed:
        changed = False
        for iname, uses in outer.items():
            more = found[iname].union(*(found[other] for other in uses))
            changed = changed or more != found[iname]
            found[iname] = more
    return BoundVariables(names, found)


def known_at_launch(bounds: BoundVariables, condition: isl.Set | None) -> isl.Set | None:
    """Return *condition* without its constraints on bound variables, whose values are not known at launch."""
    if condition is None:
        return None
    for name in bounds.names.intersection(parameters_of(condition)):
        position = condition.find_dim_by_name(isl.dim_type.param, name)
        condition = condition.project_out(isl.dim_type.param, position, 1)
    return condition


def check_bounds(
    bounds: BoundVariables, drafts: Sequence[Draft], temporaries: Mapping[str, TemporaryVariable]
) -> None:
    """Check that each bound variable has one value for each execution of the loops that it bounds.

    Raises
    ------
    KernelError
        ``bad-bound``, ``bound-changed``.
    """
    for name in sorted(bounds.names):
        writers = [draft for draft in drafts if targets_of(draft.parsed.assignee, name)]
        readers = [draft for draft in drafts if name in bounds.read_by(draft)]
        subscripted = next((w for w in writers if isinstance(w.parsed.assignee, p.Subscript)), None)
        if subscripted is not None or temporaries[name].shape:
            raise _not_scalar(name, (*writers, *readers)[:1])
        if len(writers) > 1:
            raise fail(
                "bad-bound",
                f"'{name}' bounds a loop and is assigned by two instructions",
                notes=(f"first: {writers[0].parsed.place.text}",),
                hints=("use one temporary for each, or one assignment: <> t = if(condition, a, b)",),
                site=site_of(writers[1].parsed, writers[1].id),
            )
        for writer in writers:
            _check_places(name, bounds, writer, readers)


def _not_scalar(name: str, users: Sequence[Draft]) -> KernelError:
    return fail(
        "bad-bound",
        f"'{name}' bounds a loop and is an array",
        notes=("only scalars can occur in a domain",),
        hints=(f"copy the element first: <> t = {name}[i], and use t in the domain",),
        site=site_of(users[0].parsed, users[0].id) if users else None,
    )


def _check_places(name: str, bounds: BoundVariables, writer: Draft, readers: Sequence[Draft]) -> None:
    inside = sorted(x for x in writer.inames | _bound_inames(writer) if name in bounds.of.get(x, ()))
    if inside:
        other = next((reader for reader in readers if reader is not writer), None)
        notes = () if other is None else (f"the loop also runs: {other.parsed.place.text}",)
        raise fail(
            "bound-changed",
            f"'{name}' is assigned inside loop '{inside[0]}', which it bounds",
            notes=(f"loop '{inside[0]}' is bounded by '{name}'", *notes),
            hints=("assign it before the loop, or let another temporary hold the new value",),
            site=site_of(writer.parsed, writer.id),
        )
    for reader in readers:
        missing = sorted(writer.inames - reader.inames - _bound_inames(reader))
        if missing:
            iname = min(x for x in reader.inames | _bound_inames(reader) if name in bounds.of.get(x, ()))
            raise fail(
                "bad-bound",
                f"loop '{iname}' is bounded by '{name}', which has a value only inside loop '{missing[0]}'",
                notes=(f"it is assigned by: {writer.parsed.place.text}",),
                hints=(f"put this instruction inside loop '{missing[0]}' as well (for {missing[0]} .. end)",),
                site=site_of(reader.parsed, reader.id),
            )
