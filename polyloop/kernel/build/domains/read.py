"""Domains as text or as ISL sets, read and checked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

import islpy as isl

from polyloop.errors import KernelError
from polyloop.expr.names import check_identifier
from polyloop.kernel.build.domains.shared_domains import Written
from polyloop.kernel.build.draft import fail
from polyloop.kernel.domains import fixed_set, parameters_of
from polyloop.kernel.kernel import Domain
from polyloop.kernel.text.domain_text import parse_domain
from polyloop.poly.sets import settled

__all__ = ["GivenDomain", "GivenDomains", "listed", "read_domains"]

_SET = isl.dim_type.set

GivenDomain: TypeAlias = str | isl.Set | isl.BasicSet
"""One domain as users write it."""

GivenDomains: TypeAlias = GivenDomain | Sequence[GivenDomain]
"""The domains of a kernel as users write them."""


def listed(domains: GivenDomains) -> list[GivenDomain]:
    """Return the domains of a kernel as a list, of one entry if only one is given."""
    return [domains] if isinstance(domains, GivenDomain) else list(domains)


def read_domains(
    entries: Iterable[GivenDomain], fixed: Mapping[str, int]
) -> tuple[tuple[Domain, ...], frozenset[str]]:
    """Return the domains, and the *fixed* parameters that occur in them.

    Raises
    ------
    KernelError
        ``syntax-domain``, ``bad-identifier``, ``iname-twice``.
    """
    found: set[str] = set()
    pieces: list[Domain] = []
    owner: dict[str, tuple[int, isl.Set]] = {}
    for number, entry in enumerate(entries):
        if isinstance(entry, str):
            domain = parse_domain(entry)
        else:
            domain = entry.to_set() if isinstance(entry, isl.BasicSet) else entry
        if domain.is_params():
            domain = domain.from_params()
        found.update(fixed.keys() & {*parameters_of(domain)})
        inames = tuple(domain.get_dim_name(_SET, i) or "" for i in range(domain.dim(_SET)))
        for iname in inames:
            problem = check_identifier(iname, "iname")
            if problem is not None:
                raise KernelError("make_kernel", None, [problem])
            if iname in owner:
                raise fail(
                    "iname-twice",
                    f"iname '{iname}' is in two domains",
                    notes=(f"domain {owner[iname][0]}: {owner[iname][1]}", f"domain {number}: {domain}"),
                    hints=("an iname belongs to one domain; rename one of them",),
                )
            owner[iname] = (number, domain)
        whole = domain.reset_tuple_id() if domain.has_tuple_id() else domain
        whole = settled(fixed_set(whole, fixed))
        if isinstance(entry, str) and len(inames) > 1:
            pieces.append(Written(inames, whole, entry, fixed))
        else:
            pieces.append(Domain(inames, whole))
    return tuple(pieces), frozenset(found)
