"""Spaces of choices, with conditions between them."""

from __future__ import annotations

import inspect
import itertools
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from polyloop.edge.callbacks import asked
from polyloop.edge.words import spelt
from polyloop.errors import Diagnostic, TuningError, unknown_name

__all__ = ["Choice", "Condition", "Space", "Value", "shown"]

Value: TypeAlias = bool | int | float | str | None
"""A value that can be chosen: any scalar of JSON."""

Choice: TypeAlias = Mapping[str, Value]
Condition: TypeAlias = Callable[..., object]


def shown(choice: Choice) -> str:
    """Return ``tile=64, unroll=4``."""
    return ", ".join(f"{name}={spelt(value)}" for name, value in choice.items())


def _names(condition: Condition) -> tuple[str, ...] | None:
    """Return the parameters of a condition, None where Python does not know them."""
    try:
        return tuple(inspect.signature(condition).parameters)
    except (TypeError, ValueError):
        return None


def _holds(condition: Condition, values: Choice) -> object:
    """Return the verdict of a condition on a choice."""
    return asked(_error, "conditions", condition, **values)


@dataclass(frozen=True)
class Space:
    """Search space: all combinations of values that satisfy the conditions.

    Attributes
    ----------
    conditions
        Functions of some of the names, by those of their parameters: ``lambda tile, threads: tile % threads == 0``.
    """

    values: Mapping[str, Sequence[Value]]
    conditions: tuple[Condition, ...] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.values, Mapping):
            hint = 'pass the values of each name: {"tile": [16, 32], "unroll": [1, 4]}'
            raise _error(Diagnostic("bad-space", f"{spelt(self.values)} is not a space of choices", (), (hint,)))
        problems = [problem for name, values in self.values.items() for problem in _value_problems(name, values)]
        for condition in self.conditions:
            names = _names(condition)
            if names is None:
                hint = "a condition is a function of names of the space: lambda tile, unroll: tile % unroll == 0"
                problems.append(Diagnostic("bad-space", f"{spelt(condition)} is not a condition", (), (hint,)))
                continue
            problems += [unknown_name("choice", name, self.values) for name in names if name not in self.values]
        if problems:
            raise TuningError("tune", None, problems)

    def __iter__(self) -> Iterator[dict[str, Value]]:
        needed = [(condition, _names(condition) or ()) for condition in self.conditions]
        for combination in itertools.product(*self.values.values()):
            choice = dict(zip(self.values, combination, strict=True))
            if all(_holds(condition, {name: choice[name] for name in names}) for condition, names in needed):
                yield choice

    def drawn(self, seed: int, most: int | None) -> list[dict[str, Value]]:
        """Return the choices in a random order, which *seed* decides, *most* of them."""
        if most is not None and most < 1:
            raise _error(Diagnostic("empty-space", f"most={most} leaves no choice to try", (), ("try one at least",)))
        found = list(self)
        random.Random(seed).shuffle(found)
        if not found:
            raise _error(Diagnostic(
                "empty-space", "no combination of values meets the conditions",
                (f"there are {self.count()} combinations",), ("loosen a condition, or add values",)))  # fmt: skip
        return found if most is None else found[:most]

    def count(self) -> int:
        """Return the number of combinations before any condition."""
        number = 1
        for values in self.values.values():
            number *= len(values)
        return number


def _error(problem: Diagnostic) -> TuningError:
    return TuningError("tune", None, [problem])


def _value_problems(name: str, values: object) -> Iterator[Diagnostic]:
    """Yield ``bad-space`` or ``empty-space`` if *values* are no list of distinct names and numbers."""
    if isinstance(values, str) or not isinstance(values, Iterable):
        message = f"the values of '{name}' are {spelt(values)}, which is no list"
        yield Diagnostic("bad-space", message, (), (f'"{name}": [{spelt(values)}] leaves no choice but this',))
        return
    known: list[object] = []
    for value in values:
        if value is not None and type(value) not in {bool, int, float, str}:
            hint = "pass a name or a number; build can look up what it means"
            note = "results are kept as JSON, which holds numbers, texts, true, false and null"
            message = f"'{name}' cannot be {spelt(value)}, of type {type(value).__name__}"
            yield Diagnostic("bad-space", message, (note,), (hint,))
        elif value in known:
            message = f"'{name}' has the value {spelt(value)} twice"
            yield Diagnostic("bad-space", message, (), ("leave one out: 1, 1.0 and True are equal",))
        known.append(value)
    if not known:
        yield Diagnostic("empty-space", f"'{name}' has no values to choose from", (), (f"give '{name}' a value",))
