"""``draw_dependences``: the instructions of a program in their order, with an arc for each dependence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import islpy as isl

from polyloop.kernel.kernel import LoopKernel
from polyloop.poly.sets import set_text
from polyloop.verification.dependences import Dependence, DependenceKind, Dependences, dependences
from polyloop.viz.picture import Picture, picture_of
from polyloop.viz.svg import CHAR, SIZE, Canvas

__all__ = ["draw_dependences"]

_ROW: Final = 17.0
_LANE: Final = 13.0
_SMALL: Final = 11.0
_TOP: Final = 66.0
_MOST_EDGES: Final = 120
_INKS: Final = {DependenceKind.RAW: "blue", DependenceKind.WAR: "orange", DependenceKind.WAW: "purple"}


@dataclass(frozen=True)
class _Edge:
    """Dependences of one kind on one array between two instructions."""

    kind: DependenceKind
    array: str
    source: int
    sink: int
    label: str
    is_exact: bool


def draw_dependences(kernel: LoopKernel, only: Dependences | None = None) -> Picture:
    """Draw the dependences of the program of *kernel*, which transforms do not change: see :func:`dependences`.

    ::

        pl.draw_dependences(knl)
        pl.draw_dependences(knl, pl.dependences(knl).of(kind=pl.DependenceKind.RAW))

    Instructions are in their order, one below the other; each dependence is an arc at the right, from the instruction
    that runs first to the one that has to wait.  Beside it are its kind, the array, and the distances between the
    iterations, ``i' = i + 1``.  Dashed arcs are dependences that data decides about.

    Parameters
    ----------
    only
        The dependences to draw; by default all.
    """
    reference = kernel if kernel.reference is None else kernel.reference.kernel
    names = [instruction.id for instruction in reference.instructions]
    found = dependences(kernel) if only is None else only
    edges = _edges(found, names)
    shown = edges[:_MOST_EDGES]
    canvas = Canvas()
    title = f"dependences of kernel {kernel.name}"
    counts = ", ".join(f"{sum(entry.kind is kind for entry in found)} {kind.name} ({kind.value})" for kind in _INKS)
    canvas.text(12, 16, title, bold=True)
    canvas.text(12, 35, counts if found else "none: all instances may run in any order", "quiet", size=_SMALL)
    tops, ends, y = list[float](), list[float](), _TOP
    leaving = [[edge for edge in shown if edge.source == number] for number in range(len(names))]
    for number, instruction in enumerate(reference.instructions):
        tops.append(y)
        canvas.text(12, y, instruction.id, "green", bold=True)
        left = 12 + CHAR * SIZE * (max(map(len, names), default=0) + 2)
        ends.append(left + canvas.text(left, y, _clip(str(instruction))) + 8)
        y += _ROW * max(1, len(leaving[number])) + 9
    lane = canvas.width + 16
    column = lane + _LANE * len(shown) + 14
    for top, end in zip(tops, ends, strict=True) if shown else ():
        canvas.line([(end, top), (lane - 14, top)], "rule")
    _arcs(canvas, shown, tops, (lane, column))
    lines = [title, counts if found else "none"]
    for number, instruction in enumerate(reference.instructions):
        lines.append(f"{instruction.id}: {instruction}")
        lines += [f"    -> {names[edge.sink]}: {edge.label}" for edge in edges if edge.source == number]
    if len(edges) > len(shown):
        canvas.text(12, y, f".. {len(edges) - len(shown)} more, which print(pl.dependences(knl)) has", "quiet")
    return picture_of(canvas, title, "\n".join(lines))


_MOST_LETTERS: Final = 70


def _clip(text: str) -> str:
    return text if len(text) <= _MOST_LETTERS else f"{text[: _MOST_LETTERS - 2]}.."


def _edges(found: Sequence[Dependence], names: Sequence[str]) -> list[_Edge]:
    """Return one edge for each kind, array, pair of instructions and label."""
    edges: dict[_Edge, None] = {}
    for entry in found:
        label = f"{entry.kind.name} {entry.array}{_distance(entry.relation)}{'' if entry.is_exact else ' (may)'}"
        edge = _Edge(entry.kind, entry.array, names.index(entry.source), names.index(entry.sink), label, entry.is_exact)
        edges[edge] = None
    return sorted(edges, key=lambda edge: (edge.source, edge.sink, edge.kind.name, edge.array, edge.label))


def _distance(relation: isl.Map) -> str:
    """Return the inames of the later instance in terms of the earlier one's: ``: i' = 1 + i``."""
    text = set_text(relation).partition("-> {")[2] or set_text(relation)
    after = text.partition("->")[2].partition("]")[0].partition("[")[2]
    moved = [part.strip() for part in after.split(",") if "=" in part]
    return f": {', '.join(moved)}" if moved else ""


def _arcs(canvas: Canvas, edges: Sequence[_Edge], tops: Sequence[float], lanes: tuple[float, float]) -> None:
    """Draw each edge in a lane of its own: out of its instruction, up or down, and into the other one."""
    first, column = lanes
    leave = dict.fromkeys(range(len(tops)), 0)
    arrive = dict.fromkeys(range(len(tops)), 0)
    start = first - 14
    order = sorted(range(len(edges)), key=lambda n: (abs(edges[n].sink - edges[n].source), edges[n].source))
    place = {number: lane for lane, number in enumerate(order)}
    for number, edge in enumerate(edges):
        ink = _INKS[edge.kind]
        x = first + _LANE * place[number]
        y = tops[edge.source] + _ROW * leave[edge.source]
        end = tops[edge.sink] - 7 + min(3 * arrive[edge.sink], 9)
        leave[edge.source] += 1
        arrive[edge.sink] += 1
        dashed = not edge.is_exact
        canvas.line([(start, y), (x, y), (x, end), (start, end)], ink, width=1.4, dashed=dashed, arrow=True)
        canvas.line([(x, y), (column - 4, y)], "rule", dashed=True)
        canvas.circle(x, y, 2.5, ink)
        canvas.text(column, y, edge.label, ink, size=_SMALL)
