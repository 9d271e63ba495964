"""Launches of a call with their arguments packed, to be repeated."""
# ruff: noqa: ANN401  # arrays of libraries without types

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np

from polyloop.runtime.calls import Result

__all__ = [
    "NOTHING",
    "CurrentStream",
    "Free",
    "Fresh",
    "Launch",
    "PackedCall",
    "Passed",
    "Queued",
    "is_poisoning",
    "passing",
    "storing",
]

Launch: TypeAlias = Callable[..., int | None]
"""Launches with the values of the free numbers, and returns the driver's status: nothing was launched if it is true."""


_POISON: Final = "POLYLOOP_POISON"
_VARIABLES: Final = getattr(os.environ, "_data", None)  # as bytes: ``environ`` encodes and decodes at each look, 0.6 us
_ENCODED: Final = os.environ.encodekey(_POISON)


def is_poisoning() -> bool:
    """Return whether the user asked for arrays to be filled with NaN where they are allocated, by POLYLOOP_POISON."""
    if isinstance(_VARIABLES, dict) and _ENCODED not in _VARIABLES:
        return False
    return os.environ.get(_POISON, "") == "1"


def _nothing_is_wrong(status: int) -> bool:
    raise AssertionError(f"status {status} of functions that have none")


@dataclass(frozen=True, slots=True)
class CurrentStream:
    """The stream that a library is using, which it may change.

    Attributes
    ----------
    ask, how
        A function, and the text behind its name with which an expression of it is the handle: ``().ptr``.
    handle
        Gives the handle.
    """

    ask: Callable[..., Any]
    how: str
    handle: Callable[[], int]


@dataclass(frozen=True, slots=True)
class Free:
    """A number that no check depends on.

    Attributes
    ----------
    dtype
        The type in which the launch is passed it.
    kind
        The type of ctypes of it.
    is_exact
        Whether each value of *dtype* is passed as it is: not so for 16-bit floats, which are passed as float32.
    convert
        Gives the value to pass; refuses what is no such number.
    """

    name: str
    dtype: np.dtype[Any]
    kind: type[Any]
    is_exact: bool
    convert: Callable[[object], object]


@dataclass(frozen=True, slots=True)
class Fresh:
    """An array that each call allocates: an output that is not passed, or a workspace.

    Attributes
    ----------
    make
        Returns a new array, and the pointer that launches are passed for it.  It raises :class:`ArgumentError`,
        ``too-large``, where there is no memory for it.
    """

    name: str
    make: Callable[[], tuple[Any, int]]


@dataclass(frozen=True, slots=True)
class Passed:
    """Values that the launches of a call take at each repetition: free numbers, and pointers of fresh arrays.

    Everything else is packed once.
    """

    free: tuple[Free, ...] = ()
    fresh: tuple[Fresh, ...] = ()

    def __bool__(self) -> bool:
        """Return whether there is anything."""
        return bool(self.free or self.fresh)

    @property
    def names(self) -> list[str]:
        """The names of the values, in the order in which a launch takes them."""
        return [*(number.name for number in self.free), *(array.name for array in self.fresh)]

    @property
    def kinds(self) -> dict[str, type[Any]]:
        """The types of ctypes that the values have in the memory of a launch on a GPU, by name, in the same order."""
        pointers = dict.fromkeys((array.name for array in self.fresh), ctypes.c_uint64)
        return {number.name: number.kind for number in self.free} | pointers


NOTHING: Final = Passed()
"""For launches that are repeated as they are."""


@dataclass(frozen=True)
class Queued:
    """The queue of a call, None if the caller leaves it open, and the events that the call waits for."""

    queue: Any
    wait_for: tuple[Any, ...] = ()


class PackedCall:
    """All launches of a call with their arguments packed.

    Attributes
    ----------
    current
        The stream that the arrays' library is using; None: it uses the default stream.
    passed
        What each launch takes.
    launches
        How they are started: ``"host"``, one after the other, ``"graph"`` or ``"cooperative"``.
    """

    __slots__ = ("_by_stream", "_done", "_prepared", "current", "launches", "passed")

    def __init__(
        self, prepared: Sequence[Callable[[int], Launch]], current: CurrentStream | None = None,
        done: Callable[[int], bool] = _nothing_is_wrong, passed: Passed = NOTHING, launches: str = "host",
    ) -> None:  # fmt: skip
        self._prepared, self.current, self._done, self.passed = tuple(prepared), current, done, passed
        self.launches = launches
        self._by_stream: dict[int, Launch] = {}

    def on(self, stream: int) -> Launch:
        """Return a function that launches everything on *stream*."""
        found = self._by_stream.get(stream)
        if found is None:
            launches = [prepared(stream) for prepared in self._prepared]
            found = launches[0] if len(launches) == 1 else _in_order(launches, self._done)
            self._by_stream[stream] = found
        return found

    def run(self, stream: int | None, values: Sequence[Any] = ()) -> bool:
        """Launch everything; False: nothing was launched, because another context is current.

        The stream None is the one that the arrays' library is using.  *values* are what launches are passed.
        """
        status = self.on(self.stream() if stream is None else stream)(*values)
        return not status or self._done(status)

    def repeated(self, result: Result, otherwise: Callable[[object], Result]) -> Callable[..., Result]:
        """Return a function that launches everything and returns *result*; nothing is passed.

        *otherwise* is called where that takes more: on a stream that is passed or was not met before, or where another
        context is current.
        """
        launches = self._by_stream
        if self.current is None:
            launch = self.on(0)

            def on_default(*, stream: object = None) -> Result:
                return result if stream is None and not launch() else otherwise(stream)

            return on_default
        current = self.current.handle

        def on_current(*, stream: object = None) -> Result:
            if stream is None:
                known = launches.get(current())
                if known is not None and not known():
                    return result
            return otherwise(stream)

        return on_current

    def stream(self) -> int:
        """Return the stream that the arrays' library is using."""
        return 0 if self.current is None else self.current.handle()


def _in_order(launches: Sequence[Launch], done: Callable[[int], bool]) -> Launch:
    def run(*values: Any) -> int:
        for number, launch in enumerate(launches):
            status = launch(*values)
            if status:
                if number == 0:
                    return status
                is_done = done(status)
                assert is_done, "the context changed between two launches of one call"
        return 0

    return run


def passing(function: Callable[..., Any], arguments: Sequence[object], places: Sequence[int | None]) -> Launch:
    """Return a launch of a C function: *places* has, for each value that it takes, its place in *arguments*."""
    given = {place: f"v{number}" for number, place in enumerate(places) if place is not None}
    space: dict[str, Any] = {f"a{place}": value for place, value in enumerate(arguments)} | {"function": function}
    inside = ", ".join(given.get(place, f"a{place}") for place in range(len(arguments)))
    text = f"lambda {_values(len(places))}: function({inside})"
    found: Launch = eval(text, space)  # an expression of this module
    return found


def storing(launch: Callable[[], int], cells: Sequence[Sequence[Any]], lock: AbstractContextManager[Any]) -> Launch:
    """Return a launch that stores the values that it takes first, each in its cells, which are objects of ctypes.

    The driver copies the cells while it launches: for as long, other threads wait for the *lock* that they share.
    """
    space: dict[str, Any] = {"launch": launch, "lock": lock, "move": ctypes.memmove, "at": ctypes.byref}
    stores = []
    for number, places in enumerate(cells):
        for place, cell in enumerate(places):
            name = f"c{number}_{place}"
            space[name] = cell
            is_record = isinstance(cell, ctypes.Structure)
            stores.append(f"move({name}, at(v{number}), {ctypes.sizeof(cell)})" if is_record
                          else f"{name}.value = v{number}")
    body = "".join(f"        {store}\n" for store in stores)
    exec(f"def found({_values(len(cells))}):\n    with lock:\n{body}        return launch()\n", space)
    found: Launch = space["found"]
    return found


def _values(count: int) -> str:
    return ", ".join(f"v{number}" for number in range(count))
