"""The options of an instruction: ``{id=copy, dep=load:init*, inames=i:j, if=x > 0}``."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Final

from polyloop.errors import KernelError, unknown_name
from polyloop.expr.names import is_identifier
from polyloop.expr.nodes import Expression
from polyloop.expr.parser import parse_source
from polyloop.expr.source import Source, split_outside_brackets
from polyloop.kernel.lines import OPERATION, fail

__all__ = ["Options", "parse_options"]


@dataclass(frozen=True)
class Options:
    """What the braces after an instruction say; see :class:`polyloop.kernel.parser.ParsedInstruction`."""

    id: str | None = None
    id_prefix: str | None = None
    depends_on: tuple[str, ...] = ()
    depends_star: bool = False
    inames: frozenset[str] | None = None
    inames_extra: frozenset[str] = frozenset()
    predicates: tuple[Expression, ...] = ()
    tags: tuple[str, ...] = ()
    nosync: tuple[str, ...] = ()
    priority: int = 0


_KNOWN: Final = ("id", "id_prefix", "dep", "inames", "if", "tags", "nosync", "priority")
_LONG: Final = {"dep_query": "dep", "tag": "tags", "predicates": "if", "iname": "inames", "deps": "dep"}
_PATTERN: Final = re.compile(r"[A-Za-z0-9_*?.@]+", re.ASCII)


def parse_options(source: Source, inames: frozenset[str]) -> Options:
    """Return the options that *source*, the text between the braces, spells.

    Raises
    ------
    KernelError
        ``unknown-option``, ``unknown-iname``, ``bad-identifier``, ``syntax``.
    """
    options = Options()
    seen: set[str] = set()
    if not source.text.strip():
        return options
    for part in split_outside_brackets(source, ","):
        entry = part.strip()
        if not entry.text:
            fail("syntax", "an option is missing", part.span(), "write key=value, separated by commas")
        name, equals, _ = entry.text.partition("=")
        key = name.strip()
        if key not in _KNOWN:
            _fail_unknown(entry, key)
        if key in seen:
            fail("syntax", f"option '{key}' is given twice", entry.span(), "join the values with ':'")
        seen.add(key)
        if not equals:
            fail("syntax", f"option '{key}' has no value", entry.span(), f"write {key}=...")
        value = entry.slice(len(name) + 1, len(entry.text)).strip()
        options = _with_option(options, key, value if value.text else entry, bool(value.text), inames)
    return options


def _fail_unknown(entry: Source, key: str) -> None:
    near = _LONG.get(key)
    unknown = unknown_name("option", key, _KNOWN)
    hints = (f"write {near}=...",) if near else unknown.hints
    raise KernelError(OPERATION, None, [replace(unknown, hints=hints, span=entry.span(0, max(1, len(key))))])


def _with_option(options: Options, key: str, value: Source, given: bool, inames: frozenset[str]) -> Options:
    if not given and key != "inames":
        fail("syntax", f"option '{key}' has no value", value.span(), f"write {key}=...")
    match key:
        case "id" | "id_prefix":
            if not is_identifier(value.text):
                hint = "use ASCII letters, digits and '_', and no digit first"
                fail("bad-identifier", f"'{value.text}' cannot be an instruction id", value.span(), hint)
            return replace(options, id=value.text) if key == "id" else replace(options, id_prefix=value.text)
        case "dep":
            star = value.text.startswith("*")
            rest = value.slice(1, len(value.text)) if star else value
            names = _names(rest) if rest.text.strip() else ()
            return replace(options, depends_on=names, depends_star=star)
        case "inames":
            return _with_inames(options, value if given else None, inames)
        case "if":
            conditions = tuple(parse_source(part, inames, OPERATION) for part in split_outside_brackets(value, ":"))
            return replace(options, predicates=conditions)
        case "tags":
            return replace(options, tags=_names(value))
        case "nosync":
            return replace(options, nosync=_names(value))
    if not re.fullmatch(r"-?[0-9]{1,9}", value.text):
        fail("syntax", "the priority is not an integer", value.span(), "write priority=1")
    return replace(options, priority=int(value.text))


def _with_inames(options: Options, value: Source | None, known: frozenset[str]) -> Options:
    if value is None:
        return replace(options, inames=frozenset())
    added = value.text.startswith("+")
    names = value.slice(1, len(value.text)) if added else value
    found = set()
    for part in split_outside_brackets(names, ":"):
        name = part.strip()
        if name.text not in known:
            diagnostic = unknown_name("iname", name.text, known)
            raise KernelError(OPERATION, None, [replace(diagnostic, span=name.span())])
        found.add(name.text)
    if added:
        return replace(options, inames_extra=frozenset(found))
    return replace(options, inames=frozenset(found))


def _names(value: Source) -> tuple[str, ...]:
    names = []
    for part in split_outside_brackets(value, ":"):
        name = part.strip()
        if not _PATTERN.fullmatch(name.text):
            hint = "separate ids by ':', such as dep=first:second; '*' and '?' stand for anything"
            fail("syntax", f"'{name.text}' is not an instruction id or a pattern", name.span(), hint)
        names.append(name.text)
    return tuple(names)
