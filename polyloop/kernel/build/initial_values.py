"""Initialised temporaries that instructions overwrite: a constant table, and an instruction that copies it."""

from __future__ import annotations

import islpy as isl

from polyloop.expr.nodes import array_name, targets_of
from polyloop.frozen import replace
from polyloop.kernel.arrays import TemporaryVariable
from polyloop.kernel.build.declare import Declared
from polyloop.kernel.build.draft import fail, site_of
from polyloop.kernel.build.plain.desugar import Names, names_in
from polyloop.kernel.build.plain.passes import PlainText
from polyloop.kernel.kernel import Domain
from polyloop.kernel.text.parser import ParsedInstruction, parse_instructions

__all__ = ["with_initial_values"]


def with_initial_values(text: PlainText, data: Declared) -> tuple[PlainText, Declared]:
    """Return text and declarations in which no temporary with an initializer is written.

    One that is written gets its values from a table, by an instruction before all others.

    Raises
    ------
    KernelError
        ``not-assignable``: it is read-only.
    """
    written = {array_name(target) for statement in text.statements for target in targets_of(statement.assignee)}
    if not any(name in written for name, entry in data.temporaries.items() if entry.initializer is not None):
        return text, data
    names = Names({*text.taken, *text.inames, *text.rules, *data.temporaries, *names_in(text.entries)})
    names.taken.update(argument.name for argument in data.arguments)
    names.taken.update(statement.id for statement in text.statements if statement.id is not None)
    first: list[ParsedInstruction] = []
    found: dict[str, TemporaryVariable] = {}
    domains = list(text.domains)
    for name, temporary in data.temporaries.items():
        if temporary.initializer is None or name not in written:
            found[name] = temporary
            continue
        if temporary.is_constant:
            site = next(site_of(s) for s in text.statements if targets_of(s.assignee, name))
            hints = ("drop read_only=True, or assign another variable",)
            raise fail("not-assignable", f"'{name}' is read-only and cannot be assigned", hints=hints, site=site)
        table = names.fresh(f"{name}_init")
        inames = tuple(names.fresh(f"{name}_i{axis}") for axis in range(len(temporary.initializer.shape)))
        found[name] = replace(temporary, initializer=None)
        found[table] = replace(temporary, name=table, padding=0)
        if inames:
            bounds = " and ".join(
                f"0 <= {i} < {extent}" for i, extent in zip(inames, temporary.initializer.shape, strict=True)
            )
            domains.append(Domain(inames, isl.Set(f"{{ [{', '.join(inames)}] : {bounds} }}")))
        at = f"[{', '.join(inames)}]" if inames else ""
        line = f"{name}{at} = {table}{at} {{id={names.fresh(f'{name}_begin')}}}"
        parsed = parse_instructions(line, frozenset(inames))
        first += [entry for entry in parsed if isinstance(entry, ParsedInstruction)]
    text = replace(text, entries=(*first, *text.entries), domains=tuple(domains))
    return text, replace(data, temporaries=found)
