"""Text of a program: definitions, then functions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from polyloop.codegen.definitions import comment, preamble_text
from polyloop.codegen.functions import Function
from polyloop.codegen.heading import Described, heading
from polyloop.codegen.renaming import Spelt
from polyloop.codegen.tables import table_text, table_violations
from polyloop.codegen.tree.cprinter import KEEP
from polyloop.codegen.unit import Unit
from polyloop.errors import CodegenError
from polyloop.expr.rewrite import variables

__all__ = ["Described", "file_text"]


def file_text(functions: Iterable[Function], texts: Iterable[str], program: Described, spelt: Spelt, unit: Unit) -> str:
    """Return the whole source file: a comment on the program, definitions, and the *texts* of *functions*."""
    told = comment((*unit.schedule.remarks.lines(), *spelt.lines(), *heading(unit.schedule, program)))
    header = unit.language.syntax.header
    parts = [
        *((header, told) if header.startswith("//") else (told, header)),
        *unit.definitions.structs.values(),
        *(_kept(preamble_text(name, text.strip("\n"))) for name, text in unit.schedule.file_scope.preambles),
        "\n".join(_tables(functions, unit)),
        "\n".join(unit.definitions.helpers.values()),
        *texts,
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _kept(text: str) -> str:
    """Return a text of the user's with marks that its lines stay as they are."""
    return "\n".join(f"{KEEP}{line}" for line in text.splitlines())


def _tables(functions: Iterable[Function], unit: Unit) -> Iterator[str]:
    """Yield the definitions of the constant tables that statements read."""
    if not unit.schedule.file_scope.tables:
        return
    first, *others = functions
    statements = unit.statements(*(function.launch for function in (first, *others)))
    read = {name for s in statements for part in (s.rhs, s.lhs, *s.predicates) for name in variables(part)}
    used = 0
    for name, table in unit.schedule.file_scope.tables.items():
        if name in read:
            if found := table_violations(name, table, unit.language):
                raise CodegenError("generate_code", unit.schedule.name, found)
            ctype = first.scope.ctype(table.dtype)
            text, used = table_text(unit.table_names[name], table, ctype, unit.language, used)
            yield text
