"""``draw_layout``: the lane and register of each element of a matrix instruction, the bank of each in shared memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Final

import islpy as isl

from polyloop.cost.bank_conflicts import BANKS, WORD
from polyloop.dataflow.address_spaces import place
from polyloop.errors import ArgumentError, Diagnostic, unknown_name
from polyloop.kernel.arrays import AddressSpace, TemporaryVariable
from polyloop.kernel.intrinsic import INTRINSICS, MatrixIntrinsic
from polyloop.kernel.kernel import LoopKernel
from polyloop.proof.obligation import within_budget
from polyloop.schedule.build import prepared
from polyloop.viz.picture import Picture, picture_of
from polyloop.viz.svg import CHAR, Canvas

__all__ = ["draw_layout"]

_NAME: Final = "draw_layout"
_SMALL: Final = 11.0
_TINY: Final = 10.0
_ROW: Final = 18.0
_ROWS: Final = 16
_COLUMNS: Final = 32
_MOST_LETTERS: Final = 150_000
_PAPERS: Final = ("on-blue", "on-orange", "on-green", "on-purple")
_AXES: Final = {"a": "ik", "b": "kj", "d": "ij"}


@dataclass(frozen=True)
class _Grid:
    """Cells with a text and a color each, some rows of them.

    ``step`` is the number of elements of a row that one cell stands for.
    """

    title: str
    notes: tuple[str, ...]
    axes: tuple[str, str]
    cells: Sequence[Sequence[tuple[str, str]]]
    step: int = 1


def draw_layout(kernel: LoopKernel | MatrixIntrinsic | str, array: str | None = None) -> Picture:
    """Draw who holds which element of a matrix instruction, and in which bank the elements of shared arrays lie.

    ::

        pl.draw_layout("mma_m16n8k16_bf16")
        knl.draw_layout()                   # of the instructions and the shared arrays of a kernel
        knl.draw_layout("a_tile")

    A cell of an operand has ``lane:element``, the element among those of that lane; the color is its register.  A cell
    of an array in shared memory has its bank, that of the first element where a cell stands for several, with padding
    and swizzle (:func:`swizzle`, :func:`add_padding`) as in generated code; the color is a quarter of the banks.

    Parameters
    ----------
    kernel
        A kernel, a :class:`MatrixIntrinsic`, or the name of one in the table of :func:`tensorize`.
    array
        One array in shared memory; by default everything.

    Raises
    ------
    ArgumentError
        ``unknown-intrinsic``, ``unknown-array``, ``nothing-to-draw``.
    """
    if isinstance(kernel, str):
        if kernel not in INTRINSICS:
            raise ArgumentError(_NAME, None, [unknown_name("intrinsic", kernel, INTRINSICS)])
        kernel = INTRINSICS[kernel]
    if isinstance(kernel, MatrixIntrinsic):
        name, grids = kernel.name, [*_operands(kernel)]
    else:
        name, grids = f"kernel {kernel.name}", _of_kernel(kernel, array)
    canvas, title = Canvas(), f"layouts of {name}"
    canvas.text(12, 16, title, bold=True)
    canvas.text(
        12, 35, "lane:element of an operand, with a color for each register; bank of an array", "quiet", size=_SMALL
    )
    panels, letters = list[Canvas](), 0
    for drawn, grid in enumerate(grids):
        if letters > _MOST_LETTERS:
            panels.append(Canvas())
            panels[-1].text(12, 8, f".. {len(grids) - drawn} more: name an array or an instruction", "quiet")
            break
        panels.append(_painted(grid))
        letters += sum(map(len, panels[-1].items))
    canvas.flow(panels, 54.0)
    lines = [title, *(line for grid in grids for line in ("", *_lines(grid)))]
    return picture_of(canvas, title, "\n".join(lines))


def _of_kernel(kernel: LoopKernel, array: str | None) -> list[_Grid]:
    if array is not None and array not in kernel.arrays():
        raise ArgumentError(_NAME, kernel.name, [unknown_name("array", array, kernel.arrays())])
    ready = prepared(kernel)
    with within_budget(ready, "which arrays lie in shared memory"):
        spaces = place(ready).spaces
    found: list[_Grid] = []
    if array is None:
        used = [entry.matrix.intrinsic for entry in ready.instructions if entry.matrix is not None]
        for intrinsic in dict.fromkeys(used):
            found += _operands(intrinsic)
    for name, temporary in ready.temporaries.items():
        if spaces.get(name) is AddressSpace.LOCAL and array in (None, name) and (grid := _banks(temporary)) is not None:
            found.append(grid)
    if not found:
        what = "it has no matrix instruction, and no array" if array is None else f"'{array}' is no array"
        what = f"{what} of constant extents in shared memory"
        hints = ("stage a tile: knl.add_prefetch(..)", 'or name an instruction: pl.draw_layout("mma_m16n8k16_bf16")')
        raise ArgumentError(_NAME, kernel.name, [Diagnostic("nothing-to-draw", what, hints=hints)])
    return found


def _operands(intrinsic: MatrixIntrinsic) -> Iterator[_Grid]:
    """Yield the operands that lanes hold."""
    for operand, axes in _AXES.items():
        text = getattr(intrinsic, operand)
        rows, columns = (intrinsic.extents[axis] for axis in axes)
        title = f"{intrinsic.name}: {operand}[{axes[0]}, {axes[1]}], {rows} x {columns}"
        if not text:
            yield _Grid(title, ("read from shared memory",), (axes[0], axes[1]), ())
            continue
        held = _places(isl.Map(text), min(rows, _ROWS), min(columns, _ROWS))
        packed = intrinsic.per_register if operand != "d" else 1
        cells = [
            [(f"{lane}:{element}", _PAPERS[element // packed % len(_PAPERS)]) for lane, element in row] for row in held
        ]  # fmt: skip
        notes = [f"{intrinsic.lanes} lanes with {intrinsic.registers(operand)} elements each"]
        if packed > 1:
            notes.append(f"{packed} elements in a register")
        if max(rows, columns) > _ROWS:
            notes.append(f"the first {len(cells)} x {len(cells[0])} are shown")
        yield _Grid(title, tuple(notes), (axes[0], axes[1]), cells)


def _places(layout: isl.Map, rows: int, columns: int) -> list[list[tuple[int, int]]]:
    """Return the lane and the register of the first elements of a layout."""
    found: dict[tuple[int, int], tuple[int, int]] = {}

    def take(point: isl.Point) -> None:
        row, column, lane, element = (point.get_coordinate_val(isl.dim_type.set, n).to_python() for n in range(4))
        found[row, column] = (lane, element)

    shown = isl.Set(f"{{ [r, c] : 0 <= r < {rows} and 0 <= c < {columns} }}")
    layout.intersect_domain(shown).wrap().foreach_point(take)
    return [[found[row, column] for column in range(columns)] for row in range(rows)]


def _banks(temporary: TemporaryVariable) -> _Grid | None:
    """Return the banks of an array, by its contiguous and its longest other axis; None if its size is not constant."""
    shape, strides = temporary.shape, temporary.strides()
    if temporary.dtype is None or not isinstance(shape, tuple) or not shape:
        return None
    extents = [extent for extent in shape if isinstance(extent, int)]
    steps = [stride for stride in strides if isinstance(stride, int)]
    if len(extents) != len(shape) or len(steps) != len(shape):
        return None
    across = min(range(len(steps)), key=lambda axis: (steps[axis] or BANKS, -axis))
    down = max((axis for axis in range(len(steps)) if axis != across), key=lambda axis: extents[axis], default=None)
    columns, column_step = extents[across], steps[across]
    rows, row_step = (1, 0) if down is None else (extents[down], steps[down])
    swizzle, size = temporary.swizzle, temporary.dtype.itemsize
    step = 1 if column_step != 1 else max(1, WORD // size) if swizzle is None else 1 << swizzle.base

    def bank(row: int, column: int) -> int:
        address = row * row_step + column * column_step
        return (address if swizzle is None else swizzle.moved(address)) * size // WORD % BANKS

    shown = min(rows, _ROWS)
    cells = [
        [(f"{at}", _PAPERS[at * len(_PAPERS) // BANKS])
         for at in (bank(row, column) for column in range(0, min(columns, _COLUMNS * step), step))]
        for row in range(shown)
    ]  # fmt: skip
    first = range(min(rows, BANKS))
    notes = [f"{len(first)} rows of a column begin in {_counted(len({bank(row, 0) for row in first}), 'bank')}"]
    notes += [str(swizzle)] if swizzle is not None else []
    notes += [f"a cell is {step} elements"] if step > 1 else []
    if prod(extents) > shown * len(cells[0]) * step:
        part = ", ".join(":" if axis in (across, down) else "0" for axis in range(len(extents)))
        notes.append(f"of {temporary.name}[{part}] the first {_counted(shown, 'row')}")
    title = (
        f"{temporary.name}: {' x '.join(map(str, extents))} of {temporary.dtype}, strides {', '.join(map(str, steps))}"
    )
    return _Grid(title, tuple(notes), ("row", "column"), cells, step)


def _counted(count: int, word: str) -> str:
    return f"{count} {word}{'' if count == 1 else 's'}"


def _painted(grid: _Grid) -> Canvas:
    """Return a grid on a canvas of its own."""
    canvas, y = Canvas(), 8.0
    canvas.text(12, y, grid.title, "blue", bold=True)
    y += 19
    for number, note in enumerate(grid.notes):
        y += 17 * bool(number)
        canvas.text(12, y, note, "quiet", size=_SMALL)
    if not grid.cells:
        return canvas
    width = max(CHAR * _TINY * max(len(text) for row in grid.cells for text, _ in row) + 5, 24.0)
    left = 40.0
    y += 19
    canvas.text(left - 8, y, grid.axes[0], "quiet", size=_TINY, anchor="end")
    for number in range(len(grid.cells[0])):
        canvas.text(left + (number + 0.5) * width, y, f"{number * grid.step}", "quiet", size=_TINY, anchor="middle")
    y += 10
    for number, row in enumerate(grid.cells):
        top = y + number * _ROW
        canvas.text(left - 8, top + _ROW / 2, f"{number}", "quiet", size=_TINY, anchor="end")
        for start, end, paper in _runs([paper for _, paper in row]):
            canvas.rect(left + start * width, top, (end - start) * width, _ROW, paper)
        for column, (text, _) in enumerate(row):
            canvas.text(left + (column + 0.5) * width, top + _ROW / 2, text, size=_TINY, anchor="middle")
    height, wide = len(grid.cells) * _ROW, len(grid.cells[0]) * width
    for number in range(len(grid.cells) + 1):
        canvas.line([(left, y + number * _ROW), (left + wide, y + number * _ROW)])
    for number in range(len(grid.cells[0]) + 1):
        canvas.line([(left + number * width, y), (left + number * width, y + height)])
    return canvas


def _runs(papers: Sequence[str]) -> Iterator[tuple[int, int, str]]:
    """Yield neighbours of one color: the first, the one behind, and the color."""
    start = 0
    for at in range(1, len(papers) + 1):
        if at == len(papers) or papers[at] != papers[start]:
            yield start, at, papers[start]
            start = at


def _lines(grid: _Grid) -> Iterable[str]:
    yield grid.title
    yield f"    {'; '.join(grid.notes)}"
    width = max((len(text) for row in grid.cells for text, _ in row), default=0)
    for number, row in enumerate(grid.cells):
        yield f"    {number:>3} | {' '.join(f'{text:>{width}}' for text, _ in row)}"
