"""What is looked at before Python's parser sees an expression, and after it refuses one."""

from __future__ import annotations

import re
from keyword import kwlist
from typing import Final, TypeAlias

from polyloop.errors import Diagnostic

__all__ = ["IF_NAME", "Fault", "check_characters", "explain", "replace_if_calls"]

Fault: TypeAlias = tuple[int, int, Diagnostic]
"""Offset and width in the text, and what is wrong there."""

IF_NAME: Final = "\u00e9"
"""Stands for ``if`` used as a function: users cannot write it, and it too is two bytes long, as columns count."""

_STRAY: Final = re.compile(r"[^A-Za-z0-9_\s()\[\],.:+\-*/%<>=&|^~!]|!(?!=)", re.ASCII)
_NUMBER_RUN_ON: Final = re.compile(
    r"(?<![\w.])(?>0[xX][0-9a-fA-F_]+|(?:\d[\d_]*(?:\.[\d_]*)?|\.\d[\d_]*)(?:[eE][+-]?\d+)?)(?=[A-Za-z_])([A-Za-z_]\w*)",
    re.ASCII,
)
_IF_CALL: Final = re.compile(r"(?<![\w.])if(?=\s*\()", re.ASCII)
_OPERAND_END: Final = re.compile(r"(?:([A-Za-z_]\w*)|[\w)\].])\s*\Z", re.ASCII)
_WORD: Final = re.compile(r"(?<![\w.])[A-Za-z_]\w*", re.ASCII)
_OPERATOR_WORDS: Final = frozenset({"and", "or", "not", "if", "else"})
_UNSUPPORTED_WORDS: Final = frozenset(kwlist) - _OPERATOR_WORDS - {"True", "False"}


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


def check_characters(text: str) -> Fault | None:
    """Return the first character, or number, that no expression contains."""
    stray = _STRAY.search(text)
    if stray is not None:
        character = stray.group()
        hint = _STRAY_HINTS.get(character, _GENERAL) if character.isascii() else _ASCII
        return stray.start(), 1, Diagnostic("syntax", f"unexpected {character!r}", hints=(hint,))
    run_on = _NUMBER_RUN_ON.search(text)
    if run_on is not None:
        tail = run_on.group(1)
        hint = _TAIL_HINTS.get(tail.lower(), "put an operator or a blank between them")
        return run_on.start(1), len(tail), Diagnostic("syntax", f"a number runs into '{tail}'", hints=(hint,))
    return None


_GENERAL: Final = "expressions are written as in Python: a[i, j]*b + if(x > 0, x, 0)"
_ASCII: Final = "names are ASCII letters, digits and '_'"
_STRAY_HINTS: Final = {
    "!": "write 'not x', or 'a != b'",
    "{": "options belong at the end of the line: x = y {id=first}",
    "?": "write if(condition, a, b)",
    "@": "write the matrix product as a reduction: sum(k, a[i, k]*b[k, j])",
}
_TAIL_HINTS: Final = {
    "f": "constants take the type of what they meet: leave out the 'f', or write cast(float32, ...)",
    "j": "complex numbers are not supported",
}


def explain(text: str, error: SyntaxError) -> Fault:
    """Return what Python's parser found wrong with *text*, in words for a user of kernels."""
    for word in _WORD.finditer(text):
        if word.group() in _UNSUPPORTED_WORDS:
            found = Diagnostic("syntax", f"'{word.group()}' is a reserved word", hints=("choose another name",))
            return word.start(), len(word.group()), found
    offset = error.offset or 0
    message = re.split(r"; | - |\. ", error.msg or "invalid syntax")[0].replace(IF_NAME, "if")
    if message.startswith("Exceeds the limit"):
        return 0, 1, Diagnostic("syntax", "an integer does not fit 64 bits", hints=("use a float: 1e30",))
    if offset < 1 or offset > len(text):
        return len(text.encode()), 1, Diagnostic("syntax", "the expression ends too early", hints=(_GENERAL,))
    at = len(text[: offset - 1].encode())
    width = max(1, (error.end_offset or 0) - offset) if error.lineno == error.end_lineno else 1
    if message == "invalid syntax":
        message = "this is not an expression"
    return at, width, Diagnostic("syntax", message, hints=(_GENERAL,))
