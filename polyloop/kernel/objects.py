"""Instructions as objects, for scripts that put kernels together: each is one line of the language."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import pymbolic.primitives as p

from polyloop.display import Shown, brief
from polyloop.expr.dtypes import dtype_name, to_dtype
from polyloop.expr.nodes import Expression
from polyloop.expr.printer import foreign_node, show
from polyloop.kernel.build.draft import fail
from polyloop.kernel.layout import Auto

__all__ = ["Assignment", "BarrierInstruction", "InstructionObject", "NoOpInstruction", "spelled"]


@dataclass(frozen=True)
class Assignment(Shown):
    """The assignment ``assignee = expression {id=.., dep=.., ..}``, in a list of instructions.

    Parameters
    ----------
    assignee, expression
        Text, or pymbolic expressions.
    id, depends_on, tags, groups, conflicts_with_groups, priority
        As the options of text; sets of names may be given as text too, separated by ``:``.
    depends_on_is_final
        Whether nothing is added to ``depends_on``: ``dep=*a:b``.
    within_inames
        Further loops around it (``inames=+i:j``); all of them, if ``within_inames_is_final``.
    predicates
        Conditions, all of which must hold: text, or pymbolic expressions.
    no_sync_with
        Ids, or pairs of an id and ``"local"``, ``"global"`` or ``"any"``.
    temp_var_type
        A type, or ``auto``, declares the assignee as a temporary: ``<float32> t = ..`` or ``<> t = ..``.
    atomic
        True for an atomic update.
    """

    assignee: str | Expression
    expression: str | Expression
    id: str | None = None
    predicates: Iterable[str | Expression] | str | None = None
    depends_on: Iterable[str] | str | None = None
    depends_on_is_final: bool = False
    within_inames: Iterable[str] | str | None = None
    within_inames_is_final: bool = False
    tags: Iterable[str] | str | None = None
    no_sync_with: Iterable[str | tuple[str, str]] = ()
    groups: Iterable[str] | str | None = None
    conflicts_with_groups: Iterable[str] | str | None = None
    priority: int | None = None
    temp_var_type: object = None
    atomic: bool = False

    __repr__ = brief

    def __str__(self) -> str:
        declared = ""
        if self.temp_var_type is not None:
            is_auto = isinstance(self.temp_var_type, Auto)
            declared = "<> " if is_auto else f"<{dtype_name(to_dtype(self.temp_var_type))}> "
        scopes = [entry if isinstance(entry, str) else "@".join(entry) for entry in self.no_sync_with]
        final = "" if self.within_inames_is_final else "+"
        options = [
            _option("id", self.id),
            _option("dep", self.depends_on, "*" if self.depends_on_is_final else ""),
            _option("inames", self.within_inames, final),
            _option("if", _condition(self.predicates)),
            _option("tags", self.tags),
            _option("nosync", scopes),
            _option("groups", self.groups),
            _option("conflicts", self.conflicts_with_groups),
            "" if self.priority is None else f"priority={self.priority}",
            "atomic" if self.atomic else "",
        ]
        if self.within_inames_is_final and not _names(self.within_inames):
            options.append("inames=")
        return _line(f"{declared}{_text(self.assignee)} = {_text(self.expression)}", options)


@dataclass(frozen=True)
class NoOpInstruction(Shown):
    """``... nop {id=.., dep=..}``: a name for several instructions."""

    id: str
    depends_on: Iterable[str] | str | None = None

    __repr__ = brief

    def __str__(self) -> str:
        return _line("... nop", [_option("id", self.id), _option("dep", self.depends_on)])


@dataclass(frozen=True)
class BarrierInstruction(Shown):
    """A barrier of all threads, or with *synchronization_kind* ``"local"`` of the threads of a block.

    It orders the instructions before it and those after it in the list; to put it into a loop, write ``"for i"`` and
    ``"end"`` around these.
    """

    id: str | None = None
    depends_on: Iterable[str] | str | None = None
    synchronization_kind: str = "global"
    mem_kind: str | None = None

    __repr__ = brief

    def __str__(self) -> str:
        words = {"global": "... gbarrier", "local": "... lbarrier"}
        if self.synchronization_kind not in words:
            message = f"a barrier is global or local, not {self.synchronization_kind!r}"
            raise fail("bad-instructions", message, hints=('synchronization_kind="global" or "local"',))
        options = [_option("id", self.id), _option("dep", self.depends_on), _option("mem_kind", self.mem_kind)]
        return _line(words[self.synchronization_kind], options)


InstructionObject: TypeAlias = Assignment | NoOpInstruction | BarrierInstruction


def spelled(given: object) -> Any:  # noqa: ANN401 - instructions, as make_kernel takes them
    """Return *given* with instruction objects as text; other entries stay as they are."""
    if isinstance(given, InstructionObject):
        return [str(given)]
    if isinstance(given, str) or not isinstance(given, Sequence):
        return given
    return [str(entry) if isinstance(entry, InstructionObject) else entry for entry in given]


def _line(statement: str, options: Iterable[str]) -> str:
    given = ", ".join(option for option in options if option)
    return f"{statement} {{{given}}}" if given else statement


def _names(given: Iterable[str] | str | None) -> str:
    if given is None or isinstance(given, str):
        return given or ""
    return ":".join(sorted(given) if isinstance(given, set | frozenset) else given)


def _option(key: str, given: Iterable[str] | str | None, before: str = "") -> str:
    names = _names(given)
    return f"{key}={before}{names}" if names else ""


def _text(part: str | Expression) -> str:
    if isinstance(part, str):
        return part
    if name := foreign_node(part):
        raise fail("syntax", f"a node of class {name} is not an expression of a kernel", hints=("write it as text",))
    return show(part)


def _condition(given: Iterable[str | Expression] | str | None) -> str:
    """Return the conjunction of *given*."""
    if given is None or isinstance(given, str):
        return given or ""
    if isinstance(given, p.ExpressionNode):
        return _text(given)
    parts = [_text(part) for part in given]
    if isinstance(given, set | frozenset):
        parts.sort()
    return parts[0] if len(parts) == 1 else " and ".join(f"({part})" for part in parts)
