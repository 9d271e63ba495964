"""Lexical checks of an expression before Python's parser reads it, and the diagnostics of a syntax error after it."""

from __future__ import annotations

import re
from keyword import kwlist
from typing import Final, TypeAlias

import numpy as np

from polyloop.errors import Diagnostic

__all__ = ["IF_NAME", "NUMBER_NAME", "Fault", "check_characters", "explain", "replace_if_calls", "replace_suffixed",
           "replace_words"]

Fault: TypeAlias = tuple[int, int, Diagnostic]
"""Offset and width in the text, and what is wrong there."""

IF_NAME: Final = "\u00e9"
"""Stands for ``if`` used as a function: users cannot write it, and it too is two bytes long, as columns count."""

NUMBER_NAME: Final = "\u00e8"
"""Begins the name that stands for a number with a suffix; it too is two bytes long."""

WORD_NAME: Final = "\u00ea"
"""Begins the name that stands for a word of Python in the place of a variable; it too is two bytes long."""

_STRAY: Final = re.compile(r"[^A-Za-z0-9_\s()\[\],.:+\-*/%<>=&|^~!$]|!(?!=)|(?<!\w)\$|\$(?![A-Za-z_])", re.ASCII)
_NUMBER_RUN_ON: Final = re.compile(
    r"(?<![\w.])(?>0[xX][0-9a-fA-F_]+|(?:\d[\d_]*(?:\.[\d_]*)?|\.\d[\d_]*)(?:[eE][+-]?\d+)?)(?=[A-Za-z_])([A-Za-z_]\w*)",
    re.ASCII,
)
_IF_CALL: Final = re.compile(r"(?<![\w.])if(?=\s*\()", re.ASCII)
_OPERAND_END: Final = re.compile(r"(?:([A-Za-z_]\w*)|[\w)\].])\s*\Z", re.ASCII)
_WORD: Final = re.compile(r"(?<![\w.])[A-Za-z_]\w*", re.ASCII)
_OPERATOR_WORDS: Final = frozenset({"and", "or", "not", "if", "else"})
_UNSUPPORTED_WORDS: Final = frozenset(kwlist) - _OPERATOR_WORDS - {"True", "False"}
_FREE_WORDS: Final = _UNSUPPORTED_WORDS - {"lambda", "yield", "await", "None"}
"""Words that begin no expression of Python, and mean nothing in kernels: variables may be called so."""
_TAGGED: Final = r"[A-Za-z_]\w*\$[A-Za-z_]\w*"
_FREE: Final = re.compile(rf"(?<![\w.])(?:{_TAGGED}|(?:{'|'.join(sorted(_FREE_WORDS))})(?!\w))", re.ASCII)


def replace_if_calls(text: str) -> str:
    """Return *text* with :data:`IF_NAME` for each ``if`` that is used as a function; columns stay."""
    pieces = []
    done = 0
    for match in _IF_CALL.finditer(text):
        before = _OPERAND_END.search(text, 0, match.start())
        if before is not None and before.group(1) not in _OPERATOR_WORDS:
            continue
        pieces.append(text[done : match.start()] + IF_NAME)
        done = match.end()
    return "".join(pieces) + text[done:]


def replace_words(text: str) -> tuple[str, dict[int, str]]:
    """Return *text* with a name for each word that is no name of Python, and the words by offset [bytes].

    These are words of Python that stand for variables, and tagged names: ``a$left``.
    """
    words: dict[int, str] = {}

    def replace(match: re.Match[str]) -> str:
        before = _OPERAND_END.search(text, 0, match.start())
        if before is not None and before.group(1) not in _OPERATOR_WORDS:
            return match.group()
        words[len(text[: match.start()].encode())] = match.group()
        return WORD_NAME + "_" * (len(match.group()) - 2)  # as many bytes as before

    return _FREE.sub(replace, text), words


def _suffixed(match: re.Match[str]) -> np.generic | None:
    """Return the value of a number with a suffix, None if it has another type or does not fit its own."""
    tail = match.group(1)
    name = _SUFFIXES.get(tail.lower())
    text = match.group()[: -len(tail)]
    if name is None:
        return None
    if name.startswith(("float", "complex")):
        if text[:2] in ("0x", "0X"):
            return None
        value = complex(0, float(text)) if name.startswith("complex") else float(text)
        with np.errstate(over="ignore"):
            rounded = np.dtype(name).type(value)
        return rounded if np.isfinite(rounded) else None
    if not text.replace("_", "").isdigit() and text[:2] not in ("0x", "0X"):
        return None
    number = int(text, 0)
    return np.dtype(name).type(number) if number <= np.iinfo(name).max else None


def replace_suffixed(text: str) -> tuple[str, dict[int, np.generic]]:
    """Return *text* with a name for each number that has a suffix, and the values by their offset [bytes]."""
    values: dict[int, np.generic] = {}

    def replace(match: re.Match[str]) -> str:
        value = _suffixed(match)
        if value is None:
            return match.group()
        values[len(text[: match.start()].encode())] = value
        return NUMBER_NAME + "_" * (len(match.group()) - 2)  # as many bytes as before

    return _NUMBER_RUN_ON.sub(replace, text), values


def check_characters(text: str) -> Fault | None:
    """Return the first character, or number, that no expression contains."""
    stray = _STRAY.search(text)
    if stray is not None:
        character = stray.group()
        hint = _STRAY_HINTS.get(character, _GENERAL if character.isascii() else _ASCII)
        return stray.start(), 1, Diagnostic("syntax", f"unexpected {character!r}", hints=(hint,))
    for run_on in _NUMBER_RUN_ON.finditer(text):
        tail = run_on.group(1)
        is_imaginary = tail in ("j", "J") and run_on.group()[:2] not in ("0x", "0X")
        if is_imaginary or _suffixed(run_on) is not None:
            continue
        hint = _TAIL_HINTS.get(tail.lower(), "put an operator or a blank between them")
        return run_on.start(1), len(tail), Diagnostic("syntax", f"a number runs into '{tail}'", hints=(hint,))
    return None


_GENERAL: Final = "expressions are written as in Python: a[i, j]*b + if(x > 0, x, 0)"
_ASCII: Final = "names are ASCII letters, digits and '_'"
_STRAY_HINTS: Final = {
    "!": "write 'not x', or 'a != b'",
    ";": "leave it out: a statement ends with its line",
    "{": "options belong at the end of the line: x = y {id=first}",
    "?": "write if(condition, a, b)",
    "$": "a tag stands behind a name: a$left[i]",
    "@": "write the matrix product as a reduction: sum(k, a[i, k]*b[k, j])",
    "\u2212": "write -",
    "\u2013": "write -",
    "\u00d7": "write *",
    "\u00b7": "write *",
    "\u00f7": "write /",
    "\u2264": "write <=",
    "\u2265": "write >=",
    "\u2260": "write !=",
}
_TAIL_HINTS: Final = {
    "h": "write cast(float16, ...)",
    "i": "the imaginary unit is written 1j",
}
_OTHER_LANGUAGES: Final = {
    "&&": "write 'p and q'",
    "||": "write 'p or q'",
    "<>": "write 'a != b'",
}
_SUFFIXES: Final[dict[str, str]] = {
    "f": "float32",
    "d": "float64",
    "jf": "complex64",
    "jd": "complex128",
    "u": "uint32",
    "l": "int64",
    "ll": "int64",
    **dict.fromkeys(("ul", "ull", "lu", "llu"), "uint64"),
}
"""As in C, where int has 32 bits, long 64; ``d`` is for the printer."""


def explain(text: str, error: SyntaxError) -> Fault:
    """Return the syntax error of Python's parser in *text*, in words for a user of kernels."""
    for word in _WORD.finditer(text):
        if word.group() in _UNSUPPORTED_WORDS:
            found = Diagnostic("syntax", f"'{word.group()}' is a reserved word", hints=("choose another name",))
            return word.start(), len(word.group()), found
    for symbol, hint in _OTHER_LANGUAGES.items():
        if symbol in text:
            wrong = Diagnostic("syntax", f"unexpected '{symbol}'", hints=(hint,))
            return len(text[: text.index(symbol)].encode()), len(symbol), wrong
    offset = error.offset or 0
    message = re.split(r"; | - |\. ", error.msg or "invalid syntax")[0].replace(IF_NAME, "if")
    if message.startswith("Exceeds the limit"):
        return 0, 1, Diagnostic("syntax", "an integer does not fit 64 bits", hints=("use a float: 1e30",))
    if offset < 1 or offset > len(text):
        steps = text.rstrip().endswith(("++", "--"))
        hint = "a statement that counts is written x += 1, and x -= 1" if steps else _GENERAL
        return len(text.encode()), 1, Diagnostic("syntax", "the expression ends too early", hints=(hint,))
    at = len(text[: offset - 1].encode())
    width = max(1, (error.end_offset or 0) - offset) if error.lineno == error.end_lineno else 1
    if message == "invalid syntax":
        message = "this is not an expression"
    return at, width, Diagnostic("syntax", message, hints=(_GENERAL,))
