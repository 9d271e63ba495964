"""Reports of the comparison of two kernels, as data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from polyloop.display import Shown, brief
from polyloop.serial.value import Value

__all__ = ["Comparison", "Equivalence", "Mode", "shown_sizes"]


class Mode(Enum):
    """Number system that the kernels compute with."""

    FLOATS = "floats"
    """Their own numbers; floating-point ones may differ by a tolerance."""
    INTEGERS = "integers"
    """Integers modulo 2^32 in the place of floating-point numbers; every bit must agree."""

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True)
class Comparison:
    """One run that agreed with the first one.

    Attributes
    ----------
    ran
        What ran: ``"knl_b on c"``, ``"knl_b on fibres (reverse)"``.
    against
        The run that it was compared with.
    errors
        Output -> largest difference, in units of the largest number in the output; 0 where all bits agree.
    not_numbers
        Output -> how many of its elements are NaN in both.
    milliseconds, against_milliseconds
        Wall-clock time of this call and of the one that it was compared with, transfers included, and for fibres
        the compilation.
    """

    mode: Mode
    ran: str
    against: str
    sizes: Mapping[str, int]
    errors: Mapping[str, float]
    not_numbers: Mapping[str, int]
    milliseconds: float
    against_milliseconds: float

    __repr__ = brief


@dataclass(frozen=True, eq=False)
class Equivalence(Value, Shown):
    """Result of :func:`check_equivalence`; ``print`` shows it.

    Attributes
    ----------
    names
        Names of the two kernels.
    sizes
        Sizes of the run.
    comparisons
        Every run that was compared.
    skipped
        Mode -> why it was not tried.
    """

    names: tuple[str, str]
    sizes: tuple[Mapping[str, int], ...]
    comparisons: tuple[Comparison, ...]
    skipped: Mapping[Mode, str] = field(default_factory=dict)
    seed: int = 0

    __repr__ = brief

    @property
    def max_rel_err(self) -> dict[str, float]:
        """Output -> the largest error of all runs with floating-point numbers."""
        found: dict[str, float] = {}
        for entry in self.comparisons:
            for name, error in entry.errors.items():
                found[name] = max(error, found.get(name, 0.0))
        return found

    def modes(self) -> tuple[Mode, ...]:
        """Return the modes that were tried."""
        return tuple(mode for mode in Mode if any(entry.mode is mode for entry in self.comparisons))

    def __str__(self) -> str:
        first, second = self.names
        sizes = "; ".join(shown_sizes(sizes) or "none" for sizes in self.sizes)
        lines = [f"'{second}' agrees with '{first}'", f"  sizes: {sizes}"]
        for mode in Mode:
            entries = [entry for entry in self.comparisons if entry.mode is mode]
            if mode in self.skipped:
                lines.append(f"  {mode}: not tried: {self.skipped[mode]}")
            elif entries:
                lines.append(f"  {mode}: {self._agreement(mode, entries)}")
                lines.append(f"    {', '.join(f'{ran} {time:.2f} ms' for ran, time in _times(entries).items())}")
        return "\n".join([*lines, f"  seed: {self.seed}"])

    def _agreement(self, mode: Mode, entries: Sequence[Comparison]) -> str:
        worst = {name: max(entry.errors[name] for entry in entries) for name in entries[0].errors}
        nans = {name: sum(entry.not_numbers[name] for entry in entries) for name in worst}
        if mode is Mode.INTEGERS or not any(worst.values()):
            text = "every bit agrees"
        else:
            text = "largest relative error " + ", ".join(f"{error:.1e} in {name}" for name, error in worst.items())
        hidden = ", ".join(f"{count} in {name}" for name, count in nans.items() if count)
        return f"{text}; not written, or NaN: {hidden}" if hidden else text


def _times(entries: Sequence[Comparison]) -> dict[str, float]:
    """Return the total time of each kind of call [ms], the reference first."""
    first = entries[0].ran
    found = {entries[0].against: sum(entry.against_milliseconds for entry in entries if entry.ran == first)}
    for entry in entries:
        found[entry.ran] = found.get(entry.ran, 0.0) + entry.milliseconds
    return found


def shown_sizes(sizes: Mapping[str, int]) -> str:
    """Return ``n = 17, m = 3``."""
    return ", ".join(f"{name} = {value}" for name, value in sizes.items())
