"""Initialised temporaries that instructions overwrite: a constant table, and an instruction that copies it."""

from __future__ import annotations

from collections.abc import Sequence

import islpy as isl

from polyloop.expr.nodes import array_name, targets_of
from polyloop.frozen import replace
from polyloop.kernel.arrays import TemporaryVariable
from polyloop.kernel.build.draft import fail, site_of
from polyloop.kernel.kernel import Domain
from polyloop.kernel.text.parser import ParsedInstruction, parse_instructions

__all__ = ["with_initial_values"]


def with_initial_values(
    statements: Sequence[ParsedInstruction],
    temporaries: dict[str, TemporaryVariable],
    pieces: Sequence[Domain],
    taken: frozenset[str],
) -> tuple[list[ParsedInstruction], dict[str, TemporaryVariable], tuple[Domain, ...]]:
    """Return statements, temporaries and domains in which no temporary with an initializer is written.

    One that is written gets its values from a table, by an instruction before all others.
    """
    written = {array_name(target) for statement in statements for target in targets_of(statement.assignee)}
    known = set(taken) | set(temporaries)
    first: list[ParsedInstruction] = []
    found: dict[str, TemporaryVariable] = {}
    domains = list(pieces)

    def fresh(wish: str) -> str:
        name = next(n for n in (wish, *(f"{wish}_{k}" for k in range(len(known) + 1))) if n not in known)
        known.add(name)
        return name

    for name, temporary in temporaries.items():
        if temporary.initializer is None or name not in written:
            found[name] = temporary
            continue
        if temporary.is_constant:
            site = next(site_of(s) for s in statements if targets_of(s.assignee, name))
            hints = ("drop read_only=True, or assign another variable",)
            raise fail("not-assignable", f"'{name}' is read-only and cannot be assigned", hints=hints, site=site)
        table = fresh(f"{name}_init")
        inames = tuple(fresh(f"{name}_i{axis}") for axis in range(len(temporary.initializer.shape)))
        found[name] = replace(temporary, initializer=None)
        found[table] = replace(temporary, name=table, padding=0)
        if inames:
            bounds = " and ".join(
                f"0 <= {i} < {extent}" for i, extent in zip(inames, temporary.initializer.shape, strict=True)
            )
            domains.append(Domain(inames, isl.Set(f"{{ [{', '.join(inames)}] : {bounds} }}")))
        at = f"[{', '.join(inames)}]" if inames else ""
        text = f"{name}{at} = {table}{at} {{id={fresh(f'{name}_begin')}}}"
        parsed = parse_instructions(text, frozenset(inames))
        first += [entry for entry in parsed if isinstance(entry, ParsedInstruction)]
    return [*first, *statements], found, tuple(domains)
