"""Frozen dataclasses that are made quickly behave as those of the standard library."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest

from polyloop.frozen import quick, replace


@dataclass(frozen=True)
class Slow:
    first: int
    second: Mapping[str, int] = field(default_factory=dict)
    third: str = "c"
    memory: dict[int, int] = field(default_factory=dict, init=False, compare=False)


@quick
@dataclass(frozen=True)
class Fast:
    first: int
    second: Mapping[str, int] = field(default_factory=dict)
    third: str = "c"
    memory: dict[int, int] = field(default_factory=dict, init=False, compare=False)


@pytest.mark.parametrize("kind", [Slow, Fast])
def test_made_and_changed(kind: type[Slow | Fast]) -> None:
    value = kind(1, {"x": 2})
    assert (value.first, value.second, value.third, value.memory) == (1, {"x": 2}, "c", {})
    assert value == kind(first=1, second={"x": 2}, third="c")
    assert value != kind(2)
    assert kind(1).second is not kind(1).second, "each has a default of its own"
    value.memory[0] = 1
    value.__dict__["remembered()"] = 1
    other = replace(value, third="d")
    assert (other.first, other.second, other.third, other.memory) == (1, {"x": 2}, "d", {})
    assert other.second is value.second
    assert other.__dict__.keys() == {"first", "second", "third", "memory"}, "nothing is taken over that is no field"
    assert copy.copy(value) == value == pickle.loads(pickle.dumps(value))


@pytest.mark.parametrize("kind", [Slow, Fast])
def test_refusals(kind: type[Slow | Fast]) -> None:
    value = kind(1)
    with pytest.raises(dataclasses.FrozenInstanceError):
        value.first = 2  # type: ignore[misc]
    with pytest.raises(TypeError, match="fourth"):
        replace(value, fourth=1)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="first"):
        kind()  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="fourth"):
        kind(1, fourth=2)  # type: ignore[call-arg]


def test_what_is_not_quick_is_refused() -> None:
    @dataclass(frozen=True)
    class Busy:
        first: int

        def __post_init__(self) -> None:
            assert self.first

    with pytest.raises(AssertionError, match="more to do"):
        quick(Busy)
