"""The transforms that were applied to a kernel, as data."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import ClassVar, Protocol, runtime_checkable

from polyloop.display import Shown
from polyloop.serial.value import Value

__all__ = ["Change", "Kind", "Step", "Trace", "steps_text"]


def steps_text(calls: Iterable[str]) -> str:
    """Return ``of 3 steps: split_iname, tag_inames, tile`` for the calls of steps."""
    names = [call.partition("(")[0] for call in calls]
    shown = ", ".join([*names[:6], *([f".. {names[-1]}"] if len(names) > 6 else [])])
    return f"of {len(names)} step{'s' * (len(names) != 1)}{f': {shown}' if names else ''}"


class Kind(Enum):
    """Kind of a name in a kernel."""

    INAME = "iname"
    INSTRUCTION = "instruction"
    VARIABLE = "variable"


@dataclass(frozen=True)
class Change:
    """Names of one kind that a step removed, and names that it introduced."""

    kind: Kind
    gone: tuple[str, ...]
    made: tuple[str, ...]


@runtime_checkable
class Step(Protocol):
    """One applied transform; see ``polyloop.transform.base``."""

    @property
    def changes(self) -> tuple[Change, ...]:
        """The names that went and came with it."""
        ...

    def call(self) -> str:
        """Return the call as a message shows it."""
        ...

    def script(self) -> str:
        """Return the call as a line of Python."""
        ...

    def data(self) -> Mapping[str, object]:
        """Return ``{"name": .., "arguments": {..}}`` of JSON values."""
        ...


@dataclass(frozen=True, eq=False)
class Trace(Value, Shown):
    """The steps from the kernel as created to the present one, in order.

    ``print(trace)`` shows them as a Python script; ``trace.to_json()`` and ``pl.Trace.from_json`` store and read them,
    :func:`polyloop.replay` applies them.  ``origin`` is a comment that says how a kernel was made
    that was made of others.
    """

    from_json: ClassVar[Callable[[str], Trace]]
    """Returns the trace that :meth:`to_json` wrote: :func:`polyloop.trace_from_json`."""

    steps: tuple[Step, ...] = ()
    origin: str = ""

    def __str__(self) -> str:
        return "\n".join([*self.origin.splitlines(), *(step.script() for step in self.steps)])

    def __repr__(self) -> str:
        return f"<Trace {steps_text(step.call() for step in self.steps)}>"

    def followed_by(self, step: Step) -> Trace:
        """Return the trace with one more step."""
        return Trace((*self.steps, step), self.origin)

    def __len__(self) -> int:
        return len(self.steps)

    def __iter__(self) -> Iterator[Step]:
        return iter(self.steps)

    def to_json(self) -> str:
        """Return the steps as a JSON array."""
        return json.dumps([dict(step.data()) for step in self.steps], indent=2)
