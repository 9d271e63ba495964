"""``draw_roofline``: kernels against the rates of a device, by the model of ``explain`` and as measured."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, floor, log10
from typing import Final

from polyloop.errors import ArgumentError, Diagnostic
from polyloop.kernel.devices import Device, find_device
from polyloop.kernel.kernel import LoopKernel
from polyloop.kernel.processors import Processor
from polyloop.runtime.bounds.measured import this_processor
from polyloop.runtime.explain import explain
from polyloop.runtime.explanation import Explanation, short, time_text
from polyloop.viz.picture import Picture, picture_of
from polyloop.viz.svg import CHAR, Canvas, Label

__all__ = ["draw_roofline"]

_NAME: Final = "draw_roofline"
_SMALL: Final = 11.0
_WIDTH: Final = 620.0
_HEIGHT: Final = 300.0
_LEFT: Final = 74.0
_TOP: Final = 70.0
_FLOATS: Final = ("float", "bfloat", "tensor")
_HEAD: Final = ("", "kernel", "flop/byte", "bound by", "at least", "measured", "of the bound")


@dataclass(frozen=True)
class _Entry:
    """One kernel: its bounds, and the time that was measured [s]."""

    found: Explanation
    seconds: float | None

    @property
    def flops(self) -> int:
        """Floating-point operations."""
        return sum(self.found.flops.values())

    @property
    def is_placed(self) -> bool:
        """True if it has a place in the plot."""
        return self.flops > 0 and self.found.intensity > 0 and self.found.seconds > 0

    def rates(self) -> Iterator[tuple[float, bool]]:
        """Yield the rate of the bound and the measured one [1/s], and whether it is measured."""
        yield self.flops / self.found.seconds, False
        if self.seconds is not None:
            yield self.flops / self.seconds, True

    def row(self, number: int) -> tuple[str, ...]:
        """Return the row of the table."""
        found, bound = self.found, self.found.bound
        part = "" if self.seconds is None else f"{found.seconds / self.seconds:.0%}"
        return (
            f"{number}", found.kernel, _digits(found.intensity) if self.flops else "none",
            "nothing" if bound is None else bound.resource, time_text(found.seconds),
            "" if self.seconds is None else time_text(self.seconds), part,
        )  # fmt: skip


def draw_roofline(
    kernels: LoopKernel | Explanation | Sequence[LoopKernel | Explanation],
    sizes: Mapping[str, int] | None = None,
    device: str | Device | Processor = "H200",
    *,
    seconds: float | Sequence[float | None] | None = None,
) -> Picture:
    """Draw kernels against the roofline of a device: the rate that bounds allow, and the one that was measured.

    ::

        knl.draw_roofline({"n": 4096}, "H100", seconds=1.2e-3)
        pl.draw_roofline([pl.explain(axpy, {"n": 1 << 24}), pl.explain(matmul, {"n": 4096})])

    Horizontally is the intensity: floating-point operations for each byte that has to be moved, each element once.
    Lines are the bandwidth of the memory, and the peak rates of the types that the kernels compute with.  A ring is the
    rate that all bounds of :func:`explain` together allow, which can be below the lines: shared memory, special
    functions, or blocks for a part of the multiprocessors.  A disc below it is the measured rate.

    Parameters
    ----------
    kernels
        One or several; bounds that are known already for kernels of other sizes.
    sizes, device
        Of kernels, as for :func:`explain`.
    seconds
        Measured time of one call [s], of each kernel; None for those that were not measured.

    Raises
    ------
    ArgumentError
        ``bad-roofline``: no kernels, bounds of several devices, or times that are not one for each; and the errors of
        :func:`explain`.
    """
    given = [kernels] if isinstance(kernels, LoopKernel | Explanation) else [*kernels]
    found = [each if isinstance(each, Explanation) else explain(each, sizes, device) for each in given]
    times = [seconds] if seconds is None or isinstance(seconds, int | float) else [*seconds]
    if seconds is None:
        times = [None] * len(found)
    _check(found, times)
    entries = [_Entry(each, time) for each, time in zip(found, times, strict=True)]
    model = _model(device, found[0].device)
    title = f"roofline of {model.name}"
    canvas = Canvas()
    canvas.text(12, 16, title, bold=True)
    y = 44.0
    if any(entry.is_placed for entry in entries):
        canvas.text(12, 36, "ring: bound by the model; disc: measured", "quiet", size=_SMALL)
        y = _Plot(entries, model).paint(canvas) + 24
    rows = [_HEAD, *(entry.row(number) for number, entry in enumerate(entries, 1))]
    _table(canvas, rows, y)
    return picture_of(canvas, title, "\n".join([title, *_lines(rows), *_roof_lines(entries, model)]))


def _model(given: str | Device | Processor, name: str) -> Device | Processor:
    """Return the device of the bounds: the one *given*, that of this machine, or the one of a name."""
    if isinstance(given, Device | Processor) and given.name == name:
        return given
    if given == "cpu":
        return this_processor()
    return find_device(name)


def _check(found: Sequence[Explanation], times: Sequence[float | None]) -> None:
    devices = [*dict.fromkeys(each.device for each in found)]
    if not found:
        problem = "there is no kernel"
    elif len(devices) > 1:
        problem = f"the bounds are of several devices: {', '.join(devices)}"
    elif len(times) != len(found):
        problem = f"{len(found)} kernels have {len(times)} times"
    elif any(time is not None and not time > 0 for time in times):
        problem = "a time is a positive number of seconds"
    else:
        return
    hints = ("pl.draw_roofline([pl.explain(knl, sizes)], seconds=[1.2e-3])",)
    raise ArgumentError(_NAME, None, [Diagnostic("bad-roofline", problem, hints=hints)])


def _rate(value: float) -> str:
    """Return a number and the letter before its unit: ``66.9 T``."""
    text = short(value)
    return f"{text[:-1]} {text[-1]}" if text[-1].isalpha() else f"{text} "


def _digits(value: float) -> str:
    return f"{value:.0f}" if value >= 1000 else f"{value:.3g}"


def _kinds(entries: Sequence[_Entry]) -> list[str]:
    """Return the kinds of floating-point operations that the kernels have."""
    kinds = {bound.resource: None for entry in entries for bound in entry.found.bounds if bound.amount}
    return [kind for kind in kinds if kind.startswith(_FLOATS)]


def _roof_lines(entries: Sequence[_Entry], model: Device | Processor) -> Iterator[str]:
    yield f"memory: {_rate(model.dram.value)}B/s"
    for kind in _kinds(entries):
        figure = model.rate(kind)
        if figure is not None:
            ridge = figure.value / model.dram.value
            yield f"{kind}: {_rate(figure.value)}flop/s, from {_digits(ridge)} flop/byte on"


class _Plot:
    """The plot, with logarithmic axes."""

    def __init__(self, entries: Sequence[_Entry], model: Device | Processor) -> None:
        self.placed = [(number, entry) for number, entry in enumerate(entries, 1) if entry.is_placed]
        self.memory = model.dram.value
        figures = {kind: model.rate(kind) for kind in _kinds(entries)}
        self.roofs = {kind: figure.value for kind, figure in figures.items() if figure is not None}
        across = [entry.found.intensity for _, entry in self.placed]
        across += [rate / self.memory for rate in self.roofs.values()]
        up = [rate for _, entry in self.placed for rate, _ in entry.rates()] + [*self.roofs.values()]
        self.x0, self.x1 = floor(log10(min(across)) - 0.2), ceil(log10(max(across)) + 0.3)
        self.y0, self.y1 = floor(log10(min(up)) - 0.2), ceil(log10(max(up)) + 0.15)

    def place(self, intensity: float, rate: float) -> tuple[float, float]:
        """Return the point of a kernel."""
        x = (log10(intensity) - self.x0) / (self.x1 - self.x0)
        y = (log10(rate) - self.y0) / (self.y1 - self.y0)
        return _LEFT + x * _WIDTH, _TOP + (1 - y) * _HEIGHT

    def paint(self, canvas: Canvas) -> float:
        """Draw it, and return the height below it."""
        bottom = _TOP + _HEIGHT
        for power in range(self.x0, self.x1 + 1):
            x, _ = self.place(10.0**power, 10.0**self.y0)
            canvas.line([(x, _TOP), (x, bottom)], "rule")
            canvas.text(x, bottom + 14, f"{10.0**power:g}", "quiet", size=_SMALL, anchor="middle")
        for power in range(self.y0, self.y1 + 1):
            _, y = self.place(10.0**self.x0, 10.0**power)
            canvas.line([(_LEFT, y), (_LEFT + _WIDTH, y)], "rule")
            canvas.text(_LEFT - 8, y, short(10.0**power), "quiet", size=_SMALL, anchor="end")
        canvas.text(_LEFT + _WIDTH / 2, bottom + 32, "floating-point operations for each byte", "quiet", size=_SMALL,
                    anchor="middle")  # fmt: skip
        canvas.text(12, _TOP - 13, "flop/s", "quiet", size=_SMALL)
        self._roofs(canvas)
        for _, entry in self.placed:
            (x, y), *measured = (self.place(entry.found.intensity, rate) for rate, _ in entry.rates())
            for point in measured:
                canvas.line([(x, y), point], "orange", width=1.5, dashed=True)
                canvas.circle(*point, 4.5, "orange")
            canvas.circle(x, y, 5, "page", "blue", 2)
        for number, entry in self.placed:
            for rate, is_measured in entry.rates():
                self._mark(canvas, self.place(entry.found.intensity, rate), number, is_measured=is_measured)
        return bottom + 32

    def _roofs(self, canvas: Canvas) -> None:
        top = max(self.roofs.values(), default=10.0**self.y1)
        low = max(10.0**self.x0, 10.0**self.y0 / self.memory)
        start, end = self.place(low, low * self.memory), self.place(top / self.memory, top)
        canvas.line([start, end], "purple", width=2)
        text = f"memory {_rate(self.memory)}B/s"
        parts = [(start[0] + (end[0] - start[0]) * part, start[1] + (end[1] - start[1]) * part) for part in (0.7, 0.9)]
        left = [(x - 12 - CHAR * _SMALL * len(text), y - 6) for x, y in parts]
        right = [(x + 12, y + 8) for x, y in reversed(parts)]
        self._word(canvas, text, [(x, y) for x, y in (*left, *right) if x > _LEFT + 2])
        for kind, rate in self.roofs.items():
            first, last = self.place(rate / self.memory, rate), (_LEFT + _WIDTH, 0.0)
            canvas.line([first, (last[0], first[1])], "purple", width=2)
            text = f"{kind} {_rate(rate)}flop/s"
            beside = [(last[0] + 8, first[1] + shift) for shift in (0, -12, 12, -24, 24)]
            self._word(canvas, text, beside)

    def _word(self, canvas: Canvas, text: str, places: Sequence[tuple[float, float]]) -> None:
        """Write the name of a roof at the first of *places* that is free."""
        for x, y in places:
            label = Label(text, x, y - _SMALL / 2, CHAR * _SMALL * len(text), _SMALL)
            if not any(label.overlaps(other) for other in canvas.labels):
                canvas.text(x, y, text, "purple", size=_SMALL, paper="page")
                return

    def _mark(self, canvas: Canvas, point: tuple[float, float], number: int, *, is_measured: bool) -> None:
        """Write the number of a kernel beside its point, where there is room."""
        text, step = f"{number}", 13.0
        width = CHAR * _SMALL * len(text)
        for ring in range(1, 6):
            for dx, dy in ((1, 0), (-1, 0), (0.8, -0.9), (0.8, 0.9), (-0.8, -0.9), (-0.8, 0.9)):
                x, y = point[0] + dx * step * ring, point[1] + dy * step * ring
                label = Label(text, x - width / 2, y - _SMALL / 2, width, _SMALL)
                if not any(label.overlaps(other) for other in canvas.labels):
                    canvas.text(
                        x, y, text, "orange" if is_measured else "blue", size=_SMALL, bold=True, anchor="middle"
                    )
                    return


def _widths(rows: Sequence[tuple[str, ...]]) -> list[int]:
    return [max(len(row[column]) for row in rows) for column in range(len(_HEAD))]


def _table(canvas: Canvas, rows: Sequence[tuple[str, ...]], y: float) -> None:
    """Write the table below the plot."""
    widths = _widths(rows)
    for number, row in enumerate(rows):
        x = 12.0
        for column, (cell, width) in enumerate(zip(row, widths, strict=True)):
            if cell:
                ink = "quiet" if not number else "blue" if column in (0, 4) else "orange" if column > 4 else "ink"
                canvas.text(x, y, cell, ink, size=_SMALL, bold=bool(number) and not column)
            x += CHAR * _SMALL * (width + 2)
        y += 18


def _lines(rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    widths = _widths(rows)
    for row in rows:
        yield "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()
