"""Conditions of a domain text, down to single comparisons: alternatives of what must hold together.

ISL reads the same text, but substitutes equalities and leaves out what is implied as it goes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from typing import Final, NoReturn, TypeAlias

from polyloop.expr.source import Source, split_outside_brackets

__all__ = ["Atom", "UnreadConditionError", "definition", "disjunction"]

_TOKEN: Final = re.compile(r"[A-Za-z_]\w*|\d+|<=|>=|!=|&&?|\|\|?|[^\s\w]", re.ASCII)
_NAME: Final = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_SPELT: Final = {"&": "and", "&&": "and", "|": "or", "||": "or", "!": "not"}
_WORDS: Final = frozenset({"and", "or", "not", "implies", "exists", "true", "false"})
_CLOSING: Final = {"(": ")", "[": "]"}
_OPPOSITE: Final = {"<": ">=", ">=": "<", ">": "<=", "<=": ">", "=": "!=", "!=": "="}
_LIMIT: Final = 1000


class UnreadConditionError(Exception):
    """A condition that is not read here, such as one of very many alternatives."""


@dataclass(frozen=True)
class Atom:
    """One comparison, or one ``exists`` with all that uses its names; *opposite* is its negation."""

    text: str
    opposite: str

    def names(self) -> frozenset[str]:
        """Return the names in the text, words of the language among them."""
        return frozenset(_NAME.findall(self.text))

    @property
    def is_scoped(self) -> bool:
        """True if names exist inside of it."""
        return "exists" in self.names()


Conjunction: TypeAlias = tuple[Atom, ...]
Disjunction: TypeAlias = tuple[Conjunction, ...]

_TRUE: Final = Atom("true", "false")


def disjunction(text: str) -> Disjunction:
    """Return the alternatives of the condition *text*.

    Raises
    ------
    UnreadConditionError
        It is not read here.
    """
    if not text.strip():
        return ((),)
    reader = _Reader(text)
    found = reader.formula()
    if reader.word():
        reader.fail()
    return found


class _Reader:
    """Recursive descent: ``formula``, ``disjuncts``, ``conjuncts``, ``condition``, in ISL's order of binding."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = [(match.group(), match.start(), match.end()) for match in _TOKEN.finditer(text)]
        self.at = 0

    def fail(self) -> NoReturn:
        raise UnreadConditionError(self.text)

    def word(self, ahead: int = 0) -> str:
        """Return the token at the place, as a word of the language; empty at the end."""
        if self.at + ahead >= len(self.tokens):
            return ""
        token = self.tokens[self.at + ahead][0]
        return token.lower() if token.lower() in _WORDS else _SPELT.get(token, token)

    def eat(self, word: str) -> bool:
        if self.word() != word:
            return False
        self.at += 1
        return True

    def expect(self, word: str) -> None:
        if not self.eat(word):
            self.fail()

    def formula(self) -> Disjunction:
        found = self.disjuncts()
        while self.eat("implies"):
            found = _limited((*_negated(found), *self.disjuncts()))
        return found

    def disjuncts(self) -> Disjunction:
        found = self.conjuncts()
        while self.eat("or"):
            found = _limited((*found, *self.conjuncts()))
        return found

    def conjuncts(self) -> Disjunction:
        parts = [self.condition()]
        while self.eat("and"):
            parts.append(self.condition())
        return _together(parts)

    def condition(self) -> Disjunction:
        if self.eat("not"):
            return _negated(self.condition())
        if self.eat("exists"):
            return self.exists()
        if self.eat("true"):
            return ((_TRUE,),)
        if self.eat("false"):
            return ((Atom(_TRUE.opposite, _TRUE.text),),)
        if self.word() == "(" and self.ends(self.closing(self.at) + 1):
            self.at += 1
            found = self.formula()
            self.expect(")")
            return found
        return self.chain()

    def ends(self, at: int) -> bool:
        """Return whether a condition that begins at the place ends before token *at*."""
        return at >= len(self.tokens) or self.word(at - self.at) in ("and", "or", "implies", ")")

    def closing(self, at: int) -> int:
        """Return the number of the token that closes the bracket *at*."""
        depth = 0
        for number in range(at, len(self.tokens)):
            token = self.tokens[number][0]
            depth += (token in _CLOSING) - (token in _CLOSING.values())
            if not depth:
                return number
        self.fail()

    def until(self, stops: frozenset[str]) -> list[tuple[str, str]]:
        """Return the pieces of the text between *stops*, up to the end of the condition, each with its stop."""
        found: list[tuple[str, str]] = []
        before, begin = "", self.at
        while True:
            last = self.ends(self.at)
            if last or self.tokens[self.at][0] in stops:
                if begin == self.at:
                    self.fail()
                found.append((before, self.text[self.tokens[begin][1] : self.tokens[self.at - 1][2]]))
                if last:
                    return found
                before, begin = self.tokens[self.at][0], self.at + 1
            elif self.tokens[self.at][0] in _CLOSING:
                self.at = self.closing(self.at)
            self.at += 1

    def chain(self) -> Disjunction:
        """Read ``0 <= i, j < n``: a comparison of each with each at every sign."""
        found = []
        for (_, left), (sign, right) in pairwise(self.until(frozenset(_OPPOSITE))):
            for one, other in product(_listed(left), _listed(right)):
                found.append(Atom(f"{one} {sign} {other}", f"{one} {_OPPOSITE[sign]} {other}"))
        return (tuple(found),) if found else self.fail()

    def exists(self) -> Disjunction:
        is_inside = self.eat("(")
        begin = self.at
        while self.word() != ":":
            if not self.word():
                self.fail()
            self.at += 1
        entries = _listed(self.text[self.tokens[begin][1] : self.tokens[self.at][1]])
        self.at += 1
        bound = [entry.partition("=")[0].strip() for entry in entries]
        defined = [definition(entry) for entry in entries if "=" in entry]
        body = self.formula()
        if is_inside:
            self.expect(")")
        return tuple([_scoped((*defined, *conjunction), bound) for conjunction in body])


def definition(entry: str) -> Atom:
    """Return the condition that ``name = expression`` states, in a list of names."""
    name, _, value = entry.partition("=")
    return Atom(f"{name} = ({value})", f"{name} != ({value})")


def _scoped(conjunction: Conjunction, bound: Sequence[str]) -> Conjunction:
    """Return *conjunction* where the names *bound* exist: what does not use them is said without them."""
    found = [atom for atom in conjunction if atom.names().isdisjoint(bound)]
    groups: list[tuple[frozenset[str], Conjunction]] = []
    for atom in conjunction:
        if used := atom.names().intersection(bound):
            joined = [group for group in groups if not group[0].isdisjoint(used)]
            groups = [group for group in groups if group[0].isdisjoint(used)]
            atoms = [other for _, others in joined for other in others]
            groups.append((used.union(*(names for names, _ in joined)), (*atoms, atom)))
    for used, atoms_of in groups:
        inside = " and ".join(f"({atom.text})" if atom.is_scoped else atom.text for atom in atoms_of)
        text = f"exists ({', '.join(sorted(used))} : {inside})"
        found.append(Atom(text, f"not ({text})"))
    return tuple(found)


def _listed(text: str) -> list[str]:
    return [part.text.strip() for part in split_outside_brackets(Source.of(text), ",")]


def _together(parts: Iterable[Disjunction]) -> Disjunction:
    """Return the alternatives of all *parts* together."""
    found: Disjunction = ((),)
    for part in parts:
        if len(found) * len(part) > _LIMIT:
            raise UnreadConditionError
        found = tuple([tuple(dict.fromkeys((*one, *other))) for one, other in product(found, part)])
    return found


def _negated(found: Disjunction) -> Disjunction:
    return _together(tuple((Atom(atom.opposite, atom.text),) for atom in conjunction) for conjunction in found)


def _limited(found: Disjunction) -> Disjunction:
    if len(found) > _LIMIT:
        raise UnreadConditionError
    return found
