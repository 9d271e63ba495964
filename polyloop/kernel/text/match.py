"""Match expressions, which select instructions: ``writes:a and not id:init*``."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from fnmatch import fnmatchcase
from typing import Final, NoReturn, Protocol, TypeAlias

from polyloop.errors import Diagnostic, KernelError
from polyloop.expr.source import Source

__all__ = ["All", "And", "Glob", "Match", "Matchable", "Not", "Or", "Subject", "is_glob", "matches", "parse_match"]


class Subject(Enum):
    """Property of an instruction that a pattern is matched against."""

    ID = "id"
    TAG = "tag"
    WRITES = "writes"
    READS = "reads"
    INAME = "iname"


@dataclass(frozen=True)
class All:
    """Every instruction: ``*``."""


@dataclass(frozen=True)
class Glob:
    """Instructions with a ``subject`` that matches the glob ``pattern`` (``*`` and ``?``)."""

    subject: Subject
    pattern: str


@dataclass(frozen=True)
class Not:
    """Every instruction that ``child`` does not mean."""

    child: Match


@dataclass(frozen=True)
class And:
    """Conjunction of ``children``."""

    children: tuple[Match, ...]


@dataclass(frozen=True)
class Or:
    """Disjunction of ``children``."""

    children: tuple[Match, ...]


Match: TypeAlias = All | Glob | Not | And | Or


class Matchable(Protocol):
    """Properties of an instruction that match expressions read."""

    @property
    def id(self) -> str:
        """Name of the instruction."""

    @property
    def inames(self) -> tuple[str, ...]:
        """Its loops."""

    @property
    def tags(self) -> frozenset[str]:
        """Its tags."""

    @property
    def reads(self) -> frozenset[str]:
        """Names of the variables that the instruction reads."""

    @property
    def writes(self) -> tuple[str, ...]:
        """Names of the variables that the instruction assigns."""


_NAME: Final = r"((?:[\w*?.]|\[!?[\w-]+\])+)"
_TOKEN: Final = re.compile(rf"\s*(?:(id|tag|writes|reads|iname):{_NAME}|{_NAME}|([()]))", re.ASCII)
_HINT: Final = "write id:, tag:, writes:, reads: or iname: with a name or a pattern; join them by and, or, not"


def is_glob(pattern: str) -> bool:
    """Return whether *pattern* can fit several names."""
    return not {*"*?["}.isdisjoint(pattern)


def matches(match: Match, instruction: Matchable) -> bool:
    """Return whether *match* means *instruction*."""
    match match:
        case All():
            return True
        case Glob(subject, pattern):
            return any(fnmatchcase(name, pattern) for name in _names(subject, instruction))
        case Not(child):
            return not matches(child, instruction)
        case And(children):
            return all(matches(child, instruction) for child in children)
        case Or(children):
            return any(matches(child, instruction) for child in children)


def _names(subject: Subject, instruction: Matchable) -> Iterable[str]:
    match subject:
        case Subject.ID:
            return (instruction.id,)
        case Subject.TAG:
            return instruction.tags
        case Subject.WRITES:
            return instruction.writes
        case Subject.READS:
            return instruction.reads
        case Subject.INAME:
            return instruction.inames


def parse_match(text: Source | str, operation: str = "make_kernel") -> Match:
    """Return the parsed match expression: ``*``, ``id:load_*``, ``(writes:a or reads:b) and not tag:slow``.

    A pattern by itself is one of ids.  ``not`` binds closest, then ``and``, then ``or``.

    Raises
    ------
    KernelError
        ``syntax``.
    """
    source = Source.of(text) if isinstance(text, str) else text
    parser = _Parser(source, operation)
    found = parser.alternatives(0)
    if parser.at < len(parser.tokens):
        parser.fail("unexpected text in a match expression")
    return found


class _Parser:
    """Recursive descent over the tokens of one match expression."""

    def __init__(self, source: Source, operation: str) -> None:
        self.source = source
        self.operation = operation
        self.at = 0
        self.tokens: list[tuple[int, Match | str]] = []
        offset = 0
        while source.text[offset:].strip():
            token = _TOKEN.match(source.text, offset)
            start = offset + len(source.text[offset:]) - len(source.text[offset:].lstrip())
            if token is None:
                self.tokens.append((start, source.text[start]))
                self.at = len(self.tokens) - 1
                self.fail("this is no match expression")
            subject, pattern, word, bracket = token.groups()
            if subject:
                self.tokens.append((start, Glob(Subject(subject), pattern)))
            elif word in ("and", "or", "not"):
                self.tokens.append((start, word))
            elif word:
                self.tokens.append((start, All() if word == "*" else Glob(Subject.ID, word)))
            else:
                self.tokens.append((start, bracket))
            offset = token.end()

    def fail(self, message: str) -> NoReturn:
        if self.at < len(self.tokens):
            span = self.source.span(self.tokens[self.at][0], 1)
        else:
            span = self.source.span(max(0, len(self.source.text) - 1), 1)
        raise KernelError(self.operation, None, [Diagnostic("syntax", message, hints=(_HINT,), span=span)])

    def takes(self, word: str) -> bool:
        """Consume *word* if it is the next token; return whether it was."""
        found = self.at < len(self.tokens) and self.tokens[self.at][1] == word
        self.at += found
        return found

    def alternatives(self, depth: int) -> Match:
        found = [self.conjunction(depth)]
        while self.takes("or"):
            found.append(self.conjunction(depth))
        return found[0] if len(found) == 1 else Or(tuple(found))

    def conjunction(self, depth: int) -> Match:
        found = [self.single(depth)]
        while self.takes("and"):
            found.append(self.single(depth))
        return found[0] if len(found) == 1 else And(tuple(found))

    def single(self, depth: int) -> Match:
        if depth > _DEEPEST:
            self.fail("this match expression is nested too deeply")
        if self.takes("not"):
            return Not(self.single(depth + 1))
        if self.takes("("):
            inner = self.alternatives(depth + 1)
            if not self.takes(")"):
                self.fail("a ')' is missing in this match expression")
            return inner
        if self.at == len(self.tokens):
            self.fail("the match expression ends too early")
        token = self.tokens[self.at][1]
        if isinstance(token, str):
            self.fail(f"unexpected '{token}' in a match expression")
        self.at += 1
        return token


_DEEPEST: Final = 50
