"""The user's text as logical lines: comments removed, continued lines joined, brackets matched."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final, NoReturn

from polyloop.errors import Diagnostic, KernelError, Span
from polyloop.expr.source import Segment, Source

__all__ = ["OPERATION", "fail", "logical_lines", "match_bracket"]

OPERATION: Final = "make_kernel"
"""The public function that messages name."""

_CLOSES: Final = {")": "(", "]": "[", "}": "{"}
_BRACKET: Final = re.compile(r"[()\[\]{}]")


def fail(code: str, message: str, span: Span, *hints: str) -> NoReturn:
    """Raise the error *code* at *span*."""
    raise KernelError(OPERATION, None, [Diagnostic(code, message, hints=hints, span=span)])


class _Brackets:
    """The brackets that are open at some point of the text."""

    def __init__(self) -> None:
        self.open: list[tuple[str, Span]] = []

    def read(self, text: str, line: int, whole: str) -> None:
        for match in _BRACKET.finditer(text):
            bracket = match.group()
            span = Span(whole, line, match.start(), 1)
            opener = _CLOSES.get(bracket)
            if opener is None:
                self.open.append((bracket, span))
            elif not self.open:
                fail("syntax", f"'{bracket}' closes nothing", span, "remove it, or open it before")
            elif self.open.pop()[0] != opener:
                fail("syntax", f"'{bracket}' does not close the bracket that is open", span, "close brackets in order")


def _join(pieces: list[tuple[int, str, str]]) -> Source:
    """Return one source of ``(line number, whole line, its text without comment)``."""
    segments = []
    texts = []
    offset = 0
    for number, whole, text in pieces:
        begin = len(text) - len(text.lstrip())
        content = text.strip()
        segments.append(Segment(offset, number, begin, whole))
        texts.append(content)
        offset += len(content) + 1
    return Source(" ".join(texts), tuple(segments)).strip()


def _physical_lines(text: str | Sequence[str]) -> list[str]:
    chunks = [text] if isinstance(text, str) else text
    return [line.expandtabs().rstrip() for chunk in chunks for line in re.split(r"\r\n|\r|\n", chunk)]


def logical_lines(text: str | Sequence[str]) -> Iterator[Source]:
    """Yield the logical lines of *text*, without the empty ones.

    A line goes on after a backslash at its end, while a bracket is open, and on a line that begins with ``{``.
    Several strings count as one text.
    """
    lines = _physical_lines(text)
    brackets = _Brackets()
    pieces: list[tuple[int, str, str]] = []
    for number, whole in enumerate(lines, start=1):
        content = whole.split("#", 1)[0].rstrip()
        goes_on = content.endswith("\\")
        content = content.removesuffix("\\")
        if not content.strip() and not goes_on and not brackets.open:
            if pieces and _continues(lines, number):
                continue
        else:
            brackets.read(content, number, whole)
            pieces.append((number, whole, content))
        if pieces and not goes_on and not brackets.open and not _continues(lines, number):
            source = _join(pieces)
            pieces = []
            if source.text:
                yield source
    if brackets.open:
        bracket, span = brackets.open[-1]
        fail("syntax", f"'{bracket}' is never closed", span, "close it on this line, or on one that continues it")
    if pieces:
        source = _join(pieces)
        if source.text:
            fail("syntax", "the text ends after a backslash", source.span(), "remove the backslash")


def _continues(lines: list[str], number: int) -> bool:
    """Return whether the next line that is not empty, after the first *number*, begins with options."""
    for line in lines[number:]:
        content = line.split("#", 1)[0].strip()
        if content:
            return content.startswith("{")
    return False


def match_bracket(text: str, start: int) -> int:
    """Return the offset of the bracket that closes the one at *start*; brackets are known to match."""
    depth = 0
    for match in _BRACKET.finditer(text, start):
        depth += -1 if match.group() in _CLOSES else 1
        if depth == 0:
            return match.start()
    raise AssertionError("unmatched bracket in a logical line")
