"""Conversion of domain text such as ``{[i, j]: 0 <= i, j < n}`` to an ISL set, with the place of an error."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, reduce
from typing import Final, NoReturn

import islpy as isl

from polyloop.errors import Diagnostic, KernelError, unknown_name
from polyloop.expr.constants import MOST_BITS
from polyloop.expr.names import check_identifier
from polyloop.expr.source import Source, split_outside_brackets
from polyloop.frozen import replace
from polyloop.kernel.text.conditions import Atom, UnreadConditionError, definition, disjunction

__all__ = ["Alternative", "alternatives", "parse_domain", "read_domain"]

_EXAMPLE: Final = "a domain reads like {[i, j]: 0 <= i < n and 0 <= j <= i}"
_KEYWORDS: Final = frozenset({"and", "or", "not", "implies", "exists", "mod", "floor", "ceil", "floord", "ceild"}) | {
    "min",
    "max",
    "true",
    "false",
    "infty",
    "infinity",
    "nan",
    "rat",
}
_WORD: Final = re.compile(r"(?<![\w'])(?:\d+)?([A-Za-z_]\w*)", re.ASCII)
_WHOLE: Final = re.compile(r"\s*(?:\[(?P<params>[^\[\]{}]*)\]\s*->\s*)?\{(?P<body>[^{}]*)\}\s*\Z", re.ASCII)
_EXISTS: Final = re.compile(r"\bexists\b\s*\(?([^:]*):", re.ASCII | re.IGNORECASE)
_CONNECTIVE: Final = re.compile(r"\band\b|\bor\b|&&|\|\||\bimplies\b", re.ASCII | re.IGNORECASE)
_ELEMENT: Final = re.compile(r"\b[A-Za-z_]\w*\[[^\[\]]*\]", re.ASCII)
_ASSIGNS: Final = re.compile(r"\s*(<[^<>]*>\s*)?[A-Za-z_]\w*\s*(\[[^\]]*\])?\s*=", re.ASCII)
_HUGE: Final = re.compile(rf"\d{{{len(str(2**MOST_BITS))},}}")
"""A number that no text may have: those of 4300 digits are not even read by Python."""
_NOT_ISL: Final = re.compile(r"==|<<=?|>>=?|\*\*|//|[^\w\s\[\](){}:;,<>=!+\-*/%&|]|'|->", re.ASCII)
_INSTEAD: Final = {
    "==": "write '='",
    "<<": "write '<'; ISL would compare lexicographically",
    ">>": "write '>'; ISL would compare lexicographically",
    "//": "write floor(i/2)",
    "**": "only multiples of a variable are allowed, no powers",
    "^": "only multiples of a variable are allowed, no powers",
    "->": "this is a map, and a domain is a set; pl.make_einsum takes 'ij,jk->ik'",
}


@dataclass(frozen=True)
class _Piece:
    """``[i, j] : condition``, one piece of a set."""

    inames: tuple[str, ...]
    condition: Source


class _Reader:
    """Reads one text; every message is about *operation*."""

    def __init__(self, source: Source, operation: str) -> None:
        self.source = source
        self.operation = operation

    def fail(self, message: str, where: Source, hint: str = _EXAMPLE, code: str = "syntax-domain") -> NoReturn:
        self.report(Diagnostic(code, message, hints=(hint,)), where)

    def report(self, diagnostic: Diagnostic, where: Source) -> NoReturn:
        raise KernelError(self.operation, None, [replace(diagnostic, span=where.span())])

    def name(self, where: Source, kind: str) -> str:
        """Return the checked name that *where* spells."""
        wrong = check_identifier(where.text, kind)
        if wrong is None and where.text.lower() in _KEYWORDS:
            wrong = Diagnostic("reserved-name", f"'{where.text}' is a word of the domain language", hints=(_EXAMPLE,))
        if wrong is not None:
            self.report(wrong, where)
        return where.text

    def names(self, where: Source, kind: str) -> tuple[str, ...]:
        """Return the checked names of a list, each of which may be followed by ``= expression``."""
        if not where.text.strip():
            return ()
        found: list[str] = []
        for part in split_outside_brackets(where, ","):
            entry = part.strip()
            bare = entry.slice(0, len(entry.text.partition("=")[0])).strip()
            if not bare.text:
                self.fail(f"the {kind} is missing", entry if entry.text else where)
            name = self.name(bare, kind)
            if name in found:
                hint = "give each one another name"
                self.fail(f"{kind} '{name}' occurs twice", bare, hint, "duplicate-iname")
            found.append(name)
        return tuple(found)

    def pieces(self, body: Source) -> list[_Piece]:
        """Return the pieces between semicolons; all have the same inames."""
        found: list[_Piece] = []
        for part in split_outside_brackets(body, ";"):
            piece = self.piece(part.strip() if part.text.strip() else part)
            if found and piece.inames != found[0].inames:
                self.fail("the pieces of the set have different inames", part.strip())
            found.append(piece)
        return found

    def piece(self, text: Source) -> _Piece:
        inames: tuple[str, ...] = ()
        rest = text
        if text.text.startswith("["):
            end = text.text.find("]")
            if end < 0:
                self.fail("'[' is never closed", text)
            inames = self.names(text.slice(1, end), "iname")
            rest = text.slice(end + 1, len(text.text))
            rest = rest.strip() if rest.text.strip() else rest
        elif text.text.strip() and not text.text.startswith(":"):
            self.fail("the list of inames in [ ] is missing", text)
        if rest.text.strip() and not rest.text.startswith(":"):
            self.fail("a ':' is missing", rest)
        return _Piece(inames, rest.slice(1, len(rest.text)) if rest.text else rest)

    def unknown_names(self, body: Source, known: frozenset[str]) -> Iterator[Source]:
        """Yield the place of the first use of each name that is neither known nor bound by ``exists``."""
        bound = set(known)
        for match in _EXISTS.finditer(body.text):
            for part in split_outside_brackets(body.slice(match.start(1), match.end(1)), ","):
                bound.add(part.text.partition("=")[0].strip())
        for word in _WORD.finditer(body.text):
            name = word.group(1)
            if name.lower() == "nan":  # a number to ISL, of which no condition says anything
                self.name(body.slice(word.start(1), word.end(1)), "parameter")
            if name not in bound and name.lower() not in _KEYWORDS:
                bound.add(name)
                yield body.slice(word.start(1), word.end(1))

    def brackets(self) -> None:
        """Check that brackets match."""
        stack: list[int] = []
        text = self.source.text
        for offset, character in enumerate(text):
            if character in "([{":
                stack.append(offset)
            elif character in ")]}" and (not stack or text[stack.pop()] + character not in ("()", "[]", "{}")):
                self.fail(f"unmatched '{character}'", self.source.slice(offset, offset + 1))
        if stack:
            at = stack[-1]
            self.fail(f"'{text[at]}' is never closed", self.source.slice(at, at + 1))

    def blame(self, head: str, pieces: list[_Piece]) -> NoReturn:
        """Find the condition that ISL cannot read, and report it."""
        for piece in pieces:
            text = piece.condition.text
            begin = 0
            ends = [(m.start(), m.end()) for m in _CONNECTIVE.finditer(text)] + [(len(text), len(text))]
            for stop, following in ends:
                condition = piece.condition.slice(begin, stop)
                begin = following
                if not condition.text.strip():
                    if text.strip():
                        self.fail("a condition is missing", piece.condition.strip())
                elif condition.text.count("(") == condition.text.count(")") and "exists" not in text:
                    try:
                        isl.Set(f"{head}{{ [{', '.join(piece.inames)}] : {condition.text} }}")
                    except isl.Error:
                        element = _ELEMENT.search(condition.text)
                        hint = "conditions compare integer multiples of inames and parameters: 0 <= 2*i + j < n"
                        if element is not None:
                            hint = f"a bound is a scalar: assign <> t = {element.group()}, and use t in the domain"
                        self.fail("this is not an affine condition", condition.strip(), hint)
        self.fail("this is not a set", self.source)


def parse_domain(text: str, operation: str = "make_kernel") -> isl.Set:
    """Return the set that *text* spells.

    Parameters
    ----------
    text
        ``{[i, j]: 0 <= i, j < n}``, or with the parameters in front, ``[n] -> {[i]: i < n}``; without them, every
        name that is not an iname is a parameter, in the order of appearance.  ``{:}`` has no inames.
    operation
        The public function that messages name.

    Returns
    -------
    isl.Set
        The dimensions are the inames, in the order of the text.

    Raises
    ------
    KernelError
        ``syntax-domain``, ``bad-identifier``, ``reserved-name``, ``duplicate-iname``, ``unknown-parameter``.
    """
    return _parse(text, operation)


@lru_cache(maxsize=256)
def _parse(text: str, operation: str) -> isl.Set:
    """Return the set; remembered, because tuning loops build one kernel many times."""
    return read_domain(Source.of(text.expandtabs()), operation)


def read_domain(source: Source, operation: str) -> isl.Set:
    """Return the set that *source* spells, as :func:`parse_domain` does of a text."""
    reader = _Reader(source, operation)
    stray = _NOT_ISL.search(source.text, source.text.find("{"))
    if stray is not None:
        at = source.slice(stray.start(), stray.end())
        reader.fail(f"unexpected '{stray.group()}'", at, _INSTEAD.get(stray.group(), _EXAMPLE))
    huge = _HUGE.search(source.text)
    if huge is not None:
        first = source.slice(huge.start(), huge.start() + 20)
        reader.fail(f"an integer of more than {MOST_BITS} bits", first, _EXAMPLE)
    reader.brackets()
    whole = _WHOLE.match(source.text)
    if whole is None:
        hint = "domains come first: make_kernel(domains, instructions)" if _ASSIGNS.match(source.text) else _EXAMPLE
        reader.fail("a domain is written in braces", source if source.text else Source.of(" "), hint)
    body = source.slice(whole.start("body"), whole.end("body"))
    pieces = reader.pieces(body)
    inames = frozenset(pieces[0].inames)
    if whole["params"] is not None:
        declared = reader.names(source.slice(whole.start("params"), whole.end("params")), "parameter")
        for place in reader.unknown_names(body, inames.union(declared)):
            reader.report(unknown_name("parameter", place.text, declared), place)
        parameters = declared
    else:
        parameters = tuple(reader.name(place, "parameter") for place in reader.unknown_names(body, inames))
    head = f"[{', '.join(parameters)}] -> "
    try:
        found = isl.Set(f"{head}{{{body.text}}}")
    except isl.Error:
        reader.blame(head, pieces)
    if found.is_params():
        found = found.from_params()
    if found.dim(isl.dim_type.set) != len(pieces[0].inames):
        reader.fail("this is not a set over the inames", source)
    return found


_NUMBER: Final = re.compile(r"(?<![\w.])\d+(?![\w.(])(?!\s*[*(])", re.ASCII)
_FACTOR: Final = re.compile(r"(?:[*/%]|\bmod)\s*\Z", re.ASCII | re.IGNORECASE)


@dataclass(frozen=True)
class Alternative:
    """One alternative of a domain, as the *conditions* that were written, down to single comparisons.

    Numbers of a condition that never holds are parameters in its set; their values are *numbers*.  *is_scoped* says
    that some condition is an ``exists``, of which ISL chooses the rows.
    """

    conditions: tuple[isl.Set, ...]
    numbers: Mapping[str, int]
    is_scoped: bool


@lru_cache(maxsize=256)
def alternatives(text: str) -> tuple[Alternative, ...]:
    """Return the alternatives of a domain as they are written, which ISL's set does not show: it leaves out a lot.

    There are none where the conditions are not read here.
    """
    whole = _WHOLE.match(text.expandtabs())
    assert whole is not None, "the text was parsed before"
    domain = parse_domain(text)
    parameters = [domain.get_dim_name(isl.dim_type.param, k) or "" for k in range(domain.dim(isl.dim_type.param))]
    inames = [domain.get_dim_name(isl.dim_type.set, k) or "" for k in range(domain.dim(isl.dim_type.set))]
    atoms = _Atoms(parameters, inames)
    found = []
    try:
        for piece in whole["body"].split(";"):
            head, _, condition = piece.partition(":")
            entries = split_outside_brackets(Source.of(head.strip()[1:-1]), ",")
            defined = [definition(entry.text) for entry in entries if "=" in entry.text]
            found += [(*defined, *conjunction) for conjunction in disjunction(condition)]
        sets = [reduce(isl.Set.intersect, map(atoms.read, one), isl.Set.universe(domain.get_space())) for one in found]
    except (UnreadConditionError, isl.Error):
        return ()
    if not sets or not reduce(isl.Set.union, sets).is_equal(domain):
        return ()
    conditions = [tuple(map(atoms.loose, conjunction)) for conjunction in found]
    is_scoped = any(atom.is_scoped for conjunction in found for atom in conjunction)
    return tuple(Alternative(one, atoms.numbers, is_scoped) for one in conditions)


class _Atoms:
    """The sets of atoms over *inames*, each read once."""

    def __init__(self, parameters: Sequence[str], inames: Sequence[str]) -> None:
        self.parameters = parameters
        self.head = f"[{', '.join(inames)}]"
        self.known: dict[Atom, isl.Set] = {}
        self.numbers: dict[str, int] = {}

    def read(self, atom: Atom) -> isl.Set:
        found = self.known.get(atom)
        if found is None:
            found = self.known[atom] = self.set(self.parameters, atom.text)
        return found

    def set(self, parameters: Sequence[str], condition: str) -> isl.Set:
        found = isl.Set(f"[{', '.join(parameters)}] -> {{{self.head}: {condition}}}")
        return found.from_params() if found.is_params() else found

    def loose(self, atom: Atom) -> isl.Set:
        """Return the set of *atom*; if it never holds, with parameters in the place of its numbers."""
        found = self.read(atom)
        if not found.is_empty():
            return found
        own: dict[str, int] = {}

        def parameter(match: re.Match[str]) -> str:
            if _FACTOR.search(atom.text[: match.start()]):
                return match.group()
            name = f"n{len(self.numbers) + len(own)}_of_text"
            own[name] = int(match.group())
            return name

        text = _NUMBER.sub(parameter, atom.text)
        self.numbers.update(own)
        return self.set((*self.parameters, *own), text)
