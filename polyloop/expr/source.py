"""Text that the user wrote, with the way back from an offset to line and column."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, replace

from polyloop.errors import Span

__all__ = ["Segment", "Source", "split_outside_brackets"]


@dataclass(frozen=True)
class Segment:
    """Part of one line of the user's: it begins at ``offset`` of the source and at ``column`` of ``text``."""

    offset: int
    line: int
    column: int
    text: str
    file: str | None = None


@dataclass(frozen=True)
class Source:
    """One logical line, without newlines, put together from segments of the user's lines."""

    text: str
    segments: tuple[Segment, ...]

    @staticmethod
    def of(text: str, line: int = 1, column: int = 0, source_line: str | None = None) -> Source:
        """Return the source for *text*, which begins at *column* of line number *line*."""
        if "\n" not in text:
            whole = source_line if source_line is not None else " " * column + text
            return Source(text, (Segment(0, line, column, whole),))
        lines = text.split("\n")
        segments = []
        offset = 0
        for number, piece in enumerate(lines):
            begin = column if number == 0 else 0
            whole = source_line if number == 0 and source_line is not None else " " * begin + piece
            segments.append(Segment(offset, line + number, begin, whole))
            offset += len(piece) + 1
        return Source(" ".join(lines), tuple(segments))

    def slice(self, start: int, stop: int) -> Source:
        """Return the source of ``text[start:stop]``."""
        kept: list[Segment] = []
        for number, segment in enumerate(self.segments):
            following = self.segments[number + 1].offset if number + 1 < len(self.segments) else len(self.text)
            if following <= start and number + 1 < len(self.segments):
                continue
            if segment.offset >= stop and kept:
                break
            shift = max(0, start - segment.offset)
            kept.append(replace(segment, offset=max(0, segment.offset - start), column=segment.column + shift))
        return Source(self.text[start:stop], tuple(kept))

    def strip(self) -> Source:
        """Return the source without blanks at either end."""
        stripped = self.text.strip()
        start = len(self.text) - len(self.text.lstrip()) if stripped else 0
        return self.slice(start, start + len(stripped))

    def span(self, offset: int = 0, width: int | None = None) -> Span:
        """Return the span of *width* characters from *offset* on, by default up to the end of the text."""
        starts = [segment.offset for segment in self.segments]
        segment = self.segments[max(0, bisect_right(starts, offset) - 1)]
        column = segment.column + max(0, offset - segment.offset)
        if width is None:
            width = len(self.text) - offset
        column = min(column, len(segment.text))
        width = max(1, min(width, len(segment.text) - column))
        return Span(segment.text, segment.line, column, width, segment.file)


def split_outside_brackets(source: Source, separator: str) -> list[Source]:
    """Return the parts of *source* between separators outside of brackets."""
    parts: list[Source] = []
    depth = 0
    begin = 0
    for offset, character in enumerate(source.text):
        if character in "([{":
            depth += 1
        elif character in ")]}":
            depth -= 1
        elif character == separator and depth == 0:
            parts.append(source.slice(begin, offset))
            begin = offset + 1
    parts.append(source.slice(begin, len(source.text)))
    return parts
