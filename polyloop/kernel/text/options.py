"""The options of an instruction: ``{id=copy, dep=load:init*, inames=i:j, if=x > 0}``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from polyloop.errors import KernelError, unknown_name
from polyloop.expr.names import check_identifier, is_identifier
from polyloop.expr.nodes import Expression, Operation
from polyloop.expr.operations import OPERATIONS
from polyloop.expr.parser import parse_source
from polyloop.expr.source import Source, split_outside_brackets
from polyloop.frozen import quick, replace
from polyloop.kernel.text.logical_lines import OPERATION, fail
from polyloop.kernel.text.match import Glob, Match, Subject, parse_match

__all__ = ["PRECISIONS", "Division", "Loops", "NoSync", "Options", "Order", "SyncScope", "parse_options"]


class SyncScope(Enum):
    """Between which threads a conflict is denied."""

    LOCAL = "local"
    GLOBAL = "global"
    ANY = "any"


@dataclass(frozen=True)
class NoSync:
    """Instructions with which there is no conflict, although it looks so: within a block, between blocks, or both."""

    which: Match
    scope: SyncScope

    def __str__(self) -> str:
        which = self.which.pattern if isinstance(self.which, Glob) else str(self.which)
        return which if self.scope is SyncScope.ANY else f"{which}@{self.scope.value}"


class Division(Enum):
    """The loop that a barrier in a nest of ``for`` lines divides."""

    INNERMOST = "innermost"
    OUTER = "outer"
    """The one around the innermost loop, which comes to be inside of that: the threads of ``i`` meet in each ``t``."""
    NONE = "none"


@quick
@dataclass(frozen=True)
class Loops:
    """The loops that the text names for a statement.

    Attributes
    ----------
    written, numbers
        Inames of the enclosing ``for`` lines, outermost first; for each a number that identifies that loop.
    only, extra
        Exactly these inames besides (``inames=i:j``), or these besides those in the statement (``inames=+i:j``).
    """

    written: tuple[str, ...] = ()
    numbers: tuple[int, ...] = ()
    only: frozenset[str] | None = None
    extra: frozenset[str] = frozenset()

    def blocks(self) -> tuple[tuple[str, int], ...]:
        """Return ``(iname, number)`` for each enclosing ``for`` line."""
        return tuple(zip(self.written, self.numbers, strict=True))

    def named(self) -> frozenset[str]:
        """Return every iname that is named."""
        return self.extra.union(self.written, self.only or ())

    def under(self, names: Mapping[str, str]) -> Loops:
        """Return the loops with inames that have other *names*."""
        written = tuple(names.get(x, x) for x in self.written)
        only = None if self.only is None else frozenset(names.get(x, x) for x in self.only)
        return Loops(written, self.numbers, only, frozenset(names.get(x, x) for x in self.extra))

    def inside(self, outer: Loops) -> Loops:
        """Return the loops that an instruction names in a ``with`` block that names *outer*."""
        if self.only is not None:
            return self
        if outer.only is not None:
            return replace(self, only=outer.only | self.extra, extra=frozenset())
        return replace(self, extra=self.extra | outer.extra)


@quick
@dataclass(frozen=True)
class Order:
    """The place of an instruction among the others, as its options say.

    Attributes
    ----------
    depends_on, depends_star
        Ids or patterns of ``dep=``; whether a ``*`` in front turns off what would be added to them.
    queries
        Match expressions of ``dep_query=``.
    groups, conflicts
        Groups that it belongs to, and groups between whose instructions it may not run.
    priority
        Of several that could come next, the highest does.
    """

    depends_on: tuple[str, ...] = ()
    depends_star: bool = False
    queries: tuple[Match, ...] = ()
    nosync: tuple[NoSync, ...] = ()
    groups: tuple[str, ...] = ()
    conflicts: tuple[str, ...] = ()
    priority: int | None = None

    def inside(self, outer: Order) -> Order:
        """Return the order of an instruction in a ``with`` block that says *outer*."""
        return Order(
            (*outer.depends_on, *self.depends_on),
            self.depends_star or outer.depends_star,
            (*outer.queries, *self.queries),
            (*outer.nosync, *self.nosync),
            (*outer.groups, *self.groups),
            (*outer.conflicts, *self.conflicts),
            outer.priority if self.priority is None else self.priority,
        )


@quick
@dataclass(frozen=True)
class Options:
    """Options, as the braces after an instruction say them.

    ``duplicates`` are the pairs of an iname and its wished new name (None: any) of ``dup=``, ``memory`` is the
    ``mem_kind`` of a barrier.
    """

    id: str | None = None
    id_prefix: str | None = None
    order: Order = Order()
    loops: Loops = Loops()
    predicates: tuple[Expression, ...] = ()
    tags: tuple[str, ...] = ()
    duplicates: tuple[tuple[str, str | None], ...] = ()
    atomic: bool = False
    memory: str | None = None
    fast: bool | None = None

    def inside(self, outer: Options) -> Options:
        """Return these options of an instruction in a ``with`` block that has the options *outer*.

        Sets are united; of ``id_prefix``, ``priority`` and a full list of ``inames`` its own ones count.
        """
        return replace(
            self,
            id_prefix=self.id_prefix or outer.id_prefix,
            order=self.order.inside(outer.order),
            loops=self.loops.inside(outer.loops),
            predicates=(*outer.predicates, *self.predicates),
            tags=(*outer.tags, *self.tags),
            duplicates=(*outer.duplicates, *self.duplicates),
            atomic=outer.atomic or self.atomic,
            memory=self.memory or outer.memory,
            fast=outer.fast if self.fast is None else self.fast,
        )


_KNOWN: Final = (
    "id", "id_prefix", "dep", "dep_query", "inames", "if", "dup", "tags", "nosync", "nosync_query", "priority",
    "groups", "conflicts", "atomic", "mem_kind", "precision",
)  # fmt: skip
_LONG: Final = {
    "depends_on": "dep",
    "deps": "dep",
    "tag": "tags",
    "predicates": "if",
    "iname": "inames",
    "within_inames": "inames",
    "no_sync_with": "nosync",
    "conflicts_with_groups": "conflicts",
}
PRECISIONS: Final = ("exact", "fast")
"""Precision of functions: accurate, or the approximations of the hardware."""
_PATTERN: Final = re.compile(r"(?:[\w*?.]|\[!?[\w-]+\])+", re.ASCII)


def parse_options(source: Source, inames: frozenset[str], known: Mapping[str, Operation] = OPERATIONS) -> Options:
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
        key = _LONG.get(name.strip(), name.strip())
        if key not in _KNOWN:
            _fail_unknown(entry, key)
        if key in seen:
            fail("syntax", f"option '{key}' is given twice", entry.span(), "join the values with ':'")
        seen.add(key)
        if not equals and key == "atomic":
            options = replace(options, atomic=True)
            continue
        if not equals:
            fail("syntax", f"option '{key}' has no value", entry.span(), f"write {key}=...")
        value = entry.slice(len(name) + 1, len(entry.text)).strip()
        if key == "if" and value.text:
            parts = split_outside_brackets(value, ":")
            conditions = tuple(parse_source(part, inames, OPERATION, known) for part in parts)
            options = replace(options, predicates=conditions)
            continue
        options = _with_option(options, key, value if value.text else entry, bool(value.text), inames)
    return options


def _fail_unknown(entry: Source, key: str) -> None:
    unknown = unknown_name("option", key, _KNOWN)
    raise KernelError(OPERATION, None, [replace(unknown, span=entry.span(0, max(1, len(key))))])


def _with_option(options: Options, key: str, value: Source, given: bool, inames: frozenset[str]) -> Options:
    if not given and key != "inames":
        fail("syntax", f"option '{key}' has no value", value.span(), f"write {key}=...")
    match key:
        case "id" | "id_prefix":
            if not is_identifier(value.text):
                hint = "use ASCII letters, digits and '_', and no digit first"
                fail("bad-identifier", f"'{value.text}' cannot be an instruction id", value.span(), hint)
            return replace(options, id=value.text) if key == "id" else replace(options, id_prefix=value.text)
        case "inames":
            return _with_inames(options, value if given else None, inames)
        case "priority":
            if not re.fullmatch(r"-?[0-9]{1,9}", value.text):
                fail("syntax", "the priority is not an integer", value.span(), "write priority=1")
            return _ordered(options, priority=int(value.text))
        case "mem_kind" | "precision":
            return _with_word(options, key, value)
        case "tags" | "groups" | "conflicts" | "atomic":
            return _with_names(options, key, value)
    return _with_relation(options, key, value, inames)


def _with_word(options: Options, key: str, value: Source) -> Options:
    if key == "mem_kind":
        return replace(options, memory=value.text)
    if value.text not in PRECISIONS:
        fail("syntax", f"'{value.text}' is no precision", value.span(), "write precision=fast, or exact")
    return replace(options, fast=value.text == "fast")


def _with_names(options: Options, key: str, value: Source) -> Options:
    if key == "atomic" and value.text not in ("update", "init"):
        fail("syntax", f"'{value.text}' is no kind of atomic access", value.span(), "write {atomic}")
    names = _names(value)
    match key:
        case "atomic":
            return replace(options, atomic=True)
        case "tags":
            return replace(options, tags=names)
        case "groups":
            return _ordered(options, groups=names)
    return _ordered(options, conflicts=names)


def _ordered(options: Options, **changes: Any) -> Options:  # noqa: ANN401 - fields of an Order
    return replace(options, order=replace(options.order, **changes))


def _with_relation(options: Options, key: str, value: Source, inames: frozenset[str]) -> Options:
    """Return *options* with a relation to other instructions (dependency, ``nosync``) or to loops added."""
    match key:
        case "dep":
            star = value.text.startswith("*")
            rest = value.slice(1, len(value.text)) if star else value
            names = _names(rest) if rest.text.strip() else ()
            return _ordered(options, depends_on=names, depends_star=star)
        case "dep_query":
            return _ordered(options, queries=(*options.order.queries, parse_match(value, OPERATION)))
        case "nosync":
            return _ordered(options, nosync=(*options.order.nosync, *_nosync(value)))
        case "nosync_query":
            return _ordered(options, nosync=(*options.order.nosync, _nosync_query(value)))
    return replace(options, duplicates=_duplicates(value, inames))


def _scoped(value: Source) -> tuple[Source, SyncScope]:
    """Return *value* without its scope, and the scope: ``load@local``."""
    text, at, scope = value.text.rpartition("@")
    if not at:
        return value, SyncScope.ANY
    if scope.strip() not in {entry.value for entry in SyncScope}:
        span = value.span(len(text) + 1, max(1, len(scope)))
        fail("syntax", f"no scope '{scope.strip()}'", span, "write @local, @global or @any, or leave it out")
    return value.slice(0, len(text)).strip(), SyncScope(scope.strip())


def _nosync(value: Source) -> tuple[NoSync, ...]:
    found = []
    for part in split_outside_brackets(value, ":"):
        pattern, scope = _scoped(part.strip())
        (name,) = _names(pattern)
        found.append(NoSync(Glob(Subject.ID, name), scope))
    return tuple(found)


def _nosync_query(value: Source) -> NoSync:
    query, scope = _scoped(value)
    return NoSync(parse_match(query, OPERATION), scope)


def _duplicates(value: Source, inames: frozenset[str]) -> tuple[tuple[str, str | None], ...]:
    """Return inames with the names of their copies: ``i``, ``i->i_copy``, or ``i:i_copy``."""
    found: list[tuple[str, str | None]] = []
    for part in split_outside_brackets(value, ":"):
        old, arrow, _ = part.text.partition("->")
        entry, wish = part.slice(0, len(old)).strip(), part.slice(len(old) + len(arrow), len(part.text)).strip()
        if entry.text not in inames and found and found[-1][1] is None and not arrow:
            found[-1] = (found[-1][0], _copy_name(entry))
        elif entry.text not in inames:
            diagnostic = unknown_name("iname", entry.text, inames)
            raise KernelError(OPERATION, None, [replace(diagnostic, span=entry.span())])
        elif entry.text in {iname for iname, _ in found}:
            fail("duplicate-iname", f"'{entry.text}' is duplicated twice", entry.span(), "name each iname once")
        else:
            found.append((entry.text, _copy_name(wish) if arrow else None))
    return tuple(found)


def _copy_name(name: Source) -> str:
    wrong = check_identifier(name.text, "iname")
    if wrong is not None:
        raise KernelError(OPERATION, None, [replace(wrong, span=name.span())])
    return name.text


def _with_inames(options: Options, value: Source | None, known: frozenset[str]) -> Options:
    if value is None:
        return replace(options, loops=Loops(only=frozenset()))
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
        return replace(options, loops=Loops(extra=frozenset(found)))
    return replace(options, loops=Loops(only=frozenset(found)))


def _names(value: Source) -> tuple[str, ...]:
    names = []
    for part in split_outside_brackets(value, ":"):
        name = part.strip()
        if not _PATTERN.fullmatch(name.text):
            hint = "separate ids by ':', such as dep=first:second; '*' and '?' stand for anything"
            fail("syntax", f"'{name.text}' is not an instruction id or a pattern", name.span(), hint)
        names.append(name.text)
    return tuple(names)
