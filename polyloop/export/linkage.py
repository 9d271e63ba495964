"""Linkage of what an exported C file defines: only names with the prefix are seen by a linker."""

from __future__ import annotations

import re
from typing import Final

__all__ = ["internal"]

_TOKEN: Final = re.compile(
    r"/\*.*?\*/|//(?:[^\n\\]|\\.)*|\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*'|^[ \t]*#(?:[^\n\\]|\\.)*|[{};]",
    re.DOTALL | re.MULTILINE)
_SPACE: Final = re.compile(r"(?:\s|/\*.*?\*/|//[^\n]*)*", re.DOTALL)
_HAS_LINKAGE: Final = re.compile(r"\b(?:static|extern|typedef)\b")
_TYPE: Final = re.compile(r"(?:struct|union|enum)\b[^(=]*")


def internal(text: str, prefix: str) -> str:
    """Return C *text* in which functions and initialized variables without a storage class are ``static``.

    Two exported kernels may bring functions of one name, from preambles of the user's.

    ::

        double square(double x) { return x*x; }             // before: a second file with it cannot be linked
        static double square(double x) { return x*x; }      // after

    Parameters
    ----------
    prefix
        Definitions whose name begins with it stay visible.
    """
    kept = re.compile(rf"\b{re.escape(prefix)}\w*\s*\(")
    depth, begin, places = 0, 0, list[int]()
    for token in _TOKEN.finditer(text):
        symbol = token[0]
        if symbol == "{":
            first = _SPACE.match(text, begin)
            assert first is not None, "the pattern matches nothing, too"
            head = text[first.end():token.start()]
            is_definition = bool(head.strip()) and _TYPE.fullmatch(head) is None and _HAS_LINKAGE.search(head) is None
            if depth == 0 and is_definition and kept.search(head) is None:
                places.append(first.end())
            depth += 1
        elif symbol == "}":
            depth -= 1
        if depth == 0 and (symbol in "};" or symbol.lstrip().startswith("#")):
            begin = token.end()
    for place in reversed(places):
        text = f"{text[:place]}static {text[place:]}"
    return text
