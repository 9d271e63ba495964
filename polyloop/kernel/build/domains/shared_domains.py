"""Separation of domains with several inames, so that a loop around an empty loop runs.

``{[i, k]: 0 <= i < n and 0 <= k < i}`` has no point with ``i = 0``, and a sum over ``k`` is 0 there.  The text means
two domains: of ``i`` and, inside of it, of ``k``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import pairwise

import islpy as isl

from polyloop.kernel.domains import fixed_set, parameters_of
from polyloop.kernel.kernel import Domain
from polyloop.kernel.text.domain_text import Alternative, alternatives
from polyloop.poly.ranges import own_range, own_rows, related_range, systems
from polyloop.poly.sets import Row, project_onto, rows_of, settled

__all__ = ["fixed_domains", "taken_apart"]

_SET = isl.dim_type.set
_PARAM = isl.dim_type.param


class Written:
    """A domain with its constraints as written, because ISL removes implied ones."""

    def __init__(self, domain: Domain, alternatives: Sequence[Alternative], values: Mapping[str, int]) -> None:
        self.domain = domain
        self.numbers = {name: value for entry in alternatives for name, value in entry.numbers.items()} | {**values}
        self.parameters = tuple(dict.fromkeys((*parameters_of(domain.set), *self.numbers)))
        self.is_text = bool(alternatives)
        conjunctions = [entry.conditions for entry in alternatives] or [(domain.set,)]
        self.alternatives: list[list[Row]] = [
            rows for conditions in conjunctions for rows in systems(conditions, domain.inames)
        ]

    def part(self, kept: Collection[str]) -> Written:
        """Return the domain of the inames *kept*, which no constraint relates to others."""
        dims = tuple(iname for iname in self.domain.inames if iname in kept)
        found = Written.__new__(Written)
        found.domain = Domain(dims, settled(project_onto(self.range(kept), self.domain.inames, dims)))
        found.numbers, found.parameters, found.is_text = self.numbers, self.parameters, self.is_text
        others = frozenset(self.domain.inames).difference(kept)
        found.alternatives = [
            [row for row in rows if row.form.names().isdisjoint(others)] for rows in self.alternatives
        ]
        return found

    def range(self, kept: Collection[str]) -> isl.Set:
        """Return the ranges of the inames *kept*; the others are free."""
        if not self.alternatives:
            return self.domain.set
        found = own_range(self.alternatives, self.parameters, self.domain.inames, frozenset(kept))
        return fixed_set(found, self.numbers)

    def is_apart(self, kept: frozenset[str]) -> bool:
        """Return whether no constraint relates *kept* to other inames, so that their ranges are independent."""
        every = frozenset(self.domain.inames)
        names = (row.form.names() & every for rows in self.alternatives for row in rows)
        return all(used <= kept or used.isdisjoint(kept) for used in names)

    def is_said(self, kept: frozenset[str]) -> bool:
        """Return whether the domain's set has the ranges of *kept* as they are written.

        ISL removes constraints that others imply: of ``0 <= i < n - 5 and 0 <= j <= 4 and j < n``, the last one.
        """
        whole, dims = self.domain.set, self.domain.inames
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
        if self.is_text or len(self.alternatives) < 2:
            return False
        return any(own_rows(rows, self.domain.inames, kept)[1] != kept for rows in self.alternatives)


def fixed_domains(domain: Domain, values: Mapping[str, int], text: str | None = None) -> tuple[Domain, ...]:
    """Return *domain* with parameters replaced by numbers: one domain, or two if the set is empty then.

    The first of these has the inames that have values all the same, such as that of a loop around an empty one.

    Parameters
    ----------
    text
        The domain as it was written, if that is known.
    """
    inames, found = domain.inames, fixed_set(domain.set, values)
    if len(inames) == 1 or not found.is_empty():
        return (Domain(inames, found),)
    written = Written(domain, alternatives(text) if text is not None else (), values)
    kept: tuple[str, ...] = ()
    for iname in inames:
        if not written.range((*kept, iname)).is_empty():
            kept = (*kept, iname)
    if not kept:
        return (Domain(inames, found),)
    rest = tuple(iname for iname in inames if iname not in kept)
    first = project_onto(written.range(kept), inames, kept)
    return Domain(kept, first), Domain(rest, project_onto(found, inames, rest))


def taken_apart(
    domain: Domain, text: str | None, values: Mapping[str, int], groups: Iterable[Collection[str]]
) -> tuple[Domain, ...] | frozenset[str]:
    """Return *domain*, or domains inside of each other, in which each of *groups* ranges over its own bounds.

    *groups* are the inames of instructions, and those with the inames of their reductions; *values* are numbers in the
    places of parameters of *text*.  Where it cannot be told how far some inames range, these are returned.
    """
    every = frozenset(domain.inames)
    asked = {every.intersection(group) for group in groups} - {every, frozenset()}
    if not asked:
        return (domain,)
    return _parted(Written(domain, alternatives(text) if text is not None else (), values), asked)


def _parted(written: Written, asked: Collection[frozenset[str]]) -> tuple[Domain, ...] | frozenset[str]:
    """Return the domain taken apart for each of *asked*, or inames of which it cannot be told how far they range."""
    domain, every = written.domain, frozenset(written.domain.inames)
    related = [kept for kept in asked if not written.is_apart(kept)]
    if len(related) < len(asked):
        lost = [kept for kept in asked if written.is_apart(kept) and not written.is_said(kept)]
        for kept in sorted(lost, key=lambda names: [iname not in names for iname in domain.inames]):
            return _divided(written, kept, asked)
    for kept in related:
        if written.is_open(kept):
            return kept
    narrowed = sorted((kept for kept in related if _is_narrowed(written, kept)), key=len)
    for inner, outer in pairwise(narrowed):
        if not inner < outer:
            return inner
    return tuple(_inside(written, *pair) for pair in pairwise([frozenset[str](), *narrowed, every]))


def _divided(
    written: Written, kept: frozenset[str], asked: Iterable[frozenset[str]]
) -> tuple[Domain, ...] | frozenset[str]:
    """Return the domain as one of *kept* and one of the others, each taken apart further."""
    every = frozenset(written.domain.inames)
    product = written.range(kept).intersect(written.range(every - kept))
    if not product.is_equal(written.domain.set.align_params(product.get_space())):
        return kept  # its alternatives go together with those of the others
    found: list[Domain] = []
    for part in sorted((kept, every - kept), key=lambda part: written.domain.inames[0] not in part):
        domains = _parted(written.part(part), {names & part for names in asked} - {part, frozenset()})
        if isinstance(domains, frozenset):
            return domains
        found += domains
    return tuple(found)


def _is_narrowed(written: Written, kept: frozenset[str]) -> bool:
    """Return whether *kept* have fewer values in the domain, where that is not empty, than their own bounds allow."""
    domain = written.domain
    dims = [iname for iname in domain.inames if iname in kept]
    own, related = written.range(kept), related_range(domain.set, domain.inames, kept)
    return not project_onto(own, domain.inames, dims).is_subset(project_onto(related, domain.inames, dims))


def _inside(written: Written, inner: frozenset[str], outer: frozenset[str]) -> Domain:
    """Return the domain of the inames in *outer* and not in *inner*, which are its parameters."""
    domain = written.domain
    dims = [iname for iname in domain.inames if iname in outer]
    whole = domain.set if len(dims) == len(domain.inames) else written.range(outer)
    found = project_onto(whole, domain.inames, dims)
    for iname in sorted(inner):
        found = found.move_dims(_PARAM, found.dim(_PARAM), _SET, dims.index(iname), 1)
        dims.remove(iname)
    return Domain(tuple(dims), found)
