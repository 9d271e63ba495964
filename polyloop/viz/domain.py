"""``draw_domain``: the instances of an instruction as a grid of cells, with tiles, order, dependences and witnesses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import islpy as isl

from polyloop.errors import ArgumentError, Diagnostic, PolyloopError, Witness, unknown_name
from polyloop.kernel.kernel import LoopKernel
from polyloop.mapping.thread_mapping import Placed
from polyloop.poly.axes import is_block_axis
from polyloop.verification.dependences import Dependence
from polyloop.viz.instances import Instance, fixed_sizes, instances_of, main_statement, program_forms
from polyloop.viz.picture import Picture, picture_of
from polyloop.viz.svg import CHAR, Canvas

__all__ = ["draw_domain"]

_MOST_CELLS: Final = 64
_MOST_ARROWS: Final = 250
_PAPERS: Final = ("on-blue", "on-orange", "on-green", "on-purple", "on-red")
_LETTERS: Final = "ABCDE"
_TOP: Final = 68.0
_LEFT: Final = 64.0

_Cell: TypeAlias = tuple[int, int]


@dataclass(frozen=True)
class _Grid:
    """Cells by column and row, the instance in each, and how they are painted."""

    x: str
    y: str
    cells: Mapping[_Cell, Sequence[Instance]]
    low: _Cell
    extent: _Cell
    size: float

    def middle(self, cell: _Cell) -> tuple[float, float]:
        """Return the middle of a cell."""
        return (
            _LEFT + (cell[0] - self.low[0] + 0.5) * self.size, _TOP + (cell[1] - self.low[1] + 0.5) * self.size,
        )  # fmt: skip


def draw_domain(
    kernel: LoopKernel,
    inames: str | Sequence[str] | None = None,
    *,
    instruction: str | None = None,
    sizes: Mapping[str, int] | None = None,
    at: Mapping[str, int] | None = None,
    dependence: Dependence | None = None,
    refusal: PolyloopError | None = None,
) -> Picture:
    """Draw the instances of one instruction as cells: the block of each by color, the step of its thread as a number.

    ::

        pl.draw_domain(knl, "j, i", sizes={"n": 12})
        pl.draw_domain(knl, dependence=pl.dependences(knl)[0])
        try:
            knl.tag_inames("i: l.0")
        except pl.TransformError as error:
            pl.draw_domain(knl, refusal=error)      # the two instances that it names

    Cells with one number and one color run at one time, on different threads.  Colors (with a letter) are blocks; in a
    kernel without block axes, iterations of the outermost loop.

    Parameters
    ----------
    inames
        One or two inames of the program as it was written, for the columns and the rows; by default the last two that
        differ among blocks, or else the last ones.
    instruction
        Id; by default that of the refusal or of the dependence, and otherwise the last.
    sizes
        Values of parameters; by default small ones that show several tiles, or those of the refusal.
    at
        Values of the other inames, by default those of the first instance: what is drawn is a section.
    dependence
        A dependence of :func:`polyloop.dependences` of this instruction on itself: an arrow for each pair.
    refusal
        An error that names instances: they are marked 1 and 2.

    Raises
    ------
    ArgumentError
        ``unknown-iname``, ``unknown-instruction``, ``unknown-size``, ``no-instances``, ``too-many-instances``,
        ``nothing-to-draw``.
    """
    mark = None if refusal is None else _witness(kernel, refusal)
    wanted = instruction or _subject(kernel, dependence, mark)
    placed = main_statement(kernel, wanted, _NAME)
    given = dict(sizes or {})
    if mark is not None:
        given = {**{name: value for name, value in mark.parameters if name in kernel.parameters}, **given}
    known = fixed_sizes(kernel, placed, given, _NAME)
    all_inames = [*program_forms(placed)]
    x, y = _columns(kernel, inames, all_inames, _over_blocks(placed))
    rest = {name: value for name, value in (at or {}).items() if name not in (x, y)}
    if mark is not None:
        rest = {**{name: value for name, value in mark.first.inames if name not in (x, y)}, **rest}
    for name in rest:
        if name not in all_inames:
            raise ArgumentError(_NAME, kernel.name, [unknown_name("iname", name, all_inames)])
    shown, section = instances_of(kernel, placed, known, (frozenset((x, y)), rest), _NAME)
    grid = _grid(shown, x, y)
    canvas = Canvas()
    paint = _Painter(canvas, grid, shown, is_placed=any(entry.block for entry in shown))
    paint.cells()
    paint.axes()
    pairs = [] if dependence is None else [*_pairs(dependence, known, (x, y), section)]
    paint.arrows(pairs)
    if mark is not None:
        paint.witness(mark)
    title = f"instances of {placed.lowered.instruction.id}: {_where(known, section)}"
    canvas.text(12, 16, title, bold=True)
    canvas.text(12, 35, paint.legend(dependence, len(pairs)), "quiet", size=11)
    text = "\n".join([title, *paint.text(), paint.legend(dependence, len(pairs)), *paint.notes])
    return picture_of(canvas, f"{title} of kernel {kernel.name}", text)


_NAME: Final = "draw_domain"


def _witness(kernel: LoopKernel, refusal: PolyloopError) -> Witness:
    found = next((entry.witness for entry in refusal.found if entry.witness is not None), None)
    if found is None:
        hints = ("draw_domain(knl) draws all instances",)
        problem = Diagnostic("nothing-to-draw", "the refusal names no instances", hints=hints)
        raise ArgumentError(_NAME, kernel.name, [problem])
    return found


def _subject(kernel: LoopKernel, dependence: Dependence | None, mark: Witness | None) -> str | None:
    ids = {entry.id for entry in kernel.instructions}
    if mark is not None and mark.first.instruction in ids:
        return mark.first.instruction
    if dependence is not None:
        if dependence.source != dependence.sink:
            what = f"the dependence is of '{dependence.sink}' on '{dependence.source}', two domains"
            hints = ("draw one of an instruction on itself: pl.dependences(knl).of(source=.., sink=..)",)
            raise ArgumentError(_NAME, kernel.name, [Diagnostic("nothing-to-draw", what, hints=hints)])
        return dependence.source
    return None


def _over_blocks(placed: Placed) -> list[str]:
    """Return the inames of the program that decide about the block of an instance."""
    forms = program_forms(placed)
    return [name for name, form in forms.items() if any(is_block_axis(dim) for dim in form.names())]


def _columns(
    kernel: LoopKernel, inames: str | Sequence[str] | None, known: Sequence[str], blocks: Sequence[str]
) -> tuple[str, str]:
    """Return the inames of columns and rows; the second is empty for one."""
    if inames is None:
        rest = [name for name in known if name not in blocks]
        chosen = {*[*rest, *blocks][-2:]}
        names = [name for name in known if name in chosen][::-1]
    else:
        names = [name.strip() for name in inames.split(",")] if isinstance(inames, str) else [*inames]
    for name in names:
        if name not in known:
            raise ArgumentError(_NAME, kernel.name, [unknown_name("iname", name, known)])
    if len(names) > 2 or not names:
        what = f"{len(names)} inames are given: a picture has columns and rows" if names else "it has no inames"
        raise ArgumentError(_NAME, kernel.name, [Diagnostic("nothing-to-draw", what, hints=("name one or two",))])
    return names[0], names[1] if len(names) == 2 and names[1] != names[0] else ""


def _grid(shown: Sequence[Instance], x: str, y: str) -> _Grid:
    cells: dict[_Cell, list[Instance]] = {}
    for entry in shown:
        cells.setdefault((entry.inames[x], entry.inames[y] if y else 0), []).append(entry)
    columns, rows = [cell[0] for cell in cells], [cell[1] for cell in cells]
    low = (min(columns), min(rows))
    extent = (min(max(columns) - low[0] + 1, _MOST_CELLS), min(max(rows) - low[1] + 1, _MOST_CELLS))
    inside = {
        cell: entries for cell, entries in cells.items()
        if cell[0] - low[0] < extent[0] and cell[1] - low[1] < extent[1]
    }  # fmt: skip
    size = 30.0 if max(extent) <= 20 else 20.0 if max(extent) <= 32 else 12.0
    return _Grid(x, y, inside, low, extent, size)


def _pairs(
    dependence: Dependence, sizes: Mapping[str, int], own: tuple[str, str], section: Mapping[str, int]
) -> Iterator[tuple[_Cell, _Cell]]:
    """Yield the pairs of cells of a dependence whose sides are both in the section."""
    relation = dependence.relation
    for position in range(relation.dim(isl.dim_type.param)):
        name = relation.get_dim_name(isl.dim_type.param, position) or ""
        relation = relation.fix_val(isl.dim_type.param, position, sizes[name])
    sides = (isl.dim_type.in_, isl.dim_type.out)
    names = [[relation.get_dim_name(s, n) or "" for n in range(relation.dim(s))] for s in sides]
    for side, dims in zip(sides, names, strict=True):
        for position, name in enumerate(dims):
            if name in section:
                relation = relation.fix_val(side, position, section[name])
    found: list[tuple[_Cell, _Cell]] = []

    def visit(point: isl.Point) -> None:
        values = [point.get_coordinate_val(isl.dim_type.set, n).to_python() for n in range(len(names[0] + names[1]))]
        left = dict(zip(names[0], values, strict=False))
        right = dict(zip(names[1], values[len(names[0]) :], strict=True))
        x, y = own
        found.append(((left[x], left[y] if y else 0), (right[x], right[y] if y else 0)))

    if not relation.is_empty():
        relation.wrap().flatten().foreach_point(visit)
    yield from sorted(found)


def _where(sizes: Mapping[str, int], section: Mapping[str, int]) -> str:
    parts = [f"{name} = {value}" for name, value in sizes.items()]
    if section:
        parts.append(f"section at {', '.join(f'{name} = {value}' for name, value in section.items())}")
    return ", ".join(parts)


class _Painter:
    """The cells of a grid, and everything that is drawn on them."""

    def __init__(self, canvas: Canvas, grid: _Grid, shown: Sequence[Instance], *, is_placed: bool) -> None:
        self.canvas, self.grid = canvas, grid
        self.notes: list[str] = []
        self.is_one = self.is_numbered = False
        self.is_placed = is_placed
        tiles = dict.fromkeys(self.tile(entry) for entry in shown)
        self.numbers = {tile: number for number, tile in enumerate(tiles)}
        self.steps: dict[tuple[int, ...], dict[tuple[int, ...], int]] = {}
        for entry in shown:
            known = self.steps.setdefault(entry.block, {})
            known.setdefault(entry.step, len(known))

    def tile(self, entry: Instance) -> tuple[int, ...]:
        """Return the block of an instance, or the iteration of its outermost loop."""
        return entry.block if self.is_placed else entry.step[:-1][:1]

    def color(self, cell: _Cell) -> int:
        """Return the number of a cell's color."""
        tile = self.tile(self.grid.cells[cell][0])
        if not self.is_placed:
            return self.numbers[tile] % len(_PAPERS)
        return sum((2 * n + 1) * value for n, value in enumerate(tile)) % len(_PAPERS)

    def number(self, cell: _Cell) -> str:
        """Return the step of the thread that runs the instance; the first where several have the cell."""
        entries = self.grid.cells[cell]
        first = min(self.steps[entry.block][entry.step] for entry in entries)
        return f"{first}+" if len(entries) > 1 else f"{first}"

    def cells(self) -> None:
        """Paint the cells: runs of one color, lines between tiles, and numbers where they fit."""
        grid, canvas = self.grid, self.canvas
        size = grid.size
        for row in range(grid.low[1], grid.low[1] + grid.extent[1]):
            run: list[_Cell] = []
            for column in range(grid.low[0], grid.low[0] + grid.extent[0] + 1):
                cell = (column, row)
                if run and (cell not in grid.cells or self.color(cell) != self.color(run[0])):
                    x, y = grid.middle(run[0])
                    canvas.rect(x - size / 2, y - size / 2, size * len(run), size, _PAPERS[self.color(run[0])])
                    run = []
                if cell in grid.cells:
                    run.append(cell)
        self.lines()
        widest = max(len(self.number(cell)) for cell in grid.cells)
        letters = max(0.0, min(11.0, (size - 3) / (CHAR * widest)))
        self.is_numbered = letters >= 8
        self.is_one = len({self.number(cell) for cell in grid.cells}) == 1
        for cell in grid.cells if not self.is_one else ():
            x, y = grid.middle(cell)
            if self.is_numbered:
                canvas.text(x, y, self.number(cell), size=letters, anchor="middle")
            elif size > 12:
                canvas.circle(x, y, size / 8, "quiet")

    def lines(self) -> None:
        """Draw a line where tiles meet, and around the domain."""
        grid, size = self.grid, self.grid.size
        for cell in grid.cells:
            x, y = (middle - size / 2 for middle in grid.middle(cell))
            for dx, dy, ends in ((1, 0, ((size, 0.0), (size, size))), (0, 1, ((0.0, size), (size, size)))):
                other = (cell[0] + dx, cell[1] + dy)
                if self.differ(cell, other):
                    self.canvas.line([(x + a, y + b) for a, b in ends], "quiet")
            for dx, dy, ends in ((-1, 0, ((0.0, 0.0), (0.0, size))), (0, -1, ((0.0, 0.0), (size, 0.0)))):
                if (cell[0] + dx, cell[1] + dy) not in grid.cells:
                    self.canvas.line([(x + a, y + b) for a, b in ends], "quiet")

    def differ(self, cell: _Cell, other: _Cell) -> bool:
        """Return whether two cells are of different tiles, or the other has no instance."""
        cells = self.grid.cells
        return other not in cells or self.tile(cells[cell][0]) != self.tile(cells[other][0])

    def axes(self) -> None:
        """Write the values of the inames beside columns and rows."""
        grid, canvas = self.grid, self.canvas
        every = max(1, int(28 // grid.size) + (grid.size < 28))
        bottom = _TOP + grid.extent[1] * grid.size
        for number in range(0, grid.extent[0], every):
            x, _ = grid.middle((grid.low[0] + number, grid.low[1]))
            canvas.text(x, bottom + 11, f"{grid.low[0] + number}", "quiet", size=11, anchor="middle")
        for number in range(0, grid.extent[1] if grid.y else 0, max(1, every // 2)):
            _, y = grid.middle((grid.low[0], grid.low[1] + number))
            canvas.text(_LEFT - 8, y, f"{grid.low[1] + number}", "quiet", size=11, anchor="end")
        canvas.text(_LEFT + grid.extent[0] * grid.size / 2, bottom + 28, grid.x, bold=True, anchor="middle")
        if grid.y:
            canvas.text(12, _TOP - 8, grid.y, bold=True)

    def arrows(self, pairs: Sequence[tuple[_Cell, _Cell]]) -> None:
        """Draw the pairs of a dependence, evenly chosen ones if there are many."""
        inside = [pair for pair in pairs if pair[0] in self.grid.cells and pair[1] in self.grid.cells]
        every = -(-len(inside) // _MOST_ARROWS) or 1
        if every > 1:
            self.notes.append(f"one arrow of {every} is drawn")
        for source, sink in inside[::every]:
            (x, y), (u, v) = self.grid.middle(source), self.grid.middle(sink)
            part = 0.3 * self.grid.size / max(((u - x) ** 2 + (v - y) ** 2) ** 0.5, 1.0)
            ends = [(x + part * (u - x), y + part * (v - y)), (u - part * (u - x), v - part * (v - y))]
            self.canvas.line(ends, "red", width=1.4, arrow=True)

    def witness(self, mark: Witness) -> None:
        """Mark the two instances of a refusal."""
        middles = []
        for number, side in enumerate((mark.first, mark.second), 1):
            if side is None:
                continue
            values = dict(side.inames)
            cell = (values.get(self.grid.x, -1), values.get(self.grid.y, -1) if self.grid.y else 0)
            if cell in self.grid.cells:
                x, y = self.grid.middle(cell)
                middles.append((x, y))
                self.canvas.circle(x, y, self.grid.size * 0.45, stroke="red", width=2.5)
            point = ", ".join(f"{name}={value}" for name, value in side.inames)
            self.notes.append(f"{number}: {side.instruction}({point})")
        if len(middles) == 2 and middles[0] != middles[1]:
            self.canvas.line(middles, "red", width=1.6, arrow=True)
        element = f"{mark.array}[{', '.join('?' if n is None else str(n) for n in mark.element)}]"
        self.notes.append(f"element {element}: {mark.kind.value}")
        y = self.canvas.height + 16
        for note in self.notes:
            self.canvas.text(12, y, note, "red", size=11)
            y += 16

    def legend(self, dependence: Dependence | None, arrows: int) -> str:
        """Return the explanation of colors, numbers and arrows."""
        tile = "block" if self.is_placed else "iteration of the outermost loop"
        step = "all are the same step of their threads" if self.is_one else "number: step of the thread"
        if not self.is_one and not self.is_numbered:
            step = "steps of threads: pass smaller sizes"
        text = f"color: {tile}; {step}"
        if dependence is not None:
            text += f"; arrows: {dependence.kind.name} on {dependence.array}, {arrows} pairs"
        return text

    def text(self) -> Iterator[str]:
        """Yield the rows of cells as text: the letter of the color and the step."""
        grid = self.grid
        width = max(len(self.number(cell)) for cell in grid.cells) + 2
        for row in range(grid.low[1], grid.low[1] + grid.extent[1]):
            cells = [(column, row) for column in range(grid.low[0], grid.low[0] + grid.extent[0])]
            entries = (f"{_LETTERS[self.color(c)]}{self.number(c)}" if c in grid.cells else "." for c in cells)
            start = f"{grid.y}={row:<4}" if grid.y else ""
            yield (start + "".join(f"{entry:<{width}}" for entry in entries)).rstrip()
        margin = " " * (len(grid.y) + 5) if grid.y else ""
        yield f"{margin}{grid.x} = {grid.low[0]} .. {grid.low[0] + grid.extent[0] - 1}"
