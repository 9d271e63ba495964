"""Flow charts in Mermaid's notation (``a["text"]``, ``a --> b``), drawn as SVG while the site is built.

Layers follow the longest way down; within a layer, boxes stand where those that lead to them stand.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from html import escape
from itertools import chain, pairwise
from statistics import mean

from docutils import nodes
from pygments.lexers.special import TextLexer
from sphinx.application import Sphinx

WIDTH, HEIGHT, ROW, COLUMN = 132, 40, 66, 148
"""Size of a box, and distances of rows and columns [pixels]."""


@dataclass(frozen=True)
class Entry:
    """An entry of a row: a box, or the arrow from *tail* to the box *name* that passes through."""

    row: int
    name: str
    tail: str | None = None


def chart_of(boxes: Iterable[str], arrows: Sequence[tuple[str, str]]) -> tuple[list[list[Entry]], list[list[Entry]]]:
    """Return the rows, the highest first, and the way of each arrow: the entries from its tail to its head."""
    below = {name: [head for tail, head in arrows if tail == name] for name in boxes}

    @cache
    def height(name: str) -> int:
        return max((1 + height(head) for head in below[name]), default=0)

    top = max(map(height, below))
    rows = [[Entry(row, name) for name in below if top - height(name) == row] for row in range(top + 1)]
    ways = []
    for tail, head in arrows:
        first, last = top - height(tail), top - height(head)
        between = [Entry(row, head, tail) for row in range(first + 1, last)]
        for entry in between:
            rows[entry.row].append(entry)
        ways.append([Entry(first, tail), *between, Entry(last, head)])
    return rows, ways


def places_of(rows: list[list[Entry]], ways: list[list[Entry]]) -> dict[Entry, float]:
    """Return the column of each entry: below the entries that lead to it, as far as there is room."""
    above: dict[Entry, list[Entry]] = {}
    for entry, following in chain.from_iterable(map(pairwise, ways)):
        above.setdefault(following, []).append(entry)
    widest = max(map(len, rows))
    places: dict[Entry, float] = {}
    for row in rows:
        wished = {entry: mean(places[x] for x in above[entry]) if entry in above else widest / 2 for entry in row}
        first = min(max(0.0, mean(wished.values()) - (len(row) - 1) / 2), widest - len(row))
        places.update({entry: first + k for k, entry in enumerate(sorted(row, key=wished.__getitem__))})
    return places


def drawn(text: str) -> str:
    """Return a flow chart as SVG."""
    boxes = dict(re.findall(r'(\w+)\["([^"]*)"\]', text))
    arrows = re.findall(r"(\w+) --> (\w+)", text)
    rows, ways = chart_of(boxes, arrows)
    middle = {entry: place * COLUMN + WIDTH / 2 + 4 for entry, place in places_of(rows, ways).items()}
    parts = []
    for way in ways:
        x, y = middle[way[0]], way[0].row * ROW + HEIGHT + 4
        line = f"M{x:.0f} {y}"
        for entry in way[1:]:
            down, top = middle[entry], entry.row * ROW + 4
            line += f" C{x:.0f} {y + 14} {down:.0f} {top - 14} {down:.0f} {top}"
            line += f" V{top + HEIGHT}" if entry.tail else ""
            x, y = down, top + HEIGHT
        parts.append(f'<path d="{line}" marker-end="url(#tip)"/>')
    for entry in chain.from_iterable(rows):
        if entry.tail is not None:
            continue
        x, y = middle[entry], entry.row * ROW + 4
        parts.append(f'<rect x="{x - WIDTH / 2:.0f}" y="{y}" width="{WIDTH}" height="{HEIGHT}" rx="5"/>')
        for k, line in enumerate(boxes[entry.name].split("<br/>")):
            parts.append(f'<text x="{x:.0f}" y="{y + 17 + 15 * k}" class="line{k}">{escape(line)}</text>')
    wide, high = max(map(len, rows)) * COLUMN, len(rows) * ROW - ROW + HEIGHT + 8
    tip = '<marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
    head_of_arrow = f'<defs>{tip}<path class="tip" d="M0 0 L8 4 L0 8 z"/></marker></defs>'
    names = escape(", ".join(boxes))
    return (
        f'<svg class="flowchart" role="img" aria-label="Flow chart of {names}" viewBox="0 0 {wide} {high}" '
        f'width="{wide}">{head_of_arrow}{"".join(parts)}</svg>'
    )


def draw(app: Sphinx, tree: nodes.document) -> None:
    """Replace each block of Mermaid text by its picture."""
    del app
    for block in list(tree.findall(nodes.literal_block)):
        if block.get("language") == "mermaid":
            block.replace_self(nodes.raw("", drawn(block.astext()), format="html"))


def setup(app: Sphinx) -> dict[str, bool]:
    """Register it."""
    app.add_lexer("mermaid", TextLexer)
    app.connect("doctree-read", draw)
    return {"parallel_read_safe": True}
