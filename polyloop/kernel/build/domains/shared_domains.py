"""Separation of domains with several inames, so that a loop around an empty loop runs.

``{[i, k]: 0 <= i < n and 0 <= k < i}`` has no point with ``i = 0``, and a sum over ``k`` is 0 there.  The text means
two domains: of ``i`` and, inside of it, of ``k``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import islpy as isl

from polyloop.frozen import once, quick
from polyloop.kernel.domains import fixed_set, parameters_of
from polyloop.kernel.kernel import Domain
from polyloop.kernel.text.domain_text import alternatives
from polyloop.poly.affine import Affine
from polyloop.poly.ranges import own_range, own_rows, related_range, systems
from polyloop.poly.sets import Row, project_onto, rows_of, settled

__all__ = ["Written", "bare", "fixed_domains", "taken_apart", "written"]

_SET = isl.dim_type.set
_PARAM = isl.dim_type.param


@quick
@dataclass(frozen=True, eq=False)
class Written(Domain):
    """A domain with its constraints as written, because ISL removes implied ones.

    Attributes
    ----------
    text
        The domain as it was written, if that is known.
    values
        Numbers in the places of parameters of the text.
    rows
        Its alternatives, where a pass has made another domain of the one in the text.
    """

    text: str | None = None
    values: Mapping[str, int] = field(default_factory=dict)
    rows: tuple[tuple[Row, ...], ...] | None = None

    @once
    def numbers(self) -> dict[str, int]:
        """The numbers in the places of parameters of its alternatives."""
        known = alternatives(self.text) if self.rows is None and self.text is not None else ()
        return {name: value for entry in known for name, value in entry.numbers.items()} | {**self.values}

    @once
    def parameters(self) -> tuple[str, ...]:
        """The parameters of its set and of its alternatives."""
        named = sorted({name for rows in self.rows or () for row in rows for name in row.form.names()} - {*self.inames})
        return tuple(dict.fromkeys((*parameters_of(self.set), *self.numbers, *named)))

    @once
    def alternatives(self) -> tuple[tuple[Row, ...], ...]:
        """The constraints of each alternative."""
        if self.rows is not None:
            return self.rows
        conjunctions = [(self.set,)] if self.text is None else [entry.conditions for entry in alternatives(self.text)]
        return tuple(tuple(rows) for conditions in conjunctions for rows in systems(conditions, self.inames))

    def part(self, kept: Collection[str]) -> Written:
        """Return the domain of the inames *kept*, which no constraint relates to others."""
        dims = tuple(iname for iname in self.inames if iname in kept)
        others = frozenset(self.inames).difference(kept)
        rows = tuple(tuple(row for row in rows if row.form.names().isdisjoint(others)) for rows in self.alternatives)
        found = settled(project_onto(self.range(kept), self.inames, dims))
        return Written(dims, found, self.text, self.numbers, rows)

    def restricted(self, dims: Sequence[str]) -> Domain:
        """Return the domain of the inames *dims* alone: their loops run even if those of the others are empty."""
        if len(dims) == len(self.inames):
            return self.changed(tuple(dims), project_onto(self.set, self.inames, dims), {})
        kept = frozenset(dims)
        found = project_onto(self.set, self.inames, dims)
        if self.is_open(kept):
            return Domain(tuple(dims), found)
        own = project_onto(self.range(kept), self.inames, dims)
        if not own.is_subset(found):
            found = own
        chosen = [own_rows(rows, self.inames, kept) for rows in self.alternatives]
        if any(counted != kept for _, counted in chosen):
            return Domain(tuple(dims), found)
        return Written(tuple(dims), found, self.text, self.numbers, tuple(tuple(rows) for rows, _ in chosen))

    def changed(self, inames: tuple[str, ...], found: isl.Set, forms: Mapping[str, Affine]) -> Domain:
        """Return the domain of *inames* with the set *found*, whose constraints have *forms* in the places of names."""
        rows = [_with_forms(rows, forms) for rows in self.plain] if len(inames) > 1 else []
        return Written(inames, found, self.text, {}, tuple(rows)) if rows else Domain(inames, found)

    def times(self, inames: tuple[str, ...], found: isl.Set, forms: Mapping[str, Affine]) -> Domain:
        """Return the domain of *inames* with the set *found*: its own constraints, and those with *forms* in them."""
        rows = tuple((*one, *_with_forms(other, forms)) for one in self.plain for other in self.plain)
        return Written(inames, found, self.text, {}, rows)

    @once
    def plain(self) -> tuple[tuple[Row, ...], ...]:
        """The constraints of each alternative, with numbers in the places of parameters that have values."""
        values = {name: Affine((), value) for name, value in self.numbers.items()}
        return tuple(_with_forms(rows, values) for rows in self.alternatives)

    def range(self, kept: Collection[str]) -> isl.Set:
        """Return the ranges of the inames *kept*; the others are free."""
        if not self.alternatives:
            return self.set
        found = own_range(self.alternatives, self.parameters, self.inames, frozenset(kept))
        return fixed_set(found, self.numbers)

    def is_apart(self, kept: frozenset[str]) -> bool:
        """Return whether no constraint relates *kept* to other inames, so that their ranges are independent."""
        every = frozenset(self.inames)
        names = (row.form.names() & every for rows in self.alternatives for row in rows)
        return all(used <= kept or used.isdisjoint(kept) for used in names)

    def is_said(self, kept: frozenset[str]) -> bool:
        """Return whether the domain's set has the ranges of *kept* as they are written.

        ISL removes constraints that others imply: of ``0 <= i < n - 5 and 0 <= j <= 4 and j < n``, the last one.
        """
        whole, dims = self.set, self.inames
        if len(self.alternatives) == 1 and whole.n_basic_set() == 1:
            (rows,), (basic,) = self.alternatives, whole.get_basic_sets()
            others = frozenset(dims) - kept
            mine = {row for row in rows if row.form.names().isdisjoint(others)}
            if mine == {row for row in rows_of(basic, dims) if row.form.names().isdisjoint(others)}:
                return True
        own, related = self.range(kept), related_range(whole, dims, kept)
        return bool(own.is_equal(related.align_params(own.get_space())))

    def is_open(self, kept: frozenset[str]) -> bool:
        """Return whether it cannot be told how far *kept* range: ISL has shortened the alternatives of a union."""
        if self.text is not None or len(self.alternatives) < 2:
            return False
        return any(own_rows(rows, self.inames, kept)[1] != kept for rows in self.alternatives)


def fixed_domains(domain: Domain, values: Mapping[str, int], text: str | None = None) -> tuple[Domain, ...]:
    """Return *domain* with parameters replaced by numbers: one domain, or two if the set is empty then.

    The first of these has the inames that have values all the same, such as that of a loop around an empty one.

    Parameters
    ----------
    text
        The domain as it was written, if that is known.
    """
    inames, found = domain.inames, fixed_set(domain.set, values)
    if len(inames) <= 1:
        return (Domain(inames, found),)
    if not found.is_empty():
        return (Domain(inames, found) if text is None else Written(inames, found, text, values),)
    whole = Written(inames, domain.set, text, values)
    kept: tuple[str, ...] = ()
    for iname in inames:
        if not whole.range((*kept, iname)).is_empty():
            kept = (*kept, iname)
    if not kept:
        return (Domain(inames, found),)
    rest = tuple(iname for iname in inames if iname not in kept)
    first = project_onto(whole.range(kept), inames, kept)
    return Domain(kept, first), Domain(rest, project_onto(found, inames, rest))


def taken_apart(domain: Domain, groups: Iterable[Collection[str]]) -> tuple[Domain, ...] | frozenset[str]:
    """Return *domain*, or domains inside of each other, in which each of *groups* ranges over its own bounds.

    *groups* are the inames of instructions, and those with the inames of their reductions.  Where it cannot be told how
    far some inames range, these are returned.
    """
    every = frozenset(domain.inames)
    asked = {every.intersection(group) for group in groups} - {every, frozenset()}
    if not asked:
        return (domain,)
    return _parted(written(domain), asked)


def _with_forms(rows: Iterable[Row], forms: Mapping[str, Affine]) -> tuple[Row, ...]:
    """Return constraints with *forms* in the places of names."""
    return tuple(Row(row.form.substitute(forms), row.is_equality) for row in rows)


def written(domain: Domain) -> Written:
    """Return *domain* with its constraints as written, or with those of its set if no text of it is known."""
    return domain if isinstance(domain, Written) else Written(domain.inames, domain.set)


def bare(domain: Domain) -> Domain:
    """Return *domain* without its text."""
    return Domain(domain.inames, domain.set) if isinstance(domain, Written) else domain


def _parted(domain: Written, asked: Collection[frozenset[str]]) -> tuple[Domain, ...] | frozenset[str]:
    """Return the domain taken apart for each of *asked*, or inames of which it cannot be told how far they range."""
    every = frozenset(domain.inames)
    related = [kept for kept in asked if not domain.is_apart(kept)]
    if len(related) < len(asked):
        lost = [kept for kept in asked if domain.is_apart(kept) and not domain.is_said(kept)]
        for kept in sorted(lost, key=lambda names: [iname not in names for iname in domain.inames]):
            return _divided(domain, kept, asked)
    for kept in related:
        if domain.is_open(kept):
            return kept
    narrowed = sorted((kept for kept in related if _is_narrowed(domain, kept)), key=len)
    for inner, outer in pairwise(narrowed):
        if not inner < outer:
            return inner
    return tuple(_inside(domain, *pair) for pair in pairwise([frozenset[str](), *narrowed, every]))


def _divided(
    domain: Written, kept: frozenset[str], asked: Iterable[frozenset[str]]
) -> tuple[Domain, ...] | frozenset[str]:
    """Return the domain as one of *kept* and one of the others, each taken apart further."""
    every = frozenset(domain.inames)
    product = domain.range(kept).intersect(domain.range(every - kept))
    if not product.is_equal(domain.set.align_params(product.get_space())):
        return kept  # its alternatives go together with those of the others
    found: list[Domain] = []
    for part in sorted((kept, every - kept), key=lambda part: domain.inames[0] not in part):
        domains = _parted(domain.part(part), {names & part for names in asked} - {part, frozenset()})
        if isinstance(domains, frozenset):
            return domains
        found += domains
    return tuple(found)


def _is_narrowed(domain: Written, kept: frozenset[str]) -> bool:
    """Return whether *kept* have fewer values in the domain, where that is not empty, than their own bounds allow."""
    dims = [iname for iname in domain.inames if iname in kept]
    own, related = domain.range(kept), related_range(domain.set, domain.inames, kept)
    return not project_onto(own, domain.inames, dims).is_subset(project_onto(related, domain.inames, dims))


def _inside(domain: Written, inner: frozenset[str], outer: frozenset[str]) -> Domain:
    """Return the domain of the inames in *outer* and not in *inner*, which are its parameters."""
    dims = [iname for iname in domain.inames if iname in outer]
    whole = domain.set if len(dims) == len(domain.inames) else domain.range(outer)
    found = project_onto(whole, domain.inames, dims)
    for iname in sorted(inner):
        found = found.move_dims(_PARAM, found.dim(_PARAM), _SET, dims.index(iname), 1)
        dims.remove(iname)
    return Domain(tuple(dims), found)
