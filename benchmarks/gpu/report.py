"""The figures of one run, as a table, as JSON, and in the documentation."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final

__all__ = ["Figure", "Run", "as_json", "as_markdown", "as_table", "from_json", "with_run"]

_BEGIN: Final = "<!-- the newest run: written by python -m benchmarks gpu --write -->"
_END: Final = "<!-- end of the newest run -->"


@dataclass(frozen=True)
class Figure:
    """One kernel at one size.

    Attributes
    ----------
    times
        Median time by who ran it, ``"polyloop"`` first [milliseconds].
    moved, operations
        Least traffic [bytes] and work of the kernel.
    error
        Largest error relative to the largest value; every output element was written.
    roofline
        Least time on this device: of the traffic at the rate of a copy, and of the work at the published peak rate
        [milliseconds].
    wrong
        Peers whose results differ from polyloop's by more than rounding, and by how much; their times do not count.
    """

    kernel: str
    size: str
    times: Mapping[str, float]
    moved: int
    operations: int
    error: float
    roofline: float
    wrong: Mapping[str, float] = field(default_factory=dict)

    @property
    def mine(self) -> float:
        """Median time of polyloop's kernel [milliseconds]."""
        return self.times["polyloop"]

    @property
    def rate(self) -> str:
        """Traffic or work in its unit."""
        if self.operations:
            return f"{self.operations / self.mine / 1e9:.1f} TFLOP/s"
        return f"{self.moved / self.mine / 1e9:.2f} TB/s"

    @property
    def to_best_peer(self) -> float | None:
        """Time of the fastest peer over mine: above 1 is faster."""
        others = [time for name, time in self.times.items() if name != "polyloop"]
        return min(others) / self.mine if others else None


@dataclass(frozen=True)
class Run:
    """All figures of one run.

    Attributes
    ----------
    facts
        Date, device, driver, versions and commit, by their names.
    ceilings
        What was measured to compare with, in the units of their names.
    missing
        Peers that this machine does not have.
    """

    figures: Sequence[Figure]
    facts: Mapping[str, str]
    ceilings: Mapping[str, float]
    peers: Sequence[str]
    missing: Sequence[str]


def as_table(figures: Sequence[Figure], others: Sequence[str]) -> str:
    """Return a Markdown table, one line a figure."""
    columns = ["kernel", "size", "polyloop", "rate", *others, "to the best", "to the roofline", "error"]
    lines = [f"| {' | '.join(columns)} |", "|" + "---|" * len(columns)]
    for figure in figures:
        theirs = "".join(
            f"{figure.times[name]:.3f} ms | " if name in figure.times else "- | " for name in others
        )
        ratio = "-" if figure.to_best_peer is None else f"{100 * figure.to_best_peer:.0f} %"
        lines.append(
            f"| {figure.kernel} | {figure.size} | {figure.mine:.3f} ms | {figure.rate} | {theirs}{ratio} | "
            f"{100 * figure.roofline / figure.mine:.0f} % | {figure.error:.1e} |"
        )
    return "\n".join(lines)


def as_markdown(run: Run) -> str:
    """Return the table with what it was measured on, and the peers that are not in it."""
    facts = ", ".join(f"{name} {value}" if name != "date" else value for name, value in run.facts.items())
    ceilings = ", ".join(f"{name.partition(' [')[0]} {value:.4g} {name.partition('[')[2].rstrip(']')}"
                         for name, value in run.ceilings.items())  # fmt: skip
    lines = [f"{facts}; {ceilings}."]
    if run.missing:
        lines.append(f"Not on this machine, and left out: {', '.join(run.missing)}.")
    lines += [
        f"{figure.kernel}, {figure.size}: {name} differs by {error:.1e} and is left out."
        for figure in run.figures
        for name, error in figure.wrong.items()
    ]
    return "\n".join(lines) + "\n\n" + as_table(run.figures, run.peers)


def as_json(run: Run) -> str:
    """Return everything measured, with the facts of the machine."""
    return json.dumps(asdict(run), indent=2)


def from_json(text: str) -> Run:
    """Return what :func:`as_json` wrote."""
    given: dict[str, Any] = json.loads(text)
    figures = [Figure(**figure) for figure in given.pop("figures")]
    return Run(figures, **given)


def with_run(document: str, run: Run) -> str:
    """Return *document* with *run* in the place of the run that it shows."""
    before, begin, rest = document.partition(_BEGIN)
    _, end, after = rest.partition(_END)
    assert begin, f"the document has no line {_BEGIN}"
    assert end, f"the document has no line {_END}"
    return f"{before}{begin}\n\n{as_markdown(run)}\n\n{end}{after}"
