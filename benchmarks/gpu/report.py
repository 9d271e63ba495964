"""The figures of one run, as a table and as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field

__all__ = ["Figure", "as_json", "as_table"]


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
    ceiling
        Time that the measured ceiling of the device allows [milliseconds].
    """

    kernel: str
    size: str
    times: Mapping[str, float]
    moved: int
    operations: int
    error: float
    ceiling: float
    peers: Mapping[str, str] = field(default_factory=dict)

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
        """Time of the fastest other library over mine: above 1 is faster."""
        others = [time for name, time in self.times.items() if name != "polyloop"]
        return min(others) / self.mine if others else None


def as_table(figures: Sequence[Figure], others: Sequence[str]) -> str:
    """Return a Markdown table, one line a figure."""
    columns = ["kernel", "size", "polyloop", "rate", *others, "to the best", "to the ceiling", "error"]
    lines = [f"| {' | '.join(columns)} |", "|" + "---|" * len(columns)]
    for figure in figures:
        theirs = "".join(
            f"{figure.times[name]:.3f} ms | " if name in figure.times else "- | " for name in others
        )
        ratio = "-" if figure.to_best_peer is None else f"{100 * figure.to_best_peer:.0f} %"
        lines.append(
            f"| {figure.kernel} | {figure.size} | {figure.mine:.3f} ms | {figure.rate} | {theirs}{ratio} | "
            f"{100 * figure.ceiling / figure.mine:.0f} % | {figure.error:.1e} |"
        )
    return "\n".join(lines)


def as_json(figures: Sequence[Figure], facts: Mapping[str, object]) -> str:
    """Return everything measured, with the facts of the machine."""
    return json.dumps({**facts, "figures": [asdict(figure) for figure in figures]}, indent=2)
