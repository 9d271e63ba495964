"""A canvas for pictures: shapes and labels with classes in place of colours, and the SVG text of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from html import escape
from typing import Final

from polyloop.viz.colors import rules

__all__ = ["CHAR", "LINE", "Canvas", "Label", "svg_text"]

SIZE: Final = 13.0
CHAR: Final = 0.64
"""Width of a letter for each unit of its size, at most: 0.60 in common monospaced fonts, more where it is rounded."""
LINE: Final = 20.0
"""Distance of lines of text."""
_FONT: Final = "ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono','Liberation Mono',monospace"
_MOST: Final = 110
"""Letters of a label; the whole text is in its tooltip."""


@dataclass(frozen=True)
class Label:
    """A text in a picture and the box that it takes at most."""

    text: str
    x: float
    y: float
    width: float
    height: float

    def overlaps(self, other: Label) -> bool:
        """Return whether the boxes of two labels share more than an edge."""
        return (
            self.x < other.x + other.width - 0.5
            and other.x < self.x + self.width - 0.5
            and self.y < other.y + other.height - 0.5
            and other.y < self.y + self.height - 0.5
        )


def _number(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


class Canvas:
    """Shapes in the order in which they are painted; the picture is as large as they reach."""

    def __init__(self) -> None:
        self.items: list[str] = []
        self.labels: list[Label] = []
        self.width = self.height = 0.0

    def _reach(self, x: float, y: float) -> None:
        self.width, self.height = max(self.width, x), max(self.height, y)

    def text(
        self, x: float, y: float, text: str, ink: str = "ink", *, size: float = SIZE, bold: bool = False,
        anchor: str = "start", paper: str = "",
    ) -> float:  # fmt: skip
        """Write one line whose middle is at height *y*, and return the width that it takes at most.

        Parameters
        ----------
        anchor
            ``"start"``, ``"middle"`` or ``"end"``: the part of the text that is at *x*.
        paper
            Colour of a box behind it.
        """
        shown = text if len(text) <= _MOST else f"{text[: _MOST - 2]}.."
        width = CHAR * size * len(shown)
        left = x - {"start": 0.0, "middle": width / 2, "end": width}[anchor]
        self.labels.append(Label(shown, left, y - size / 2, width, size))
        self._reach(left + width, y + size / 2)
        if paper:
            self.rect(left - 4, y - size / 2 - 3, width + 8, size + 6, paper, radius=3)
        styles = [f"font-size:{_number(size)}px"] * (size != SIZE) + ["font-weight:bold"] * bold
        look = f' style="{";".join(styles)}"' if styles else ""
        look += f' text-anchor="{anchor}"' if anchor != "start" else ""
        tip = "" if shown == text else f"<title>{escape(text)}</title>"
        place = f'x="{_number(x)}" y="{_number(y + size * 0.35)}"'
        kept = shown.replace("  ", "\u00a0\u00a0")  # viewers differ in what keeps blanks
        self.items.append(f'<text {place} class="f-{ink}"{look}>{tip}{escape(kept)}</text>')
        return width

    def rect(
        self, x: float, y: float, width: float, height: float, fill: str = "", stroke: str = "", *,
        radius: float = 0.0, tip: str = "",
    ) -> None:  # fmt: skip
        """Draw a rectangle."""
        self._reach(x + width, y + height)
        look = f' rx="{_number(radius)}"' if radius else ""
        size = f'width="{_number(width)}" height="{_number(height)}"'
        start = f'<rect x="{_number(x)}" y="{_number(y)}" {size} class="{_classes(fill, stroke)}"{look}'
        self.items.append(f"{start}><title>{escape(tip)}</title></rect>" if tip else f"{start}/>")

    def circle(self, x: float, y: float, radius: float, fill: str = "", stroke: str = "", width: float = 1.0) -> None:
        """Draw a circle."""
        self._reach(x + radius, y + radius)
        thick = f' stroke-width="{_number(width)}"' if width != 1.0 else ""
        self.items.append(
            f'<circle cx="{_number(x)}" cy="{_number(y)}" r="{_number(radius)}" '
            f'class="{_classes(fill, stroke)}"{thick}/>'
        )

    def line(
        self, points: Sequence[tuple[float, float]], stroke: str = "rule", *, width: float = 1.0, dashed: bool = False,
        arrow: bool = False,
    ) -> None:  # fmt: skip
        """Draw a line through *points*, with a head at its end if it is an *arrow*."""
        for x, y in points:
            self._reach(x, y)
        moves = "L".join(f"{_number(x)} {_number(y)}" for x, y in points)
        look = f' stroke-width="{_number(width)}"' if width != 1.0 else ""
        look += ' stroke-dasharray="4 3"' if dashed else ""
        self.items.append(f'<path d="M{moves}" class="{_classes("", stroke)}"{look}/>')
        if arrow:
            self._head(points[-2], points[-1], stroke)

    def place(self, other: Canvas, x: float, y: float) -> None:
        """Put all of another canvas here, with its corner at a point."""
        self.items += [f'<g transform="translate({_number(x)} {_number(y)})">', *other.items, "</g>"]
        self.labels += [replace(label, x=label.x + x, y=label.y + y) for label in other.labels]
        self._reach(x + other.width, y + other.height)

    def flow(self, panels: Iterable[Canvas], y: float, *, gap: float = 28.0, widest: float = 1280.0) -> None:
        """Put *panels* side by side from height *y* on, as many as fit, and each further one where it is highest."""
        placed = list[tuple[float, float, float]]()  # left, right, and the height below, with the gap
        for panel in panels:
            width = panel.width
            lefts = [0.0, *(right for _, right, _ in placed if right + width <= widest)]
            tops = [
                max([y, *(below for left, right, below in placed if left < x + width + gap and x < right)])
                for x in lefts
            ]  # fmt: skip
            top, x = min(zip(tops, lefts, strict=True))
            self.place(panel, x, top)
            placed.append((x, x + width + gap, top + panel.height + gap))

    def _head(self, start: tuple[float, float], end: tuple[float, float], ink: str) -> None:
        dx, dy = end[0] - start[0], end[1] - start[1]
        length = max((dx * dx + dy * dy) ** 0.5, 1e-9)
        ux, uy = 6 * dx / length, 6 * dy / length
        corners = (end, (end[0] - ux + uy / 2, end[1] - uy - ux / 2), (end[0] - ux - uy / 2, end[1] - uy + ux / 2))
        moves = "L".join(f"{_number(x)} {_number(y)}" for x, y in corners)
        self.items.append(f'<path d="M{moves}z" class="f-{ink}"/>')


def _classes(fill: str, stroke: str) -> str:
    return " ".join([f"f-{fill}" if fill else "none", *([f"s-{stroke}"] if stroke else [])])


def svg_text(size: tuple[float, float], items: Iterable[str], title: str, theme: str = "auto") -> str:
    """Return an SVG document of *items*: on its own background, in the colours of *theme*.

    Theme ``"auto"`` takes those that the reader's system prefers.
    """
    width, height = (_number(extent + 12) for extent in size)
    fixed = (
        f".pl-picture text{{font:{_number(SIZE)}px {_FONT}}}"
        ".pl-picture .none{fill:none}.pl-picture path{stroke-linejoin:round}"
        ".pl-picture rect:not([rx]){shape-rendering:crispEdges}"
    )
    scope = ".pl-picture "
    style = "".join([fixed, *rules("dark" if theme == "dark" else "light", scope)])
    if theme == "auto":
        style += f"@media (prefers-color-scheme:dark){{{''.join(rules('dark', scope))}}}"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="pl-picture" role="img" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}"><title>{escape(title)}</title><style>{style}</style>'
        f'<rect width="{width}" height="{height}" rx="6" class="f-page"/>{"".join(items)}</svg>\n'
    )
