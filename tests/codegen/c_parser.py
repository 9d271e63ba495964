"""C expressions as nodes, read from text: for tests, which say so what a statement consists of."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Final

from polyloop.codegen.tree import c_expr as c
from polyloop.codegen.tree.c_expr import Code

__all__ = ["parsed"]

_TOKEN: Final = re.compile(r"\s*([^\W\d]\w*|\d[\w.]*|<<|>>|<=|>=|==|!=|&&|\|\||.)")
_LEVELS: Final = (
    ("||",), ("&&",), ("|",), ("^",), ("&",), ("==", "!="), ("<", ">", "<=", ">="), ("<<", ">>"),
    ("+", "-"), ("*", "/", "%"),
)  # fmt: skip
_TYPES: Final = frozenset({"const", "unsigned", "int", "long", "float", "double", "float4"})
_PREFIXES: Final = {"-": c.NEGATIVE, "!": c.NOT, "~": c.COMPLEMENT, "&": c.ADDRESS, "*": c.TARGET}


def parsed(text: str, temporaries: Collection[str] = ()) -> Code:
    """Return the expression that *text* spells, with these *temporaries*; parentheses are nodes."""
    parser = _Parser(_TOKEN.findall(text), temporaries)
    found = parser.choice()
    assert parser.left == [], f"'{text}' goes on after an expression"
    return found


class _Parser:
    def __init__(self, tokens: list[str], temporaries: Collection[str]) -> None:
        self.left = tokens
        self.temporaries = temporaries

    def take(self, *wanted: str) -> str:
        """Take the next token if it is one of *wanted*."""
        return self.left.pop(0) if self.left and self.left[0] in wanted else ""

    def choice(self) -> Code:
        condition = self.binary(0)
        if not self.take("?"):
            return condition
        then = self.choice()
        assert self.take(":")
        return c.Choice(condition, then, self.choice())

    def binary(self, level: int) -> Code:
        if level == len(_LEVELS):
            return self.prefixed()
        first, rest = self.binary(level + 1), list[tuple[c.Operator, Code]]()
        while symbol := self.take(*_LEVELS[level]):
            rest.append((c.OPERATORS[symbol], self.binary(level + 1)))
        return c.Binary(first, tuple(rest)) if rest else first

    def prefixed(self) -> Code:
        if symbol := self.take(*_PREFIXES):
            return c.Unary(_PREFIXES[symbol], self.prefixed())
        if self.left[0] == "(" and self.left[1] in _TYPES:
            end = self.left.index(")")
            kind, self.left = " ".join(self.left[1:end]), self.left[end + 1 :]
            return c.Cast(kind, self.prefixed())
        return self.suffixed()

    def suffixed(self) -> Code:
        found = self.atom()
        while symbol := self.take("[", "."):
            if symbol == ".":
                found = c.Member(found, self.left.pop(0))
            else:
                found = c.Subscript(found, self.choice())
                assert self.take("]")
        return found

    def atom(self) -> Code:
        if self.take("("):
            inner = self.choice()
            assert self.take(")")
            return c.Parentheses(inner)
        word = self.left.pop(0)
        if not word.isidentifier():
            is_whole = word.startswith("0x") or word.rstrip("uUlL").isdigit()
            return c.Literal(word, int(word.rstrip("uUlL"), 0) if is_whole else float(word.rstrip("fF")))
        if not self.take("("):
            return c.Name(word, word if word in self.temporaries else "")
        arguments = list[Code]()
        while not self.take(")"):
            arguments.append(self.choice())
            self.take(",")
        return c.Apply(word, tuple(arguments))
