"""Spaces of choices, with conditions between them."""

from __future__ import annotations

import inspect
import itertools
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from polyloop.errors import Diagnostic, TuningError, unknown_name

__all__ = ["Choice", "Condition", "Space", "Value", "shown"]

Value: TypeAlias = bool | int | float | str | None
"""What can be chosen: anything that JSON holds by itself."""

Choice: TypeAlias = Mapping[str, Value]
Condition: TypeAlias = Callable[..., object]


def shown(choice: Choice) -> str:
    """Return ``tile=64, unroll=4``."""
    return ", ".join(f"{name}={value!r}" for name, value in choice.items())


@dataclass(frozen=True)
class Space:
    """The choices to try: every combination of the values of each name that meets the conditions.

    Attributes
    ----------
    conditions
        Functions of some of the names, by those of their parameters: ``lambda tile, threads: tile % threads == 0``.
    """

    values: Mapping[str, Sequence[Value]]
    conditions: tuple[Condition, ...] = ()

    def __post_init__(self) -> None:
        problems = [
            Diagnostic("empty-space", f"'{name}' has no values to choose from", (), (f"give '{name}' a value",))
            for name, values in self.values.items()
            if not values
        ]
        for condition in self.conditions:
            names = inspect.signature(condition).parameters
            problems += [unknown_name("choice", name, self.values) for name in names if name not in self.values]
        if problems:
            raise TuningError("tune", None, problems)

    def __iter__(self) -> Iterator[dict[str, Value]]:
        needed = [(condition, tuple(inspect.signature(condition).parameters)) for condition in self.conditions]
        for combination in itertools.product(*self.values.values()):
            choice = dict(zip(self.values, combination, strict=True))
            if all(condition(**{name: choice[name] for name in names}) for condition, names in needed):
                yield choice

    def drawn(self, seed: int, most: int | None) -> list[dict[str, Value]]:
        """Return the choices in a random order, which *seed* decides, *most* of them."""
        found = list(self)
        random.Random(seed).shuffle(found)
        if not found:
            raise TuningError("tune", None, [Diagnostic(
                "empty-space", "no combination of values meets the conditions",
                (f"there are {self.count()} combinations",), ("loosen a condition, or add values",))])  # fmt: skip
        return found if most is None else found[:most]

    def count(self) -> int:
        """Return the number of combinations before any condition."""
        number = 1
        for values in self.values.values():
            number *= len(values)
        return number
