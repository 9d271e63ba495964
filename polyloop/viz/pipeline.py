"""``draw_pipeline``: the slots of the buffers of a pipelined loop over time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

from polyloop.errors import ArgumentError, Diagnostic, unknown_name
from polyloop.expr.printer import show
from polyloop.kernel.kernel import LoopKernel
from polyloop.poly.affine import to_expression
from polyloop.schedule.build import Verified, build_verified
from polyloop.schedule.waits import wait_kind
from polyloop.target.base import Target, target_of
from polyloop.target.cuda import CudaTarget
from polyloop.viz.instances import known_sizes
from polyloop.viz.picture import Picture, picture_of
from polyloop.viz.stages import Does, Phase, Staged, staged_loops
from polyloop.viz.svg import CHAR, Canvas

__all__ = ["draw_pipeline"]

_NAME: Final = "draw_pipeline"
_CELL: Final = 26.0
_ROW: Final = 22.0
_SMALL: Final = 11.0
_MOST_ITERATIONS: Final = 10
_INKS: Final = {
    Does.AWAIT: "orange", Does.BARRIER: "red", Does.START: "orange", Does.LOAD: "orange", Does.STORE: "orange",
    Does.USE: "green", Does.FINISH: "purple",
}  # fmt: skip
_PAPERS: Final = {">": "on-orange", "=": "on-blue", "*": "on-green"}
"""Signs of a slot: it is filled, it is full, and it is used."""

_Slot = tuple[str, int]


@dataclass
class _Tile:
    """The life of a tile in a slot: times of the events about it."""

    tile: int
    end: int
    """The first moment that is not shown."""
    filled: list[int] = field(default_factory=list)
    used: list[int] = field(default_factory=list)

    def signs(self) -> Mapping[int, str]:
        """Return the sign of each moment from its first event to its last."""
        times = self.filled + self.used
        last = max(self.filled, default=min(times) - 1)
        return {
            time: "*" if time in self.used else ">" if time <= last else "="
            for time in range(max(min(times), 0), min(max(times) + 1, self.end))
        }  # fmt: skip


def draw_pipeline(
    kernel: LoopKernel, iname: str | None = None, *, sizes: Mapping[str, int] | None = None,
    target: Target | None = None,
) -> Picture:  # fmt: skip
    """Draw the loops whose copies run ahead (:func:`pipeline`): the tile in each slot of a buffer, event by event.

    ::

        pl.draw_pipeline(knl)
        print(pl.draw_pipeline(knl, "k_outer"))

    Columns are the events of an iteration, in the order of the text, numbered as in the list below; groups of columns
    are the first iterations, from the prologue on, and below them the last ones, with the epilogue in which nothing is
    fetched any more.  Rows are slots.  A cell has the number of its tile.  A color, in
    text a sign, says what becomes of it: ``>`` while the tile is on its way (from the start of its copy to the wait for
    it), ``=`` while it lies there, and ``*`` where it is used.  A barrier is a red line over all slots.

    Parameters
    ----------
    iname
        The loop; by default all that fill buffers of several slots, also those without copies that run ahead.
    sizes
        Values of parameters; 1024 for those that are not given.
    target
        By default that of the kernel, and CUDA for a kernel without one.

    Raises
    ------
    ArgumentError
        ``unknown-iname``, ``unknown-size``, ``nothing-to-draw``.
    VerificationError
        The errors of :func:`generate_code`.
    """
    known = known_sizes(kernel, sizes or {}, _NAME)
    if iname is not None and iname not in kernel.inames:
        raise ArgumentError(_NAME, kernel.name, [unknown_name("iname", iname, kernel.inames)])
    chosen = target_of(kernel, target) or CudaTarget()
    verified = build_verified(kernel, chosen.limits)
    found = [staged for staged in staged_loops(verified) if iname in (None, staged.iname)]
    drawn = [entry for staged in found for entry in _drawings(verified, staged, known)]
    if not drawn:
        what = "no loop fills" if iname is None else f"loop '{iname}' does not fill"
        problem = Diagnostic(
            "nothing-to-draw", f"{what} slots of a buffer, one after the other",
            ("a slot is a remainder of the loop's iname, holds one tile at a time, and has a first one",),
            ('fetch ahead: knl.pipeline("k_outer", stages=3)',),
        )  # fmt: skip
        raise ArgumentError(_NAME, kernel.name, [problem])
    canvas, title = Canvas(), f"pipeline of kernel {kernel.name}"
    canvas.text(12, 16, title, bold=True)
    x = 12.0
    for sign, word in ((">", "on its way"), ("=", "there"), ("*", "in use")):
        x += canvas.text(x + 4, 37, f"{sign} {word}", size=_SMALL, paper=_PAPERS[sign]) + 24
    canvas.text(x, 37, "number: tile", "quiet", size=_SMALL)
    y, lines = 62.0, [title, "> tile on its way  = there  * in use  | barrier"]
    for drawing in drawn:
        y = drawing.paint(canvas, y) + 26
        lines += ["", *drawing.lines()]
    return picture_of(canvas, title, "\n".join(lines))


@dataclass(frozen=True, eq=False)
class _Drawing:
    """Some iterations of one loop."""

    verified: Verified
    staged: Staged
    iterations: range
    active: Mapping[int, frozenset[int]]
    """Phases that are executed in each iteration."""
    slots: Mapping[_Slot, Sequence[_Tile]]
    heading: str
    has_steps: bool
    """True if the list of events stands below."""

    def time(self, iteration: int, phase: int) -> int:
        """Return the column of a phase."""
        return (iteration - self.iterations[0]) * len(self.staged.phases) + phase

    def barriers(self) -> set[int]:
        """Return the columns of barriers that are executed."""
        return {
            self.time(iteration, number) for iteration in self.iterations for number in self.active[iteration]
            if self.staged.phases[number].does is Does.BARRIER
        }  # fmt: skip

    def label(self, slot: _Slot) -> str:
        """Return the name of a slot."""
        name, number = slot
        return f"{name}[{number}]" if self.staged.buffers[name] > 1 else f"{name} (registers)"

    def paint(self, canvas: Canvas, y: float) -> float:
        """Draw it at height *y*, and return the height below it."""
        phases, iname = self.staged.phases, self.staged.iname
        canvas.text(12, y, self.heading, "blue", bold=True)
        left = 30 + CHAR * _SMALL * max(len(self.label(slot)) for slot in self.slots)
        y += 26
        for iteration in self.iterations:
            x = left + self.time(iteration, 0) * _CELL
            width = _CELL * len(phases)
            canvas.text(x + width / 2, y, f"{iname} = {iteration}" if width > 100 else f"{iteration}", size=_SMALL,
                        anchor="middle")  # fmt: skip
            for number, phase in enumerate(phases):
                if number in self.active[iteration]:
                    canvas.text(x + (number + 0.5) * _CELL, y + 20, f"{number + 1}", _INKS[phase.does], size=_SMALL,
                                anchor="middle")  # fmt: skip
        top = y + 34
        bottom = top + _ROW * len(self.slots)
        for row, (slot, tiles) in enumerate(self.slots.items()):
            canvas.text(left - 10, top + (row + 0.5) * _ROW, self.label(slot), size=_SMALL, anchor="end")
            for tile in tiles:
                self._paint_tile(canvas, tile, left, top + row * _ROW)
        for iteration in [*self.iterations, self.iterations[-1] + 1]:
            x = left + self.time(iteration, 0) * _CELL
            canvas.line([(x, y - 8), (x, bottom)], "quiet", dashed=True)
        for time in sorted(self.barriers()):
            x = left + (time + 0.5) * _CELL
            canvas.line([(x, top - 5), (x, bottom)], "red", width=2)
        y = bottom + 18
        if not self.has_steps:
            return y
        for number, (phase, line) in enumerate(zip(phases, self.steps(), strict=True)):
            canvas.text(12, y, f"{number + 1}", _INKS[phase.does], bold=True)
            canvas.text(34, y, line, size=_SMALL)
            y += 18
        return y

    def _paint_tile(self, canvas: Canvas, tile: _Tile, left: float, y: float) -> None:
        """Draw the life of a tile as boxes of one color each, the number in each of them."""
        signs, barriers = tile.signs(), self.barriers()
        for start, end, sign in _spans(signs):
            x, width = left + start * _CELL, (end - start) * _CELL
            words = {">": "on its way", "=": "there", "*": "in use"}
            canvas.rect(x + 1, y + 2, width - 2, _ROW - 4, _PAPERS[sign], "rule", radius=3,
                        tip=f"tile {tile.tile}: {words[sign]}")  # fmt: skip
            if sign != "=":
                at = next((time for time in range(start, end) if time not in barriers), start)
                canvas.text(left + (at + 0.5) * _CELL, y + _ROW / 2, f"{tile.tile}", size=_SMALL, anchor="middle")

    def lines(self) -> Iterator[str]:
        """Yield the text form."""
        staged, barriers = self.staged, self.barriers()
        phases = staged.phases
        yield self.heading
        width = max(len(self.label(slot)) for slot in self.slots)
        heads, events = [], []
        for iteration in self.iterations:
            head = f"{staged.iname} = {iteration}"
            room = 4 * len(phases) - 1
            heads.append(f"{head if len(head) < room else iteration:<{room}}")
            events.append(
                "".join(f" {n + 1:<3}" if n in self.active[iteration] else "    " for n in range(len(phases)))[:-1]
            )
        yield f"    {'':<{width}}  {' '.join(heads)}".rstrip()
        yield f"    {'':<{width}} {' '.join(events)}".rstrip()
        for slot, tiles in self.slots.items():
            cells = [" |  " if time in barriers else "    " for time in range(len(self.iterations) * len(phases))]
            for tile in tiles:
                for time, sign in tile.signs().items():
                    cells[time] = f"{'|' if time in barriers else sign}{tile.tile}".rjust(3) + " "
            yield f"    {self.label(slot):<{width}} {''.join(cells)}".rstrip()
        if self.has_steps:
            yield from (f"  {number + 1}  {line}" for number, line in enumerate(self.steps()))

    def steps(self) -> list[str]:
        """Return a line for each phase."""
        return [self._step(phase) for phase in self.staged.phases]

    def _step(self, phase: Phase) -> str:
        if phase.number is not None:
            waits = [wait for wait in self.verified.waits if wait.barrier == phase.number]
            kernel = self.verified.placement.program.kernel
            why: dict[str, dict[str, None]] = {}
            for wait in waits:
                why.setdefault(wait.array, {})[wait_kind(kernel, wait.array, wait.first, wait.second)] = None
            reasons = "; ".join(f"{array} {', '.join(filter(None, kinds))}" for array, kinds in why.items())
            return f"barrier of the {phase.scope.value}" + (f": {reasons}" if reasons else "")
        tiles: dict[str, dict[str, None]] = {}
        for touch in phase.touches:
            tiles.setdefault(show(to_expression(touch.form)), {})[touch.buffer] = None
        about = "; ".join(f"{', '.join(buffers)} of tile {tile}" for tile, buffers in tiles.items())
        names = ", ".join(dict.fromkeys(statement.instruction for statement in phase.statements))
        but = f", but for {phase.pending} later" if phase.pending else ""
        who = " by one thread of the block" if phase.is_single else ""
        return f"{phase.does.value}{who}{f': {about}' if about else ''}{but} {{{names}}}"


def _drawings(verified: Verified, staged: Staged, sizes: Mapping[str, int]) -> list[_Drawing]:
    """Return the pictures of a loop, of its first iterations and of its last ones; none if it has no first iteration.

    More iterations are looked at than are drawn, so that it is known when each of their tiles came, and when it goes.
    """
    low, high = staged.bounds(sizes)
    if low is None:
        return []
    ahead = max(0, *(touch.form.const for phase in staged.phases for touch in phase.touches))
    count = min(_MOST_ITERATIONS, ahead + max(staged.buffers.values()) + 2)
    parts = [range(low, low + count)]
    if high is not None:
        end = high + 1
        tail = range(max(low + count, end - ahead - 2), end)
        parts = [range(low, end)] if end - low <= count + 2 else [*parts, tail]
    what = f"for {staged.iname}, launch {staged.launch.name}"
    headings = [what, f"the last iterations of {staged.iname}"]
    found = []
    for part, heading in zip(parts, headings, strict=False):
        begin, stop = max(low, part.start - 2 * count), part.stop + count
        active = {
            number: frozenset(n for n, phase in enumerate(staged.phases) if phase.runs_at(staged.iname, number, sizes))
            for number in range(begin, stop if high is None else min(high + 1, stop))
        }  # fmt: skip
        slots = _lives(staged, active, part, sizes)
        if not any(slots.values()) or not all(map(_is_in_turn, slots.values())):
            return []
        found.append(_Drawing(verified, staged, part, active, slots, heading, part == parts[-1]))
    return found


def _spans(signs: Mapping[int, str]) -> Iterator[tuple[int, int, str]]:
    """Yield runs of equal signs: the first column, the one behind, and the sign."""
    start: int | None = None
    last = ""
    for time in [*signs, max(signs) + 1]:
        sign = signs.get(time, "")
        if sign != last:
            if start is not None:
                yield start, time, last
            start, last = time, sign


def _lives(
    staged: Staged, active: Mapping[int, frozenset[int]], shown: range, sizes: Mapping[str, int]
) -> dict[_Slot, Sequence[_Tile]]:
    """Return the tiles in each slot, in the order in which they come; those that are there while it is *shown*."""
    found = {(name, slot): dict[int, _Tile]() for name, slots in staged.buffers.items() for slot in range(slots)}
    count = len(staged.phases)
    for iteration in active:
        number = iteration - shown.start
        for n in sorted(active[iteration]):
            phase, time = staged.phases[n], number * count + n
            for touch in phase.touches:
                for tile in touch.tiles(staged.iname, iteration, sizes):
                    life = found[touch.buffer, tile % touch.slots].setdefault(tile, _Tile(tile, len(shown) * count))
                    if phase.does is not Does.USE:
                        life.filled.append(time)
                    else:
                        life.used += range(time, _finished(staged, phase, number, n) + 1)
    return {slot: [life for life in lives.values() if life.signs()] for slot, lives in found.items()}


def _is_in_turn(tiles: Sequence[_Tile]) -> bool:
    """Return whether a slot holds one tile at a time; the store of one may be the moment at which another leaves."""
    spans = sorted((min(signs), max(signs)) for signs in (tile.signs() for tile in tiles))
    return all(last <= first for (_, last), (first, _) in pairwise(spans))


def _finished(staged: Staged, phase: Phase, number: int, n: int) -> int:
    """Return the time at which a use is over: that of the wait for its products, if they run on."""
    names = {statement.name for statement in phase.statements}
    for at, other in enumerate(staged.phases):
        if other.does is Does.FINISH and any(getattr(s.action, "issue", None) in names for s in other.statements):
            return (number + other.pending + (at < n)) * len(staged.phases) + at
    return number * len(staged.phases) + n
