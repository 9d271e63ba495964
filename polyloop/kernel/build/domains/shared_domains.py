"""Separation of domains with several inames, so that a loop around an empty loop runs.

``{[i, k]: 0 <= i < n and 0 <= k < i}`` has no point with ``i = 0``, and a sum over ``k`` is 0 there.  The text means
two domains: of ``i`` and, inside of it, of ``k``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TypeAlias

import islpy as isl

from polyloop.frozen import once, quick
from polyloop.kernel.domains import fixed_set, parameters_of
from polyloop.kernel.kernel import Domain
from polyloop.kernel.text.domain_text import alternatives
from polyloop.poly.affine import Affine
from polyloop.poly.ranges import own_range, own_rows, related_range, systems
from polyloop.poly.sets import Row, project_onto, reorder, rows_of, settled

__all__ = ["Written", "bare", "fixed_domains", "taken_apart", "written"]

_SET = isl.dim_type.set
_PARAM = isl.dim_type.param

Reading: TypeAlias = tuple[tuple[Row, ...], ...]
"""The constraints of each alternative."""


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
        Its readings, where a pass has made another domain of the one in the text.
    """

    text: str | None = None
    values: Mapping[str, int] = field(default_factory=dict)
    rows: tuple[Reading, ...] | None = None

    @once
    def numbers(self) -> dict[str, int]:
        """The numbers in the places of parameters of its alternatives."""
        known = alternatives(self.text) if self.rows is None and self.text is not None else ()
        return {name: value for entry in known for name, value in entry.numbers.items()} | {**self.values}

    @once
    def parameters(self) -> tuple[str, ...]:
        """The parameters of its set and of its alternatives."""
        known = {name for reading in self.rows or () for rows in reading for row in rows for name in row.form.names()}
        named = sorted(known - {*self.inames})
        return tuple(dict.fromkeys((*parameters_of(self.set), *self.numbers, *named)))

    @once
    def is_unread(self) -> bool:
        """True if there is a text of which ISL alone knows the meaning."""
        return self.rows is None and self.text is not None and not alternatives(self.text)

    @once
    def readings(self) -> tuple[Reading, ...]:
        """The constraints of each alternative; several times where ISL eliminates names that exist, in other orders."""
        if self.rows is not None:
            return self.rows
        known = alternatives(self.text) if self.text is not None else ()
        conjunctions = [entry.conditions for entry in known] or [(self.set,)]
        turns = range(len(self.inames) if any(entry.is_scoped for entry in known) else 1)
        return tuple(_read(conjunctions, self.inames, turn) for turn in turns)

    @property
    def alternatives(self) -> Reading:
        """The constraints of each alternative."""
        return self.readings[0]

    def part(self, kept: Collection[str]) -> Written:
        """Return the domain of the inames *kept*, which no constraint relates to others."""
        dims = tuple(iname for iname in self.inames if iname in kept)
        others = frozenset(self.inames).difference(kept)
        rows = tuple(
            tuple(tuple(row for row in rows if row.form.names().isdisjoint(others)) for rows in reading)
            for reading in self.readings
        )
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
        chosen = [[own_rows(rows, self.inames, kept) for rows in reading] for reading in self.readings]
        if any(counted != kept for reading in chosen for _, counted in reading):
            return Domain(tuple(dims), found)
        own_readings = tuple(tuple(tuple(rows) for rows, _ in reading) for reading in chosen)
        return Written(tuple(dims), found, self.text, self.numbers, own_readings)

    def changed(self, inames: tuple[str, ...], found: isl.Set, forms: Mapping[str, Affine]) -> Domain:
        """Return the domain of *inames* with the set *found*, whose constraints have *forms* in the places of names."""
        if len(inames) <= 1 or self.is_unread or not self.alternatives:
            return Domain(inames, found)
        readings = tuple(tuple(_with_forms(rows, forms) for rows in reading) for reading in self.plain)
        return Written(inames, found, self.text, {}, readings)

    def times(self, inames: tuple[str, ...], found: isl.Set, forms: Mapping[str, Affine]) -> Domain:
        """Return the domain of *inames* with the set *found*: its own constraints, and those with *forms* in them."""
        readings = tuple(
            tuple((*one, *_with_forms(other, forms)) for one in reading for other in reading) for reading in self.plain
        )
        return Written(inames, found, self.text, {}, readings)

    @once
    def plain(self) -> tuple[Reading, ...]:
        """The readings, with numbers in the places of parameters that have values."""
        values = {name: Affine((), value) for name, value in self.numbers.items()}
        return tuple(tuple(_with_forms(rows, values) for rows in reading) for reading in self.readings)

    def range(self, kept: Collection[str]) -> isl.Set:
        """Return the ranges of the inames *kept*; the others are free."""
        return self._range(self.alternatives, kept)

    def _range(self, reading: Reading, kept: Collection[str]) -> isl.Set:
        if not reading:
            return self.set
        return fixed_set(own_range(reading, self.parameters, self.inames, frozenset(kept)), self.numbers)

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
        own = self.range(kept)
        if whole.is_empty():
            return bool(own.is_empty())
        related = related_range(whole, dims, kept)
        return bool(own.is_equal(related.align_params(own.get_space())))

    def is_open(self, kept: frozenset[str]) -> bool:
        """Return whether it cannot be told how far *kept* range.

        ISL has shortened the alternatives of a union, or eliminated the names of an ``exists`` in one of several ways.
        """
        if self.is_unread:
            return True
        if self.text is not None:
            own, *others = (
                project_onto(self._range(one, kept), self.inames, [*kept]) for one in self.readings
            )
            return not all(other.is_equal(own) for other in others)
        if len(self.alternatives) < 2:
            return False
        return any(own_rows(rows, self.inames, kept)[1] != kept for rows in self.alternatives)


def _read(conjunctions: Sequence[Sequence[isl.Set]], dims: Sequence[str], turn: int) -> Reading:
    """Return the rows of *conjunctions*, where ISL has the inames in their order, turned *turn* times."""
    order = (*dims[turn:], *dims[:turn])
    turned = [[reorder(one, dims, order) for one in conditions] for conditions in conjunctions]
    return tuple(tuple(rows) for conditions in turned for rows in systems(conditions, order))


def fixed_domains(domain: Domain, values: Mapping[str, int]) -> tuple[Domain, ...]:
    """Return *domain* with parameters replaced by numbers: several domains if one would not have all ranges.

    A set is empty where one of its inames has no value, and ISL removes what is implied for these numbers.
    """
    inames, found = domain.inames, fixed_set(domain.set, values)
    parts = _connected(domain)
    if len(parts) == 1:
        return (Domain(inames, found),)
    ranges = [fixed_set(related_range(domain.set, inames, part), values) for part in parts]
    whole = settled(found)
    if all(own.is_equal(related_range(whole, inames, part)) for own, part in zip(ranges, parts, strict=True)):
        return (Domain(inames, found),)
    dims = [tuple(iname for iname in inames if iname in part) for part in parts]
    return tuple(Domain(own, project_onto(one, inames, own)) for own, one in zip(dims, ranges, strict=True))


def _connected(domain: Domain) -> list[frozenset[str]]:
    """Return the inames in groups that no constraint relates to each other."""
    found: list[frozenset[str]] = [frozenset([iname]) for iname in domain.inames]
    for basic in domain.set.compute_divs().get_basic_sets():
        for row in rows_of(basic, domain.inames):
            used = row.form.names()
            joined = [group for group in found if not group.isdisjoint(used)]
            if len(joined) > 1:
                kept = [group for group in found if group not in joined]
                found = [*kept, frozenset[str]().union(*joined)]
    return sorted(found, key=lambda group: min(map(domain.inames.index, group)))


def taken_apart(domain: Domain, groups: Iterable[Collection[str]]) -> tuple[Domain, ...] | frozenset[str]:
    """Return *domain*, or domains inside of each other, in which each of *groups* ranges over its own bounds.

    *groups* are the inames of instructions, and those with the inames of their reductions.  Where it cannot be told how
    far some inames range, these are returned.
    """
    every = frozenset(domain.inames)
    asked = {every.intersection(group) for group in groups} - {every, frozenset()}
    if not asked:
        return (domain,)
    whole = written(domain)
    return min(asked, key=sorted) if whole.is_unread else _parted(whole, asked)


def _with_forms(rows: Iterable[Row], forms: Mapping[str, Affine]) -> tuple[Row, ...]:
    """Return constraints with *forms* in the places of names."""
    return tuple(Row(row.form.substitute(forms), row.is_equality) for row in rows)


def written(domain: Domain) -> Written:
    """Return *domain* with its constraints as written, or with those of its set if no text of it is known."""
    return domain if isinstance(domain, Written) else Written(domain.inames, domain.set)


def bare(domain: Domain) -> Domain:
    """Return *domain* without its text."""
    return Domain(domain.inames, domain.set) if isinstance(domain, Written) else domain


def _parted(domain: Written, asked: set[frozenset[str]]) -> tuple[Domain, ...] | frozenset[str]:
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
    parted = sorted((kept for kept in related if _is_other(domain, kept)), key=len)
    for kept in sorted(asked.difference(related), key=len) if parted else ():
        parts = _divided(domain, kept, asked)
        if not isinstance(parts, frozenset):
            return parts
    for inner, outer in pairwise(parted):
        if not inner < outer:
            return inner
    return tuple(_inside(domain, *pair) for pair in pairwise([frozenset[str](), *parted, every]))


def _divided(
    domain: Written, kept: frozenset[str], asked: set[frozenset[str]]
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


def _is_other(domain: Written, kept: frozenset[str]) -> bool:
    """Return whether *kept* have other values in the domain than their own bounds allow.

    These are fewer where the domain is empty, and more where ISL has removed constraints that others imply.
    """
    dims = [iname for iname in domain.inames if iname in kept]
    own, related = domain.range(kept), related_range(domain.set, domain.inames, kept)
    return not project_onto(own, domain.inames, dims).is_equal(project_onto(related, domain.inames, dims))


def _inside(domain: Written, inner: frozenset[str], outer: frozenset[str]) -> Domain:
    """Return the domain of the inames in *outer* and not in *inner*, of which those in its bounds are parameters."""
    dims = [iname for iname in domain.inames if iname in outer]
    whole = domain.set if len(dims) == len(domain.inames) else domain.range(outer)
    found = project_onto(whole, domain.inames, dims)
    own = related_range(found, dims, outer - inner) if inner else found
    apart = frozenset(iname for k, iname in enumerate(dims) if iname in inner and not own.involves_dims(_SET, k, 1))
    rest, around = related_range(found, dims, apart), project_onto(domain.range(inner), domain.inames, sorted(apart))
    if apart and own.intersect(rest).is_equal(found) and around.is_subset(project_onto(rest, dims, sorted(apart))):
        dims, kept = [iname for iname in dims if iname not in apart], dims
        found = project_onto(own, kept, dims)
        inner = inner - apart
    for iname in sorted(inner):
        found = found.move_dims(_PARAM, found.dim(_PARAM), _SET, dims.index(iname), 1)
        dims.remove(iname)
    return Domain(tuple(dims), found)
