"""``draw_footprint``: the elements of arrays that one block touches, and how often."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

import islpy as isl

from polyloop.dataflow.address_spaces import place
from polyloop.errors import ArgumentError, Diagnostic, unknown_name
from polyloop.kernel.arrays import AddressSpace
from polyloop.kernel.kernel import LoopKernel
from polyloop.kernel.tags import GroupAxis
from polyloop.mapping.thread_mapping import Placed, Placement
from polyloop.poly.affine import affine_of
from polyloop.poly.sets import constant_bounds, map_from_forms, project_onto
from polyloop.program.lower import Access
from polyloop.proof.obligation import within_budget
from polyloop.schedule.build import prepared
from polyloop.viz.instances import at_sizes, fixed_sizes
from polyloop.viz.picture import Picture, picture_of
from polyloop.viz.svg import Canvas

__all__ = ["draw_footprint"]

_NAME: Final = "draw_footprint"
_MOST_POINTS: Final = 20_000
_FEW_POINTS: Final = 6000
"""Points of all accesses that are drawn at once; for more, sizes that the user leaves open become smaller."""
_SHARES: Final = (1, 2, 4, 8)
_MOST_CELLS: Final = 64
_CELL: Final = 9.0
_SMALL: Final = 11.0
_LEFT: Final = 60.0

_Element = tuple[int, ...]


@dataclass
class _Touched:
    """The elements of one array that are read, or written, with the number of accesses of each."""

    array: str
    direction: str
    shape: tuple[int, ...] | None
    """Extents of the array, where they are known."""
    counts: dict[_Element, int] = field(default_factory=dict)

    @property
    def says(self) -> str:
        """The figures in a line."""
        total, elements = sum(self.counts.values()), len(self.counts)
        again = f", {total / elements:.3g} times each" if total > elements else ", each once"
        return f"{self.direction} {self.array}: {elements:,} element{'s' * (elements != 1)}{again}"


def draw_footprint(
    kernel: LoopKernel, array: str | None = None, *, sizes: Mapping[str, int] | None = None,
    at: Mapping[str, int] | None = None,
) -> Picture:  # fmt: skip
    """Draw the elements of arrays that one block touches, each with the number of accesses to it as a color.

    ::

        pl.draw_footprint(knl, sizes={"n": 64})
        pl.draw_footprint(knl, "u", at={"i_outer": 1, "k_outer": 0})    # and one iteration of a loop

    Each array has a picture of what is read and one of what is written, with its last two axes as rows and columns: all
    of the array where it is small, otherwise the part that is touched.
    A halo shows as a margin, reuse as a stronger color: what is accessed often is worth a prefetch.

    Parameters
    ----------
    array
        By default all arrays in global memory; one in another memory has to be named.
    sizes
        Values of parameters; by default small ones that show several tiles.
    at
        Values of inames.  Inames on axes of blocks that are not among them are those of the second block, or of the
        only one.

    Raises
    ------
    ArgumentError
        ``unknown-array``, ``unknown-iname``, ``unknown-size``, ``nothing-to-draw``, ``too-many-instances``.
    VerificationError
        The errors of placing the kernel on threads.

    Notes
    -----
    Accesses are those of instances; an instruction that all threads of a block execute alike is counted once.
    """
    if array is not None and array not in kernel.arrays():
        raise ArgumentError(_NAME, kernel.name, [unknown_name("array", array, kernel.arrays())])
    wrong = [name for name in at or {} if name not in kernel.inames]
    if wrong:
        raise ArgumentError(_NAME, kernel.name, [unknown_name("iname", wrong[0], kernel.inames)])
    ready = prepared(kernel)
    with within_budget(ready, "which elements of arrays a block touches"):
        placement = place(ready)
    biggest = max(placement.statements.values(), key=lambda placed: len(placed.lowered.inames))
    for share in _SHARES:
        known = fixed_sizes(kernel, biggest, dict(sizes or {}), _NAME, share)
        held = {**_block(placement, known), **(at or {})}
        try:
            found = _touched(placement, array, known, held, _FEW_POINTS)
            break
        except ArgumentError:
            continue
    else:
        found = _touched(placement, array, known, held, _MOST_POINTS)
    if not found:
        what = (
            "no access of an array in global memory is known" if array is None else f"no access of '{array}' is known"
        )
        hints = ("data decides about the elements, or nothing is executed at these sizes",)
        raise ArgumentError(_NAME, kernel.name, [Diagnostic("nothing-to-draw", what, hints=hints)])
    canvas, title = Canvas(), f"footprint of one block, kernel {kernel.name}"
    canvas.text(12, 16, title, bold=True)
    given = ", ".join(f"{name} = {value}" for name, value in {**known, **held}.items())
    canvas.text(12, 35, given or "all of it", "quiet", size=_SMALL)
    x = 12.0
    for shade, word in ((1, "once"), (2, "up to 4 times"), (3, "up to 16"), (4, "more")):
        canvas.rect(x, 50, _CELL, _CELL, f"s{shade}", "rule")
        x += canvas.text(x + 14, 55, word, "quiet", size=_SMALL) + 34
    grids = [_Grid.of(touched) for touched in found]
    canvas.flow((grid.painted() for grid in grids), 76.0)
    lines = [title, given, *(line for grid in grids for line in ("", *grid.lines()))]
    return picture_of(canvas, title, "\n".join(lines))


def _block(placement: Placement, sizes: Mapping[str, int]) -> dict[str, int]:
    """Return the values of inames on axes of blocks: the second, so that a block has neighbours, or the first."""
    found: dict[str, int] = {}
    kernel = placement.program.kernel
    for placed in placement.statements.values():
        inames = placed.lowered.inames
        for position, name in enumerate(inames):
            if isinstance(kernel.tag(name), GroupAxis) and name not in found:
                low, high = constant_bounds(at_sizes(placed.lowered.domain, sizes), position)
                if low is not None and high is not None:
                    found[name] = min(low + 1, high)
    return found


def _touched(
    placement: Placement, array: str | None, sizes: Mapping[str, int], held: Mapping[str, int], most: int
) -> list[_Touched]:
    """Return the elements read of each array, and then those written, in the order of the program.

    An access may have *most* points, or a small number of all accesses together.
    """
    room = most
    found: dict[tuple[str, str], _Touched] = {}
    kernel = placement.program.kernel
    for placed in placement.statements.values():
        seen = set()
        for access in placed.lowered.accesses:
            space = placement.spaces.get(access.array, AddressSpace.GLOBAL)
            if access.array not in kernel.arrays() or (array is None and space is not AddressSpace.GLOBAL):
                continue
            if array not in (None, access.array) or None in access.indices or not access.indices:
                continue
            is_write = placed.lowered.is_write(access)
            key = (access.array, access.indices, is_write)
            if key in seen:
                continue
            seen.add(key)
            direction = "writes" if is_write else "reads"
            entry = found.setdefault(
                (access.array, direction), _Touched(access.array, direction, _shape(kernel, access.array, sizes))
            )
            points = _counted(kernel, placed, access, sizes, held, room)
            if most == _FEW_POINTS:
                room -= len(points)
            for element, count in points:
                entry.counts[element] = entry.counts.get(element, 0) + count
    return sorted((entry for entry in found.values() if entry.counts), key=lambda entry: entry.direction)


def _shape(kernel: LoopKernel, array: str, sizes: Mapping[str, int]) -> tuple[int, ...] | None:
    shape = kernel.arrays()[array].shape
    forms = [affine_of(extent) for extent in shape] if isinstance(shape, tuple) else [None]
    known = [form.evaluate(sizes) for form in forms if form is not None and form.names() <= sizes.keys()]
    return tuple(known) if len(known) == len(forms) else None


def _counted(
    kernel: LoopKernel, placed: Placed, access: Access, sizes: Mapping[str, int], held: Mapping[str, int], most: int
) -> list[tuple[_Element, int]]:
    """Return the elements of an access, and the number of instances that access each by the same values of its inames.

    Inames that are in no subscript are counted, not listed, where they run alike for all values of the others.
    """
    inames = placed.lowered.inames
    domain = at_sizes(placed.lowered.domain_of(access), sizes)
    for position, name in enumerate(inames):
        if name in held:
            domain = domain.fix_val(isl.dim_type.set, position, held[name])
    forms = [form for form in access.indices if form is not None]
    used = [name for name in inames if any(name in form.names() for form in forms)]
    rest = [name for name in inames if name not in used]
    if not domain.is_bounded():
        return []
    times, listed, dims = 1, domain, inames
    parts = project_onto(domain, inames, used), project_onto(domain, inames, rest)
    number = _number(parts[0]) * _number(parts[1])
    if number == _number(domain):  # a product
        times, listed, dims = _number(parts[1]), parts[0], tuple(used)
    if _number(listed) > most:
        what = f"'{placed.lowered.instruction.id}' accesses '{access.array}' in more than {most:,} instances"
        hints = ("pass smaller sizes, or hold loops: at={..}",)
        raise ArgumentError(_NAME, kernel.name, [Diagnostic("too-many-instances", what, hints=hints)])
    found: list[_Element] = []
    values = map_from_forms(listed, dims, forms)

    def visit(point: isl.Point) -> None:
        at = {name: point.get_coordinate_val(isl.dim_type.set, n).to_python() for n, name in enumerate(dims)}
        found.append(tuple(form.evaluate({**sizes, **at}) for form in forms))

    if values.is_injective():  # each element once, in the order of its subscripts

        def take(point: isl.Point) -> None:
            found.append(tuple(point.get_coordinate_val(isl.dim_type.set, n).to_python() for n in range(len(forms))))

        values.range().foreach_point(take)
    else:
        listed.foreach_point(visit)
    return [(element, times) for element in found]


def _number(domain: isl.Set) -> int:
    number: int = domain.count_val().to_python()
    return number


@dataclass(frozen=True, eq=False)
class _Grid:
    """A section of the elements: rows and columns of the last two axes."""

    touched: _Touched
    first: _Element
    """The subscripts before the last two."""
    cells: Mapping[tuple[int, int], int]
    low: tuple[int, int]
    extent: tuple[int, int]
    left_out: bool

    @classmethod
    def of(cls, touched: _Touched) -> _Grid:
        """Return the section with the first of the other subscripts."""
        flat = {(0, *element)[-2:] if len(element) < 2 else element: n for element, n in touched.counts.items()}
        first = min(flat)[:-2]
        cells = {(element[-2], element[-1]): n for element, n in flat.items() if element[:-2] == first}
        low = (min(row for row, _ in cells), min(column for _, column in cells))
        rows, columns = (1, *(touched.shape or ()))[-2:] if touched.shape else (0, 0)
        if rows and max(rows, columns) <= _MOST_CELLS:
            return cls(touched, first, cells, (0, 0), (rows, columns), left_out=False)
        extent = (max(row for row, _ in cells) - low[0] + 1, max(column for _, column in cells) - low[1] + 1)
        shown = (min(extent[0], _MOST_CELLS), min(extent[1], _MOST_CELLS))
        return cls(touched, first, cells, low, shown, left_out=shown != extent)

    def says(self) -> Iterator[str]:
        """Yield notes on the part that is shown."""
        yield f"section {self.touched.array}[{', '.join(map(str, self.first))}, row, column]" if self.first else ""
        yield f".. the first {self.extent[0]} x {self.extent[1]}" if self.left_out else ""

    def painted(self) -> Canvas:
        """Return it on a canvas of its own."""
        canvas, y = Canvas(), 8.0
        canvas.text(12, y, self.touched.says, "blue", bold=True)
        more = ", ".join(filter(None, self.says()))
        if more:
            y += 18
            canvas.text(12, y, more, "quiet", size=_SMALL)
        y += 18
        rows, columns = self.extent
        ends = (self.low[1], self.low[1] + columns - 1)
        canvas.text(_LEFT, y, f"{ends[0]}", "quiet", size=_SMALL)
        if columns > 6:
            canvas.text(_LEFT + columns * _CELL, y, f"{ends[1]}", "quiet", size=_SMALL, anchor="end")
        y += 10
        for row in range(rows):
            for start, end, count in self._runs(self.low[0] + row):
                canvas.rect(_LEFT + start * _CELL, y + row * _CELL, (end - start) * _CELL, _CELL, f"s{_shade(count)}",
                            tip=f"{count} times" if count > 1 else "")  # fmt: skip
        for column in range(0, columns + 1, 8):
            canvas.line([(_LEFT + column * _CELL, y), (_LEFT + column * _CELL, y + rows * _CELL)])
        for row in range(0, rows + 1, 8):
            canvas.line([(_LEFT, y + row * _CELL), (_LEFT + columns * _CELL, y + row * _CELL)])
        canvas.rect(_LEFT, y, columns * _CELL, rows * _CELL, "", "quiet")
        canvas.text(_LEFT - 6, y + 5, f"{self.low[0]}", "quiet", size=_SMALL, anchor="end")
        if rows > 2:
            canvas.text(
                _LEFT - 6, y + rows * _CELL - 5, f"{self.low[0] + rows - 1}", "quiet", size=_SMALL, anchor="end"
            )
        return canvas

    def _runs(self, row: int) -> Iterator[tuple[int, int, int]]:
        """Yield neighbours of a row that are accessed as often: first column, the one behind, and the number."""
        counts = [self.cells.get((row, self.low[1] + column), 0) for column in range(self.extent[1])]
        start = 0
        for column in range(1, len(counts) + 1):
            if column == len(counts) or counts[column] != counts[start]:
                if counts[start]:
                    yield start, column, counts[start]
                start = column

    def lines(self) -> Iterator[str]:
        """Yield the text form: a digit for each element, + for more than 9 accesses."""
        yield self.touched.says
        yield from filter(None, self.says())
        for row in range(self.low[0], self.low[0] + self.extent[0]):
            columns = range(self.low[1], self.low[1] + self.extent[1])
            yield f"{row:>6} {''.join(_digit(self.cells.get((row, column), 0)) for column in columns)}"
        yield f"       columns {self.low[1]} .. {self.low[1] + self.extent[1] - 1}"


def _digit(count: int) -> str:
    return "." if not count else f"{count}" if count < 10 else "+"


def _shade(count: int) -> int:
    """Return the step of the heat map: for 1, up to 4, up to 16, and more."""
    return 1 + sum(count > limit for limit in (1, 4, 16))
