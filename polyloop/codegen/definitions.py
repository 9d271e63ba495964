"""Definitions ahead of the functions of a program, such that one file can hold several programs.

There are two kinds.  A definition that is the same in every program (division as in Python, complex numbers, vector
types) has the same name everywhere and is enclosed in ``#ifndef`` and ``#endif``.  A definition that depends on the
program (a sum over the threads of its blocks) has the kernel's name in its own.  Texts and records of the user's keep
their names; their guards contain a hash of their content, so that a compiler refuses two different ones of one name.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from typing import Final

import numpy as np

from polyloop.codegen.width import commented
from polyloop.expr.nodes import CText
from polyloop.expr.records import field_dtype, field_names, is_record, record_name
from polyloop.schedule.plan import Schedule

__all__ = ["comment", "guarded", "guarded_by_content", "preamble_text", "record_names", "words_of_c_text"]

_SYMBOLS: Final = {
    "+": " plus ", "-": " minus ", "*": " times ", "/": " over ", "==": " equals ", "!=": " differs from ",
    "+=": " add ", "*=": " multiply ",
}  # fmt: skip
_SYMBOL: Final = re.compile("|".join(re.escape(symbol) for symbol in sorted(_SYMBOLS, key=len, reverse=True)))
_DIGITS: Final = 8
_WORD: Final = re.compile(r"[A-Za-z_]\w*", re.ASCII)


def guarded(name: str, text: str) -> str:
    """Return *text* with an include guard made from *name*, which must determine the text."""
    words = re.findall(r"[A-Za-z0-9_]+", _SYMBOL.sub(lambda match: _SYMBOLS[match[0]], name))
    macro = f"POLYLOOP_{'_'.join(words).upper()}"
    return f"#ifndef {macro}\n#define {macro}\n{text}\n#endif"


def guarded_by_content(name: str, text: str) -> str:
    """Return *text* with an include guard made from *name* and a hash of the text."""
    return guarded(f"{name} {hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]}", text)


def words_of_c_text(schedule: Schedule) -> frozenset[str]:
    """Return the identifiers in preambles and C text instructions of the user."""
    texts = [text for _, text in schedule.file_scope.preambles]
    texts += [s.rhs.code for s in schedule.statements.values() if isinstance(s.rhs, CText)]
    return frozenset(word for text in texts for word in _WORD.findall(text))


def record_names(dtype: np.dtype[np.generic]) -> Iterator[str]:
    """Yield the names of a record type and of the record types inside it."""
    if is_record(dtype):
        yield record_name(dtype)
        for name in field_names(dtype):
            yield from record_names(field_dtype(dtype, name))


def preamble_text(name: str, text: str) -> str:
    """Return a preamble of the user with an include guard, unless it has ``#include`` lines alone."""
    is_harmless = all(line.startswith("#include") or not line.strip() for line in text.splitlines())
    return text if is_harmless else guarded_by_content(f"preamble {name}", text)


def comment(lines: Iterable[str]) -> str:
    """Return *lines* as C comments; characters that would continue a comment on the next line are replaced."""
    kept = []
    for line in lines:
        printable = "".join(c if c.isprintable() else " " for c in line.replace("\\", "/").replace("??", "? ?"))
        indent = printable[: len(printable) - len(printable.lstrip())]
        kept += commented(printable, f"//     {indent}")
    return "\n".join(kept)
