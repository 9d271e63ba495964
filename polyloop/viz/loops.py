"""``draw_loops``: the loop tree of a kernel after all transforms, with its barriers and the reasons for them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from textwrap import wrap
from typing import Final

from polyloop.kernel.kernel import LoopKernel
from polyloop.target.base import Target
from polyloop.viz.picture import Picture, picture_of
from polyloop.viz.rows import Kind, Row, loop_rows
from polyloop.viz.svg import CHAR, LINE, SIZE, Canvas

__all__ = ["draw_loops", "paint_row", "row_text", "wrapped_row"]

_INDENT: Final = 22.0
_MOST_ROWS: Final = 300
_SMALL: Final = 11.0
_WIDTH: Final = 100
"""Characters of a line of the plain text, with the id of its instruction."""
_LEAST: Final = 40
"""Characters of text that stay in a line of the plain text, however deep it is or long its id."""
_SUBSCRIPTS: Final = re.compile(r"\[[^][]*\]")

INKS: Final = {
    Kind.LAUNCH: "blue", Kind.AXIS: "purple", Kind.LOOP: "green", Kind.STATEMENT: "ink", Kind.BARRIER: "red",
    Kind.REASON: "quiet", Kind.END: "red", Kind.NOTE: "orange",
}  # fmt: skip
MARKS: Final = {Kind.BARRIER: "== ", Kind.END: "== ", Kind.REASON: "   because of ", Kind.NOTE: "! "}


def draw_loops(kernel: LoopKernel, target: Target | None = None) -> Picture:
    """Draw the loops of *kernel* as code generation prints them: launches, axes, tags, statements and barriers.

    ::

        knl.loops                               # a notebook shows it
        print(pl.draw_loops(knl))               # the same as text
        pl.draw_loops(knl).save("loops.svg")

    Below each barrier are the dependences between threads that it separates: RAW, WAR or WAW on an array, with the
    instructions, and the loop that carries it.  Statements have the id of their instruction at the right.

    Parameters
    ----------
    target
        By default the kernel's, and CUDA for kernels that have none.

    Notes
    -----
    Everything shown is taken from the verified schedule (:func:`polyloop.verify`).  A kernel that has none yet, because
    a type is unknown or threads race, is drawn as its loops alone, with the reason.
    """
    rows = loop_rows(kernel, target)
    canvas = Canvas()
    shown = rows[:_MOST_ROWS]
    edge = max((_right(row) for row in shown), default=0.0) + 30
    y = 18.0
    for number, row in enumerate(shown):
        if row.kind is Kind.LAUNCH and number and shown[number - 1].kind is not Kind.LOOP:
            y += 8
        _guide(canvas, shown, number, y)
        paint_row(canvas, row, 12.0, y, edge)
        y += LINE
    if len(rows) > len(shown):
        canvas.text(12, y, f".. {len(rows) - len(shown)} rows more", "quiet")
    return picture_of(canvas, f"loops of kernel {kernel.name}", "\n".join(_text(rows)))


def _left(row: Row) -> float:
    return 12.0 + _INDENT * row.depth


def _right(row: Row) -> float:
    size = _SMALL if row.kind is Kind.REASON else SIZE
    return _left(row) + CHAR * size * min(110, len(MARKS.get(row.kind, "") + row.text)) + (60 if row.tag else 0)


def _guide(canvas: Canvas, rows: Sequence[Row], number: int, y: float) -> None:
    """Draw the line along the body of a loop or a launch."""
    row = rows[number]
    if row.kind not in (Kind.LOOP, Kind.LAUNCH):
        return
    inside = 0
    for other in rows[number + 1 :]:
        if other.depth <= row.depth:
            break
        inside += 1
    if inside:
        x = _left(row) + 5
        canvas.line([(x, y + 10), (x, y + LINE * inside + 7)], INKS[row.kind], width=1.5)


def paint_row(canvas: Canvas, row: Row, x: float, y: float, edge: float, *, paper: str = "") -> None:
    """Write one row at height *y*, its id so that it begins at *edge*."""
    left = x + _INDENT * row.depth
    size = _SMALL if row.kind is Kind.REASON else SIZE
    if paper:
        canvas.rect(x - 6, y - LINE / 2, edge - x + 6, LINE, paper)
    if row.kind in (Kind.BARRIER, Kind.END):
        canvas.rect(left - 2, y - 8, edge - left - 20, 16, "on-red", radius=3)
    bold = row.kind in (Kind.LAUNCH, Kind.LOOP, Kind.BARRIER)
    text = MARKS.get(row.kind, "").replace("== ", "") + row.text
    width = canvas.text(left + 2, y, text, INKS[row.kind], size=size, bold=bold)
    if row.tag:
        canvas.text(left + width + 16, y, row.tag, _tag_ink(row), size=_SMALL, paper=f"on-{_tag_ink(row)}")
    if row.name and row.kind is Kind.STATEMENT:
        canvas.text(edge, y, row.name, "quiet", size=_SMALL)


def _tag_ink(row: Row) -> str:
    return "purple" if row.kind is Kind.AXIS else "orange"


def row_text(row: Row) -> str:
    """Return a row as a line of plain text, without its indentation."""
    tag = f"  [{row.tag}]" if row.tag else ""
    return f"{MARKS.get(row.kind, '')}{row.text}{tag}"


def _text(rows: Sequence[Row]) -> Iterator[str]:
    """Yield the lines of the plain text, of which those that a terminal has no room for go on in the next line."""
    ids = [f"{{{row.name}}}" if row.kind is Kind.STATEMENT and row.name else "" for row in rows]
    room = max(_LEAST, _WIDTH - max((len(name) + 2 for name in ids if name), default=0))
    found = [wrapped_row(row, room if name else _WIDTH) for row, name in zip(rows, ids, strict=True)]
    named = (len(line) for lines, row in zip(found, rows, strict=True) if row.name for line in lines)
    column = min(room, max(named, default=0)) + 2
    for (first, *more), name in zip(found, ids, strict=True):
        yield f"{first:<{column}}{name}" if name else first
        yield from more


def wrapped_row(row: Row, width: int = _WIDTH) -> list[str]:
    """Return the text of a row as lines of at most *width* characters, where its depth leaves room for words."""
    text = row_text(row)
    before = f"{'    ' * row.depth}{' ' * (len(text) - len(text.lstrip()))}"
    if len(before) + len(text.lstrip()) <= width:
        return [before + text.lstrip()]  # with its blanks as they are
    more = f"{before}      "
    room = max(width, len(more) + _LEAST)
    kept = _SUBSCRIPTS.sub(lambda found: found.group().replace(" ", "\u00a0"), text)  # where no line ends
    lines = wrap(kept, room, initial_indent=before, subsequent_indent=more, break_on_hyphens=False)
    return [line.replace("\u00a0", " ") for line in lines]
