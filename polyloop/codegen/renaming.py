"""Renaming of schedules and programs: from names of the kernel to C names, and back."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from typing import Any, Final

import islpy as isl
import pymbolic.primitives as p
from pymbolic.primitives import ExpressionNode

from polyloop.codegen.definitions import record_names
from polyloop.codegen.indexed import IndexedArray
from polyloop.codegen.language import Language
from polyloop.codegen.names import Spelling, spelling
from polyloop.codegen.parts import is_split, parts_of
from polyloop.codegen.program import GeneratedProgram
from polyloop.errors import CodegenError, Diagnostic
from polyloop.expr.nodes import Operation
from polyloop.expr.rewrite import substitute
from polyloop.frozen import replace
from polyloop.kernel.arrays import ArrayArg, Table
from polyloop.kernel.intrinsic import MatrixIntrinsic
from polyloop.kernel.tree import Group, Run
from polyloop.poly.affine import Affine
from polyloop.poly.sets import rename_dims
from polyloop.schedule.plan import Atomic, FileScope, Launch, Product, Schedule, Statement

__all__ = ["Renaming", "Spelt", "names_of", "spell"]

_KEPT: Final[Mapping[type, tuple[str, ...]]] = {
    Statement: ("name", "instruction"), Atomic: ("operation",), Run: ("name",), Group: ("arrivals",),
    ArrayArg: ("order", "dim_names"), Launch: ("name",),
    Schedule: ("name", "remarks", "phantoms"), FileScope: ("preambles",), IndexedArray: ("launch", "instruction"),
}  # fmt: skip
"""Fields whose strings are no names of variables."""
_KEYS_KEPT: Final = frozenset({(Schedule, "statements"), (Product, "axes")})
"""Mappings whose keys are no names of variables."""
_WORD: Final = re.compile(r"\w+", re.ASCII)


def names_of(schedule: Schedule) -> Iterator[str]:
    """Yield the names of variables that functions of *schedule* may have."""
    for argument in (*schedule.contract.arguments, *schedule.contract.workspace):
        parts = parts_of(argument) if isinstance(argument, ArrayArg) and is_split(argument) else None
        yield from [argument.name] if parts is None or isinstance(parts, Diagnostic) else parts[0].parts
    yield from schedule.contract.parameters
    yield from (name for name, _ in schedule.indices.named)
    yield from schedule.indices.digit_names.values()
    for launch in schedule.launches:
        for storage in launch.temporaries:
            yield storage.name
            if storage.pool is not None:
                yield storage.pool
    for statement in schedule.statements.values():
        yield from (dim for dim in statement.dims if dim.isidentifier())
        if (collective := statement.collective) is not None:
            yield from (name for name in (collective.chain, collective.ticket) if name is not None)


@dataclass(frozen=True)
class Renaming:
    """Substitution of names in a schedule, a program or any part of one; ``names`` maps old names to new ones."""

    names: Mapping[str, str]

    def __call__(self, value: Any) -> Any:  # noqa: ANN401 - a part of a schedule or of a program
        """Return *value* under the new names."""
        match value:
            case str():
                return self.names.get(value, value)
            case ExpressionNode():
                return substitute(value, {old: p.Variable(new) for old, new in self.names.items()})
            case isl.Set():
                return rename_dims(value, self.names)
            case Affine():
                return value.substitute({old: Affine.variable(new) for old, new in self.names.items()})
            case Enum() | Table() | Operation() | MatrixIntrinsic() | Diagnostic() | type():
                return value
            case tuple() if hasattr(value, "_fields"):
                return type(value)(*map(self, value))
            case tuple() | frozenset():
                return type(value)(map(self, value))
            case Mapping():
                return {self(key): self(item) for key, item in value.items()}
        if is_dataclass(value) and not isinstance(value, type):
            old = {entry.name: getattr(value, entry.name) for entry in fields(value) if entry.init}
            new = {name: self._part(type(value), name, part) for name, part in old.items()}
            changed = {name: part for name, part in new.items() if part is not old[name]}
            return replace(value, **changed) if changed else value
        return value

    def _part(self, kind: type, field: str, value: Any) -> Any:  # noqa: ANN401
        """Return a field of a dataclass under the new names."""
        if field in _KEPT.get(kind, ()):
            return value
        if (kind, field) in _KEYS_KEPT:
            return {key: self(item) for key, item in value.items()}
        return self(value)

    def text(self, text: str) -> str:
        """Return *text* of a message or comment under the new names."""
        return _WORD.sub(lambda match: self.names.get(match[0], match[0]), text)

    def diagnostic(self, found: Diagnostic) -> Diagnostic:
        """Return a finding under the new names."""
        notes, hints = tuple(map(self.text, found.notes)), tuple(map(self.text, found.hints))
        return replace(found, message=self.text(found.message), notes=notes, hints=hints)


@dataclass(frozen=True)
class Spelt:
    """A schedule with C names.

    Attributes
    ----------
    how
        The renaming.
    kernel
        The kernel's name before.
    renamed
        Names that have changed, old and new; among them that of the kernel.
    back
        The inverse renaming, from C names to names of the user.
    """

    schedule: Schedule
    how: Spelling
    kernel: str
    renamed: tuple[tuple[str, str], ...]
    back: Renaming

    def lines(self) -> Iterator[str]:
        """Yield a comment for the text that explains changed names."""
        if self.renamed:
            known = ", ".join(f"{new} is '{old}'" for old, new in self.renamed)
            yield f"Names with another meaning in C or CUDA: {known}."

    def error(self, error: CodegenError) -> CodegenError:
        """Return *error* with the names of the kernel."""
        return CodegenError(error.operation, self.kernel, map(self.back.diagnostic, error.found))

    def described(self, program: GeneratedProgram) -> GeneratedProgram:
        """Return *program* with the names of the kernel in everything but the text and the names of functions."""
        back, text = self.back, self.back.text
        if not self.renamed:
            return program
        launches = tuple(
            replace(launch, grid=back(launch.grid), arguments=back(launch.arguments), maps=back(launch.maps),
                    host=back(launch.host), turns=back(launch.turns))
            for launch in program.launches
        )
        checks, index_checks = (
            tuple(replace(c, condition=back(c.condition), message=text(c.message), hint=text(c.hint)) for c in found)
            for found in (program.checks, program.index_checks)
        )
        proofs = tuple(replace(p, subject=text(p.subject), says=text(p.says), by=text(p.by),
                               found=tuple(map(back.diagnostic, p.found))) for p in program.proofs)  # fmt: skip
        return replace(
            program, kernel=self.kernel, launches=launches, checks=checks, index_checks=index_checks, proofs=proofs,
            arguments=back(program.arguments), workspace=back(program.workspace), split=back(program.split),
            alignments=back(program.alignments), renamed=self.renamed,
            indexed=tuple(replace(back(a), element=text(a.element)) for a in program.indexed),
            notes=tuple((instruction, back.diagnostic(note)) for instruction, note in program.notes),
        )  # fmt: skip


def spell(schedule: Schedule, language: Language) -> Spelt:
    """Return *schedule* with C names."""
    types = {name for a in schedule.contract.arguments if a.dtype is not None for name in record_names(a.dtype)}
    how = spelling(language, (text for _, text in schedule.file_scope.preambles), types)
    moved = how.moved(names_of(schedule))
    name = how.at_file_scope(schedule.name)
    renamed = tuple(moved.items()) + (((schedule.name, name),) if name != schedule.name else ())
    there, back = Renaming(moved), Renaming({new: old for old, new in moved.items()})
    if not renamed:
        return Spelt(schedule, how, schedule.name, (), back)
    launches = tuple(replace(u, name=how.at_file_scope(u.name)) for u in schedule.launches)
    spelt = there(replace(schedule, name=name, launches=launches))
    return Spelt(spelt, how, schedule.name, renamed, back)
