"""``diff``: two states of a kernel side by side, their loop trees and their generated texts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher, unified_diff
from itertools import chain
from typing import Final

from polyloop.errors import PolyloopError
from polyloop.frozen import replace
from polyloop.kernel.kernel import LoopKernel
from polyloop.target.base import Target, target_of
from polyloop.target.cuda import CudaTarget
from polyloop.target.source import generate_code
from polyloop.viz.loops import paint_row, wrapped_row
from polyloop.viz.picture import Picture, picture_of
from polyloop.viz.rows import Row, loop_rows
from polyloop.viz.svg import CHAR, LINE, SIZE, Canvas

__all__ = ["diff"]

_MOST_LINES: Final = 160
_MOST_ROWS: Final = 150
_WIDEST: Final = 66
_SMALL: Final = 11.0
_COLUMNS: Final = 100

Pair = tuple[Row | None, Row | None, bool]
"""Rows that stand side by side, and whether they are equal."""


def diff(before: LoopKernel, after: LoopKernel, target: Target | None = None) -> Picture:
    """Draw the difference between two kernels: the transforms, their loop trees side by side, and their source texts.

    ::

        tiled = knl.split_iname("i", 16, outer_tag="g.0", inner_tag="l.0")
        pl.diff(knl, tiled)             # a notebook shows it
        print(pl.diff(knl, tiled))      # as a patch

    Rows that only one of them has are marked ``-`` and ``+``.  Text that cannot be generated yet is left out.

    Parameters
    ----------
    target
        By default that of *after*, and CUDA for kernels that have none.
    """
    chosen = target_of(after, target) or CudaTarget()
    trees = loop_rows(before, chosen), loop_rows(after, chosen)
    steps = [*_steps(before, after)]
    patch = [*_patch(_source(before, chosen), _source(after, chosen))]
    title = f"from {before.name} to {after.name}" if before.name != after.name else f"changes of {after.name}"
    canvas = Canvas()
    canvas.text(12, 16, title, bold=True)
    y = 38.0
    for step in steps:
        canvas.text(12, y, step, "green" if step.startswith("+") else "red", size=_SMALL)
        y += 16
    y = _beside(canvas, [*_pairs(*trees)], y + 8)
    _text(canvas, patch, y + 14)
    lines = [title, *steps, "", *_tree_patch(*trees)]
    return picture_of(canvas, title, "\n".join([*lines, *([""] * bool(patch)), *patch]))


def _steps(before: LoopKernel, after: LoopKernel) -> Iterator[str]:
    """Yield the transforms that only one of the kernels has been through."""
    old, new = ([step.call() for step in kernel.trace] for kernel in (before, after))
    common = next((n for n, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new)))
    yield from (f"- {call}" for call in old[common:])
    yield from (f"+ {call}" for call in new[common:])


def _source(kernel: LoopKernel, target: Target) -> list[str]:
    try:
        return generate_code(kernel, target).device_code.splitlines()
    except PolyloopError:
        return []


def _patch(old: Sequence[str], new: Sequence[str]) -> Iterator[str]:
    yield from (line for line in unified_diff(old, new, "before", "after", n=2, lineterm=""))


def _pairs(old: Sequence[Row], new: Sequence[Row]) -> Iterator[Pair]:
    """Yield the rows of two trees side by side."""
    for kind, a, b, c, d in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        left, right = old[a:b], new[c:d]
        for number in range(max(len(left), len(right))):
            yield (
                left[number] if number < len(left) else None,
                right[number] if number < len(right) else None,
                kind == "equal",
            )


def _tree_patch(old: Sequence[Row], new: Sequence[Row]) -> Iterator[str]:
    """Yield the rows of both trees as lines of a patch."""
    for kind, a, b, c, d in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if kind == "equal":
            yield from _marked("  ", old[a:b])
        else:
            yield from _marked("- ", old[a:b])
            yield from _marked("+ ", new[c:d])


def _marked(mark: str, rows: Sequence[Row]) -> Iterator[str]:
    yield from (f"{mark}{line}" for row in rows for line in wrapped_row(row, _COLUMNS - len(mark)))


def _short(row: Row) -> Row:
    """Return a row that fits into its half of the picture; the name of the instruction is left out."""
    most = max(12, _WIDEST - 3 * row.depth - (8 if row.tag else 0))
    return replace(row, text=row.text if len(row.text) <= most else f"{row.text[: most - 2]}..", name="")


def _beside(canvas: Canvas, pairs: Sequence[Pair], y: float) -> float:
    """Draw the trees side by side, and return the height below them."""
    half, top = CHAR * SIZE * _WIDEST + 54, y - 8
    for x, word in ((24.0, "before"), (24.0 + half, "after")):
        canvas.text(x, y, word, "quiet", size=_SMALL)
    y += LINE
    for left, right, is_equal in pairs[:_MOST_ROWS]:
        for x, row, ink, mark in ((24.0, left, "red", "-"), (24.0 + half, right, "green", "+")):
            if row is not None:
                paint_row(canvas, _short(row), x, y, x + half - 20, paper="" if is_equal else f"on-{ink}")
                if not is_equal:
                    canvas.text(x - 12, y, mark, ink, bold=True)
        y += LINE
    if len(pairs) > _MOST_ROWS:
        canvas.text(24, y, f".. {len(pairs) - _MOST_ROWS} rows more", "quiet")
        y += LINE
    canvas.line([(24 + half - 16, top), (24 + half - 16, y)], "rule")
    return y


def _text(canvas: Canvas, patch: Sequence[str], y: float) -> None:
    """Write the patch of the generated texts."""
    inks = {"+": "green", "-": "red", "@": "purple"}
    more = [f".. {len(patch) - _MOST_LINES} lines more, which print(..) has"] if len(patch) > _MOST_LINES else []
    wide = max(canvas.width, 600.0)
    for line in chain(patch[2:_MOST_LINES], more):
        ink = inks.get(line[:1], "ink")
        if ink in ("green", "red"):
            canvas.rect(12, y - 8, wide - 12, 16, f"on-{ink}")
        canvas.text(16, y, line, ink, size=_SMALL)
        y += 16
