"""``draw_accesses``: the addresses that a warp touches, as sectors of global memory and banks of shared memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from polyloop.cost.bank_conflicts import BANKS, WORD, worst_requests
from polyloop.cost.coalescing import SECTOR, fullest_request, vector_width
from polyloop.cost.traffic import Traffic, address_of, traffic
from polyloop.dataflow.address_spaces import place
from polyloop.errors import ArgumentError, Diagnostic, unknown_name
from polyloop.expr.printer import show
from polyloop.kernel.arrays import AddressSpace
from polyloop.kernel.kernel import LoopKernel
from polyloop.mapping.thread_mapping import Placement
from polyloop.poly.affine import to_expression
from polyloop.proof.obligation import within_budget
from polyloop.schedule.build import prepared
from polyloop.viz.instances import known_sizes
from polyloop.viz.picture import Picture, picture_of
from polyloop.viz.svg import Canvas

__all__ = ["draw_accesses"]

_NAME: Final = "draw_accesses"
_MOST_LETTERS: Final = 130_000
"""Length of a picture at which the next access is left out."""
_MOST_TITLES: Final = 6
_ROWS: Final = 32
_CELL: Final = 24.0
_LEFT: Final = 96.0
_SMALL: Final = 11.0


@dataclass(frozen=True)
class _Request:
    """One request of a warp: rows of cells, each with the lanes that want it.

    ``rows`` are turns of the banks, or sectors; a cell is a word of a bank, or an element of a sector.
    """

    title: str
    verdict: str
    rows: Sequence[tuple[str, Mapping[int, Sequence[int]]]]
    columns: int
    unit: str
    is_good: bool


def draw_accesses(kernel: LoopKernel, array: str | None = None, *, sizes: Mapping[str, int] | None = None) -> Picture:
    """Draw what one warp asks of memory with each access: the sectors of global memory, the banks of shared memory.

    ::

        pl.draw_accesses(knl)
        pl.draw_accesses(knl, "tile")

    Each cell has the number of its first lane; those of a stronger color have more lanes.  For global memory a row is a
    sector of 32 bytes: cells that no lane wants are moved in vain.  For shared memory a column is a bank, and each
    further row is one more turn: words of one bank that different lanes want.

    Parameters
    ----------
    array
        By default all arrays in global and shared memory.
    sizes
        Values of parameters; 1024 for those that are not given.

    Raises
    ------
    ArgumentError
        ``unknown-array``, ``unknown-size``, ``nothing-to-draw``.
    VerificationError
        ``unknown-dtype``, and the errors of placing the kernel on threads.

    Notes
    -----
    Addresses are those that :func:`explain` and :func:`get_bank_conflicts` count: of shared memory, a warp whose
    request takes the most turns; of global memory, the first one with the most active lanes among their samples.
    """
    if array is not None and array not in kernel.arrays():
        raise ArgumentError(_NAME, kernel.name, [unknown_name("array", array, kernel.arrays())])
    known = known_sizes(kernel, sizes or {}, _NAME)
    ready = prepared(kernel)
    with within_budget(ready, "which elements of arrays a warp touches"):
        placement = place(ready)
        if not placement.axes.local:
            hints = ("tag an iname l.0: knl.tag_inames(..)",)
            problem = Diagnostic("nothing-to-draw", "it has no threads, and no warps", hints=hints)
            raise ArgumentError(_NAME, kernel.name, [problem])
        found = [*_global(placement, array, known), *_shared(ready, array)]
    if not found:
        what = "no access of global or shared memory is known" if array is None else f"no access of '{array}' is known"
        hints = ("data decides about the addresses, or each thread has the array for itself",)
        raise ArgumentError(_NAME, kernel.name, [Diagnostic("nothing-to-draw", what, hints=hints)])
    canvas = Canvas()
    title = f"accesses of one warp, kernel {kernel.name}"
    canvas.text(12, 16, title, bold=True)
    canvas.text(12, 35, "number: first lane; stronger color: more lanes; empty: unused", "quiet", size=_SMALL)
    panels, letters, left = list[Canvas](), 0, len(found)
    for request, others in _alike(found):
        if letters > _MOST_LETTERS:
            panels.append(Canvas())
            panels[-1].text(12, 8, f".. {_count(left, 'access', 'es')} more: name an array", "quiet")
            break
        panels.append(_painted(request, others))
        letters += sum(map(len, panels[-1].items))
        left -= 1 + len(others)
    canvas.flow(panels, 54.0)
    text = "\n".join([title, *(line for request in found for line in _lines(request))])
    return picture_of(canvas, title, text)


def _alike(found: Sequence[_Request]) -> list[tuple[_Request, list[str]]]:
    """Return the requests with different cells, each with the titles of the others that have the same ones."""
    groups: dict[tuple[object, ...], tuple[_Request, list[str]]] = {}
    for request in found:
        rows = tuple((label, str(sorted(cells.items()))) for label, cells in request.rows)
        key = (request.unit, request.columns, request.verdict, rows)
        if key in groups:
            groups[key][1].append(request.title)
        else:
            groups[key] = request, []
    return [*groups.values()]


def _global(placement: Placement, array: str | None, sizes: Mapping[str, int]) -> Iterator[_Request]:
    """Yield the requests of global memory whose addresses are known, equal ones once."""
    seen = set()
    for entry in traffic(placement):
        key = (entry.placed.lowered.instruction.id, entry.access.array, entry.access.indices, entry.direction)
        wanted = array in (None, entry.access.array) and entry.space is AddressSpace.GLOBAL
        address = address_of(placement.program.kernel, entry) if wanted and key not in seen else None
        if address is None or entry.placed.lowered.bounds:
            continue
        if any(not step.names() <= sizes.keys() for _, step in address.parts):
            continue
        seen.add(key)
        width = vector_width(placement, entry, address)
        domain = entry.placed.domain_of(entry.access)
        bytes_of = fullest_request(placement, entry, address, domain, sizes, width)
        if bytes_of:
            yield _sectors(entry, bytes_of, width)


_VERBS = {"load": "reads", "store": "writes", "atomic": "updates"}


def _sectors(entry: Traffic, bytes_of: Mapping[int, int], width: int) -> _Request:
    size = entry.dtype.itemsize
    columns = max(1, SECTOR // size)
    rows: dict[int, dict[int, list[int]]] = {}
    for thread, first in bytes_of.items():
        for number in range(width):
            at = first + number * size
            rows.setdefault(at // SECTOR, {}).setdefault(at % SECTOR // size, []).append(thread % 32)
    used = sum(len(cells) for cells in rows.values())
    least = -(-used * size // SECTOR)
    verdict = f"{_count(len(bytes_of), 'lane')}, {_count(len(rows), 'sector')}, {least} would do"
    text = ", ".join("?" if form is None else show(to_expression(form)) for form in entry.access.indices)
    does = f"{entry.placed.lowered.instruction.id} {_VERBS[entry.direction]} {entry.access.array}[{text}]"
    base = min(rows)
    listed = [(f"+{(sector - base) * SECTOR}", rows[sector]) for sector in sorted(rows)]
    return _Request(f"global: {does}", verdict, listed, columns, "sector at byte", len(rows) <= least)


def _count(number: int, word: str, many: str = "s") -> str:
    return f"{number} {word}{many * (number != 1)}"


def _shared(kernel: LoopKernel, array: str | None) -> Iterator[_Request]:
    """Yield the requests of shared memory, equal ones once."""
    seen = set()
    for conflicts, bytes_of in worst_requests(kernel):
        key = (conflicts.instruction, conflicts.access, conflicts.is_write)
        if array not in (None, conflicts.array) or not bytes_of or key in seen:
            continue
        seen.add(key)
        banks: dict[int, dict[int, list[int]]] = {}
        for thread, first in bytes_of.items():
            for word in range(first // WORD, (first + conflicts.nbytes - 1) // WORD + 1):
                lanes = banks.setdefault(word % BANKS, {}).setdefault(word, [])
                if thread % 32 not in lanes:
                    lanes.append(thread % 32)
        deepest = max(map(len, banks.values()))
        rows = [
            (f"{turn + 1}", {bank: [*words.values()][turn] for bank, words in banks.items() if turn < len(words)})
            for turn in range(deepest)
        ]
        verb = "writes" if conflicts.is_write else "reads"
        does = f"{conflicts.instruction} {verb} {conflicts.access}"
        turns = f"{conflicts.turns:.3g} times the turns that would do" if conflicts.conflicts else "no conflicts"
        verdict = f"{conflicts.nbytes} bytes a lane, {turns}"
        yield _Request(f"shared: {does}", verdict, rows, BANKS, "word of each bank", not conflicts.conflicts)


def _painted(request: _Request, others: Sequence[str]) -> Canvas:
    """Return a request on a canvas of its own, with the titles of *others* that have the same cells."""
    canvas, y = Canvas(), 8.0
    canvas.text(12, y, request.title, "blue", bold=True)
    for title in others[:_MOST_TITLES]:
        y += 17
        canvas.text(12, y, title, "blue", size=_SMALL)
    if len(others) > _MOST_TITLES:
        y += 17
        canvas.text(12, y, f".. and {len(others) - _MOST_TITLES} more like these", "quiet", size=_SMALL)
    y += 19
    canvas.text(12, y, request.verdict, "green" if request.is_good else "red", size=_SMALL)
    y += 20
    canvas.text(12, y, request.unit, "quiet", size=_SMALL)
    left = _LEFT + 40
    for number in range(request.columns):
        canvas.text(left + (number + 0.5) * _CELL, y, f"{number}", "quiet", size=_SMALL, anchor="middle")
    y += 12
    _empty(canvas, request, left, y)
    for label, cells in request.rows[:_ROWS]:
        canvas.text(left - 8, y + _CELL / 2, label, "quiet", size=_SMALL, anchor="end")
        for number, lanes in cells.items():
            tip = f"lanes {', '.join(map(str, lanes))}" if len(lanes) > 1 else ""
            x = left + number * _CELL
            canvas.rect(x, y, _CELL, _CELL, f"s{_shade(len(lanes))}", "rule", tip=tip)
            canvas.text(x + _CELL / 2, y + _CELL / 2, f"{lanes[0]}", size=_SMALL, anchor="middle")
        y += _CELL
    if len(request.rows) > _ROWS:
        canvas.text(left, y + 8, f".. {len(request.rows) - _ROWS} rows more", "quiet", size=_SMALL)
    return canvas


def _empty(canvas: Canvas, request: _Request, left: float, y: float) -> None:
    """Draw the lines between the cells."""
    rows = min(len(request.rows), _ROWS)
    width, height = request.columns * _CELL, rows * _CELL
    for number in range(request.columns + 1):
        canvas.line([(left + number * _CELL, y), (left + number * _CELL, y + height)])
    for number in range(rows + 1):
        canvas.line([(left, y + number * _CELL), (left + width, y + number * _CELL)])


def _shade(lanes: int) -> int:
    """Return the step of the heat map: 0 for no lane, then for 1, up to 4, up to 16, and more."""
    return sum(lanes > limit for limit in (0, 1, 4, 16))


def _lines(request: _Request) -> Iterator[str]:
    yield ""
    yield f"{request.title}: {request.verdict}"
    for label, cells in request.rows:
        found = " ".join(f"{cells[n][0]:>2}" if n in cells else " ." for n in range(request.columns))
        yield f"    {label:>6} | {found}"
